// The example models of the demo: what each is, and an input to try it with.
// Nothing is trained: weights are seeded noise of sensible size, so answers are finite and always the same.
#pragma once

#include <torch/script.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mme::models {

struct Example {
  std::string name;
  std::string about;                                          ///< a few words for people
  torch::jit::Module module;                                  ///< in eval mode
  std::vector<std::pair<std::string, torch::Tensor>> inputs;  ///< by argument name, in order
  bool keeps_state = false;                                   ///< answers depend on earlier calls
};

/// A fine-tune of the one text backbone: token ids INT64 [batch, length] (0 is padding, length at most 64) become
/// label probabilities FP32 [batch, labels].
struct FineTune {
  std::string name;
  std::string about;
  std::int64_t labels;
  std::uint64_t seed;
};

/// All fine-tunes have equal code and, but for the last layer and the head, weights equal bit for bit. About 38 MB.
[[nodiscard]] Example make_text_classifier(const FineTune& fine_tune);

/// Images FP32 [batch, 1, 28, 28] become 10 probabilities. About 0.2 MB.
[[nodiscard]] Example make_digit_reader();
/// Images FP32 [batch, 3, 32, 32] become 100 probabilities, with batch norm. About 5 MB.
[[nodiscard]] Example make_product_recognizer();

/// User ids INT64 [batch] and candidate ids INT64 [batch, n] become scores FP32 [batch, n]. Size: 256 B a row.
[[nodiscard]] Example make_recommender(const std::string& name, const std::string& about, std::int64_t users,
                                       std::int64_t items, std::uint64_t seed);
/// Token ids INT64 [batch, length] become unit vectors FP32 [batch, 128]. About 23 MB.
[[nodiscard]] Example make_sentence_embedder();
/// Two vectors FP32 [batch, 384] become their similarity FP32 [batch]. About 0.4 MB.
[[nodiscard]] Example make_pair_similarity();

/// Rows of numbers FP32 [batch, widths.front()] become scores between 0 and 1, FP32 [batch, widths.back()].
[[nodiscard]] Example make_scorer(const std::string& name, const std::string& about,
                                  const std::vector<std::int64_t>& widths, std::uint64_t seed);
/// Series FP32 [batch, steps, 8] become the next 12 values FP32 [batch, 12], by a recurrent cell. About 0.2 MB.
[[nodiscard]] Example make_forecaster();
/// Readings FP32 [batch, 256] become a dictionary: their reconstruction, and an error `score` each. About 0.8 MB.
[[nodiscard]] Example make_anomaly_detector();
/// Adds what it is given to a running total and counts its calls: answers (calls, total). It writes its own state.
[[nodiscard]] Example make_counter();

/// The twenty models of the demo, most popular first.
[[nodiscard]] std::vector<Example> make_examples();

}  // namespace mme::models
