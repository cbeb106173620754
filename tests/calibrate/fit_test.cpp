#include "calibrate/fit.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "config/document.h"
#include "measurements/predict.h"
#include "measurements/profiles.h"
#include "measurements/read_table.h"

namespace moeplan::calibrate {
namespace {

using measurements::Measurement;

topology::HardwareProfile h200() { return measurements::load_profile("h200-sxm", {}, "test"); }

struct Synthetic {
  std::vector<Measurement> rows;
  std::vector<const Measurement*> pointers() const {
    std::vector<const Measurement*> result;
    for (const Measurement& row : rows) result.push_back(&row);
    return result;
  }
};

// Times that `truth` predicts, with noise, of the lines of a table without times.
Synthetic synthetic(const std::string& head, const std::vector<std::string>& lines,
                    const topology::HardwareProfile& truth, double size) {
  std::string table = head + ",time_us\n";
  for (const std::string& line : lines) table += line + ",1\n";
  Synthetic result{measurements::parse_measurements(table, "synthetic.csv").rows};
  const base::Random random(7);
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    Measurement& row = result.rows[i];
    row.seconds = *measurements::predict_seconds(row, measurements::profile_for(row, truth)).seconds *
                  std::exp(size * random.normal(0, i));
  }
  return result;
}

const Measurement gemm_row(std::int64_t m) {
  return measurements::parse_measurements(fmt::format("gpu,op,m,n,k,time_us\nH200,gemm,{},4096,4096,100\n", m), "t.csv")
      .rows.at(0);
}

std::vector<std::string> gemm_lines() {
  std::vector<std::string> lines;
  for (const int m : {16, 64, 256, 1024, 2048, 4096, 8192, 16384})
    for (const int n : {512, 2048, 4096, 8192, 16384})
      for (const int k : {128, 512, 2048, 4096, 8192})
        for (const char* op : {"fwd", "dgrad", "wgrad"})
          lines.push_back(fmt::format("H200,{},bf16,{},{},{}", op, m, n, k));
  return lines;
}

double fitted(const Fit& fit, const std::string& key) { return topology::value_at(fit.profile, key)->value; }

}  // namespace

TEST_CASE("synthetic products with 5 % noise give back the parameters to 3 %") {
  topology::HardwareProfile truth = h200();
  truth.gemm.peak.value = 700e12;
  truth.gemm.launch.value = 5e-6;
  truth.gemm.bandwidth.value = 3.0e12;
  truth.gemm.k_pad.value = 300;
  truth.gemm.overlap_exponent.value = 2.5;
  truth.gemm.dgrad_efficiency.value = 0.9;
  truth.gemm.wgrad_efficiency.value = 0.8;
  truth.libraries.clear();
  const Synthetic table = synthetic("gpu,op,dtype,m,n,k", gemm_lines(), truth, 0.05);
  const Fit fit = fit_profile(table.pointers(), h200(), {"", "synthetic.csv", false});
  for (const char* key :
       {"gemm.peak", "gemm.launch", "gemm.bandwidth", "gemm.dgrad_efficiency", "gemm.wgrad_efficiency"})
    CHECK_MESSAGE(fitted(fit, key) == doctest::Approx(topology::value_at(truth, key)->value).epsilon(0.03), key);
  // They trade against each other and against the rate of small tiles: to a tenth.
  for (const char* key : {"gemm.k_pad", "gemm.overlap_exponent"})
    CHECK_MESSAGE(fitted(fit, key) == doctest::Approx(topology::value_at(truth, key)->value).epsilon(0.10), key);
  REQUIRE(fit.families.size() == 1);
  const FamilyFit& family = fit.families.front();
  CHECK(family.name == "dense GEMM bf16");
  // Of a normal distribution of 5 % half lie within 3.4 %.
  CHECK(family.kept_out.median == doctest::Approx(0.034).epsilon(0.3));
  CHECK(family.judged().n == family.kept_large.n);
  const topology::Value& peak = *topology::value_at(fit.profile, "gemm.peak");
  CHECK(peak.evidence == topology::Evidence::measured);
  CHECK(peak.source.find("synthetic.csv: " + std::to_string(family.fitted.n) + " rows; on ") == 0);
  CHECK(peak.source.find("median error") != std::string::npos);
}

