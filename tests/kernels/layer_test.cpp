#include <algorithm>
#include <numeric>

#include "layer/host_layer.h"
#include "support.h"

namespace moeplan::layer {
namespace {
using kernels::to_float;
using kernels::testing::at;

LayerCase make_case(Backward backward, std::int64_t chunks = 1, double retention = 1) {
  LayerCase c;
  c.shape = {24, 16, 24, 5, 2};
  c.backward = backward;
  c.chunks = chunks;
  c.retention = retention;
  c.rows = {20, 0, 11, 1, 16};  // 48 = 24 * 2
  REQUIRE(faults_of(c).empty());
  return c;
}

struct Result {
  std::vector<float> output, input_gradient, router, gate_up, down;
  std::int64_t allocated_peak = 0, allocated = 0;
};

Result run(const LayerCase& c, kernels::Order order = kernels::Order::forward) {
  HostLayer layer(c, choices_of(c.shape, c.rows, 3), order);
  layer.forward();
  layer.backward();
  Result r;
  const auto bf16s = [&](FixedName name, std::int64_t count) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(to_float(layer.data<Bf16>(name)[i]));
    return values;
  };
  const auto floats = [&](FixedName name, std::int64_t count) {
    return std::vector<float>(layer.data<float>(name), layer.data<float>(name) + count);
  };
  const LayerShape& s = c.shape;
  r.output = bf16s(kOutput, s.tokens * s.hidden);
  r.input_gradient = bf16s(kInputGradient, s.tokens * s.hidden);
  r.router = floats(kRouterGradient, s.experts * s.hidden);
  r.gate_up = floats(kGateUpGradient, s.experts * 2 * s.ffn * s.hidden);
  r.down = floats(kDownGradient, s.experts * s.ffn * s.hidden);
  r.allocated_peak = layer.executor().pool().stats().allocated_peak;
  r.allocated = layer.executor().pool().stats().allocated;
  return r;
}

// The same layer in double precision, pair by pair; `kept`: the pairs whose gradients count.
struct Reference {
  std::vector<double> output, input_gradient, router, gate_up, down;
};

Reference reference(const LayerCase& c, const std::vector<bool>& kept) {
  const LayerShape& s = c.shape;
  const std::vector<std::int32_t> choices = choices_of(c.shape, c.rows, 3);
  HostLayer layer(c, choices);  // for its data alone
  const auto value = [&](FixedName name, std::int64_t i) {
    return static_cast<double>(to_float(layer.data<Bf16>(name)[i]));
  };
  Reference r;
  r.output.assign(at(s.tokens * s.hidden), 0);
  r.input_gradient = r.output;
  r.router.assign(at(s.experts * s.hidden), 0);
  r.gate_up.assign(at(s.experts * 2 * s.ffn * s.hidden), 0);
  r.down.assign(at(s.experts * s.ffn * s.hidden), 0);
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    std::vector<double> p(at(s.experts));
    for (int e = 0; e < s.experts; ++e)
      for (std::int64_t i = 0; i < s.hidden; ++i)
        p[at(e)] += value(kInput, t * s.hidden + i) * value(kRouter, e * s.hidden + i);
    double sum = 0;
    for (double& v : p) sum += v = std::exp(v);
    for (double& v : p) v /= sum;
    std::vector<int> own(at(s.experts));
    std::iota(own.begin(), own.end(), 0);
    std::stable_sort(own.begin(), own.end(), [&](int a, int b) { return p[at(a)] > p[at(b)]; });
    std::vector<double> weight_gradient(at(s.experts), 0);
    for (int k = 0; k < s.top_k; ++k) {
      const std::int64_t e = choices[at(t * s.top_k + k)];
      const double w = p[at(own[at(k)])];
      std::vector<double> g(at(s.ffn)), u(at(s.ffn)), act(at(s.ffn)), d_act(at(s.ffn));
      for (std::int64_t f = 0; f < s.ffn; ++f) {
        for (std::int64_t i = 0; i < s.hidden; ++i) {
          g[at(f)] += value(kInput, t * s.hidden + i) * value(kGateUp, (e * 2 * s.ffn + f) * s.hidden + i);
          u[at(f)] += value(kInput, t * s.hidden + i) * value(kGateUp, ((e * 2 + 1) * s.ffn + f) * s.hidden + i);
        }
        act[at(f)] = w * g[at(f)] / (1 + std::exp(-g[at(f)])) * u[at(f)];
      }
      for (std::int64_t i = 0; i < s.hidden; ++i)
        for (std::int64_t f = 0; f < s.ffn; ++f) {
          const std::int64_t at_down = (e * s.hidden + i) * s.ffn + f;
          const double dy = value(kOutputGradient, t * s.hidden + i);
          r.output[at(t * s.hidden + i)] += act[at(f)] * value(kDown, at_down);
          d_act[at(f)] += dy * value(kDown, at_down);
          if (kept[at(t * s.top_k + k)]) r.down[at(at_down)] += dy * act[at(f)];
        }
      if (!kept[at(t * s.top_k + k)]) continue;
      for (std::int64_t f = 0; f < s.ffn; ++f) {
        const double sigmoid = 1 / (1 + std::exp(-g[at(f)])), silu = g[at(f)] * sigmoid;
        const double dg = d_act[at(f)] * w * u[at(f)] * sigmoid * (1 + g[at(f)] * (1 - sigmoid));
        const double du = d_act[at(f)] * w * silu;
        weight_gradient[at(own[at(k)])] += d_act[at(f)] * silu * u[at(f)];
        for (std::int64_t i = 0; i < s.hidden; ++i) {
          const double x = value(kInput, t * s.hidden + i);
          const std::int64_t gate = (e * 2 * s.ffn + f) * s.hidden + i, up = gate + s.ffn * s.hidden;
          r.gate_up[at(gate)] += dg * x;
          r.gate_up[at(up)] += du * x;
          r.input_gradient[at(t * s.hidden + i)] += dg * value(kGateUp, gate) + du * value(kGateUp, up);
        }
      }
    }
    double mean = 0;
    for (int e = 0; e < s.experts; ++e) mean += weight_gradient[at(e)] * p[at(e)];
    for (int e = 0; e < s.experts; ++e)
      for (std::int64_t i = 0; i < s.hidden; ++i) {
        const double logit = p[at(e)] * (weight_gradient[at(e)] - mean);
        r.router[at(e * s.hidden + i)] += logit * value(kInput, t * s.hidden + i);
        r.input_gradient[at(t * s.hidden + i)] += logit * value(kRouter, e * s.hidden + i);
      }
  }
  return r;
}

