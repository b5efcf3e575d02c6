// Models over plain numbers: scorers, a forecaster, an anomaly detector, and a counter that keeps state.
// The smallest has less than 1 KB of weights.
#include "scripts/demo/example_models.hpp"
#include "scripts/demo/module_builder.hpp"

#include <cmath>

namespace mme::models {
namespace {

namespace jit = torch::jit;

void add_linear(jit::Module& module, const std::string& name, std::int64_t from, std::int64_t to) {
  add_parameter(module, name + "_weight", torch::randn({to, from}) / std::sqrt(static_cast<double>(from)));
  add_parameter(module, name + "_bias", torch::zeros({to}));
}

}  // namespace

Example make_scorer(const std::string& name, const std::string& about, const std::vector<std::int64_t>& widths,
                    std::uint64_t seed) {
  torch::manual_seed(seed);
  jit::Module model = new_module("Scorer");
  std::string body = "def forward(self, features):\n    x = features\n";
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const std::string layer = "layer" + std::to_string(i);
    add_linear(model, layer, widths[i], widths[i + 1]);
    const char* squash = i + 2 == widths.size() ? "sigmoid" : "relu";
    body += "    x = torch." + std::string(squash) + "(torch.linear(x, self." + layer + "_weight, self." + layer +
            "_bias))\n";
  }
  define(model, body + "    return x\n");
  return {name, about, model, {{"features", torch::rand({1, widths.front()})}}};
}

Example make_forecaster() {
  torch::manual_seed(304);
  jit::Module model = new_module("Forecaster");
  add_linear(model, "input", 8, 3 * 128);
  add_linear(model, "hidden", 128, 3 * 128);
  add_linear(model, "head", 128, 12);
  define(model, R"(
def forward(self, series):
    h = torch.zeros([series.size(0), 128])
    for step in range(series.size(1)):
        h = torch.gru_cell(series[:, step], h, self.input_weight, self.hidden_weight, self.input_bias, self.hidden_bias)
    return torch.linear(h, self.head_weight, self.head_bias)
)");
  return {"forecast-demand", "recurrent cell", model, {{"series", torch::rand({1, 24, 8})}}};
}

Example make_anomaly_detector() {
  torch::manual_seed(305);
  jit::Module model = new_module("AnomalyDetector");
  add_linear(model, "down1", 256, 320);
  add_linear(model, "down2", 320, 32);
  add_linear(model, "up1", 32, 320);
  add_linear(model, "up2", 320, 256);
  define(model, R"(
def forward(self, readings) -> Dict[str, Tensor]:
    code = torch.relu(torch.linear(readings, self.down1_weight, self.down1_bias))
    code = torch.tanh(torch.linear(code, self.down2_weight, self.down2_bias))
    x = torch.relu(torch.linear(code, self.up1_weight, self.up1_bias))
    x = torch.linear(x, self.up2_weight, self.up2_bias)
    return {'reconstruction': x, 'score': torch.mean((x - readings) * (x - readings), [-1])}
)");
  return {"anomaly-sensors", "dict of two outputs", model, {{"readings", torch::rand({1, 256})}}};
}

Example make_counter() {
  jit::Module model = new_module("Counter");
  model.register_buffer("calls", torch::zeros({1}, torch::kLong));
  model.register_buffer("total", torch::zeros({1}));
  define(model, R"(
def forward(self, amount):
    self.calls += 1
    self.total += amount.sum()
    return (self.calls.clone(), self.total.clone())
)");
  return {"visit-counter", "keeps state", model, {{"amount", torch::ones({1})}}, /*keeps_state=*/true};
}

}  // namespace mme::models
