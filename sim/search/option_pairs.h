#pragma once
#include <string>
#include <vector>

namespace moeplan::search {

struct ValidationRow;

// Two runs of one group that differ in one option only: what the option changed, measured and predicted.
struct OptionPair {
  std::string option;                  // "recompute", "dispatcher", ...
  std::string from_id, to_id;          // rows
  std::string from, to;                // what their cells say
  double measured = 0, predicted = 0;  // step time of `to` over that of `from`, less 1
  bool tells = false;                  // the measured change is more than runs differ by themselves
  bool right = false;                  // both changes have the same sign
};

// Smaller changes say nothing about an option: one layout measured twice in a week differs by 1 to 5 %.
inline constexpr double kLeastChange = 0.02;

// In the order of the rows. An option counts where both rows state it, and everything else that they state is the same;
// rows that are judged on memory alone take no part.
std::vector<OptionPair> option_pairs(const std::vector<ValidationRow>& rows);

}  // namespace moeplan::search
