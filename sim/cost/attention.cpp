#include <algorithm>

#include "base/check.h"
#include "cost/kernels.h"

// docs/models.md, Attention.
namespace moeplan::cost {
namespace {

// FLOPs of the causal forward pass: two products of 2 s^2 d each, halved.
double forward_flop(const AttentionShape& shape) {
  const auto seq = static_cast<double>(shape.seq);
  return static_cast<double>(shape.batch) * static_cast<double>(shape.heads) * seq * seq *
         static_cast<double>(shape.qk_dim + shape.v_dim);
}

// FLOP/s of the forward pass: between the two fitted head dimensions by the mean of query and value dimension.
double forward_rate(const AttentionShape& shape, const topology::HardwareProfile::Attention& attention) {
  const double dim = static_cast<double>(shape.qk_dim + shape.v_dim) / 2;
  const double share = std::clamp((dim - 64) / 64, 0.0, 1.0);
  const double peak = attention.peak_hd64.value + share * (attention.peak_hd128.value - attention.peak_hd64.value);
  const double half =
      attention.half_length_hd64.value + share * (attention.half_length_hd128.value - attention.half_length_hd64.value);
  const auto seq = static_cast<double>(shape.seq);
  return peak * seq / (seq + half);
}

bool has_work(const AttentionShape& shape) {
  MOEPLAN_CHECK(shape.batch >= 0 && shape.heads >= 0 && shape.seq >= 0 && shape.qk_dim >= 0 && shape.v_dim >= 0,
                "a shape is never negative");
  return shape.batch > 0 && shape.heads > 0 && shape.seq > 0 && shape.qk_dim + shape.v_dim > 0;
}

}  // namespace

double attention_forward_time_s(const AttentionShape& shape, const topology::HardwareProfile& profile) {
  if (!has_work(shape)) return 0;
  return std::max(profile.gemm.launch.value, forward_flop(shape) / forward_rate(shape, profile.attention));
}

double attention_backward_time_s(const AttentionShape& shape, const topology::HardwareProfile& profile) {
  if (!has_work(shape)) return 0;
  constexpr double kBackwardFlop = 2.5;  // five products against two
  const double rate = forward_rate(shape, profile.attention) * profile.attention.backward_rate.value;
  return std::max(profile.gemm.launch.value, kBackwardFlop * forward_flop(shape) / rate);
}

}  // namespace moeplan::cost
