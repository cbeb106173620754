#include <fmt/core.h>

#include <map>
#include <set>

#include "calibrate/fit.h"

namespace moeplan::calibrate {
namespace {

using measurements::Family;
using measurements::Measurement;
using Rows = std::vector<const Measurement*>;

std::string shape_key(const Measurement& row) {
  const measurements::Shape& s = row.shape;
  std::string key = fmt::format("{} {} {}", static_cast<int>(row.precision), static_cast<int>(row.pass), row.backward);
  for (const std::int64_t size : {s.n, s.k, s.batch, s.heads, s.kv_heads, s.seq, s.qk_dim, s.v_dim})
    key += fmt::format(" {}", size);
  for (const std::int64_t rows : row.group_rows) key += fmt::format(",{}", rows);
  return key;
}

// The library that is the fastest on most shapes; of equals the one that comes first by name.
std::string fastest(const Rows& rows) {
  std::map<std::string, const Measurement*> best;
  for (const Measurement* row : rows) {
    const Measurement*& held = best[shape_key(*row)];
    if (held == nullptr || row->seconds < held->seconds) held = row;
  }
  std::map<std::string, std::int64_t> wins;
  for (const auto& [key, row] : best) ++wins[row->library];
  std::string name;
  std::int64_t most = 0;
  for (const auto& [library, count] : wins) {
    if (count <= most) continue;
    most = count;
    name = library;
  }
  return name;
}

}  // namespace

Rows of_fastest_libraries(const Rows& rows, std::vector<std::string>& notes) {
  std::set<const Measurement*> left_out;
  for (const Family family : {Family::grouped_gemm, Family::attention}) {
    Rows own;
    std::set<std::string> names;
    for (const Measurement* row : rows) {
      if (row->family != family || !row->cells.contains("schema")) continue;
      own.push_back(row);
      names.insert(row->library);
    }
    if (names.size() < 2) continue;
    const std::string name = fastest(own);
    std::int64_t others = 0;
    for (const Measurement* row : own) {
      if (row->library == name) continue;
      left_out.insert(row);
      ++others;
    }
    notes.push_back(
        fmt::format("{}: of {} libraries that were measured, {} is the fastest on most shapes; the {} rows "
                    "of the others are for --filter library=NAME",
                    measurements::family_name(family), names.size(), name, others));
  }
  Rows kept;
  for (const Measurement* row : rows) {
    if (!left_out.contains(row)) kept.push_back(row);
  }
  return kept;
}

}  // namespace moeplan::calibrate
