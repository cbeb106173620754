#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace moeplan::bench {

// One benchmark inside the process: set up once, for so many threads (0: all of the machine), then timed. What
// `set_up` gives returns a count of what it did (engine operations),
// or 0 where only time matters.
struct Part {
  std::string name;
  double target_s = 0;   // of one run
  double per_s = 0;      // counts a second at least; 0: none
  bool counted = false;  // short enough for a count of its instructions
  int repeats = 5;
  std::function<std::function<std::int64_t()>(int threads)> set_up;
};

std::vector<Part> all_parts();

}  // namespace moeplan::bench
