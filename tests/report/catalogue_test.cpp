#include "report/catalogue.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "config/data.h"
#include "report/evaluation.h"
#include "report/version.h"

namespace moeplan::report {
using namespace testing;
using nlohmann::json;

namespace {

const std::string kRoot = MOEPLAN_SOURCE_DIR;

topology::HardwareProfile h100() {
  base::Faults faults;
  const std::string path = kRoot + "/hw_profiles/h100-sxm.yaml";
  topology::HardwareProfile profile = topology::read_hardware(config::load_yaml(path), "h100-sxm", faults);
  faults.throw_if_any();
  return profile;
}

model::Architecture shipped(const std::string& name) {
  base::Faults faults;
  const std::string path = kRoot + "/models/" + name + ".yaml";
  model::Architecture model = model::read_architecture(config::load_yaml(path), name, faults);
  faults.throw_if_any();
  return model;
}

model::Architecture qwen() { return shipped("qwen3-30b-a3b"); }

}  // namespace

TEST_CASE("the version is that of the build files") {
  const std::string cmake = base::read_text(kRoot + "/CMakeLists.txt");
  CHECK(holds(cmake, "project(moeplan VERSION " + std::string(kVersion) + " "));
}

TEST_CASE("a list of hardware counts values by evidence, all of them") {
  const auto profile = h100();
  int counts[4] = {};
  for (const auto& [key, value] : profile.all()) ++counts[static_cast<int>(value.evidence)];
  const std::string text = hardware_text({profile});
  CHECK(holds(text, "h100-sxm"));
  CHECK(holds(text, "79.65 GiB"));  // 81559 MiB
  for (const int count : counts) CHECK(holds(text, " " + std::to_string(count) + "  "));
}

TEST_CASE("one profile shows each value with unit, evidence and source") {
  const std::string text = profile_text(h100());
  CHECK(holds(text, "device.peak_bf16                989.0 TFLOP/s  datasheet  H100 SXM, dense\n"));
  CHECK(holds(text, "network.nic_bandwidth"));
  CHECK(widest_line(text) <= 110);
  const json values = json::parse(hardware_json({h100()}))["entries"][0]["values"];
  CHECK(values.size() == h100().all().size());
  CHECK(values["device.peak_bf16"]["value"] == 989e12);
  CHECK(values["device.peak_bf16"]["evidence"] == "datasheet");
}

TEST_CASE("one model shows what is counted beside what is published") {
  const std::string text = model_text(qwen());
  CHECK(holds(text, "total  30.53 B counted, 30.50 B published"));
  CHECK(holds(text, "active 3.35 B counted (embedding and head counted), 3.30 B published"));
  CHECK(holds(text, "embedding          311,164,928"));  // 151936 x 2048
  CHECK(json::parse(models_json({qwen()}))["entries"][0]["parameters"]["embedding"] == 311164928);
}

TEST_CASE("MTP blocks stand in a row of their own, and apart from what is published") {
  const std::string text = model_text(shipped("deepseek-v3"));
  CHECK(holds(text, "MTP blocks       11,610,067,968"));
  CHECK(holds(text, "total  671.03 B counted without MTP, 671.00 B published"));
  CHECK_FALSE(holds(model_text(qwen()), "MTP"));
  const json entry = json::parse(models_json({shipped("deepseek-v3")}))["entries"][0];
  CHECK(entry["mtp_layers"] == 1);
  CHECK(entry["parameters"]["mtp"] == 11610067968);
  CHECK(entry["parameters"]["positions"] == 0);
}

TEST_CASE("names are a table, and JSON entries") {
  CHECK(names_text("name", "what", {{"a", "first"}, {"bb", "second"}}) == "name  what\na     first\nbb    second\n");
  const json j = json::parse(names_json("policies", {{"a", "first"}}));
  CHECK(j["schema"] == "moeplan.list/1");
  CHECK(j["entries"][0] == json({{"name", "a"}, {"description", "first"}}));
}

}  // namespace moeplan::report
