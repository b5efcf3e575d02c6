// The list of example models, most popular first.
// How each is made stands in *_models.cpp and text_classifier.cpp.
#include "scripts/demo/example_models.hpp"

namespace mme::models {

std::vector<Example> make_examples() {
  const std::string tuned = "BERT-like, fine-tune";
  std::vector<Example> all;
  all.push_back(make_text_classifier({"text-sentiment", tuned, 2, 1001}));
  all.push_back(make_scorer("score-fraud", "MLP", {128, 384, 384, 1}, 301));
  all.push_back(make_text_classifier({"text-topics", tuned, 12, 1002}));
  all.push_back(make_recommender("recommend-shop", "100 MB embedding table", 150'000, 240'000, 201));
  all.push_back(make_digit_reader());
  all.push_back(make_text_classifier({"text-spam", tuned, 2, 1003}));
  all.push_back(make_scorer("score-lead", "MLP, 1 KB of weights", {12, 16, 1}, 302));
  all.push_back(make_recommender("recommend-news", "embedding table", 30'000, 48'000, 202));
  all.push_back(make_text_classifier({"text-intent", tuned, 30, 1004}));
  all.push_back(make_counter());
  all.push_back(make_sentence_embedder());
  all.push_back(make_text_classifier({"text-toxicity", tuned, 6, 1005}));
  all.push_back(make_product_recognizer());
  all.push_back(make_forecaster());
  all.push_back(make_text_classifier({"text-language", tuned, 40, 1006}));
  all.push_back(make_pair_similarity());
  all.push_back(make_text_classifier({"text-urgency", tuned, 3, 1007}));
  all.push_back(make_anomaly_detector());
  all.push_back(make_scorer("score-churn", "MLP", {32, 64, 64, 1}, 303));
  all.push_back(make_text_classifier({"text-emotion", tuned, 8, 1008}));
  return all;
}

}  // namespace mme::models