TEST_CASE("synthetic attention with 5 % noise gives back rates, half lengths and tail") {
  topology::HardwareProfile truth = h200();
  truth.libraries.clear();
  const auto set = [&](const char* key, double value) {
    topology::set_value(truth, key, {value, topology::Evidence::assumed, ""});
  };
  set("attention.launch", 8e-6);
  set("attention.peak_hd128", 600e12);
  set("attention.half_length_hd128", 900);
  set("attention.tail", 0.4);
  set("attention.backward_rate", 0.8);
  set("attention.backward_half_length", 1500);
  set("attention.backward_tail", 0.2);
  std::vector<std::string> lines;
  for (const int seq : {256, 512, 1024, 2048, 4096, 8192, 16384})
    for (const int heads : {2, 4, 8, 16, 32, 64})
      for (const int batch : {1, 2, 4})
        for (const char* way : {"fwd", "bwd"})
          lines.push_back(fmt::format("H200,attention,{},{},{},{},128", way, batch, seq, heads));
  const Synthetic table = synthetic("gpu,op,direction,batch,seqlen,heads,head_dim", lines, truth, 0.05);
  const Fit fit = fit_profile(table.pointers(), h200(), {"", "synthetic.csv", false});
  for (const char* key : {"attention.launch", "attention.peak_hd128", "attention.backward_rate"})
    CHECK_MESSAGE(fitted(fit, key) == doctest::Approx(topology::value_at(truth, key)->value).epsilon(0.03), key);
  for (const char* key : {"attention.half_length_hd128", "attention.tail", "attention.backward_half_length"})
    CHECK_MESSAGE(fitted(fit, key) == doctest::Approx(topology::value_at(truth, key)->value).epsilon(0.15), key);
}

TEST_CASE("synthetic memory-bound operations with 5 % noise give back floor, bandwidth and efficiency to 3 %") {
  topology::HardwareProfile truth = h200();
  truth.libraries.clear();
  truth.memory_bound.floor.value = 3e-6;
  truth.memory_bound.bandwidth.value = 3.5e12;
  truth.memory_bound.permute_efficiency.value = 0.8;
  std::vector<std::string> lines;
  for (const char* kind : {"hbm_stream_copy", "cast", "swiglu", "adam", "permute_rows", "unpermute"})
    for (int shift = 16; shift < 34; ++shift)
      for (const int odd : {4, 5, 7})
        lines.push_back(fmt::format("H200,{},{}", kind, (std::int64_t{odd} << shift) / 4));
  const Synthetic table = synthetic("gpu,kind,bytes", lines, truth, 0.05);
  const Fit fit = fit_profile(table.pointers(), h200(), {"", "synthetic.csv", false});
  for (const char* key : {"memory_bound.floor", "memory_bound.bandwidth", "memory_bound.permute_efficiency"})
    CHECK_MESSAGE(fitted(fit, key) == doctest::Approx(topology::value_at(truth, key)->value).epsilon(0.03), key);
  // What is left is the noise: the spread that goes into the profile is its 5 %, within a quarter.
  REQUIRE(fit.spreads.size() == 1);
  CHECK(fit.spreads[0].key == "memory_bound.spread");
  CHECK(fit.spreads[0].value == doctest::Approx(0.05).epsilon(0.25));
  CHECK(fit.profile.memory_bound.spread->value == fit.spreads[0].value);
}

TEST_CASE("synthetic grouped products of balanced and skewed rows with 5 % noise give back the efficiency to 3 %") {
  topology::HardwareProfile truth = h200();
  truth.libraries.clear();
  topology::set_value(truth, "grouped_gemm.efficiency", {0.7, topology::Evidence::assumed, ""});
  topology::set_value(truth, "grouped_gemm.group_overhead", {1e-6, topology::Evidence::assumed, ""});
  std::vector<std::string> lines;
  for (const int groups : {8, 32, 64, 128})
    for (const int each : {64, 256, 512, 1024})
      for (const char* sizes : {"1536,2048", "2048,768", "4096,7168"})
        for (const bool skewed : {false, true}) {
          std::string rows;
          for (int group = 0; group < groups; ++group)
            rows += fmt::format("{}{}", group == 0 ? "" : ";", skewed ? each * (group % 4) * 2 / 3 : each);
          lines.push_back(fmt::format("H200,grouped_gemm_fwd,bf16,{},{}", sizes, rows));
        }
  const Synthetic table = synthetic("gpu,op,dtype,n,k,group_rows", lines, truth, 0.05);
  const Fit fit = fit_profile(table.pointers(), h200(), {"", "synthetic.csv", false});
  CHECK(fitted(fit, "grouped_gemm.efficiency") == doctest::Approx(0.7).epsilon(0.03));
  CHECK(fitted(fit, "grouped_gemm.group_overhead") == doctest::Approx(1e-6).epsilon(0.10));
  // One call for all groups: nothing is issued one by one, and noise does not make it so.
  CHECK_FALSE(fit.profile.grouped_gemm.group_issue.has_value());
}

