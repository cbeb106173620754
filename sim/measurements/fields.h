#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measurements/measurement.h"

namespace moeplan::measurements {

// Products of two counts stay whole numbers of 64 bits.
inline constexpr std::int64_t kMostCount = std::int64_t{1} << 31, kMostBytes = std::int64_t{1} << 48;

// The cells of one row, read by name. A cell that does not hold what is asked for adds a fault to the row.
class Fields {
 public:
  explicit Fields(Measurement& row) : row_(row) {}

  std::string text(std::string_view column) const;  // "" where there is none
  // Of the first of `columns` that is not empty.
  std::string first_text(std::initializer_list<const char*> columns) const;
  std::optional<std::int64_t> integer(std::string_view column, std::int64_t least = 1, std::int64_t most = kMostCount);
  std::optional<double> positive(std::string_view column);
  // With semicolons between them, each from 0 to `most`; empty: none.
  std::vector<std::int64_t> integers(std::string_view column, std::int64_t most = kMostCount);

  // As integer(); an empty cell sets the row aside, as its shape is not stated.
  std::int64_t needed(std::string_view column, std::int64_t most = kMostCount);
  void skip(std::string reason);  // the first reason counts
  void fault(std::string_view column, std::string message);

  // Adds cells from text such as "b=1, m=4096, layout=TN" that stands in `column`; what it holds wins.
  void unpack(std::string_view column);

 private:
  const Cell* cell(std::string_view column) const;
  Measurement& row_;
};

}  // namespace moeplan::measurements
