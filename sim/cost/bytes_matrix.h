#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace moeplan::cost {

struct BytesMatrix {
  std::size_t ranks = 0;
  std::vector<std::int64_t> bytes;  // bytes[i * ranks + j] from rank i (line) to rank j (column)
};

// Lines of whole numbers of bytes, no header, one line a rank. Adds every fault with line and column (the first 100):
// lines of unequal length, cells that are no whole number >= 0, more or fewer lines than columns.
BytesMatrix read_bytes_matrix(std::string_view text, const std::string& file, base::Faults& faults);
inline constexpr std::size_t kMostMatrixRanks = 4096;

}  // namespace moeplan::cost
