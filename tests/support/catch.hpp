// Catch2, version 2 (Debian 12) or 3 (newer), behind one include.
#pragma once
#ifdef MME_CATCH3
#include <catch2/catch_all.hpp>
using namespace Catch::Matchers;
#else
#include <catch2/catch.hpp>
#endif
