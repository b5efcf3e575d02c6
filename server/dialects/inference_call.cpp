#include "server/dialects/inference_call.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "server/codecs/json_reader.hpp"
#include "server/dialects/respond.hpp"
#include "server/http/await_callback.hpp"
#include "server/http/text_room.hpp"

namespace mme::server {
namespace {

/// Reading this much, or writing that much, takes one to two milliseconds (25 ns a byte of text, 300 ns a float): too
/// long for a thread that has sockets to serve.
constexpr std::size_t kLongBody = 64 * 1024;
constexpr std::size_t kLongOutputs = 16 * 1024;

std::size_t bytes_of(const loader::TensorMap& tensors) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    bytes += tensor.byte_size() + tensor.strings().size() * sizeof(std::string);
  }
  return bytes;
}

/// What the inputs take stays charged until their last holder lets go, who may be a call that outlives its client.
void keep_charged(loader::TensorMap& inputs, const std::shared_ptr<loader::MemoryGrant>& room, std::size_t held) {
  room->shrink(held - std::min(held, bytes_of(inputs)));
  for (auto& input : inputs) input.tensor = input.tensor.with(room);
}

Result<oip::InferRequest> read_charged(Request& request, const InferenceWire& wire) {
  const BodyBudget& budget = request.budget;
  if (!budget.claim || request.body.size() <= budget.uncharged) return wire.read(request.body);
  const std::size_t needed = json_working_bytes(request.body);
  const auto room = budget.claim(needed);
  if (!room) return fail(ErrorCode::all_in_use, "there is no memory to read this request body now");
  auto read = wire.read(request.body);
  request.drop_body();
  if (read) keep_charged(read->inputs, room, needed);
  return read;
}

Result<Reply> write_charged(const BodyBudget& budget, const std::function<Result<std::string>(const Reserve&)>& write) {
  constexpr std::size_t kSlack = 1 << 20;
  TextRoom room(budget.claim, budget.uncharged);
  const Reserve reserve = [&](std::string& out, std::size_t more) -> Result<void> {
    if (out.size() > budget.response) return fail(ErrorCode::body_too_large, "the reply is over the limit");
    // A reply that will be over the limit gets no more room than it takes to find that out.
    const std::size_t allowed = std::min(budget.response - out.size(), SIZE_MAX - kSlack) + kSlack;
    if (room.reserve(out, std::min(more, allowed))) return {};
    return fail(ErrorCode::all_in_use, "there is no memory for this reply now");
  };
  auto body = write(reserve);
  if (!body) return body.error();
  Reply reply = json_reply(std::move(*body));
  reply.grant = room.take_grant();
  return reply;
}

/// Nothing may leave a task on a thread that only works for others.
template <class T>
Result<T> guarded(const std::function<Result<T>()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::all_in_use, "there is no memory for this body now");
  } catch (const std::exception&) {
    return fail(ErrorCode::internal, "an internal error");
  }
}

}  // namespace

template <class T>
asio::awaitable<Result<T>> InferenceCalls::run_work(bool takes_long, std::function<Result<T>()> work) {
  if (!takes_long || !aside_) co_return guarded(work);
  auto start = [this, work = std::move(work)](std::function<void(Result<T>)> done) {
    aside_([work, done = std::move(done)] { done(guarded(work)); });
  };
  co_return co_await await_callback<Result<T>>(std::move(start));
}

asio::awaitable<Reply> InferenceCalls::run(const Dialect& dialect, Exchange& exchange, ModelRef model,
                                           const InferenceWire& wire) {
  Request& request = exchange.request;
  std::function<Result<oip::InferRequest>()> reading = [&] { return read_charged(request, wire); };
  const bool long_body = request.body.size() > kLongBody;
  auto call = co_await run_work(long_body, std::move(reading));
  if (!call) co_return refuse(dialect, exchange, call.error());

  const Deadline deadline = oip::deadline_of(*call, request.deadline);
  auto inputs = std::move(call->inputs);
  const auto result = co_await service_.infer(model, std::move(inputs), deadline, exchange.record);
  if (!result) co_return refuse(dialect, exchange, result.error());

  std::function<Result<Reply>()> writing = [&] {
    return write_charged(request.budget,
                         [&](const Reserve& reserve) { return wire.write(model, *call, *result, reserve); });
  };
  const bool long_outputs = bytes_of(result->outputs) > kLongOutputs;
  auto reply = co_await run_work(long_outputs, std::move(writing));
  if (!reply) co_return refuse(dialect, exchange, reply.error());
  co_return std::move(*reply);
}

}  // namespace mme::server
