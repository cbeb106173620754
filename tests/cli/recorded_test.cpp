#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "cli/support.h"

// Runs of tools/device_run.sh that are checked in, and a synthetic one in the same form, are read without a fault.
namespace moeplan::cli {
using namespace testing;
namespace {

std::vector<std::string> recorded_folders() {
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot + "/validate/recorded"))
    if (entry.is_directory()) folders.push_back(entry.path().string());
  std::sort(folders.begin(), folders.end());
  folders.push_back(kRoot + "/tests/data/measurements/synthetic_run");
  return folders;
}

}  // namespace

TEST_CASE("recorded layer runs are compared without a fault") {
  for (const std::string& folder : recorded_folders()) {
    CAPTURE(folder);
    const Result result = moeplan({"validate", "--layer", folder + "/layer.jsonl"});
    CHECK(result.status == 0);
    CHECK(result.err.empty());
    CHECK(holds(result.out, " 0 skipped, 0 with errors"));
  }
}

TEST_CASE("recorded operations are predicted without a fault, attention of PyTorch among them") {
  for (const std::string& folder : recorded_folders()) {
    for (const char* name : {"/measure.jsonl", "/attention.jsonl"}) {
      if (!std::filesystem::exists(folder + name)) continue;
      CAPTURE(folder + name);
      const Result result = moeplan({"validate", "--operators", folder + name});
      CHECK(result.status == 0);
      CHECK(result.err.empty());
    }
  }
}

TEST_CASE("what is told to be in a recorded run is there, and no file is larger than 16 MB") {
  for (const std::string& folder : recorded_folders()) {
    CAPTURE(folder);
    for (const char* name : {"/measure.jsonl", "/layer.jsonl"}) CHECK(std::filesystem::exists(folder + name));
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      CHECK(entry.file_size() <= std::uintmax_t{16} << 20);
  }
}

TEST_CASE(
    "attention of PyTorch counts beside a run of the device program, whose CUDA is another, not of another driver") {
  const Folder folder;
  const auto lines = [](const std::string& program, const std::string& driver, const std::string& cuda) {
    const std::string head = R"({"schema":"moeplan.device/1","record":")";
    const std::string who = R"(","program":")" + program + R"(","gpu":"NVIDIA H200","driver":")" + driver +
                            R"(","cuda":")" + cuda + R"(",)";
    return head + "device" + who + R"("sm_count":132})" + "\n" + head + "value" + who +
           R"("key":"device.sm_count","value":132,"how":"test"})" + "\n" + head + "end" + who + R"("lines":2})" + "\n";
  };
  const std::string ours = folder.write("measure.jsonl", lines("moeplan-device 0.1.0", "580.95.05", "13.0"));
  const auto said = [&](const std::string& program, const std::string& driver, const std::string& cuda) {
    return moeplan({"calibrate", "check", ours, folder.write("other.jsonl", lines(program, driver, cuda))}).err;
  };
  CHECK(!holds(said("attention.py 1", "580.95.05", "12.8"), "mixed versions"));
  CHECK(holds(said("attention.py 1", "570.10", "12.8"), "mixed versions"));
  CHECK(holds(said("moeplan-device 0.1.0", "580.95.05", "12.8"), "mixed versions"));
  CHECK(holds(said("moeplan-device 0.2.0", "580.95.05", "13.0"), "mixed versions"));
}

TEST_CASE("lines as tools/attention.py writes them decide attention of the fitted profile") {
  // Causal attention at 500 TFLOP/s and 5 us a call, backward two and a half times as much: no measurement.
  const Folder folder;
  const std::string common = R"({"schema": "moeplan.device/1", "record": ")";
  const std::string who =
      R"(", "program": "attention.py 1", "gpu": "NVIDIA H200", "driver": "580.95.05", "cuda": "13.0", )";
  std::string text = common + "device" + who + R"("date": "2000-01-01T00:00:00Z"})" + "\n";
  int lines = 1;
  for (const int sequence : {512, 1024, 2048, 4096, 8192, 16384})
    for (const int batch : {1, 2, 4})
      for (const char* direction : {"fwd", "bwd"}) {
        const bool backward = std::string(direction) == "bwd";
        const double flop = 2.0 * batch * 32 * 128 * sequence * sequence * (backward ? 2.5 : 1);
        text += common + "measurement" + who + R"("op": "attention", "direction": ")" + direction +
                R"(", "dtype": "bf16", "batch": )" + std::to_string(batch) +
                R"(, "heads": 32, "kv_heads": 8, "seqlen": )" + std::to_string(sequence) +
                R"(, "head_dim": 128, "causal": 1, "library": "flash-attn of PyTorch 2.9.0", "time_us": )" +
                std::to_string(5 + flop / 500e12 * 1e6) + R"(, "repetitions": 2, "graph": false})" + "\n";
        ++lines;
      }
  text += common + "end" + who + R"("lines": )" + std::to_string(lines) + "}\n";
  const Result result = moeplan({"calibrate", "fit", folder.write("attention.jsonl", text), "-o", folder.at("p.yaml")});
  CHECK(result.status == 0);
  CHECK(holds(result.out, "attention forward"));
  CHECK(holds(result.out, "attention backward"));
  CHECK(holds(content_of(folder.at("p.yaml")), "attention.jsonl"));
}

}  // namespace moeplan::cli
