#include "layer/layer_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/random.h"

namespace moeplan::layer {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

const char* backward_name(Backward backward) {
  if (backward == Backward::kept) return "kept";
  return backward == Backward::recompute ? "recompute" : "redispatch";
}

std::vector<std::string> faults_of(const LayerCase& layer_case) {
  const LayerShape& s = layer_case.shape;
  std::vector<std::string> faults;
  const auto expect = [&](bool holds, const std::string& text) {
    if (!holds) faults.push_back(text);
  };
  const auto got = [](std::int64_t value) { return ", got " + std::to_string(value); };
  expect(s.tokens >= 1, "tokens: expected at least 1" + got(s.tokens));
  expect(s.hidden >= 8 && s.hidden % 8 == 0, "hidden: expected a multiple of 8" + got(s.hidden));
  expect(s.ffn >= 8 && s.ffn % 8 == 0, "ffn: expected a multiple of 8" + got(s.ffn));
  expect(s.experts >= 1 && s.experts <= 65535, "experts: expected 1 to 65535" + got(s.experts));
  expect(s.top_k >= 1 && s.top_k <= s.experts, "top-k: expected 1 to the number of experts" + got(s.top_k));
  constexpr std::int64_t kMostPairs = (std::int64_t{1} << 31) - 1;  // their rows are counted in 32 bits
  expect(s.tokens < 1 || s.top_k < 1 || s.pairs() <= kMostPairs,
         "top-k: expected at most " + std::to_string(kMostPairs) + " pairs, tokens times top-k" + got(s.pairs()));
  expect(layer_case.chunks >= 1 && (s.tokens < 1 || s.tokens % layer_case.chunks == 0),
         "chunks: expected a divisor of " + std::to_string(s.tokens) + " tokens" + got(layer_case.chunks));
  const bool selects = layer_case.backward == Backward::redispatch;
  expect(!selects || layer_case.chunks == 1, "chunks: 1 where pairs are selected" + got(layer_case.chunks));
  expect(layer_case.retention > 0 && layer_case.retention <= 1,
         "retention: expected above 0 and up to 1, got " + std::to_string(layer_case.retention));
  if (!faults.empty()) return faults;
  expect(static_cast<int>(layer_case.rows.size()) == s.experts,
         "row counts: expected one of each of " + std::to_string(s.experts) + " experts" +
             got(static_cast<std::int64_t>(layer_case.rows.size())));
  std::int64_t sum = 0;
  for (std::size_t e = 0; e < layer_case.rows.size(); ++e) {
    sum += layer_case.rows[e];
    expect(layer_case.rows[e] >= 0 && layer_case.rows[e] <= s.tokens,
           "row counts: expert " + std::to_string(e) + ": expected 0 to " + std::to_string(s.tokens) + ", one a token" +
               got(layer_case.rows[e]));
  }
  expect(sum == s.pairs(),
         "row counts: expected a sum of " + std::to_string(s.pairs()) + ", tokens times top-k" + got(sum));
  return faults;
}

std::vector<std::int64_t> retained_rows(const LayerCase& layer_case) {
  std::vector<std::int64_t> kept;
  for (const std::int64_t rows : layer_case.rows) {
    const auto wanted = static_cast<std::int64_t>(std::ceil(layer_case.retention * static_cast<double>(rows) - 1e-9));
    kept.push_back(std::min(rows, wanted));
  }
  return kept;
}

std::vector<std::int64_t> scaled_rows(const std::vector<double>& weights, const LayerShape& shape) {
  return spread_rows(weights, shape.pairs(), shape.tokens);
}

std::vector<std::int32_t> choices_of(const LayerShape& shape, const std::vector<std::int64_t>& rows,
                                     std::uint64_t seed) {
  std::vector<std::int64_t> order(at(shape.tokens));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::int64_t i = shape.tokens - 1; i > 0; --i) {
    const auto other =
        kernels::random_bits(seed + static_cast<std::uint64_t>(i), 0) % static_cast<std::uint64_t>(i + 1);
    std::swap(order[at(i)], order[static_cast<std::size_t>(other)]);
  }
  // The pairs expert by expert are dealt to the tokens in turn: no expert has more pairs than there are tokens, so no
  // token gets one twice.
  std::vector<std::int32_t> choices(at(shape.pairs()));
  std::int64_t dealt = 0;
  for (std::size_t e = 0; e < rows.size(); ++e)
    for (std::int64_t i = 0; i < rows[e]; ++i, ++dealt)
      choices[at(order[at(dealt % shape.tokens)] * shape.top_k + dealt / shape.tokens)] = static_cast<std::int32_t>(e);
  return choices;
}

std::vector<std::int64_t> chunk_rows(const LayerCase& layer_case, const std::vector<std::int32_t>& choices) {
  const std::int64_t chunk_pairs = layer_case.shape.pairs() / layer_case.chunks;
  std::vector<std::int64_t> rows(at(layer_case.chunks * layer_case.shape.experts), 0);
  for (std::int64_t pair = 0; pair < layer_case.shape.pairs(); ++pair)
    ++rows[at(pair / chunk_pairs * layer_case.shape.experts + choices[at(pair)])];
  return rows;
}

}  // namespace moeplan::layer
