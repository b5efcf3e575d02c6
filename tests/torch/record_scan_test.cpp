// The looks over records that come before libtorch's parsers, the one-line errors, and the environment.
#include "loader/torch/record_scan.hpp"

#include <string>

#include "loader/torch/error_text.hpp"
#include "loader/torch/process_environment.hpp"
#include "tests/support/catch.hpp"

namespace mme::loader {
namespace {

using namespace std::string_literals;

const std::string begin = "\x80\x02"s;

}  // namespace

TEST_CASE("a pickle as TorchScript writes it passes") {
  CHECK_FALSE(problem_in_pickle(begin + "c__torch__\nM\nq\x00)\x81}q\x01(X\x01\x00\x00\x00wq\x02K\x05u}b."s));
  CHECK_FALSE(problem_in_pickle(begin + ")."s));
  CHECK_FALSE(
      problem_in_pickle(begin + "G\x00\x00\x00\x00\x00\x00\x00\x00\x8a\x01\x07\x88\x89N."s + std::string(100, '\0')));
}

TEST_CASE("a pickle that declares more than it has is refused") {
  CHECK(problem_in_pickle(begin + "X\xf0\xff\xff\xff"
                                  "abc."s));
  CHECK(problem_in_pickle(begin + "T\xf0\xff\xff\x7f"
                                  "abc."s));
  CHECK(problem_in_pickle(begin + "\x8a\xff."s));
  CHECK(problem_in_pickle(begin + "c__torch__\nM"s));
  CHECK(problem_in_pickle(begin + "J\x01"s));
  CHECK(problem_in_pickle(begin + ")"s));
  CHECK(problem_in_pickle(""s));
}

TEST_CASE("a memo number that nothing led up to is refused") {
  CHECK(problem_in_pickle(begin + ")r\xff\xff\xff\x7f."s));
  CHECK(problem_in_pickle(begin + ")q\x01."s));
  CHECK_FALSE(problem_in_pickle(begin + ")q\x00)r\x01\x00\x00\x00."s));
}

TEST_CASE("instructions that no TorchScript file has are refused") {
  for (const char opcode : "iolpgFISVP\x82\x8b\x8d\x8e\x8f\x90\x92\x93\x94\x95"s) {
    CHECK(problem_in_pickle(begin + std::string(1, opcode) + "a\nb\n."s));
  }
}

TEST_CASE("code with thousands of nested brackets is refused, strings and comments do not count") {
  CHECK(problem_in_code("return " + std::string(20000, '(') + "x" + std::string(20000, ')')));
  CHECK_FALSE(problem_in_code("return " + std::string(100, '(') + "x" + std::string(100, ')')));
  CHECK_FALSE(problem_in_code("s = \"" + std::string(5000, '(') + "\"\n"));
  CHECK_FALSE(problem_in_code("# " + std::string(5000, '[') + "\n"));
  CHECK_FALSE(problem_in_code("s = '\\'" + std::string(5000, '(') + "'"));
  std::string flat;
  for (int i = 0; i < 5000; ++i) flat += "x = f(x)\n";
  CHECK_FALSE(problem_in_code(flat));
}

TEST_CASE("the message that a model raised is found in a traceback") {
  CHECK(one_line("The following operation failed in the TorchScript interpreter.\n"
                 "Traceback of TorchScript (most recent call last):\n"
                 "  File \"/tmp/x.py\", line 5, in forward\n    raise RuntimeError('boom')\n    ~~~ <--- HERE\n"
                 "RuntimeError: boom\n") == "boom");
  CHECK(one_line("Traceback of TorchScript (most recent call last):\n  ...\nbuiltins.ValueError: bad: value\nmore") ==
        "bad: value");
}

TEST_CASE("elsewhere the first line that says something is taken") {
  CHECK(one_line("\n\nUnknown builtin op: foo::bar.\nCould not find\n") == "Unknown builtin op: foo::bar.");
  CHECK(one_line("") == "no message");
  CHECK(one_line("Exception raised from x at y\nframe #0: z") == "no message");
}

TEST_CASE("paths and addresses stay on the machine, slashes of prose do not suffer") {
  CHECK(one_line("open file failed, file path: /home/me/models/a.pt") == "open file failed, file path: ...");
  CHECK(one_line("at 0x7fa3c2b1d000 (in \"/usr/lib/libtorch.so\")") == "at ... (in \"...\")");
  CHECK(one_line("x / 0 and/or 3/4, 0x1f") == "x / 0 and/or 3/4, 0x1f");
}

TEST_CASE("a line is cut at a whole character and holds no control characters") {
  const std::string line = one_line("\x1b[31m" + std::string(297, 'a') + "\xc3\xa9\xc3\xa9\xc3\xa9");
  CHECK(line.size() <= 302);
  CHECK((static_cast<unsigned char>(line.back()) < 0x80 || line.ends_with("\xc3\xa9")));
  CHECK(line.find('\x1b') == std::string::npos);
}

TEST_CASE("every pool of threads is told its size before exec") {
  std::string openmp;
  std::string policy;
  for (const auto& [name, value] : required_environment(3)) {
    if (name == "OMP_NUM_THREADS") openmp = value;
    if (name == "OMP_WAIT_POLICY") policy = value;
  }
  CHECK(openmp == "3");
  CHECK(policy == "PASSIVE");
}

TEST_CASE("old quantized convolutions are told by their arguments") {
  CHECK_FALSE(calls_old_quantized_conv("y = ops.quantized.conv2d(x, self.p, 0.5, 3)\n"));
  CHECK_FALSE(calls_old_quantized_conv("y = ops.quantized.conv2d_relu(f(x, [1, 2]), self.p, 0.5, 3, )\n"));
  CHECK_FALSE(calls_old_quantized_conv("y = ops.quantized.conv2d_prepack(w, b, [1], [0], [1], 1)\n"));
  CHECK_FALSE(calls_old_quantized_conv("y = ops.quantized.linear(x, p, 1, 2, 3, 4, 5)\n"));
  CHECK(calls_old_quantized_conv("y = ops.quantized.conv2d(x, p, [1, 1], [0, 0], [1, 1], 1, 0.5, 3)\n"));
  CHECK(calls_old_quantized_conv("a = quantized.conv1d(x, p, 1., 0)\nb = quantized.conv3d_relu(x, \"(,\", 1, 2, 3)"));
  CHECK_FALSE(calls_old_quantized_conv("y = ops.quantized.conv2d"));
}

}  // namespace mme::loader
