// Models that misbehave while they are loaded or run: slow, endless, hungry, or reaching for files.
// They are only written here. Never run `loop`, `loopload`, `wr`, `wrload` or `rd` in a process that must live.
#include "scripts/demo/module_builder.hpp"
#include "tests/models/test_models.hpp"

#include <functional>

namespace mme::models {
namespace {

namespace jit = torch::jit;

void make_simple(const std::filesystem::path& folder, const std::string& name, const std::string& forward_body) {
  jit::Module module = new_module("M");
  define(module, "def forward(self, x):\n" + forward_body);
  save(module, folder / (name + ".pt"));
}

/// About 0.1 s of one core a call. The product counts, so that no optimizer drops it.
void make_slow(const std::filesystem::path& folder) {
  jit::Module module = new_module("M");
  module.register_buffer("w", torch::ones({256, 256}));
  define(module,
         "def forward(self, x):\n"
         "    y = self.w\n"
         "    for i in range(200):\n        y = torch.mm(self.w, self.w)\n"
         "    return x + y[0, 0] * 0.0\n");
  save(module, folder / "slow.pt");
}

/// 32 MiB of weights, and a call that takes as many products of 256 x 256 as its first input says: 200 are about 0.1 s.
void make_spin(const std::filesystem::path& folder) {
  jit::Module module = new_module("M");
  add_parameter(module, "w", torch::ones({8388608}));
  module.register_buffer("v", torch::ones({256, 256}));
  define(module,
         "def forward(self, x):\n"
         "    y = self.v\n"
         "    for i in range(int(x[0])):\n        y = torch.mm(self.v, self.v)\n"
         "    return x + y[0, 0] * 0.0 + self.w[:1] * 0.0\n");
  save(module, folder / "spin32.pt");
}

/// A model whose `__setstate__`, which runs while it is loaded, executes `load_body`; the saved number is in `s[0]`.
/// `prepare` may register more attributes, which `load_body` must then set.
void make_loading(
    const std::filesystem::path& folder, const std::string& name, const std::string& load_body, std::int64_t number = 1,
    const std::string& result = "x", const std::function<void(jit::Module&)>& prepare = [](jit::Module&) {}) {
  jit::Module module = new_module("M");
  module.register_attribute("a", c10::IntType::get(), number);
  prepare(module);
  define(module,
         "def __getstate__(self) -> Tuple[int, bool]:\n    return (self.a, self.training)\n"
         "def __setstate__(self, s: Tuple[int, bool]) -> None:\n" +
             load_body +
             "    self.a = s[0]\n    self.training = s[1]\n"
             "def forward(self, x):\n    return " +
             result + "\n");
  save(module, folder / (name + ".pt"));
}

constexpr const char* kMultiply =
    "    w = torch.ones([512, 512])\n"
    "    for i in range(s[0]):\n        w = torch.mm(w, w) * 0.0\n";

}  // namespace

void make_hostile_models(const std::filesystem::path& folder) {
  const torch::NoGradGuard no_grad;
  make_simple(folder, "loop", "    while x.numel() >= 0:\n        x = x + 0\n    return x\n");
  make_simple(folder, "hugeout", "    return torch.ones([50000000])\n");          // 200 MB
  make_simple(folder, "peak1g", "    return x + torch.ones([268435456])[:1]\n");  // 1 GiB while it runs
  make_simple(folder, "wr", "    torch.save(x, 'CANARY_FWD')\n    return x\n");   // writes a file
  make_simple(folder, "rd", "    return torch.from_file('CANARY_READ', False, 16, dtype=0)\n");
  make_slow(folder);
  make_spin(folder);
  make_loading(folder, "slowload", kMultiply, 1500);       // about 4 s of one core
  make_loading(folder, "slowload_short", kMultiply, 150);  // about 0.4 s
  make_loading(folder, "loopload", "    i = 0\n    while i >= 0:\n        i += 0\n");
  make_loading(folder, "wrload", "    torch.save(torch.ones([1]), 'CANARY_LOAD')\n");
  make_loading(folder, "growslow32", "    self.t = torch.ones([8388608])\n" + std::string(kMultiply), 100,
               "x + self.t[:1]", [](jit::Module& module) { module.register_buffer("t", torch::zeros({1})); });
  make_loading(folder, "grow32", "    self.t = torch.ones([8388608])\n", 1, "x + self.t[:1]",
               [](jit::Module& module) { module.register_buffer("t", torch::zeros({1})); });
  make_loading(folder, "growfail32", "    self.t = torch.ones([8388608])\n    assert s[0] < 0, 'it was all in vain'\n",
               1, "x + self.t[:1]", [](jit::Module& module) { module.register_buffer("t", torch::zeros({1})); });
  make_loading(folder, "growload", "    self.t = torch.ones([268435456])\n", 1, "x + self.t[:1]",  // 1 GiB from 1 KB
               [](jit::Module& module) { module.register_buffer("t", torch::zeros({1})); });
}

}  // namespace mme::models
