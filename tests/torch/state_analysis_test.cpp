// Which models may write to their own state, by table; and that what is declared stateless really is.
#include "tests/support/catch.hpp"
#include "tests/torch/torch_support.hpp"

namespace mme::test {
namespace {

bool stateless(const ModuleBuilder& module) {
  ModelDirectory directory;
  return load(directory.save(module))->stateless();
}

/// Everything that the sources below may use.
void furnish(ModuleBuilder& module) {
  module.parameter("w", {2}).buffer("b", {2}).buffer("n", {1}).tensor_list("list", 2).tensor_dict("dict", "k");
  module.integer("count", 0).integers("ints", {1, 2}).flag("on", true).flag("off", false);
}

bool body_is_stateless(const std::string& body) {
  ModuleBuilder module;
  furnish(module);
  module.define("def helper(self, x):\n  return x.add_(1)\ndef forward(self, x):\n  " + body + "\n");
  return stateless(module);
}

const std::string batch_norm =
    "def forward(self, x):\n"
    "  if self.training:\n    self.num_batches_tracked.add_(1)\n"
    "  if self.training:\n    bn_training = True\n"
    "  else:\n    bn_training = (self.running_mean is None) and (self.running_var is None)\n"
    "  return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, bn_training, 0.1,"
    " 0.00001, True)\n";

void make_batch_norm(ModuleBuilder& module, const std::string& source) {
  module.parameter("weight", {2}).parameter("bias", {2}).buffer("running_mean", {2}).buffer("running_var", {2}, 1);
  module.buffer("num_batches_tracked", {1}).flag("training", true).define(source);
}

}  // namespace

TEST_CASE("a model that may write to its own state is stateful") {
  const std::string body = GENERATE(
      // attributes
      "self.count = self.count + 1\n  return x", "self.b = x\n  return x",
      // tensors in place: directly, through views, indexing, out=, functions and methods
      "self.b.add_(x)\n  return x", "self.w += 1\n  return x", "self.b[0] = 1.0\n  return x",
      "self.b.view(2, 1).t()[0].mul_(2)\n  return x", "y = self.b\n  z = y.reshape(2)\n  z.zero_()\n  return x",
      "torch.add(x, x, out=self.b)\n  return x", "self.helper(self.b)\n  return x", "torch.relu_(self.w)\n  return x",
      "self.w.copy_(x)\n  return x", "self.b.fill_(1.0)\n  return x",
      "return torch.dropout(self.w, 0.5, False).add_(1)", "self.w.to(6).add_(1)\n  return x",
      "self.w.contiguous().add_(1)\n  return x", "return self.w.type_as(x).add_(1)",
      "self.w.expand(2, 2).add_(1)\n  return x", "self.b.set_(x)\n  return x",
      // inside containers
      "self.list[0].add_(1)\n  return x", "self.dict['k'].add_(1)\n  return x",
      "for t in self.list:\n    t.add_(1)\n  return x", "l = [self.w]\n  l[0].add_(1)\n  return x",
      "t = (x, self.w)\n  t[1].add_(1)\n  return x", "d = {'a': self.w}\n  d['a'].add_(1)\n  return x",
      "l: List[Tensor] = []\n  l.append(self.w)\n  l[0].add_(1)\n  return x",
      "(self.list + self.list)[0].add_(1)\n  return x", "a, b = x, self.w\n  b.add_(1)\n  return x",
      // the containers themselves
      "self.list.append(x)\n  return x", "self.dict['z'] = x\n  return x", "self.ints.append(1)\n  return x",
      "self.ints[0] = 5\n  return x", "self.list.clear()\n  return x",
      "l: List[Tensor] = []\n  l.append(self.w)\n  torch._foreach_add_(l, 1.0)\n  return l[0]",
      "l = [x]\n  l[0] = self.w\n  torch._foreach_zero_(l)\n  return l[0]",
      "l: List[Tensor] = []\n  l.append(self.w)\n  return torch.cartesian_prod(l).add_(1)",
      // what is looked at may be another after the first call, or in another model of that code
      "if self.list == self.list:\n    return x\n  else:\n    return self.b.add_(1)",
      // one tensor set to the memory of another
      "t = torch.empty([0])\n  t.set_(self.b)\n  t.add_(1)\n  return t",
      // memory inside of a tensor
      "q = torch.quantize_per_channel(x.view(2, 1), self.w.double(), self.w.long(), 0, 13)\n"
      "  return torch.q_per_channel_scales(q).add_(1)",
      // under conditions and in loops
      "if bool(x.sum() > 0):\n    self.b.add_(1)\n  return x",
      "y = x\n  for i in range(2):\n    y.add_(1)\n    y = self.b\n  return x",
      "y = self.b if bool(x.sum() > 0) else x\n  y.add_(1)\n  return x", "if self.on:\n    self.b.add_(1)\n  return x",
      // operators whose schema is silent
      "return torch.batch_norm(x.view(1, 2), self.w, self.w, self.b, self.b, True, 0.1, 0.1, True)",
      "return torch.instance_norm(x.view(1, 2, 1), self.w, self.w, self.b, self.b, True, 0.1, 0.1, True)",
      "return torch.rrelu(self.w, 0.1, 0.3, True)");
  INFO(body);
  CHECK_FALSE(body_is_stateless(body));
}

TEST_CASE("a model that only reads its state is stateless") {
  const std::string body = GENERATE(
      "return x + self.w", "y = x + self.w\n  y.add_(1)\n  return y", "y = self.w.clone()\n  y.zero_()\n  return y",
      "x.add_(1)\n  return x", "return self.w", "return self.helper(x * 2)",
      "return torch.relu_(torch.mm(x.view(1, 2), self.w.view(2, 1)))", "if self.off:\n    self.b.add_(1)\n  return x",
      "if not self.on:\n    self.count = 1\n  return x", "if self.on and self.off:\n    self.b.add_(1)\n  return x",
      "if self.b is None:\n    self.b.add_(1)\n  return x", "if self.count > 0:\n    self.b.add_(1)\n  return x",
      "return torch.batch_norm(x.view(1, 2), self.w, self.w, self.b, self.b, self.off, 0.1, 0.1, True)",
      "return torch.dropout(x, 0.5, False)",
      "l: List[Tensor] = []\n  for i in range(3):\n    l.append(x * i)\n  return torch.stack(l)",
      "y = torch.zeros([2])\n  for i in range(self.count, 2):\n    y[i] = x[i]\n  return y",
      "return self.list[0] + self.dict['k']", "h = torch.zeros([2])\n  for t in self.list:\n    h += t * x\n  return h",
      "torch.add(x, x, out=x)\n  return x");
  INFO(body);
  CHECK(body_is_stateless(body));
}

TEST_CASE("batch normalisation writes in training mode only, and models are loaded in eval mode") {
  ModuleBuilder eval;
  make_batch_norm(eval, batch_norm);
  ModuleBuilder parent;
  parent.child("bn", eval).define("def forward(self, x):\n  return self.bn.forward(x)\n");
  CHECK(stateless(parent));
  // The same layer with a flag that eval mode does not know of.
  std::string always = batch_norm;
  for (std::size_t at = 0; (at = always.find("self.training")) != std::string::npos;)
    always.replace(at, 13, "self.fitting ");
  ModuleBuilder fitting;
  fitting.flag("fitting", true);
  make_batch_norm(fitting, always);
  CHECK_FALSE(stateless(fitting));
}

TEST_CASE("what a submodule does counts for the whole") {
  ModuleBuilder counter;
  counter.integer("n", 0).define("def forward(self, x):\n  self.n = self.n + 1\n  return x\n");
  ModuleBuilder reader;
  reader.integer("n", 0).define("def forward(self, x):\n  return x + self.n\n");
  const std::string call_child = "def forward(self, x):\n  return self.c.forward(x)\n";
  ModuleBuilder writes;
  writes.child("c", counter).define(call_child);
  ModuleBuilder reads;
  reads.child("c", reader).define(call_child);
  CHECK_FALSE(stateless(writes));
  CHECK(stateless(reads));
}

TEST_CASE("a stateful model keeps what a call did, and its inputs stay as they were") {
  ModelDirectory directory;
  const auto model = load(directory.save(
      ModuleBuilder().buffer("last", {2}).define("def forward(self, x):\n  self.last.add_(x)\n  return self.last\n")));
  REQUIRE_FALSE(model->stateless());
  const auto given = floats({2}, {1, 2});
  const auto first = call(*model, {{"x", given}}).value();
  const auto second = call(*model, {{"x", given}}).value();
  CHECK(values_of(first[0].tensor) == std::vector<float>{1, 2});
  CHECK(values_of(second[0].tensor) == std::vector<float>{2, 4});
  CHECK(values_of(given) == std::vector<float>{1, 2});
}

TEST_CASE("an input that a model keeps and writes to later is never the request's own memory") {
  ModelDirectory directory;
  const auto model = load(
      directory.save(ModuleBuilder()
                         .buffer("last", {2})
                         .define("def forward(self, x):\n  self.last.add_(100)\n  self.last = x\n  return x + 0\n")));
  const auto given = floats({2}, {1, 2});
  static_cast<void>(call(*model, {{"x", given}}).value());
  static_cast<void>(call(*model, {{"x", floats({2}, {0, 0})}}).value());
  CHECK(values_of(given) == std::vector<float>{1, 2});
}

}  // namespace mme::test
