// Small well-behaved models: every kind of value that goes in or comes out, a few that raise or keep state.
// No weights to speak of; those are in weighted_models.cpp.
#include "scripts/demo/module_builder.hpp"
#include "tests/models/test_models.hpp"

namespace mme::models {
namespace {

struct Source {
  const char* name;
  const char* text;
};

constexpr Source kOutputs[] = {
    {"echo", "def forward(self, x):\n    return x\n"},
    {"add1", "def forward(self, x):\n    return x + 1\n"},
    {"nan", "def forward(self, x):\n    return x / 0.0\n"},
    {"scalar", "def forward(self, x):\n    return x.sum()\n"},
    {"empty", "def forward(self, x):\n    return x[:0]\n"},
    {"transp", "def forward(self, x):\n    return x.t()\n"},
    {"none", "def forward(self, x):\n    return None\n"},
    {"pyint", "def forward(self, x):\n    return x.numel()\n"},
    {"pyfloat", "def forward(self, x):\n    return float(x.numel()) / 2.0\n"},
    {"pybool", "def forward(self, x):\n    return x.numel() > 1\n"},
    {"str", "def forward(self, x):\n    return 'hé'\n"},
    {"bool", "def forward(self, x):\n    return x > 0\n"},
    {"i64", "def forward(self, x):\n    return x.to(4) * 9007199254740993\n"},  // 2^53 + 1: no double holds it
    {"f16", "def forward(self, x):\n    return x.to(5)\n"},
    {"bf16", "def forward(self, x):\n    return x.to(15)\n"},
    {"cplx", "def forward(self, x):\n    return torch.complex(x, x)\n"},
    {"tuple", "def forward(self, x):\n    return (x, x + 1)\n"},
    {"list", "def forward(self, x):\n    return [x, x + 1]\n"},
    {"dict", "def forward(self, x):\n    return {'b': x, 'a': x + 1}\n"},
    {"nested", "def forward(self, x) -> Dict[str, Tuple[Tensor, List[Tensor]]]:\n    return {'k': (x, [x + 1])}\n"},
    {"liststr", "def forward(self, x) -> List[str]:\n    return ['a', 'b']\n"},
    {"ver1", "def forward(self, x):\n    return x * 0 + 1\n"},
    {"ver2", "def forward(self, x):\n    return x * 0 + 2\n"},
};

constexpr Source kInputs[] = {
    {"two", "def forward(self, a, b):\n    return a + b\n"},
    {"opt",
     "def forward(self, x, y: Optional[Tensor]=None):\n"
     "    if y is None:\n        return x\n    return x + y\n"},
    {"scalars",
     "def forward(self, x, i: int, f: float, b: bool):\n"
     "    y = x * i + f\n    if b:\n        y = -y\n    return y\n"},
    {"tlist",
     "def forward(self, xs: List[Tensor]):\n"
     "    y = xs[0]\n    for i in range(1, len(xs)):\n        y = y + xs[i]\n    return y\n"},
    {"tdict", "def forward(self, xs: Dict[str, Tensor]):\n    return xs['a'] - xs['b']\n"},
    {"instr", "def forward(self, x: List[str]) -> List[str]:\n    return [s + '!' for s in x]\n"},
};

constexpr Source kBehaviour[] = {
    {"boom", "def forward(self, x):\n    raise RuntimeError('boom')\n    return x\n"},
    {"grads",
     "def forward(self, x):\n"
     "    before = torch.is_grad_enabled()\n    torch.set_grad_enabled(True)\n    return before\n"},
    {"seeds", "def forward(self, x):\n    torch.manual_seed(0)\n    return torch.rand([2])\n"},
    {"rands", "def forward(self, x):\n    return torch.rand([2])\n"},
    {"print", "def forward(self, x):\n    print('L1\\n{\"level\":\"fake\"}')\n    return x\n"},
};

template <std::size_t N>
void make_all(const Source (&sources)[N], const std::filesystem::path& folder) {
  for (const Source& source : sources) {
    torch::jit::Module module = new_module("M");
    define(module, source.text);
    save(module, folder / (std::string(source.name) + ".pt"));
  }
}

/// Counts its calls in a buffer.
void make_state(const std::filesystem::path& folder) {
  torch::jit::Module module = new_module("M");
  module.register_buffer("n", torch::zeros({1}));
  define(module, "def forward(self, x):\n    self.n += 1\n    return self.n.clone()\n");
  save(module, folder / "state.pt");
}

}  // namespace

void make_plain_models(const std::filesystem::path& folder) {
  const torch::NoGradGuard no_grad;
  make_all(kOutputs, folder);
  make_all(kInputs, folder);
  make_all(kBehaviour, folder);
  make_state(folder);
}

}  // namespace mme::models
