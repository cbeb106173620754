#include <fmt/core.h>

#include <algorithm>
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

struct Fastest {
  std::string name;
  std::int64_t shapes = 0;  // that every library measured; with none, the library with the most shapes is named
};

// The library that is the fastest on most of the shapes that all were measured on: what a library alone measured says
// nothing of the others. Of equals the one that comes first by name.
Fastest fastest(const Rows& rows) {
  std::map<std::string, std::map<std::string, double>> best;  // by shape, by library
  std::map<std::string, std::int64_t> wins;                   // every library stands here
  for (const Measurement* row : rows) {
    const auto [held, added] = best[shape_key(*row)].try_emplace(row->library, row->seconds);
    if (!added) held->second = std::min(held->second, row->seconds);
    wins[row->library] = 0;
  }
  Fastest result;
  for (const auto& [shape, times] : best) {
    if (times.size() < wins.size()) continue;
    ++result.shapes;
    const auto winner =
        std::min_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    ++wins[winner->first];
  }
  if (result.shapes == 0) {
    for (const auto& [shape, times] : best)
      for (const auto& [library, seconds] : times) ++wins[library];
  }
  result.name = std::max_element(wins.begin(), wins.end(), [](const auto& a, const auto& b) {
                  return a.second < b.second;
                })->first;
  return result;
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
    const Fastest found = fastest(own);
    const std::string& name = found.name;
    std::int64_t others = 0;
    for (const Measurement* row : own) {
      if (row->library == name) continue;
      left_out.insert(row);
      ++others;
    }
    const std::string why =
        found.shapes > 0
            ? fmt::format("{} is the fastest on most of the {} shapes that all were measured on", name, found.shapes)
            : fmt::format("no shape was measured with all, and {} measured the most", name);
    notes.push_back(fmt::format("{}: of {} libraries, {}; the {} rows of the others are for --filter library=NAME",
                                measurements::family_name(family), names.size(), why, others));
  }
  Rows kept;
  for (const Measurement* row : rows) {
    if (!left_out.contains(row)) kept.push_back(row);
  }
  return kept;
}

}  // namespace moeplan::calibrate
