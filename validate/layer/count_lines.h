#pragma once
#include <stdexcept>
#include <string>
#include <vector>

// Row counts of a trace, as text: a line a vector of counts, one of each expert, with commas, semicolons or blanks
// between them; or moeplan's CSV of counts (docs/traces.md), whose header names the experts e0, e1, ...
namespace moeplan::layer {

class CountsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct CountLine {
  int line = 0;                 // of the file, from 1
  std::string key;              // CSV: "step 3, layer 0"; else ""
  std::vector<double> weights;  // of each expert
};

// Throws CountsError with the line of the first fault: a cell that is no number >= 0, a line of another length than
// `experts`, one without a count above 0, no lines.
std::vector<CountLine> parse_count_lines(const std::string& text, const std::string& file, int experts);

}  // namespace moeplan::layer
