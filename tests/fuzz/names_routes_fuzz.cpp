// Any bytes as a request target, as the name of a model and as the url of a load request, against the routes that the
// server has. What is accepted must be harmless by what it says, however it was spelt.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "loader/repository/artifact_url.hpp"
#include "loader/repository/names.hpp"
#include "server/dialects/administration.hpp"
#include "server/dialects/oip_v2.hpp"
#include "server/dialects/respond.hpp"
#include "server/dialects/sagemaker.hpp"
#include "server/http/route_table.hpp"
#include "server/http/uri.hpp"
#include "tests/fuzz/demand.hpp"
#include "tests/support/fake_model_service.hpp"

using namespace mme;
using namespace mme::fuzz;
using namespace mme::server;

namespace {

class NoSettings final : public SettingsService {
 public:
  asio::awaitable<SettingsOutcome> reload() override { co_return SettingsOutcome{}; }
  asio::awaitable<SettingsOutcome> set_budget(std::optional<std::string>) override { co_return SettingsOutcome{}; }
};

/// The routes of every dialect that the server mounts. Their handlers are never called.
struct Routes {
  Routes() {
    const std::vector<std::shared_ptr<Dialect>> dialects{std::make_shared<SageMaker>(service),
                                                         std::make_shared<OipV2>(service, OipOptions{"0", true}),
                                                         std::make_shared<Administration>(settings)};
    for (const auto& dialect : dialects) {
      for (auto& route : dialect->routes()) {
        Endpoint endpoint{std::string(route.pattern), route.access, std::move(route.handler), dialect};
        demand(table.add(route.method, std::move(endpoint)).has_value(), "the routes do not clash");
      }
    }
  }
  test::FakeModelService service;
  NoSettings settings;
  RouteTable table;
};

std::string encode(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', digits[byte >> 4], digits[byte & 15]};
  }
  return out;
}

bool is_clean(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) return false;
  }
  return true;
}

void check_name(const std::string& name) {
  const auto model = model_ref(name);
  if (!model) return demand_plain(model.error());
  demand(!name.empty() && name.size() <= loader::kLongestModelName, "a name has 1 to 128 bytes");
  demand(name.find("..") != 0 && name.find("/..") == name.npos && name.find("/.") == name.npos,
         "a name does not climb");
  demand(name.front() != '/' && name.front() != '.' && name.back() != '/', "a name is relative and not hidden");
  demand(name.find("//") == name.npos && name.find('\\') == name.npos, "a name has one spelling");
  for (const char c : name) demand(c > ' ' && c <= 'z' && c != '%' && c != ':' && c != '?', "a name is plain text");
  const std::filesystem::path path = std::filesystem::path("/srv/models") / (name + ".pt");
  demand(path.lexically_normal() == path, "a name is a path below the repository");
}

void check_segment(std::string_view raw) {
  const auto decoded = decode_segment(raw);
  if (!decoded) return demand_plain(decoded.error());
  demand(is_clean(*decoded), "what is decoded holds no control character");
  demand(decoded->size() <= raw.size(), "decoding adds nothing");
  const auto again = decode_segment(encode(*decoded));
  demand(again && *again == *decoded, "encoding and decoding lead back");
  check_name(*decoded);
}

/// The literal segments of the pattern stand in the path, letter by letter.
void check_match(const RouteTable::Match& match, std::string_view path) {
  const auto sent = split_path(path);
  std::size_t endpoints = 0;
  for (const auto& [method, endpoint] : match.node->endpoints) {
    const auto pattern = split_path(endpoint.pattern);
    demand(pattern.size() == sent.size(), "a path has the segments of its pattern");
    std::size_t placeholders = 0;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      if (!pattern[i].starts_with('{')) {
        demand(pattern[i] == sent[i], "a literal is reached by its own spelling only");
      } else {
        demand(!sent[i].empty() && sent[i] != "." && sent[i] != "..", "a placeholder is a name");
        demand(match.parameters.at(placeholders++) == sent[i], "placeholders are given in their order");
      }
    }
    demand(placeholders == match.parameters.size(), "there are no other parameters");
    ++endpoints;
  }
  demand(endpoints > 0, "a match leads to a call");
  for (const auto raw : match.parameters) check_segment(raw);
}

void check_target(const RouteTable& table, std::string_view target) {
  const auto mark = target.find('?');
  const auto path = target.substr(0, mark);
  if (const auto match = table.match(path); match.node != nullptr) check_match(match, path);
  if (mark == target.npos) return;
  const auto query = decode_query(target.substr(mark + 1));
  if (!query) return demand_plain(query.error());
  for (const auto& [key, value] : *query)
    demand(is_clean(key) && is_clean(value), "a query holds no control character");
}

void check_url(const std::string& url) {
  const std::filesystem::path root = "/srv/models";
  const auto relative = loader::relative_path_of(url, {root, "/opt/ml/models"});
  if (!relative) return demand_plain(relative.error());
  demand(!relative->empty() && relative->front() != '/', "a url becomes a relative path");
  const auto normal = (root / *relative).lexically_normal();
  demand(normal.string() == root.string() + "/" + *relative, "a url stays in the repository and has one spelling");
  for (const auto& part : normal.lexically_relative(root))
    demand(part.string()[0] != '.', "a url names nothing hidden");
  if (url.front() == '/') {
    demand(url.starts_with("/srv/models/") || url.starts_with("/opt/ml/models/"), "an absolute url begins in a root");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Routes routes;
  const std::string text(reinterpret_cast<const char*>(data), size);
  // A target comes from the framing guard, which lets printable bytes through; the rest may be anything.
  check_target(routes.table, text);
  check_target(routes.table, "/" + text);
  check_target(routes.table, "/models/" + text);
  check_target(routes.table, "/v2/models/" + text + "/infer");
  check_segment(text);
  check_name(text);
  check_url(text);
  check_url("/srv/models" + text);
  return 0;
}
