#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "engine/step.h"
#include "plan/plan.h"

// Whole picoseconds between the cost models, which give seconds, and the reports, which want them.
namespace moeplan::engine {

inline constexpr double kPicosecond = 1e-12;

// Sums of picoseconds stay far below 2^63: an operation is bounded, and so is the step.
inline constexpr double kLongestOp_s = 9000;
inline constexpr std::int64_t kLongestStep_ps = std::int64_t{1} << 61;  // 26 days

// Throws base::Error: `what` would take longer than can be simulated.
[[noreturn]] void too_long(const plan::Plan& plan, const std::string& what, double seconds);
// Rounded; throws base::Error above kLongestOp_s.
std::int64_t to_ps(const plan::Plan& plan, const std::string& what, double seconds);

// Where a rank's time goes (step.h), in whole picoseconds: sums do not depend on their order.
struct PartsPs {
  std::array<std::int64_t, plan::kFamilies> family{};
  std::int64_t recompute = 0, exposed_ep = 0, exposed_tp = 0, exposed_pp = 0, exposed_dp = 0, exposed_offload = 0;
  std::int64_t imbalance_wait = 0, bubble = 0, host = 0, busy = 0;
  TimeParts seconds() const;
  double busy_s() const { return static_cast<double>(busy) * kPicosecond; }
};

}  // namespace moeplan::engine
