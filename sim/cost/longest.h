#pragma once
#include <algorithm>
#include <cstddef>

namespace moeplan::cost {

// Keeps the two longest of the resources offered, and what the longest is; ties keep the first.
class Longest {
 public:
  void offer(double time_s, const char* what, std::size_t member) {
    if (time_s > first_s_) {
      second_s_ = first_s_;
      first_s_ = time_s;
      what_ = what;
      member_ = member;
    } else {
      second_s_ = std::max(second_s_, time_s);
    }
  }
  double slack_s() const { return first_s_ - second_s_; }
  const char* what() const { return what_; }  // null: none took any time
  std::size_t member() const { return member_; }

 private:
  double first_s_ = 0, second_s_ = 0;
  const char* what_ = nullptr;
  std::size_t member_ = 0;
};

}  // namespace moeplan::cost
