// The models of the two incidents by size and shape, and the requests that both handlers and the server get.
#pragma once

#include <torch/script.h>

#include <filesystem>
#include <string>
#include <vector>

namespace mme::bench {

/// 118 million parameters (471 MB), nearly all of them embeddings: forward(user [n], history [n, 10]) scores n users.
void save_recommender(const std::filesystem::path& file);
/// The shape of BERT-base with a head of two labels, 109 million parameters (438 MB): forward(tokens [n, length]).
void save_extractor(const std::filesystem::path& file);
/// Needs no weights; its calls touch what libraries allocate once for each thread.
void save_toucher(const std::filesystem::path& file);

/// Arguments of `forward` in the requests of incident 1 (64 users) or 2 (one text of 16 tokens).
[[nodiscard]] std::vector<c10::IValue> incident_inputs(int incident);
/// The same as the body of an inference request.
[[nodiscard]] std::string incident_body(int incident);

}  // namespace mme::bench
