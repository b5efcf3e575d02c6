// The compiled halves of Asio and Beast. Nothing of ours: every other file sees declarations only.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