// Relative to the root mean square of all: a handful of bf16 roundings (each up to 2^-9 in the mean) on the way.
template <class A>
double worst(const A& values, const std::vector<double>& expected) {
  REQUIRE(values.size() == expected.size());
  double squares = 0, largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    squares += expected[i] * expected[i];
    largest = std::max(largest, std::abs(values[i] - expected[i]));
  }
  return largest / std::sqrt(squares / static_cast<double>(expected.size()));
}

void check_against(const Result& r, const Reference& expected) {
  constexpr double kMost = 0.03;
  CHECK(worst(r.output, expected.output) < kMost);
  CHECK(worst(r.input_gradient, expected.input_gradient) < kMost);
  CHECK(worst(r.router, expected.router) < kMost);
  CHECK(worst(r.gate_up, expected.gate_up) < kMost);
  CHECK(worst(r.down, expected.down) < kMost);
  CHECK(r.allocated == 0);  // all tensors were freed
}

const std::vector<bool> kAll(48, true);
}  // namespace

TEST_CASE("a layer's output and gradients equal double precision, kept and recomputed, at every chunk count") {
  const Reference expected = reference(make_case(Backward::kept), kAll);
  for (const Backward backward : {Backward::kept, Backward::recompute})
    for (const std::int64_t chunks : {1, 2, 3, 24}) check_against(run(make_case(backward, chunks)), expected);
}

