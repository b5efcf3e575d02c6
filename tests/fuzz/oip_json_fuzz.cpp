// Any bytes as an inference request. What is read must be written and read again to the same bits; what is refused must
// be refused in one short line. No crash is not enough.
#include <cstdint>
#include <cstring>
#include <string_view>

#include "server/codecs/json_reader.hpp"
#include "server/codecs/tensor_json.hpp"
#include "server/dialects/oip_v2_wire.hpp"
#include "server/dialects/sagemaker_wire.hpp"
#include "tests/fuzz/demand.hpp"

using namespace mme::server;
using mme::fuzz::demand;
using mme::fuzz::demand_plain;
using mme::loader::Tensor;

namespace {

bool same(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type() || a.shape() != b.shape() || a.data().size() != b.data().size()) return false;
  if (!a.data().empty() && std::memcmp(a.data().data(), b.data().data(), a.data().size()) != 0) return false;
  const auto left = a.strings();
  const auto right = b.strings();
  return std::equal(left.begin(), left.end(), right.begin(), right.end());
}

void check_round_trip(const Tensor& tensor) {
  std::string text;
  demand(write_flat(text, tensor, JsonStyle::protocol).has_value(), "what was read can be written");
  const auto document = JsonDocument::parse(text);
  demand(document.has_value(), "what was written is JSON");
  const auto again = read_tensor(document->root(), tensor.type(), tensor.shape(), "the tensor");
  demand(again.has_value() && same(*again, tensor), "what was written reads back to the same bits");
}

void as_protocol(std::string_view body) {
  const auto request = oip::read_infer_request(body);
  if (request.has_error()) return demand_plain(request.error());
  for (const auto& input : request->inputs) check_round_trip(input.tensor);
  const auto reply = oip::write_infer_reply("m", std::nullopt, *request, request->inputs);
  if (reply.has_error()) return demand_plain(reply.error());
  demand(JsonDocument::parse(*reply).has_value(), "a reply is JSON");
}

void as_array(std::string_view body) {
  const auto inputs = sagemaker::read_array(body);
  if (inputs.has_error()) return demand_plain(inputs.error());
  check_round_trip(inputs->front().tensor);
  const auto reply = sagemaker::write_outputs(*inputs);
  if (reply.has_value()) demand(JsonDocument::parse(*reply).has_value(), "a finite reply is JSON");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  as_protocol(body);
  as_array(body);
  return 0;
}
