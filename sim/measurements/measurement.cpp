#include "measurements/measurement.h"

#include <array>

namespace moeplan::measurements {
namespace {

double rows_of(const Measurement& row) {
  double rows = 0;
  for (const std::int64_t count : row.group_rows) rows += real(count);
  return rows;
}

}  // namespace

const char* family_name(Family family) {
  constexpr std::array<const char*, 7> kNames = {"gemm",   "grouped_gemm", "moe_layer", "attention",
                                                 "memory", "collective",   "dispatch"};
  return kNames[static_cast<std::size_t>(family)];
}

const char* status_name(Status status) {
  constexpr std::array<const char*, 3> kNames = {"ok", "skipped", "error"};
  return kNames[static_cast<std::size_t>(status)];
}

double flop_of(const Measurement& row) {
  const Shape& s = row.shape;
  switch (row.family) {
    case Family::gemm:
      return 2 * real(s.m) * real(s.n) * real(s.k);
    case Family::grouped_gemm:
      return 2 * rows_of(row) * real(s.n) * real(s.k);
    case Family::moe_layer:  // gate and up together n wide, and down from n / 2 back to hidden
      return 3 * rows_of(row) * real(s.n) * real(s.hidden);
    case Family::attention:
      return (row.backward ? 2.5 : 1.0) * (row.causal ? 1.0 : 2.0) * real(s.batch) * real(s.heads) * real(s.seq) *
             real(s.seq) * real(s.qk_dim + s.v_dim);
    case Family::memory:
    case Family::collective:
    case Family::dispatch:
      return 0;
  }
  return 0;
}

std::vector<std::int64_t> even_rows(std::int64_t rows, std::int64_t groups) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(groups));
  for (std::int64_t g = 0; g < groups; ++g) {
    result[static_cast<std::size_t>(g)] = rows / groups + (g < rows % groups ? 1 : 0);
  }
  return result;
}

}  // namespace moeplan::measurements
