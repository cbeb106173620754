#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace moeplan::routing {

struct NpyHeader {
  std::string descr;  // "<i4"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  // at most 8 extents >= 0
};

// The Python literal {'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), } of a .npy file; keys in any order,
// each once. A type that is a list (named fields) is refused. Throws base::Error at `where`.
NpyHeader parse_npy_header(std::string_view text, const base::Where& where);

}  // namespace moeplan::routing
