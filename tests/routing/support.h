#pragma once
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "routing/loads.h"

// Helpers of the routing tests.
namespace moeplan::routing::test {

inline const std::string kLawTrace = std::string(MOEPLAN_SOURCE_DIR) + "/scenarios/traces/esft_dsv2lite_law";

// A folder that is removed with its content at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static int number = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("moeplan_routing_" + std::to_string(::getpid()) + "_" + std::to_string(number++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path() const { return path_.string(); }
  std::string write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

// The text of the Error that `action` throws; "no error" when it throws none.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const base::Error& error) {
    return error.what();
  }
  return "no error";
}

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

inline std::vector<std::int64_t> counts_of(const LoadSource& loads, const TokenSlice& slice, std::int64_t layer) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(loads.shape().experts), 0);
  loads.add_counts(slice, layer, counts);
  return counts;
}

inline std::vector<std::int64_t> counts_of_pairs(const LoadSource& loads, const TokenSlice& slice, std::int64_t layer) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(loads.shape().experts), 0);
  std::vector<Pair> pairs = {{7, 7, 7.0f}};  // must be replaced
  loads.pairs(slice, layer, pairs);
  for (const Pair& pair : pairs) ++counts[pair.expert];
  return counts;
}

inline std::int64_t sum_of(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// Every token of the slice has top_k pairs, in token order, of distinct experts.
inline bool tokens_are_whole(const LoadSource& loads, const TokenSlice& slice, std::int64_t layer) {
  std::vector<Pair> pairs;
  loads.pairs(slice, layer, pairs);
  const std::int64_t k = loads.shape().top_k;
  const std::int64_t tokens = (slice.end - slice.begin) * loads.shape().micro_batch_size;
  if (static_cast<std::int64_t>(pairs.size()) != tokens * k) return false;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::size_t first = i / static_cast<std::size_t>(k) * static_cast<std::size_t>(k);
    if (pairs[i].token != static_cast<std::int32_t>(first / static_cast<std::size_t>(k))) return false;
    for (std::size_t j = first; j < i; ++j) {
      if (pairs[j].expert == pairs[i].expert) return false;
    }
  }
  return true;
}

// Slices cut at the borders add up to the whole, and counts and pairs agree on each.
inline bool slices_add_up(const LoadSource& loads, TokenSlice slice, std::int64_t layer,
                          const std::vector<std::int64_t>& borders) {
  std::vector<std::int64_t> whole = counts_of(loads, slice, layer);
  if (sum_of(whole) != (slice.end - slice.begin) * loads.shape().micro_batch_size * loads.shape().top_k) return false;
  std::vector<std::int64_t> parts(whole.size(), 0);
  const std::int64_t end = slice.end;
  for (std::size_t i = 0; i <= borders.size(); ++i) {
    slice.end = i < borders.size() ? borders[i] : end;
    loads.add_counts(slice, layer, parts);
    if (counts_of(loads, slice, layer) != counts_of_pairs(loads, slice, layer)) return false;
    if (!tokens_are_whole(loads, slice, layer)) return false;
    slice.begin = slice.end;
  }
  return parts == whole;
}

}  // namespace moeplan::routing::test
