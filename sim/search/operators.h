#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measurements/measurement.h"
#include "measurements/profiles.h"
#include "topology/hardware.h"

// `moeplan validate --operators`: every timed operation of a table beside what its profile's cost models say.
namespace moeplan::search {

struct OperatorRow {
  const measurements::Measurement* measurement = nullptr;
  measurements::Status status = measurements::Status::ok;
  std::string reason;   // why it is not compared, or what is wrong with it
  std::string profile;  // id
  std::optional<double> predicted;
  topology::Evidence evidence = topology::Evidence::assumed;  // the weakest of the values that were read
  std::string weakest_key;
  cost::Basis basis = cost::Basis::model;
  // "measured", "interpolated" or "extrapolated" of a profile with measured shapes, else the name of `evidence`.
  std::string comes_from() const;
  // predicted / measured - 1
  std::optional<double> error() const;
};

// Errors of some rows. Quantiles are of sizes: the value below which half or nine tenths of the rows lie, between two
// rows by interpolation.
struct OperatorSummary {
  std::string by, value;  // "total"; "gpu", "type", "kind", "size" and which
  std::int64_t count = 0, over = 0, under = 0;
  double median_absolute = 0, p90_absolute = 0, mean = 0;
};

struct OperatorValidation {
  std::string file;
  std::vector<std::string> notes;
  std::vector<OperatorRow> rows;  // of the table, in its order; they point into it
  std::int64_t ok = 0, skipped = 0, errors = 0;
  std::vector<OperatorSummary> summary;  // the total first
};

// `fixed`: the profile of every row, else the one that the row's GPU names.
OperatorValidation validate_operators(const measurements::MeasurementTable& table,
                                      const measurements::Profiles& profiles, const topology::HardwareProfile* fixed);

// What is judged together beside its kind: "bf16 gemm >= 1e11 FLOP"; for kinds without FLOPs, the kind.
std::string size_class(const measurements::Measurement& row);

// Of signed errors, in any order; none gives count 0.
OperatorSummary summarize_operators(std::string by, std::string value, const std::vector<double>& errors);

}  // namespace moeplan::search
