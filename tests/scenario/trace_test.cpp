#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support.h"

using namespace moeplan;
using namespace moeplan::scenario;
using namespace moeplan::scenario::testing;

namespace {

// A folder of this test's own, also where two builds run their tests at once.
std::filesystem::path own_folder(const std::string& name) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("moeplan-" + name + "-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  return folder;
}

std::string with_trace(const std::string& path) { return small_with("balanced: true", "trace: " + path); }

}  // namespace

TEST_CASE("a trace is found from the folder of the scenario, and its counts are the loads") {
  const Scenario s = resolve(with_trace("counts.csv"));
  CHECK(s.routing_label == "trace");
  // counts.csv, layer 1: 16 of 32 copies go to expert 0. A step has 128 tokens a replica, so 256 copies: 128 of them.
  std::vector<std::int64_t> counts(8, 0);
  s.loads->add_counts({0, 0, 0, 0, 128}, 0, counts);
  CHECK(counts[0] == 128);
  CHECK(holds(s.loads->describe().source, "counts.csv"));
  CHECK_FALSE(holds(s.loads->describe().source, kData));  // as the file names it, not where the tests run
}

TEST_CASE("the path of an option starts where the command runs") {
  const std::string from_here = std::filesystem::relative(kData + "/counts.csv").string();
  CHECK(resolve(kSmall, {{"routing", "{ trace: '" + from_here + "' }"}}).routing_label == "trace");
  CHECK(holds(refusal(kSmall, {{"routing", "{ trace: no_such_folder/counts.csv }"}}),
              "'no_such_folder/counts.csv' does not exist"));
}

TEST_CASE("a trace that is not there is a fault at its key") {
  const std::string text = refusal(with_trace("nowhere.csv"));
  CHECK(holds(text, "s.yaml:12:19: routing.trace: expected a file or folder with a trace"));
  CHECK(holds(text, "nowhere.csv' does not exist"));
}

TEST_CASE("a trace of another model is refused with both places") {
  const std::vector<base::Fault> faults = faults_of(with_trace("counts-other-layers.csv"));
  REQUIRE(faults.size() >= 2);  // 4 experts against 8, and layers 1 and 2 against 1 to 3
  bool experts = false, layers = false;
  for (const base::Fault& fault : faults) {
    CHECK(fault.where.key == "routing.trace");
    REQUIRE(fault.also.size() == 1);
    experts = experts || fault.also[0].key == "moe.num_experts";
    layers = layers || fault.also[0].key == "layers";
  }
  CHECK(experts);
  CHECK(layers);
}

TEST_CASE("faults inside a trace keep their line and name the scenario that asked for it") {
  const std::string text = refusal(with_trace("counts-broken.csv"));
  CHECK(holds(text, "counts-broken.csv:2"));
  CHECK(holds(text, "see also s.yaml:12:19: routing.trace"));
}

TEST_CASE("faults of the trace and of the layout are reported together") {
  const std::string text = refusal(with_trace("counts-other-layers.csv"), {{"gbs", "20"}});
  CHECK(holds(text, "the trace has"));
  CHECK(holds(text, "expected a multiple of micro_batch_size"));
}

TEST_CASE("variants of a sweep read a trace once") {
  // The file is removed after the first scenario: the second can only have it from the cache.
  const std::filesystem::path folder = own_folder("trace-cache");
  const std::string copy = (folder / "counts.csv").string();
  std::filesystem::copy_file(kData + "/counts.csv", copy, std::filesystem::copy_options::overwrite_existing);
  const std::shared_ptr<TraceCache> cache = make_trace_cache();
  const Scenario first = resolve_with(with_trace(copy), options_with(), cache);
  std::ofstream(copy) << "step,layer,e0\n0,1,5\n";
  const Scenario second = resolve_with(with_trace(copy), options_with({{"ep", "8"}}), cache);
  CHECK(first.loads->describe().source == second.loads->describe().source);
  CHECK_FALSE(
      faults_of(with_trace(copy)).empty());  // without the cache the new file is read, and is no trace of the model
  std::filesystem::remove_all(folder);
}

