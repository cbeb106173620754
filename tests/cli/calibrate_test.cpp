#include <doctest/doctest.h>
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/support.h"
#include "cost/kernels.h"
#include "measurements/profiles.h"

namespace moeplan::cli {
using namespace testing;
using nlohmann::json;

namespace {

// Products on an H200 that reach `peak` of what the shipped profile says, or, `wild`, times without any rule.
std::string gemm_table(double factor, bool wild = false) {
  topology::HardwareProfile profile = measurements::load_profile("h200-sxm", {}, "test");
  std::string text = "id,gpu,op,dtype,m,n,k,time_us\n";
  int id = 0;
  for (const int m : {64, 512, 2048, 4096, 8192, 16384})
    for (const int n : {512, 2048, 4096, 8192})
      for (const int k : {256, 1024, 4096, 8192}) {
        const double time = factor * cost::gemm_time_s({m, n, k}, profile);
        text += fmt::format("g{},NVIDIA H200,gemm,bf16,{},{},{},{:.6f}\n", id, m, n, k,
                            1e6 * time * (wild && id % 2 == 0 ? 4 : 1));
        ++id;
      }
  return text;
}

}  // namespace

TEST_CASE("calibrate fit writes a profile that predicts the rows it was fitted to") {
  const Folder folder;
  const std::string table = folder.write("gemm.csv", gemm_table(1.2)), profile = folder.at("ours.yaml");
  const Result fit = moeplan({"calibrate", "fit", table, "-o", profile, "--json", folder.at("fit.json")});
  CHECK(fit.err == "");
  REQUIRE(fit.status == 0);
  CHECK(holds(fit.out, "h200-sxm fitted"));
  CHECK(holds(fit.out, "dense GEMM bf16"));
  const json document = json::parse(content_of(folder.at("fit.json")));
  CHECK(document["schema"] == "moeplan.calibrate/1");
  CHECK(document["families"][0]["kept_out"]["median_absolute_error"].get<double>() < 0.01);
  CHECK(holds(content_of(profile), "evidence: measured, source: \"gemm.csv: "));
  const Result judged = moeplan({"validate", "--operators", table, "--hardware", profile, "--json", "-"});
  CHECK(judged.status == 0);
  CHECK(json::parse(judged.out)["summary"]["median_absolute_error"].get<double>() < 0.01);
}

TEST_CASE("calibrate fit --shapes: timed shapes are looked up, others interpolated or extrapolated, and it is said") {
  const Folder folder;
  const std::string table = folder.write("gemm.csv", gemm_table(1.2, true)), profile = folder.at("ours.yaml");
  CHECK(moeplan({"calibrate", "fit", table, "-o", profile, "--shapes", "--force"}).status == 0);
  const std::string head = "gpu,op,dtype,m,n,k,time_us\n";
  const std::string others = folder.write("other.csv", head +
                                                           "H200,gemm,bf16,2048,4096,4096,1\n"
                                                           "H200,gemm,bf16,3000,4096,4096,1\n"
                                                           "H200,gemm,bf16,99999,4096,4096,1\n");
  const Result looked = moeplan({"validate", "--operators", table, "--hardware", profile, "--json", "-"});
  CHECK(json::parse(looked.out)["summary"]["p90_absolute_error"].get<double>() < 1e-5);
  const json rows =
      json::parse(moeplan({"validate", "--operators", others, "--hardware", profile, "--json", "-"}).out)["rows"];
  CHECK(rows[0]["evidence"] == "measured");
  CHECK(rows[1]["evidence"] == "interpolated");
  CHECK(rows[2]["evidence"] == "extrapolated");
}

TEST_CASE("calibrate fit refuses a poor fit with its residuals, unless forced") {
  const Folder folder;
  const std::string table = folder.write("gemm.csv", gemm_table(1, true)), profile = folder.at("ours.yaml");
  const Result refused = moeplan({"calibrate", "fit", table, "-o", profile});
  CHECK(refused.status == 1);
  CHECK(holds(refused.err, "dense GEMM bf16: a median error of"));
  CHECK(holds(refused.err, "no profile is written"));
  CHECK_FALSE(std::filesystem::exists(profile));
  CHECK(moeplan({"calibrate", "fit", table, "-o", profile, "--force"}).status == 0);
  CHECK(std::filesystem::exists(profile));
}

TEST_CASE(
    "calibrate fit: rows of another device and broken rows are set aside with the line, several devices refused") {
  const Folder folder;
  const std::string mixed = folder.write(
      "mixed.csv", gemm_table(1.1) + "x,B200,gemm,bf16,64,64,64,5\ny,NVIDIA H200,gemm,bf16,64,64,64,soon\n");
  const Result refused = moeplan({"calibrate", "fit", mixed});
  CHECK(refused.status == 2);
  CHECK(holds(refused.err, "rows of several devices: b200-sxm (1 rows), h200-sxm (96 rows)"));
  const Result fit = moeplan({"calibrate", "fit", mixed, "--base", "h200-sxm"});
  CHECK(fit.status == 0);
  CHECK(holds(fit.err, "mixed.csv:98: 'B200' is another device than h200-sxm"));
  CHECK(holds(fit.err, "time_us: expected a number > 0, got 'soon'"));
  CHECK(moeplan({"calibrate", "fit", mixed, "--base", "h2000"}).status == 2);
  CHECK(moeplan({"calibrate", "fit", mixed, "--base", "l40s"}).status == 2);
  CHECK(moeplan({"calibrate", "fit", mixed, "--base", "h200-sxm", "-o", mixed}).status == 2);
  CHECK(moeplan({"calibrate", "fit", folder.at("missing.csv")}).status == 2);
}

}  // namespace moeplan::cli
