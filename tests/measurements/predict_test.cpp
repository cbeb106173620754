#include "measurements/predict.h"

#include <doctest/doctest.h>

#include <cmath>

#include "measurements/profiles.h"
#include "measurements/read_table.h"

namespace moeplan::measurements {
namespace {

const Profiles& profiles() {
  static const Profiles all{std::vector<std::string>{}};
  return all;
}
const topology::HardwareProfile& h200() { return *profiles().find("h200-sxm"); }

Measurement row_of(const std::string& json) { return parse_measurements(json + "\n", "t.jsonl").rows.at(0); }

}  // namespace

TEST_CASE("profiles are found by id and by the names that tables use, whatever the letter case") {
  CHECK(profiles().find("H200-SXM") == &h200());
  CHECK(profiles().find("NVIDIA H200") == &h200());
  CHECK(profiles().find("nvidia h200") == &h200());
  CHECK(profiles().find("H200-SX") == nullptr);
}

TEST_CASE("a product, a grouped product and attention are what their cost models say of single operations") {
  topology::HardwareProfile burst = h200();
  burst.gemm.drop_sustained();
  const Measurement gemm =
      row_of(R"({"gpu": "H200", "op": "wgrad", "dtype": "bf16", "m": 4096, "n": 2048, "k": 8192, "time_us": 200})");
  CHECK(predict(gemm, h200()).seconds ==
        cost::gemm_time_s({4096, 2048, 8192, cost::GemmPass::wgrad}, burst, cost::Precision::bf16));
  const Measurement grouped = row_of(
      R"({"gpu": "H200", "kind": "grouped_gemm_fwd", "dtype": "fp8", "group_rows": [300, 0, 17], "n": 1536, "k": 2048, "time_us": 20})");
  const std::vector<std::int64_t> rows = {300, 0, 17};
  CHECK(predict(grouped, h200()).seconds ==
        cost::grouped_gemm_time_s(rows, 1536, 2048, cost::GemmPass::forward, burst, cost::Precision::fp8));
  const Measurement attention = row_of(
      R"({"gpu": "H200", "op": "attention", "direction": "bwd", "batch": 2, "seqlen": 4096, "heads": 16, "head_dim": 128, "time_us": 2000})");
  CHECK(predict(attention, h200()).seconds == cost::attention_backward_time_s({2, 16, 4096, 128, 128}, h200()));
}

TEST_CASE("a MoE layer takes more than its two products by the passes around them") {
  const Measurement layer = row_of(
      R"({"gpu": "H200", "kind": "moe_layer_fwd", "dtype": "bf16", "tokens": 4096, "topk": 8, "experts": 128, "n": 1536, "k": 2048, "time_us": 900})");
  REQUIRE(layer.status == Status::ok);
  const std::vector<std::int64_t> rows(128, 256);  // 4096 x 8 / 128
  const double products = cost::grouped_gemm_time_s(rows, 1536, 2048, cost::GemmPass::forward, h200()) +
                          cost::grouped_gemm_time_s(rows, 2048, 768, cost::GemmPass::forward, h200());
  // At least: 32768 rows read 1536 and write 768 elements of 2 bytes in the activation.
  const double activation =
      cost::memory_bound_time_s(32768.0 * (1536 + 768) * 2, cost::MemoryAccess::streaming, h200());
  CHECK(predict(layer, h200()).seconds.value() > products + activation);
  CHECK(predict(layer, h200()).seconds.value() < products + 6 * activation);
}

TEST_CASE("collectives need ranks that fill whole nodes of the profile") {
  const auto row = [](int ranks, int nodes) {
    return row_of(R"({"gpu": "H200", "collective": "all_gather", "size_bytes": 1048576, "time_us": 50, "n_gpus": )" +
                  std::to_string(ranks) + R"(, "n_nodes": )" + std::to_string(nodes) + "}");
  };
  CHECK(predict(row(8, 1), h200()).seconds.has_value());
  CHECK(predict(row(16, 2), h200()).seconds.has_value());
  CHECK(predict(row(16, 2), h200()).seconds.value() > predict(row(8, 1), h200()).seconds.value());
  CHECK_FALSE(predict(row(9, 1), h200()).seconds.has_value());
  CHECK_FALSE(predict(row(8, 2), h200()).seconds.has_value());
  CHECK(predict(row(1, 1), h200()).reason == "one rank alone");
}

TEST_CASE("a collective across nodes is priced on the row's own fabric, by the algorithm that it names") {
  const auto seconds = [](const std::string& more, int bytes = 1048576) {
    const Measurement row = row_of(
        R"({"gpu": "H100", "collective": "all_reduce", "n_gpus": 16, "n_nodes": 2, "nic_GBps_per_gpu": 50, "time_us": 50, )"
        R"("size_bytes": )" +
        std::to_string(bytes) + more + "}");
    return predict(row, *profiles().find("h100-sxm"));
  };
  // h100-sxm has entries of EFA and of TCPXO: 1.875 MiB at 599.1 GB/s = 3.28 us, latency 75.15 us, exponent 0.437.
  const double efa = std::pow(std::pow(75.15e-6, 0.437) + std::pow(1.875 * 1048576 / 599.1e9, 0.437), 1 / 0.437);
  CHECK(seconds(R"(, "inter": "EFAv2 32x100G")").seconds.value() == doctest::Approx(efa));
  CHECK(seconds(R"(, "fabric": "efa")").seconds.value() == doctest::Approx(efa));
  const double plain = seconds("").seconds.value();
  CHECK(plain < efa);
  CHECK(seconds(R"(, "inter": "IB NDR400")").seconds.value() == plain);  // no entry of that fabric
  // The named ring is a ring; a rule that chooses names none.
  const double ring = seconds(R"(, "algo": "Ring")", 1 << 30).seconds.value();
  CHECK(seconds(R"(, "algo": "NVLSTree")", 1 << 30).seconds.value() < ring);
  CHECK(seconds(R"(, "algo": "Tree")", 1 << 30).seconds.value() > ring);
  CHECK(seconds(R"x(, "algo": "auto (NVLS if n>=5)")x", 1 << 30).seconds.value() ==
        seconds("", 1 << 30).seconds.value());
  CHECK(seconds(R"(, "algo": "CollNet SHARP")").reason.find("never assumed") != std::string::npos);
}

TEST_CASE("a type that the profile has no peak for is refused, and evidence names the weakest value") {
  const Measurement fp4 =
      row_of(R"({"gpu": "H200", "op": "gemm", "dtype": "nvfp4", "m": 64, "n": 64, "k": 64, "time_us": 5})");
  CHECK(predict(fp4, h200()).reason == "the profile states no nvfp4 peak");
  const Measurement bf16 =
      row_of(R"({"gpu": "H200", "op": "gemm", "dtype": "bf16", "m": 64, "n": 64, "k": 64, "time_us": 5})");
  const Prediction prediction = predict(bf16, h200());
  CHECK(prediction.weakest_key != "");
  CHECK(prediction.evidence >= topology::Evidence::measured);
}

}  // namespace moeplan::measurements
