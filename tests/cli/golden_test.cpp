#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/support.h"

// Every scenario that is shipped, against the answer stored for it. A golden file says what the program answered when
// it was written, not what is true: it stops changes that nobody meant. UPDATE_GOLDEN=1 rewrites the files; read their
// diff.
namespace moeplan::cli {
using namespace testing;
using nlohmann::ordered_json;

namespace {

const std::string kGolden = kRoot + "/tests/golden";
constexpr double kTolerance = 1e-9;  // relative, of real numbers; integers (bytes, rows, ranks) are exact

// The part of a result that is stored: all of its answers, without the long lists of ranks, tensors and layers.
ordered_json reduced(const ordered_json& result) {
  ordered_json kept;
  for (const char* key : {"schema", "verdict", "step_time_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "mfu",
                          "model_flops_per_token", "layout", "fit", "peak_memory", "stages", "time", "routing"}) {
    kept[key] = result.at(key);
  }
  kept["peak_memory"].erase("alive");
  kept["routing"].erase("layers");
  kept["time"].erase("exchanges");  // of each kind a list; its figures are those of the cost models
  kept["time"].erase("nic_overlap_s");
  const ordered_json& ranks = result.at("ranks");
  const std::size_t worst = result.at("peak_memory").at("rank").get<std::size_t>();
  kept["ranks"] = {
      {"count", ranks.size()}, {"first", ranks.front()}, {"last", ranks.back()}, {"worst", ranks.at(worst)}};
  return kept;
}

// One line for each field of `found` that is not that of `stored`; a real number may be off by kTolerance.
void compare(const ordered_json& stored, const ordered_json& found, const std::string& place, std::string& faults) {
  const auto fault = [&] { faults += place + ": stored " + stored.dump() + ", found " + found.dump() + "\n"; };
  if (stored.is_object() && found.is_object()) {
    for (const auto& [key, value] : stored.items()) {
      if (!found.contains(key)) {
        faults += place + "." + key + ": is missing\n";
      } else {
        compare(value, found.at(key), place + "." + key, faults);
      }
    }
    for (const auto& [key, value] : found.items()) {
      if (!stored.contains(key)) faults += place + "." + key + ": is new\n";
    }
  } else if (stored.is_array() && found.is_array() && stored.size() == found.size()) {
    for (std::size_t i = 0; i < stored.size(); ++i) {
      compare(stored.at(i), found.at(i), place + "[" + std::to_string(i) + "]", faults);
    }
  } else if (stored.is_number() && found.is_number() && (stored.is_number_float() || found.is_number_float())) {
    const double a = stored.get<double>(), b = found.get<double>();
    if (!(std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b)))) fault();
  } else if (stored != found) {
    fault();
  }
}

std::string differences(const ordered_json& stored, const ordered_json& found) {
  std::string faults;
  compare(stored, found, "result", faults);
  return faults;
}

// Scenario files of a folder, without their ending, as paths from scenarios/.
std::vector<std::string> scenarios_of(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot + "/scenarios/" + folder)) {
    if (entry.path().extension() == ".yaml") names.push_back(folder + entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string golden_path(std::string name) {
  std::replace(name.begin(), name.end(), '/', '-');
  return kGolden + "/" + name + ".json";
}

void check_against_golden(const std::vector<std::string>& names) {
  const char* update = std::getenv("UPDATE_GOLDEN");
  for (const std::string& name : names) {
    CAPTURE(name);
    const Result run = moeplan({"run", kRoot + "/scenarios/" + name + ".yaml", "--threads", "2", "--json", "-"});
    CHECK(run.err == "");
    REQUIRE((run.status == 0 || run.status == 1));
    const ordered_json found = reduced(ordered_json::parse(run.out));
    const std::string path = golden_path(name);
    if (update != nullptr && std::string(update) == "1") {
      std::filesystem::create_directories(kGolden);
      std::ofstream(path, std::ios::binary) << found.dump(1) << "\n";
    }
    const std::string stored = content_of(path);
    REQUIRE_MESSAGE(!stored.empty(),
                    "no tests/golden for this scenario; make it with: UPDATE_GOLDEN=1 ctest --preset dev -R golden");
    CHECK(differences(ordered_json::parse(stored), found) == "");
    CHECK(run.status == (found["verdict"] == "OOM" ? 1 : 0));
  }
}

}  // namespace

TEST_CASE("golden: every scenario of scenarios/ still gives the stored answer") {
  const std::vector<std::string> names = scenarios_of("");
  CHECK(names.size() >= 7);
  check_against_golden(names);
}

TEST_CASE("golden: every scenario of the MemFine paper still gives the stored answer") {
  const std::vector<std::string> names = scenarios_of("papers/memfine/");
  CHECK(names.size() >= 6);
  check_against_golden(names);
}

TEST_CASE("golden: explain of the quickstart still gives the stored answer") {
  const Result run = moeplan({"explain", kQuickstart, "--pairs", "3", "--json", "-"});
  REQUIRE(run.status == 0);
  ordered_json found = ordered_json::parse(run.out);
  for (const char* key : {"warnings", "assumptions", "provenance", "routing"}) found.erase(key);
  for (auto& holder : found["holders"]) holder.erase("tensors");
  const std::string path = golden_path("explain-quickstart");
  const char* update = std::getenv("UPDATE_GOLDEN");
  if (update != nullptr && std::string(update) == "1") std::ofstream(path, std::ios::binary) << found.dump(1) << "\n";
  const std::string stored = content_of(path);
  REQUIRE_FALSE(stored.empty());
  CHECK(differences(ordered_json::parse(stored), found) == "");
}

TEST_CASE("golden: no stored answer is left without its scenario") {
  std::vector<std::string> known = {golden_path("explain-quickstart")};
  for (const char* folder : {"", "papers/memfine/"}) {
    for (const std::string& name : scenarios_of(folder)) known.push_back(golden_path(name));
  }
  for (const auto& entry : std::filesystem::directory_iterator(kGolden)) {
    CHECK_MESSAGE(std::count(known.begin(), known.end(), entry.path().string()) == 1, entry.path().filename().string());
  }
}

TEST_CASE("golden: the comparison sees a byte, a time beyond the tolerance, and keys that come or go") {
  const ordered_json stored = {{"bytes", 1000000000000}, {"time_s", 2.0}, {"list", {1, 2}}, {"none", nullptr}};
  const auto with = [&](const char* key, const ordered_json& value) {
    ordered_json changed = stored;
    changed[key] = value;
    return differences(stored, changed);
  };
  CHECK(differences(stored, stored) == "");
  CHECK(with("bytes", 1000000000001) == "result.bytes: stored 1000000000000, found 1000000000001\n");
  CHECK(with("time_s", 2.0 * (1 + 0.9e-9)) == "");
  CHECK_FALSE(with("time_s", 2.0 * (1 + 1.1e-9)) == "");
  CHECK_FALSE(with("list", {1, 2, 3}) == "");
  CHECK(with("list", {1, 3}) == "result.list[1]: stored 2, found 3\n");
  CHECK_FALSE(with("none", 0) == "");
  CHECK(with("more", 1) == "result.more: is new\n");
  ordered_json less = stored;
  less.erase("none");
  CHECK(differences(stored, less) == "result.none: is missing\n");
}

}  // namespace moeplan::cli