TEST_CASE("errors of reading are not kept: a trace that is mended is read") {
  const std::filesystem::path folder = own_folder("trace-mended");
  const std::string copy = (folder / "counts.csv").string();
  std::ofstream(copy) << "no header\n";
  const std::shared_ptr<TraceCache> cache = make_trace_cache();
  CHECK_THROWS_AS(resolve_with(with_trace(copy), options_with(), cache), base::Error);
  std::filesystem::copy_file(kData + "/counts.csv", copy, std::filesystem::copy_options::overwrite_existing);
  CHECK(resolve_with(with_trace(copy), options_with(), cache).routing_label == "trace");
  std::filesystem::remove_all(folder);
}

TEST_CASE("a map lets the model read a trace of other layers, by turns or by a list") {
  // Layers 0 and 7 of the eight experts that the model has; its MoE layers are 1, 2 and 3.
  const std::filesystem::path folder = own_folder("trace-map");
  const std::string path = (folder / "c.jsonl").string();
  std::ofstream(path) << "{\"step\":0,\"layer\":0,\"counts\":[16,4,2,2,2,2,2,2]}\n"
                         "{\"step\":0,\"layer\":7,\"counts\":[4,4,4,4,4,4,4,4]}\n";
  const auto with_map = [&](const std::string& map) {
    return small_with("{ balanced: true }", "{ trace: " + path + map + " }");
  };
  const std::string without = refusal(with_map(""));
  CHECK(holds(without, "the trace has the MoE layers {0, 7}, the model {1..3}"));
  CHECK(holds(without, "hint: routing.map: { layers: cyclic }"));
  // Copies of expert 0 over the 8 replicas and 2 microbatches of a step: 16 x 128 tokens of 2 copies, of which layer 0
  // sends a half and layer 7 an eighth.
  constexpr std::int64_t kHalf = 2048, kEighth = 512;
  const auto first_of = [](const Scenario& s, std::int64_t layer) {
    std::vector<std::int64_t> counts(8, 0);
    for (std::int64_t replica = 0; replica < 8; ++replica) {
      for (std::int64_t microbatch = 0; microbatch < 2; ++microbatch) {
        s.loads->add_counts({0, microbatch, replica, 0, 128}, layer, counts);
      }
    }
    return counts[0];
  };
  const Scenario cyclic = resolve(with_map(", map: { layers: cyclic }"));
  CHECK(first_of(cyclic, 0) == kHalf);
  CHECK(first_of(cyclic, 1) == kEighth);
  CHECK(first_of(cyclic, 2) == kHalf);
  const Scenario listed = resolve(with_map(", map: { layers: [7, 7, 0] }"));
  CHECK(first_of(listed, 0) == kEighth);
  CHECK(first_of(listed, 2) == kHalf);
  CHECK(first_of(resolve(with_map(""), {{"routing.map.layers", "cyclic"}}), 1) == kEighth);
  CHECK(holds(refusal(with_map(", map: { layers: [7, 0] }")), "routing.map.layers: the map has 2 layers, the model 3"));
  CHECK(holds(refusal(with_map(", map: { layers: [7, 0, 1] }")), "the map names layer 1, the trace has {0, 7}"));
  CHECK(holds(refusal(with_map(", map: { layers: twice }")), "expected 'cyclic' or a list of layers"));
  CHECK(holds(refusal(with_map(", map: {}")), "missing key 'layers'"));
  CHECK(holds(refusal(with_map(", map: { layers: cyclic, experts: [1] }")), "experts"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("a part of a file is named behind the path") {
  const std::filesystem::path folder = own_folder("trace-part");
  std::ofstream((folder / "c.json").string())
      << R"({"layers": [1, 2, 3], "models": {"m": {"num_experts": 8, "topk": 2, "counts": {"a": )"
         R"([[8,8,8,8,0,0,0,0],[4,4,4,4,4,4,4,4],[4,4,4,4,4,4,4,4]]}}}})";
  const std::string path = (folder / "c.json").string();
  CHECK(resolve(with_trace(path + "#m/a")).routing_label == "trace");
  CHECK(holds(refusal(with_trace(path)), "add '#' and one of m/a to the path"));
  CHECK(holds(refusal(with_trace(path + "#m/b")), "has no 'm/b', only m/a"));
  CHECK(holds(refusal(with_trace((folder / "d.json").string() + "#m/a")), "does not exist"));
  std::filesystem::remove_all(folder);
}
