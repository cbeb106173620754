#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "cli/support.h"

namespace moeplan::cli {
using namespace testing;
using nlohmann::json;

namespace {
const std::string kLine = "CUDA out of memory. Tried to allocate 1.56 GiB. GPU 0 has a total capacity of 79.10 GiB";
}

TEST_CASE("explain: the verdict first, who holds the peak, then changes ready to paste") {
  const Result result = moeplan({"explain", kQuickstart, "--pairs", "3"});
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(result.out.starts_with("FITS  rank "));
  CHECK(holds(result.out, "held by  gradients "));
  CHECK(holds(result.out, "Alive at the peak of rank"));
  CHECK(holds(result.out, "--set sharding=zero2"));
  CHECK(holds(result.out, "Pairs of the best, simulated together"));
  CHECK(holds(result.out, "PP doubled: parallel.pipeline_model_parallel_size: expected a divisor of the 27 layers"));
  CHECK_FALSE(holds(result.out, "out-of-memory text"));
}

TEST_CASE("explain: holders add up to the device's memory, and every lever has its figures") {
  const Result result = moeplan({"explain", kQuickstart, "--pairs", "2", "--oom-line", kLine, "--json", "-"});
  REQUIRE(result.status == 0);
  const json j = json::parse(result.out);
  CHECK(j["schema"] == "moeplan.explain/1");
  std::int64_t sum = 0;
  for (const json& holder : j["holders"]) {
    sum += holder["bytes"].get<std::int64_t>();
    std::int64_t tensors = 0;
    for (const json& tensor : holder["tensors"]) tensors += tensor["bytes"].get<std::int64_t>();
    if (!holder["tensors"].empty()) CHECK(tensors == holder["bytes"]);
  }
  CHECK(sum == j["peak"]["device_bytes"]);
  CHECK(j["levers"].size() > 20);
  for (const json& lever : j["levers"]) {
    CHECK(lever["saving_bytes"].get<std::int64_t>() ==
          j["device_bytes"].get<std::int64_t>() - lever["device_bytes"].get<std::int64_t>());
    CHECK(lever["set"].get<std::string>().starts_with("--set "));
    CHECK(lever["step_time_s"].get<double>() > 0);
  }
  // 4096 x 102,400 x 4 B = 1.5625 GiB: the fp32 softmax of DeepSeek-V2-Lite's logits.
  CHECK(j["oom_line"]["tensor"] == "logits, their softmax or their gradient (fp32)");
  CHECK(j["oom_line"]["candidates"][0]["bytes"] == 4096LL * 102'400 * 4);
  CHECK(j["advice"].is_null());
}

TEST_CASE("explain: a model's override counts for the tensor's size") {
  const Result result = moeplan({"explain", kQuickstart, "--pairs", "0", "--set", "model.vocab_size=248320",
                                 "--oom-line", "HIP out of memory. Tried to allocate 3.79 GiB.", "--json", "-"});
  REQUIRE(result.status == 0);
  const json j = json::parse(result.out);
  CHECK(j["oom_line"]["candidates"][0]["bytes"] == 4096LL * 248'320 * 4);
  CHECK(j["oom_line"]["device"] == "HIP");
}

TEST_CASE("explain: 0 where a change makes it fit, 1 where none does, 2 for bad input") {
  CHECK(moeplan({"explain", kQuickstart, "--pairs", "0", "--set", "usable_fraction=0.6"}).status == 0);
  const Result none = moeplan({"explain", kQuickstart, "--pairs", "2", "--set", "usable_fraction=0.01"});
  CHECK(none.status == 1);
  CHECK(holds(none.out, "no single change or pair of changes makes it fit"));
  const Result text = moeplan({"explain", kQuickstart, "--oom-line", "Segmentation fault"});
  CHECK(text.status == 2);
  CHECK(holds(text.err, "Tried to allocate 26.44 GiB"));
  CHECK(moeplan({"explain", kQuickstart, "--oom-line", ""}).status == 2);
  CHECK(moeplan({"explain", kQuickstart, "--pairs", "65"}).status == 2);
  CHECK(moeplan({"explain", kQuickstart, "--top", "0"}).status == 2);
}

TEST_CASE("explain: dense models and given static memory have no levers of experts and optimizers") {
  const Folder folder;
  const std::string path = folder.write("dense.yaml", R"(model: llama3-8b
cluster: { hardware: h100-sxm, gpus: 8 }
parallel: { tp: 2 }
training: { micro_batch_size: 1, global_batch_size: 8, seq_length: 2048 }
memory: { given_static_bytes: 20 GiB }
)");
  const Result result = moeplan({"explain", path, "--pairs", "0", "--json", "-"});
  REQUIRE(result.status == 0);
  for (const json& lever : json::parse(result.out)["levers"]) {
    const std::string name = lever["change"].get<std::string>();
    for (const char* of_others : {"moe", "EP", "expert", "dispatcher", "moments", "gradients", "sharding"})
      CHECK_MESSAGE(name.find(of_others) == std::string::npos, name);
  }
}

}  // namespace moeplan::cli
