// One call on its way: waits for its lease, hops to a compute thread, runs, hops back.
// Knows nothing of names, catalogs or protocols; InferenceService decides what is called.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "cache/model_cache.hpp"
#include "loader/model.hpp"
#include "server/inference/worker_pool.hpp"

namespace mme::server {

namespace asio = boost::asio;

/// How a call ended and what is known of it.
struct CallOutcome {
  loader::Result<loader::TensorMap> outputs;
  cache::Lease::Timing timing;
  double run_ms = 0;
  bool leased = false;     ///< it got as far as a lease: timing holds
  bool stateless = false;  ///< of the model that ran
  std::size_t peak_bytes = 0;
};

struct Call {
  loader::ModelSpec spec;
  loader::TensorMap inputs;
  cache::CallRequest request;
};

/// Runs a call. Resumes on the awaiting coroutine's executor, at the deadline at the latest: a call that still waits
/// then leaves its seat and never starts; one that runs goes on and its answer is thrown away. Cancelling the
/// awaiting coroutine does the same. The pool and the cache must outlive every call.
asio::awaitable<CallOutcome> run_call(cache::ModelCache& cache, WorkerPool& compute, Call call);

}  // namespace mme::server
