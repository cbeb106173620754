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
  profile.gemm.drop_sustained();  // single operations
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

TEST_CASE("calibrate fit takes a log of nccl-tests as an entry of the profile, its errors as the network's spread") {
  const Folder folder;
  const std::string log = std::string(MOEPLAN_SOURCE_DIR) + "/tests/data/measurements/all_reduce_8.log";
  const std::string profile = folder.at("ours.yaml");
  const Result fit = moeplan({"calibrate", "fit", log, "-o", profile, "--json", folder.at("fit.json")});
  REQUIRE(fit.status == 0);
  CHECK(holds(fit.out, "h100-sxm fitted"));
  const json document = json::parse(content_of(folder.at("fit.json")));
  REQUIRE(document["collectives"].size() == 1);
  const json& entry = document["collectives"][0];
  CHECK(entry["ranks"] == 8);
  CHECK(entry["nodes"] == 1);
  // The log was written with 16 us and 480 GB/s.
  CHECK(entry["latency_s"].get<double>() == doctest::Approx(16e-6).epsilon(0.03));
  CHECK(entry["bandwidth_bytes_per_s"].get<double>() == doctest::Approx(480e9).epsilon(0.03));
  CHECK(document["spreads"][0]["key"] == "network.spread");
  const std::string text = content_of(profile);
  CHECK(holds(text, "collectives:\n"));
  CHECK(holds(text, "all_reduce_8.log"));
  CHECK(moeplan({"calibrate", "fit", log, "--base", profile}).status == 0);  // it reads back
  CHECK(moeplan({"calibrate", "fit", log, "--base", "h200-sxm"}).status == 2);
}

TEST_CASE(
    "calibrate fit takes values that moeplan-device read off, and tells what its run left out and where it was cut") {
  const Folder folder;
  const std::string common = R"("program":"moeplan-device 0.1.0","gpu":"NVIDIA H200","driver":"580","cuda":"13.0",)";
  const auto line = [&](const std::string& record, const std::string& fields) {
    return R"({"schema":"moeplan.device/1","record":")" + record + "\"," + common + fields + "}\n";
  };
  const std::string run = folder.write(
      "run.jsonl", line("device", R"("max_sm_mhz":1980)") +
                       line("value", R"("key":"host.launch","value":2.5e-06,"how":"a loop")") +
                       line("left_out", R"("what":"attention","why":"no library")") +
                       line("value", R"("key":"overheads.context","value":600000000,"how":"free memory")"));
  const std::string profile = folder.at("ours.yaml");
  const Result fit = moeplan({"calibrate", "fit", run, "-o", profile});
  REQUIRE(fit.status == 0);
  CHECK(holds(fit.err, "note: not measured: attention: no library"));
  CHECK(holds(fit.err, "the last run has no end line"));
  CHECK(holds(fit.out, "host.launch"));
  CHECK(holds(content_of(profile), "{ value: 2.5 us, evidence: measured, source: \"run.jsonl: a loop\" }"));
}

TEST_CASE("calibrate check says whether a machine is what its profile says") {
  const Folder folder;
  const std::string good = folder.write("good.csv", gemm_table(1)), slow = folder.write("slow.csv", gemm_table(1.3));
  const Result same = moeplan({"calibrate", "check", good});
  CHECK(same.status == 0);
  CHECK(holds(same.out, "As h200-sxm"));
  const Result other =
      moeplan({"calibrate", "check", slow, "--hardware", "h200-sxm", "--json", folder.at("check.json")});
  CHECK(other.status == 1);
  CHECK(holds(other.out, "DEVIATES from h200-sxm"));
  CHECK(holds(other.out, "dense GEMM bf16 takes 1.30 times what the profile says"));
  const json document = json::parse(content_of(folder.at("check.json")));
  CHECK(document["schema"] == "moeplan.check/1");
  CHECK(document["deviates"] == true);
  CHECK(document["findings"][0]["measured_over_expected"].get<double>() == doctest::Approx(1.3).epsilon(1e-4));
  CHECK(moeplan({"calibrate", "check", good, "--base", "h200-sxm"}).status == 2);  // that is an option of fit
  CHECK(moeplan({"calibrate", "check"}).status == 2);
}

