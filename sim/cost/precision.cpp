#include <algorithm>
#include <array>

#include "base/check.h"
#include "cost/kernels.h"

// docs/models.md, Precisions.
namespace moeplan::cost {
namespace {

const topology::OptionalValue& stated_peak(const topology::HardwareProfile& profile, Precision precision) {
  MOEPLAN_CHECK(precision != Precision::bf16, "bf16 is no optional precision");
  if (precision == Precision::fp8) return profile.gemm.peak_fp8;
  return precision == Precision::mxfp8 ? profile.gemm.peak_mxfp8 : profile.gemm.peak_fp4;
}

const topology::OptionalValue& sustained_rate(const topology::HardwareProfile::Gemm& gemm, Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return gemm.sustained;
    case Precision::fp8:
      return gemm.sustained_fp8;
    case Precision::mxfp8:
      return gemm.sustained_mxfp8;
    case Precision::nvfp4:
      return gemm.sustained_fp4;
  }
  MOEPLAN_CHECK(false, "unknown precision");
}

}  // namespace

const char* precision_name(Precision precision) {
  constexpr std::array<const char*, 4> kNames = {"bf16", "fp8", "mxfp8", "nvfp4"};
  return kNames[static_cast<std::size_t>(precision)];
}

bool supports(const topology::HardwareProfile& profile, Precision precision) {
  return precision == Precision::bf16 || stated_peak(profile, precision).has_value();
}

double operand_bytes(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return 2;
    case Precision::fp8:
      return 1;
    case Precision::mxfp8:
      return 1 + 1.0 / 32;
    case Precision::nvfp4:
      return 0.5 + 1.0 / 16;
  }
  MOEPLAN_CHECK(false, "unknown precision");
}

double datasheet_peak(const topology::HardwareProfile& profile, Precision precision) {
  if (precision == Precision::bf16) return profile.device.peak_bf16.value;
  const auto& peak = precision == Precision::nvfp4 ? profile.device.peak_fp4 : profile.device.peak_fp8;
  MOEPLAN_CHECK(peak.has_value(), "the scenario refuses a precision that the part has not");
  return peak->value;
}

double achieved_peak(const topology::HardwareProfile& profile, Precision precision) {
  const topology::HardwareProfile::Gemm& gemm = profile.gemm;
  double burst = gemm.peak.value;
  if (precision != Precision::bf16) {
    const auto& peak = stated_peak(profile, precision);
    MOEPLAN_CHECK(peak.has_value(), "the scenario refuses a precision that the part has not");
    burst = peak->value;
  }
  const auto& sustained = sustained_rate(gemm, precision);
  const double rate = sustained ? std::min(sustained->value, burst) : burst;
  return gemm.in_steps ? rate * gemm.in_steps->value : rate;
}

double fill_elements(const topology::HardwareProfile& profile, Precision precision) {
  const double fill = profile.gemm.k_pad.value;
  if (precision == Precision::bf16) return fill;
  return fill * std::max(1.0, achieved_peak(profile, precision) / achieved_peak(profile, Precision::bf16));
}

}  // namespace moeplan::cost
