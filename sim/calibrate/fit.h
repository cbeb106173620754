#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "measurements/measurement.h"
#include "topology/hardware.h"

// Values of a hardware profile from timed operations (docs/calibration.md).
namespace moeplan::calibrate {

// Sizes of errors, predicted / measured - 1. n == 0: there are none.
struct Residual {
  std::int64_t n = 0;
  double median = 0, p90 = 0;
};
Residual residual_of(std::vector<double> sizes);

struct FittedValue {
  std::string key;
  double start = 0, value = 0;  // base units
};

// A cost model, fitted to seven tenths of its rows and judged on the others.
struct FamilyFit {
  std::string name;  // "dense GEMM bf16"
  std::vector<FittedValue> values;
  Residual fitted, kept_out;
  Residual before;      // of the base profile, on the rows kept out
  Residual kept_large;  // of the rows kept out with at least 1e10 FLOP
  bool has_flop = false;
  std::int64_t set_aside = 0;  // rows that the model cannot predict

  // Of >= 1e10 FLOP, kept out; where none was, of all rows kept out, and then of those of the fit.
  const Residual& judged() const;
};

struct Fit {
  topology::HardwareProfile profile;  // the base with the fitted values
  std::vector<FamilyFit> families;
  std::vector<std::string> notes;
};

inline constexpr double kLargestMedian = 0.10;  // of a family with FLOPs that is good enough to be used

struct FitOptions {
  std::string library;  // values go to this library of the profile; "" for the profile itself
  std::string source;   // of the fitted values: the tables' names
  bool shapes = false;  // put the timed products and attention calls into the profile, too
};

// Rows with status ok, all of the GPU of `base`. Families without enough rows (two for each value) keep their values,
// with a note. Throws base::Error where no family has enough.
Fit fit_profile(const std::vector<const measurements::Measurement*>& rows, const topology::HardwareProfile& base,
                const FitOptions& options);

// Whether a row is kept out of fits: three tenths of all, by a hash of what was measured, so that the same shape lies
// on the same side in every table and in any order of rows.
bool is_kept_out(const measurements::Measurement& row);

// The most shapes that a profile takes.
inline constexpr std::size_t kMostShapes = 4000;

// The profile as a file that read_hardware reads.
std::string profile_yaml(const topology::HardwareProfile& profile);

}  // namespace moeplan::calibrate