namespace {

// A run of the device program on an H200: `lines` between its first and last.
std::string device_run(const std::vector<std::pair<std::string, std::string>>& lines, const std::string& driver) {
  const auto line = [&](const std::string& record, const std::string& fields) {
    return fmt::format(
               R"({{"schema":"moeplan.device/1","record":"{}","program":"moeplan-device 0.1.0","gpu":"NVIDIA H200","driver":"{}","cuda":"13.0",{}}})",
               record, driver, fields) +
           "\n";
  };
  std::string text = line("device", R"("max_sm_mhz":1980)");
  for (const auto& [record, fields] : lines) text += line(record, fields);
  return text + line("end", fmt::format("\"lines\":{}", lines.size() + 1));
}

const std::pair<std::string, std::string> kLaunch = {"value", R"("key":"host.launch","value":2.5e-06,"how":"a loop")"};

}  // namespace

TEST_CASE("calibrate: files of another driver are set aside with their line, unless the user mixes them") {
  const Folder folder;
  const std::string first = folder.write("first.jsonl", device_run({kLaunch}, "580"));
  const std::string second = folder.write(
      "second.jsonl", device_run({{"value", R"("key":"host.launch","value":4.5e-06,"how":"a loop")"}}, "570"));
  const std::string profile = folder.at("ours.yaml");
  const Result apart = moeplan({"calibrate", "fit", first, second, "-o", profile});
  CHECK(apart.status == 0);
  CHECK(holds(apart.err, "second.jsonl:1: mixed versions: moeplan-device 0.1.0, driver 570, CUDA 13.0, but "));
  CHECK(holds(apart.err, "first.jsonl:1 has moeplan-device 0.1.0, driver 580, CUDA 13.0; --mixed-versions takes both"));
  CHECK(holds(content_of(profile), "value: 2.5 us, evidence: measured"));
  // The lower of two is the median of them; the order of the files does not matter then.
  const Result mixed = moeplan({"calibrate", "fit", second, first, "-o", profile, "--mixed-versions"});
  CHECK(mixed.status == 0);
  CHECK(!holds(mixed.err, "mixed versions"));
  CHECK(holds(content_of(profile), "value: 2.5 us, evidence: measured"));
  CHECK(moeplan({"calibrate", "fit", second, first, "-o", profile}).status == 0);
  CHECK(holds(content_of(profile), "value: 4.5 us, evidence: measured"));
}

TEST_CASE("calibrate: a failed check of the device program is status 1, and no profile is written") {
  const Folder folder;
  const std::string run = folder.write(
      "run.jsonl", device_run({kLaunch, {"check", R"("what":"copy kernel","good":false,"error":1,"most":0)"}}, "580"));
  const std::string profile = folder.at("ours.yaml");
  const Result fit = moeplan({"calibrate", "fit", run, "-o", profile});
  CHECK(fit.status == 1);
  CHECK(holds(fit.err, "run.jsonl:3: a check of the device program failed: copy kernel"));
  CHECK(holds(fit.err, "error: 1 check of the device program failed"));
  CHECK(moeplan({"calibrate", "check", profile}).status == 2);  // not there
  CHECK(moeplan({"calibrate", "fit", run, "-o", profile, "--force"}).status == 0);
  CHECK(holds(content_of(profile), "value: 2.5 us"));
  CHECK(moeplan({"calibrate", "check", run}).status == 1);
}

TEST_CASE("calibrate check: clocks alone say nothing of the machine: status 2") {
  const Folder folder;
  // 2 x 64^3 FLOP: too small to be compared.
  const std::pair<std::string, std::string> small = {
      "measurement", R"("op":"fwd","dtype":"bf16","m":64,"n":64,"k":64,"time_us":5,"sm_mhz":1980)"};
  const Result clocks = moeplan({"calibrate", "check", folder.write("run.jsonl", device_run({small}, "580"))});
  CHECK(clocks.status == 2);
  CHECK(holds(clocks.err, "nothing but clocks could be compared"));
}

}  // namespace moeplan::cli
