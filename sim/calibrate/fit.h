#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "measurements/collective_table.h"
#include "measurements/device_lines.h"
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
  std::string section;  // of the profile: "gemm"; of one that holds its rows' library, too
  std::vector<double>
      told;  // sizes of the errors that spread is taken from: from 1e10 FLOP where any, else all kept out
  std::int64_t set_aside = 0;  // rows that the model cannot predict

  // Of >= 1e10 FLOP, kept out; where none was, of all rows kept out, and then of those of the fit.
  const Residual& judged() const;
};

// A collective among so many ranks, as an entry of the profile (docs/models.md, Collectives).
struct CollectiveFit {
  topology::CollectiveEntry entry;
  std::size_t sizes = 0;
  Residual kept_out;  // of the law, on every second size; n == 0: too few sizes for a law
  Residual before;    // of the base profile, on all sizes
  std::vector<double> told;
};

// A value that was read off, and what the base profile had (0: nothing).
struct ReadOff {
  std::string key;
  double before = 0, value = 0;
};

struct Fit {
  topology::HardwareProfile profile;  // the base with the fitted values
  std::vector<FamilyFit> families;
  std::vector<CollectiveFit> collectives;
  std::vector<ReadOff> read_off;
  std::vector<FittedValue> spreads;  // by section: start as the base has it (0: nothing)
  std::vector<std::string> notes;
};

inline constexpr double kLargestMedian = 0.10;  // of a family with FLOPs that is good enough to be used

struct FitOptions {
  std::string library;  // values go to this library of the profile; "" for the profile itself
  std::string source;   // of the fitted values: the tables' names
  bool shapes = false;  // put the timed products and attention calls into the profile, too
  // All of the part: rows of logs of collectives, and values that need no fit; they are ignored for a library.
  std::vector<measurements::CollectiveRow> collectives = {};
  std::vector<measurements::ReadOffValue> values = {};
  std::vector<measurements::Overlap> overlaps = {};  // decide nothing; notes set them beside what the models assume
};

// Rows with status ok, all of the GPU of `base`. Families without enough rows (two for each value) keep their values,
// with a note. Throws base::Error where nothing at all can be decided.
Fit fit_profile(const std::vector<const measurements::Measurement*>& rows, const topology::HardwareProfile& base,
                const FitOptions& options);

// Entries of collectives from rows of logs and tables, with their errors. Tables that a profile cannot hold are left
// out, each with a note.
std::vector<CollectiveFit> fit_collectives(const std::vector<measurements::CollectiveRow>& rows,
                                           const topology::HardwareProfile& base, const std::string& source,
                                           std::vector<std::string>& notes);
// Measured collectives as rows of logs; pairs of a larger job and uneven exchanges are none.
std::vector<measurements::CollectiveRow> collective_rows(const std::vector<const measurements::Measurement*>& rows);

// A run of moeplan-device measures grouped products and attention through every library that it finds; values of a
// profile are of one. Of such rows those of the library that is fastest on most shapes, with a note on the others; all
// other rows as they are.
std::vector<const measurements::Measurement*> of_fastest_libraries(
    const std::vector<const measurements::Measurement*>& rows, std::vector<std::string>& notes);

// The standard deviation of a normal distribution whose sizes have that median: it lies at 0.6745 of one.
inline constexpr double kMedianOfSizes = 0.6745;

// Whether a row is kept out of fits: three tenths of all, by a hash of what was measured, so that the same shape lies
// on the same side in every table and in any order of rows.
bool is_kept_out(const measurements::Measurement& row);

// The most shapes that a profile takes.
inline constexpr std::size_t kMostShapes = 4000;

// The profile as a file that read_hardware reads.
std::string profile_yaml(const topology::HardwareProfile& profile);

}  // namespace moeplan::calibrate
