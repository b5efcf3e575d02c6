// The server program under test: started on a free port of loopback, its log kept, always ended.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/http_client.hpp"

namespace mme::test {

/// A folder that is gone with the object.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class ServerProcess {
 public:
  /// Runs `mme serve --models DIR --host 127.0.0.1 --port 0 ARGUMENTS...` and waits until it listens.
  ServerProcess(const std::filesystem::path& models, std::vector<std::string> arguments = {},
                const std::map<std::string, std::string>& environment = {});
  /// Kills it when it still runs.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] unsigned short port() const { return port_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] HttpClient client() const { return HttpClient(port_); }
  [[nodiscard]] bool running();
  /// SIGTERM, then waits; the exit code, or minus the signal that ended it.
  int terminate();
  [[nodiscard]] std::string log() const;
  /// Value of a metric line such as `mme_model_loads_total{model="echo"}`; 0 when there is no such series.
  [[nodiscard]] double metric(const std::string& series) const;
  /// Sum over all series of a name.
  [[nodiscard]] double metric_sum(const std::string& name) const;
  [[nodiscard]] std::size_t rss_bytes() const;

 private:
  pid_t pid_ = -1;
  unsigned short port_ = 0;
  TempDir directory_;
};

/// The program under test and the folder with the test models, as CMake told them.
[[nodiscard]] std::filesystem::path program();
[[nodiscard]] std::filesystem::path test_models();

/// Written an hour ago: a young file that is no whole archive is taken for one that is still being written.
void make_old(const std::filesystem::path& file);

/// Puts copies of test models into a repository folder, as old ones: {"m", "echo"} makes DIR/m.pt from echo.pt.
void install(const std::filesystem::path& repository, const std::map<std::string, std::string>& models);

}  // namespace mme::test
