#include "calibrate/families.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace moeplan::calibrate {
namespace {

using cost::GemmPass;
using cost::Precision;
using measurements::Family;
using measurements::Measurement;

constexpr std::array<Precision, 4> kPrecisions = {Precision::bf16, Precision::fp8, Precision::mxfp8, Precision::nvfp4};
constexpr std::array<const char*, 4> kPeaks = {"gemm.peak", "gemm.peak_fp8", "gemm.peak_mxfp8", "gemm.peak_fp4"};
constexpr std::size_t kFewest = 3;  // rows that decide an optional key

template <class Test>
Rows where(const Rows& rows, const Test& test) {
  Rows result;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(result),
               [&](const Measurement* row) { return test(*row); });
  return result;
}

template <class Test>
bool enough(const Rows& rows, const Test& test) {
  return where(rows, test).size() >= kFewest;
}

bool is_products(const Measurement& row, Family family, Precision precision) {
  return row.family == family && row.precision == precision;
}

void add_dense(const Rows& rows, bool own, std::vector<FamilyRows>& families) {
  const bool has_bf16 =
      enough(rows, [](const Measurement& row) { return is_products(row, Family::gemm, Precision::bf16); });
  for (const Precision precision : kPrecisions) {
    FamilyRows family;
    family.name = std::string("dense GEMM ") + cost::precision_name(precision);
    family.rows = where(rows, [&](const Measurement& row) { return is_products(row, Family::gemm, precision); });
    if (family.rows.empty()) continue;
    family.keys = {kPeaks[static_cast<std::size_t>(precision)]};
    if (precision == Precision::bf16 || (own && !has_bf16)) {
      family.keys.insert(family.keys.end(), {"gemm.launch", "gemm.bandwidth", "gemm.k_pad", "gemm.overlap_exponent"});
    }
    if (precision == Precision::bf16) {
      const auto of_pass = [](GemmPass pass) { return [pass](const Measurement& row) { return row.pass == pass; }; };
      if (enough(family.rows, of_pass(GemmPass::dgrad))) family.keys.emplace_back("gemm.dgrad_efficiency");
      if (enough(family.rows, of_pass(GemmPass::wgrad))) family.keys.emplace_back("gemm.wgrad_efficiency");
    }
    families.push_back(std::move(family));
  }
}

// Of one precision, bf16 where it has rows: efficiencies are relative to the peak of each.
void add_grouped(const Rows& rows, bool own, std::vector<FamilyRows>& families) {
  const auto is_layer = [](const Measurement& row) { return row.family == Family::moe_layer; };
  for (const Precision precision : kPrecisions) {
    FamilyRows family;
    family.name = std::string("grouped GEMM ") + cost::precision_name(precision);
    family.rows = where(rows, [&](const Measurement& row) {
      return is_products(row, Family::grouped_gemm, precision) || is_products(row, Family::moe_layer, precision);
    });
    if (family.rows.size() < kFewest) continue;
    family.keys = {"grouped_gemm.efficiency", "grouped_gemm.group_overhead", "grouped_gemm.overlap_exponent"};
    const bool dense = enough(rows, [](const Measurement& row) { return row.family == Family::gemm; });
    if (own && !dense) family.keys.insert(family.keys.end(), {"gemm.bandwidth", "gemm.k_pad"});
    if (enough(family.rows, is_layer)) family.keys.emplace_back("grouped_gemm.layer_overhead");
    if (own && enough(family.rows, is_layer)) family.keys.emplace_back("memory_bound.permute_efficiency");
    if (enough(family.rows, [&](const Measurement& row) { return !is_layer(row); }))
      family.keys.emplace_back("grouped_gemm.group_issue");
    if (own && !dense && enough(family.rows, [](const Measurement& row) { return row.pass == GemmPass::wgrad; }))
      family.keys.emplace_back("gemm.wgrad_efficiency");
    families.push_back(std::move(family));
    return;
  }
}

bool is_mla(const Measurement& row) { return row.shape.qk_dim > row.shape.v_dim && row.shape.v_dim >= 128; }
bool is_narrow(const Measurement& row) { return !is_mla(row) && row.shape.qk_dim + row.shape.v_dim < 192; }

// Head dimensions beyond 256 are extrapolated: rows with more stay out of the fit.
void add_attention(const Rows& rows, std::vector<FamilyRows>& families) {
  const auto of_direction = [&](bool backward) {
    return where(rows, [&](const Measurement& row) {
      return row.family == Family::attention && row.backward == backward && row.shape.qk_dim <= 256;
    });
  };
  FamilyRows forward{"attention forward", "", of_direction(false), {"attention.launch", "attention.tail"}};
  const auto is_wide = [](const Measurement& row) {
    return !is_mla(row) && !is_narrow(row) && row.shape.qk_dim <= 128;
  };
  const auto is_wider = [](const Measurement& row) { return !is_mla(row) && row.shape.qk_dim > 128; };
  const auto add = [&](const char* peak, const char* half) {
    forward.keys.emplace_back(peak);
    forward.keys.emplace_back(half);
  };
  if (enough(forward.rows, is_wide)) add("attention.peak_hd128", "attention.half_length_hd128");
  if (enough(forward.rows, is_narrow)) add("attention.peak_hd64", "attention.half_length_hd64");
  if (enough(forward.rows, is_wider)) add("attention.peak_hd256", "attention.half_length_hd256");
  if (enough(forward.rows, is_mla)) add("attention.peak_mla", "attention.half_length_mla");
  if (enough(forward.rows, [](const Measurement& row) { return row.cache_write; }))
    forward.keys.emplace_back("attention.cache_token");
  if (!forward.rows.empty()) families.push_back(std::move(forward));
  FamilyRows backward{"attention backward",
                      "",
                      of_direction(true),
                      {"attention.backward_launch", "attention.backward_rate", "attention.backward_half_length",
                       "attention.backward_tail"}};
  if (!backward.rows.empty()) families.push_back(std::move(backward));
}

