#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include "base/random.h"
#include "calibrate/fit.h"
#include "device/json_lines.h"
#include "device/shapes.h"
#include "measurements/device_lines.h"
#include "measurements/predict.h"
#include "measurements/profiles.h"
#include "measurements/read_table.h"

// The shapes that moeplan-device measures decide the values that a fit of them is asked for.
namespace moeplan::calibrate {
namespace {

using device::JsonObject;
using measurements::Measurement;

topology::HardwareProfile h200() {
  topology::HardwareProfile profile = measurements::load_profile("h200-sxm", {}, "test");
  profile.libraries.clear();
  return profile;
}

// A run as the program writes it, with a time of 1 us for everything.
std::string run_of_plan() {
  std::ostringstream out;
  device::LineWriter writer(out);
  writer.set_common(JsonObject()
                        .add("program", "moeplan-device 0.1.0")
                        .add("gpu", "NVIDIA H200")
                        .add("driver", "580.95.05")
                        .add("cuda", "13.0"));
  writer.write("device", JsonObject().add("max_sm_mhz", 1980));
  const std::vector<std::int64_t> tokens = {16, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768};
  for (const device::ProductShape& s : device::product_plan(device::plan_linears(), tokens, true, 6e9))
    writer.write("measurement", JsonObject()
                                    .add("op", device::pass_name(s.pass))
                                    .add("dtype", device::type_name(s.type))
                                    .add("layout", device::layout_name(s.pass))
                                    .add("m", s.m)
                                    .add("n", s.n)
                                    .add("k", s.k)
                                    .add("library", "cublasLt 13.1.0")
                                    .add("time_us", 1.0));
  for (const device::GroupedShape& s : device::grouped_plan(12e9))
    writer.write("measurement", JsonObject()
                                    .add("op", std::string("grouped_gemm_") + device::pass_name(s.pass))
                                    .add("dtype", "bf16")
                                    .add("n", s.n)
                                    .add("k", s.k)
                                    .add("distribution", s.distribution)
                                    .add("library", "cuBLAS grouped 13.1.0")
                                    .add("group_rows", s.rows)
                                    .add("time_us", 1.0));
  writer.finish();
  return out.str();
}

}  // namespace

TEST_CASE("the plan of moeplan-device with 5 % noise gives back rates, launch, bandwidth and efficiencies to 3 %") {
  topology::HardwareProfile truth = h200();
  const auto set = [&](const char* key, double value) {
    topology::set_value(truth, key, {value, topology::Evidence::assumed, ""});
  };
  set("gemm.peak", 790e12);
  set("gemm.peak_fp8", 1300e12);
  set("gemm.launch", 3e-6);
  set("gemm.bandwidth", 3.6e12);
  set("gemm.dgrad_efficiency", 0.97);
  set("gemm.wgrad_efficiency", 0.88);
  set("grouped_gemm.efficiency", 0.72);
  measurements::MeasurementTable table = measurements::parse_measurements(run_of_plan(), "plan.jsonl");
  CHECK(table.notes.empty());
  CHECK(table.device->set_aside.empty());
  const base::Random random(11);
  std::vector<const Measurement*> rows;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    Measurement& row = table.rows[i];
    REQUIRE_MESSAGE(row.status == measurements::Status::ok, row.reason);
    row.seconds = *measurements::predict_seconds(row, measurements::profile_for(row, truth)).seconds *
                  std::exp(0.05 * random.normal(0, i));
    rows.push_back(&row);
  }
  CHECK(rows.size() > 800);
  FitOptions options;
  options.source = "plan.jsonl";
  const Fit fit = fit_profile(rows, h200(), options);
  for (const char* key : {"gemm.peak", "gemm.peak_fp8", "gemm.launch", "gemm.bandwidth", "gemm.dgrad_efficiency",
                          "gemm.wgrad_efficiency", "grouped_gemm.efficiency"})
    CHECK_MESSAGE(topology::value_at(fit.profile, key)->value ==
                      doctest::Approx(topology::value_at(truth, key)->value).epsilon(0.03),
                  key);
  for (const FittedValue& spread : fit.spreads) {
    CAPTURE(spread.key);
    CHECK(spread.value == doctest::Approx(0.05).epsilon(0.25));
  }
  CHECK(fit.spreads.size() == 2);
}

}  // namespace moeplan::calibrate
