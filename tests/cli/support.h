#pragma once
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "support/holds.h"

// What the tests of commands share: a folder that goes away, a small scenario in it, and a run of the whole program.
namespace moeplan::cli::testing {

inline const std::string kRoot = MOEPLAN_SOURCE_DIR;
inline const std::string kQuickstart = kRoot + "/scenarios/quickstart.yaml";
inline const std::string kTrace = kRoot + "/scenarios/traces/esft_dsv2lite_law";
inline const std::string kData = kRoot + "/tests/data/scenario";  // models/tiny-moe.yaml: 3 MoE layers of 8 experts

inline const std::string kSmall = R"(model: tiny-moe
cluster: { hardware: h100-sxm, gpus: 8 }
parallel: { pipeline_model_parallel_size: 2, expert_model_parallel_size: 4 }
training: { micro_batch_size: 1, global_batch_size: 16, seq_length: 128 }
moe: { dispatcher: alltoall, policies: { memfine: { rule: fixed, chunks: 2 } } }
routing: { balanced: true }
)";

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "moeplan-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string at(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
    return at(name);
  }

 private:
  std::string path_;
};

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Result {
  int status = 0;
  std::string out, err;
};
inline Result moeplan(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  Result result;
  result.status = run(arguments, out, err);
  result.out = out.str();
  result.err = err.str();
  return result;
}

// `command` on the small scenario, with the test models known.
inline Result small(const std::string& command, const std::string& scenario, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {command, scenario, "--data", kData};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return moeplan(arguments);
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? "the text to replace is not there" : text.replace(at, from.size(), to);
}

using moeplan::test::holds;

}  // namespace moeplan::cli::testing