void add_memory(const Rows& rows, std::vector<FamilyRows>& families) {
  FamilyRows family{
      "memory-bound", "", where(rows, [](const Measurement& row) { return row.family == Family::memory; }), {}};
  const auto kind = [](const char* part) {
    return [part](const Measurement& row) { return row.kind.find(part) != std::string::npos; };
  };
  const auto streams = [&](const Measurement& row) { return !kind("permute")(row) && !kind("cross_entropy")(row); };
  if (enough(family.rows, streams)) family.keys = {"memory_bound.floor", "memory_bound.bandwidth"};
  if (enough(family.rows, kind("permute"))) family.keys.emplace_back("memory_bound.permute_efficiency");
  if (enough(family.rows, kind("cross_entropy"))) family.keys.emplace_back("memory_bound.loss_efficiency");
  if (!family.rows.empty()) families.push_back(std::move(family));
}

void add_dispatch(const Rows& rows, std::vector<FamilyRows>& families) {
  for (const bool combine : {false, true}) {
    FamilyRows family;
    family.name = combine ? "combine" : "dispatch";
    family.rows = where(rows, [&](const Measurement& row) {
      return row.family == Family::dispatch && row.backward == combine && row.shape.nodes <= 1;
    });
    if (family.rows.empty()) continue;
    for (const char* key : {"launch", "rate_per_sm", "cap", "exponent", "token_cost"})
      family.keys.push_back(std::string("dispatch.") + (combine ? "combine_" : "") + key);
    families.push_back(std::move(family));
  }
}

double highest_rate(const Rows& rows) {
  double rate = 0;
  for (const Measurement* row : rows) rate = std::max(rate, measurements::flop_of(*row) / row->seconds);
  return rate;
}

double shortest(const Rows& rows) {
  double time = 1;
  for (const Measurement* row : rows) time = std::min(time, row->seconds);
  return time;
}

}  // namespace

std::vector<FamilyRows> families_of(const Rows& rows, bool own) {
  std::vector<FamilyRows> families;
  add_memory(rows, families);  // first: MoE layers and caches read its bandwidth
  add_dense(rows, own, families);
  add_grouped(rows, own, families);
  add_attention(rows, families);
  add_dispatch(rows, families);
  return families;
}

Bounds bounds_of(const std::string& key, const topology::HardwareProfile& profile, const Rows& rows) {
  const topology::Value* value = topology::value_at(profile, key);
  const auto ends = [&](const char* end) { return key.ends_with(end); };
  Bounds bounds;
  if (key.find(".peak") != std::string::npos) {
    const double rate = highest_rate(rows);
    bounds = {1.05 * rate, 0.3 * rate, 20 * rate};
    return bounds;
  }
  if (ends("launch") || ends("floor")) {
    bounds = {0.8 * shortest(rows), 0.02 * shortest(rows), 2 * shortest(rows)};
  } else if (ends("bandwidth")) {
    bounds = {0, 0.02 * profile.device.memory_bandwidth.value, profile.device.memory_bandwidth.value};
  } else if (key.starts_with("dispatch.") && ends("exponent")) {
    bounds = {0.9, 0.4, 8};
  } else if (ends("exponent")) {
    bounds = {2, 1, 12};
  } else if (ends("efficiency") || ends("backward_rate")) {
    bounds = {0.7, 0.02, 1.5};
  } else if (ends("tail")) {
    bounds = {0.3, 1e-3, 10};
  } else if (ends("half_length") || key.find("half_length") != std::string::npos) {
    bounds = {600, 1, 3e4};
  } else if (ends("k_pad")) {
    bounds = {100, 1, 4000};
  } else if (ends("rate_per_sm")) {
    bounds = {15e9, 1e8, 1e12};
  } else if (ends("cap")) {
    bounds = {300e9, 1e9, 1e13};
  } else if (ends("layer_overhead")) {
    bounds = {15e-6, 1e-7, 1e-3};
  } else if (ends("group_issue")) {
    bounds = {5e-6, 1e-9, 1e-4};
  } else if (ends("group_overhead")) {
    bounds = {2e-7, 1e-9, 1e-4};
  } else if (ends("cache_token")) {
    bounds = {1e-9, 1e-12, 1e-6};
  } else if (ends("token_cost")) {
    bounds = {3e-7, 1e-10, 1e-4};
  } else {
    MOEPLAN_CHECK(false, "a key that fits decide");
  }
  if (value != nullptr && value->value > 0) bounds.start = value->value;
  bounds.start = std::clamp(bounds.start, bounds.low, bounds.high);
  return bounds;
}

}  // namespace moeplan::calibrate