TEST_CASE("a layer gives the same bits in both orders of threads and blocks") {
  for (const LayerCase& c :
       {make_case(Backward::kept, 2), make_case(Backward::recompute, 3), make_case(Backward::redispatch, 1, 0.5)}) {
    const Result a = run(c), b = run(c, kernels::Order::reverse);
    CHECK(a.output == b.output);
    CHECK(a.input_gradient == b.input_gradient);
    CHECK(a.router == b.router);
    CHECK(a.gate_up == b.gate_up);
    CHECK(a.down == b.down);
  }
}

TEST_CASE("chunks change no bit of the output and of the input's gradient: a token's rows are summed in one order") {
  const Result whole = run(make_case(Backward::kept));
  for (const std::int64_t chunks : {2, 4, 8, 24}) {
    const Result r = run(make_case(Backward::recompute, chunks));
    CHECK(r.output == whole.output);
    CHECK(r.input_gradient == whole.input_gradient);
  }
}

TEST_CASE("at retention 1 re-dispatch is the whole backward, below it the gradient of the best pairs of each expert") {
  check_against(run(make_case(Backward::redispatch)), reference(make_case(Backward::kept), kAll));
  for (const double retention : {0.75, 0.5, 0.25, 0.01}) {
    const LayerCase c = make_case(Backward::redispatch, 1, retention);
    // Scores of all pairs in double precision: weight |dy| |x|; per expert as many as are retained.
    const LayerShape& s = c.shape;
    const std::vector<std::int32_t> choices = choices_of(s, c.rows, 3);
    HostLayer layer(c, choices);
    layer.forward();
    std::vector<double> scores(at(s.pairs()));
    for (std::int64_t pair = 0; pair < s.pairs(); ++pair) {
      double xx = 0, yy = 0;
      for (std::int64_t i = 0; i < s.hidden; ++i) {
        xx += std::pow(to_float(layer.data<Bf16>(kInput)[pair / 2 * s.hidden + i]), 2);
        yy += std::pow(to_float(layer.data<Bf16>(kOutputGradient)[pair / 2 * s.hidden + i]), 2);
      }
      scores[at(pair)] = layer.data<float>(kWeights)[pair] * std::sqrt(xx * yy);
    }
    std::vector<bool> kept(at(s.pairs()), false);
    const std::vector<std::int64_t> quotas = retained_rows(c);
    for (int e = 0; e < s.experts; ++e) {
      std::vector<std::int64_t> mine;
      for (std::int64_t pair = 0; pair < s.pairs(); ++pair)
        if (choices[at(pair)] == e) mine.push_back(pair);
      std::stable_sort(mine.begin(), mine.end(),
                       [&](std::int64_t a, std::int64_t b) { return scores[at(a)] > scores[at(b)]; });
      for (std::int64_t i = 0; i < quotas[at(e)]; ++i) kept[at(mine[at(i)])] = true;
    }
    check_against(run(c), reference(make_case(Backward::kept), kept));
  }
}

TEST_CASE("steps add to the weight gradients and leave no memory behind") {
  const LayerCase c = make_case(Backward::recompute, 2);
  HostLayer layer(c, choices_of(c.shape, c.rows, 3));
  std::vector<float> once;
  std::int64_t reserved = 0;
  for (int step = 1; step <= 3; ++step) {
    layer.forward();
    layer.backward();
    const auto count = c.shape.experts * c.shape.ffn * c.shape.hidden;
    const float* gradient = layer.data<float>(kDownGradient);
    if (step == 1) once.assign(gradient, gradient + count);
    for (std::int64_t i = 0; i < count; ++i)
      REQUIRE(std::abs(gradient[i] - static_cast<float>(step) * once[at(i)]) < 1e-4F);
    CHECK(layer.executor().pool().stats().allocated == 0);
    if (step > 1) CHECK(layer.executor().pool().stats().reserved == reserved);  // the cache has settled
    reserved = layer.executor().pool().stats().reserved;
  }
}

}  // namespace moeplan::layer
