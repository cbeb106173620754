#pragma once
#include <chrono>
#include <cstdint>
#include <iosfwd>

namespace moeplan::cli {

// --stats: what this run of the program took. Never part of a result.
class Stats {
 public:
  Stats() : start_(std::chrono::steady_clock::now()) {}
  void add_operations(std::int64_t operations) { operations_ += operations; }
  // "stats: wall 1.234 s, 1,000 operations, 8.1e+02 a second, peak memory 12.3 MiB".
  void write(std::ostream& err) const;

 private:
  std::chrono::steady_clock::time_point start_;
  std::int64_t operations_ = 0;
};

}  // namespace moeplan::cli
