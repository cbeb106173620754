#include <algorithm>
#include <array>

#include "base/check.h"
#include "cost/kernels.h"
#include "cost/roofline.h"

// docs/models.md, Attention.
namespace moeplan::cost {
namespace {

using Keys = topology::HardwareProfile::Attention;

double real(std::int64_t value) { return static_cast<double>(value); }
double value_or(const topology::OptionalValue& value, double fallback) { return value ? value->value : fallback; }

// What a head's dimensions decide: the rate, and the keys of which a tile's start and diagonal take the time.
struct Dimensions {
  double peak = 0, half_length = 0;
};

// Between the fitted head dimensions by the mean of query and value dimension, and beyond them as the nearer. Heads
// with keys wider than values (MLA, 192 and 128) have kernels of their own where the profile knows them.
Dimensions dimensions_of(const AttentionShape& shape, const Keys& attention) {
  if (shape.qk_dim > shape.v_dim && shape.v_dim >= 128 && attention.peak_mla && attention.half_length_mla)
    return {attention.peak_mla->value, attention.half_length_mla->value};
  const double dim = real(shape.qk_dim + shape.v_dim) / 2;
  if (dim > 128 && attention.peak_hd256 && attention.half_length_hd256) {
    const double share = std::min((dim - 128) / 128, 1.0);
    const auto above = [&](double at_128, double at_256) { return at_128 + share * (at_256 - at_128); };
    return {above(attention.peak_hd128.value, attention.peak_hd256->value),
            above(attention.half_length_hd128.value, attention.half_length_hd256->value)};
  }
  const double share = std::clamp((dim - 64) / 64, 0.0, 1.0);
  const auto between = [&](double at_64, double at_128) { return at_64 + share * (at_128 - at_64); };
  return {between(attention.peak_hd64.value, attention.peak_hd128.value),
          between(attention.half_length_hd64.value, attention.half_length_hd128.value)};
}

// Tiles of query rows, each against the keys before it: FLOPs of all of them spread over the multiprocessors, joined
// with the longest tile of all, which runs on one: short calls are as long as it, and long ones hide most of it.
constexpr double kTailExponent = 2;

double tiles_s(const AttentionShape& shape, const Dimensions& of, double tail, const Keys& attention,
               const topology::HardwareProfile& profile) {
  const double seq = real(shape.seq), width = real(shape.qk_dim + shape.v_dim);
  const double all = real(shape.batch) * real(shape.heads) * seq * (seq + of.half_length) * width;
  const double rows = std::min(seq, value_or(attention.tile_rows, 128));
  const double longest = 2 * rows * (seq + of.half_length / 2) * width;
  return power_join(all, tail * longest * profile.device.sm_count.value, kTailExponent) / of.peak;
}

bool has_work(const AttentionShape& shape) {
  MOEPLAN_CHECK(shape.batch >= 0 && shape.heads >= 0 && shape.seq >= 0 && shape.qk_dim >= 0 && shape.v_dim >= 0,
                "a shape is never negative");
  return shape.batch > 0 && shape.heads > 0 && shape.seq > 0 && shape.qk_dim + shape.v_dim > 0;
}

// A profile that states no launch has it in its half lengths: then it is a floor only.
double with_launch(double tiles, const topology::OptionalValue& launch, const topology::HardwareProfile& profile) {
  return launch ? launch->value + tiles : std::max(profile.gemm.launch.value, tiles);
}

double forward_s(const AttentionShape& shape, const topology::HardwareProfile& profile) {
  const Keys& attention = profile.attention;
  const double tail = value_or(attention.tail, 0);
  return with_launch(tiles_s(shape, dimensions_of(shape, attention), tail, attention, profile), attention.launch,
                     profile);
}

double backward_s(const AttentionShape& shape, const topology::HardwareProfile& profile) {
  constexpr double kBackwardFlop = 2.5;  // five products against two
  const Keys& attention = profile.attention;
  Dimensions of = dimensions_of(shape, attention);
  of.half_length = value_or(attention.backward_half_length, of.half_length);
  const double tail = value_or(attention.backward_tail, value_or(attention.tail, 0));
  const double slower = kBackwardFlop / attention.backward_rate.value;
  return with_launch(slower * tiles_s(shape, of, tail, attention, profile),
                     attention.backward_launch ? attention.backward_launch : attention.launch, profile);
}

}  // namespace

ShapeTime attention_time(const AttentionShape& shape, bool backward, const topology::HardwareProfile& profile) {
  if (!has_work(shape)) return {};
  const auto model_s = [&](const AttentionShape& other) {
    return profile.time_scale.attention * (backward ? backward_s(other, profile) : forward_s(other, profile));
  };
  if (profile.shapes.empty()) return {model_s(shape), Basis::model};
  const std::array<std::int64_t, 5> sizes = {shape.batch, shape.heads, shape.seq, shape.qk_dim, shape.v_dim};
  return shape_time(profile, {"attention", backward ? "backward" : "forward", "bf16"}, sizes,
                    [&](std::span<const std::int64_t> other) {
                      return model_s({other[0], other[1], other[2], other[3], other[4]});
                    });
}

double attention_forward_time_s(const AttentionShape& shape, const topology::HardwareProfile& profile) {
  return attention_time(shape, false, profile).seconds;
}

double attention_backward_time_s(const AttentionShape& shape, const topology::HardwareProfile& profile) {
  return attention_time(shape, true, profile).seconds;
}

}  // namespace moeplan::cost