TEST_CASE("products that are issued one by one ask for the time of an issue") {
  topology::HardwareProfile truth = h200();
  truth.libraries.clear();
  topology::set_value(truth, "grouped_gemm.efficiency", {0.9, topology::Evidence::assumed, ""});
  topology::set_value(truth, "grouped_gemm.group_issue", {8e-6, topology::Evidence::assumed, ""});
  std::vector<std::string> lines;
  for (const int groups : {4, 8, 16, 32, 64})
    for (const int each : {32, 64, 128, 256, 512, 1024, 2048})
      for (const char* sizes : {"1536,2048", "2048,768", "4096,7168"}) {
        std::string rows = std::to_string(each);
        for (int group = 1; group < groups; ++group) rows += ";" + std::to_string(each);
        lines.push_back(fmt::format("H200,grouped_gemm_fwd,bf16,{},{}", sizes, rows));
      }
  const Synthetic table = synthetic("gpu,op,dtype,n,k,group_rows", lines, truth, 0.05);
  const Fit fit = fit_profile(table.pointers(), h200(), {"", "synthetic.csv", false});
  CHECK(fitted(fit, "grouped_gemm.group_issue") == doctest::Approx(8e-6).epsilon(0.03));
  CHECK(fitted(fit, "grouped_gemm.efficiency") == doctest::Approx(0.9).epsilon(0.03));
}

TEST_CASE("a sustained rate above the peak that was fitted goes, one below it stays") {
  topology::HardwareProfile truth = h200(), base = h200();
  truth.gemm.peak.value = 600e12;
  const Synthetic table = synthetic("gpu,op,dtype,m,n,k", gemm_lines(), truth, 0);
  for (const double sustained : {620e12, 580e12}) {
    base.gemm.sustained = topology::Value{sustained, topology::Evidence::published, "test"};
    const Fit fit = fit_profile(table.pointers(), base, {"", "t.csv", false});
    CHECK(fit.profile.gemm.peak.value == doctest::Approx(600e12).epsilon(0.01));
    CHECK(fit.profile.gemm.sustained.has_value() == (sustained < 600e12));
  }
}

TEST_CASE("seven tenths of the shapes are fitted, and a shape lies on one side wherever it stands") {
  std::int64_t kept = 0;
  for (std::int64_t m = 1; m <= 1000; ++m) kept += is_kept_out(gemm_row(m)) ? 1 : 0;
  CHECK(kept > 250);
  CHECK(kept < 350);
  Measurement other = gemm_row(77);
  other.seconds = 1;
  other.gpu = "B200";
  CHECK(is_kept_out(other) == is_kept_out(gemm_row(77)));
}

TEST_CASE("too few rows decide nothing: without any family that has enough the fit is refused") {
  const Measurement row = gemm_row(4096);
  CHECK_THROWS_WITH_AS(fit_profile({&row}, h200(), {"", "one.csv", false}), doctest::Contains("enough rows"),
                       base::Error);
}

TEST_CASE("a fit for a library leaves the profile's own values and names the rows' libraries") {
  topology::HardwareProfile truth = h200();
  truth.libraries.clear();
  truth.gemm.peak.value = 600e12;
  std::vector<std::string> lines;
  for (const std::string& line : gemm_lines()) lines.push_back("ours 1.0," + line);
  const Synthetic table = synthetic("library,gpu,op,dtype,m,n,k", lines, truth, 0.02);
  const topology::HardwareProfile base = h200();
  const Fit fit = fit_profile(table.pointers(), base, {"ours", "lib.csv", true});
  CHECK(fit.profile.gemm.peak.value == base.gemm.peak.value);
  const topology::HardwareProfile::Library* library = topology::find_library(fit.profile, "Ours 1.0 of today");
  REQUIRE(library != nullptr);
  CHECK(library->name == "ours");
  CHECK(topology::with_library(base, *library).gemm.peak.value == doctest::Approx(600e12).epsilon(0.03));
  CHECK(fit.profile.shapes.size() == lines.size());

  // Written and read again it is the same profile.
  base::Faults faults;
  const topology::HardwareProfile again =
      topology::read_hardware(config::parse_yaml(profile_yaml(fit.profile), "again.yaml"), "again", faults);
  faults.throw_if_any();
  REQUIRE(again.all().size() == fit.profile.all().size());
  for (std::size_t i = 0; i < again.all().size(); ++i) {
    CAPTURE(again.all()[i].first);
    CHECK(again.all()[i].first == fit.profile.all()[i].first);
    CHECK(again.all()[i].second.value == doctest::Approx(fit.profile.all()[i].second.value).epsilon(1e-6));
    CHECK(again.all()[i].second.source == fit.profile.all()[i].second.source);
  }
  CHECK(again.shapes.size() == fit.profile.shapes.size());
  CHECK(again.shapes.front().sizes == fit.profile.shapes.front().sizes);
}

TEST_CASE("quantiles of residuals lie between the rows") {
  // 0.1 0.2 0.3 0.4: the middle is 0.25, nine tenths of three steps from the first 0.37.
  const Residual residual = residual_of({0.4, 0.1, 0.3, 0.2});
  CHECK(residual.median == doctest::Approx(0.25));
  CHECK(residual.p90 == doctest::Approx(0.37));
  CHECK(residual_of({}).n == 0);
}

}  // namespace moeplan::calibrate
