#include "shapes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "kernels/random.h"
#include "layer/spread.h"

namespace moeplan::device {
namespace {

constexpr std::uint64_t kSeed = 1;

double real(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

const char* pass_name(Pass pass) { return pass == Pass::forward ? "fwd" : pass == Pass::dgrad ? "dgrad" : "wgrad"; }
const char* layout_name(Pass pass) { return pass == Pass::forward ? "TN" : pass == Pass::dgrad ? "NN" : "NT"; }
const char* type_name(Type type) { return type == Type::bf16 ? "bf16" : "fp8"; }

double product_flop(const ProductShape& shape) { return 2 * real(shape.m) * real(shape.n) * real(shape.k); }

double product_bytes(const ProductShape& shape) {
  const double in = shape.type == Type::bf16 ? 2 : 1, out = shape.pass == Pass::wgrad ? 8 : 2;
  return in * real(shape.k) * (real(shape.m) + real(shape.n)) + out * real(shape.m) * real(shape.n);
}

const std::vector<Linear>& plan_linears() {
  static const std::vector<Linear> linears = {{5120, 2048},   // Qwen3-30B-A3B: query, key and value
                                              {2048, 4096},   // Qwen3-30B-A3B: attention output
                                              {6144, 4096},   // Mixtral 8x7B: query, key and value
                                              {4096, 4096},   // Mixtral 8x7B: attention output
                                              {28672, 4096},  // a dense layer of 14336: gate and up
                                              {4096, 14336},  // and its down projection
                                              {2112, 7168},   // DeepSeek-V3: latent projections
                                              {24576, 1536},  // DeepSeek-V3: queries from their latent
                                              {7168, 16384},  // DeepSeek-V3: attention output
                                              {4096, 7168},   // DeepSeek-V3: shared expert, gate and up
                                              {7168, 2048},   // and its down projection
                                              {32000, 4096},  // a head over 32000 tokens
                                              {1024, 1024},   // small ones, where launches and fills count
                                              {512, 8192}};
  return linears;
}

std::vector<ProductShape> product_plan(const std::vector<Linear>& linears, const std::vector<std::int64_t>& tokens,
                                       bool fp8, double most_bytes) {
  std::vector<ProductShape> plan;
  const auto add = [&](const ProductShape& shape) {
    if (product_bytes(shape) <= most_bytes) plan.push_back(shape);
  };
  for (const Linear& linear : linears) {
    for (const std::int64_t rows : tokens) {
      add({rows, linear.outputs, linear.inputs, Pass::forward, Type::bf16});
      add({rows, linear.inputs, linear.outputs, Pass::dgrad, Type::bf16});
      add({linear.outputs, linear.inputs, rows, Pass::wgrad, Type::bf16});
      if (fp8) add({rows, linear.outputs, linear.inputs, Pass::forward, Type::fp8});
    }
  }
  shuffle(plan, kSeed);
  return plan;
}

double grouped_bytes(const GroupedShape& shape) {
  const double rows = real(std::accumulate(shape.rows.begin(), shape.rows.end(), std::int64_t{0}));
  const double weights = real(static_cast<std::int64_t>(shape.rows.size())) * real(shape.n) * real(shape.k);
  // A weight gradient is fp32, read and written.
  return shape.pass == Pass::wgrad ? 2 * rows * (real(shape.n) + real(shape.k)) + 8 * weights
                                   : 2 * rows * (real(shape.n) + real(shape.k)) + 2 * weights;
}

std::vector<GroupedShape> grouped_plan(double most_bytes) {
  // Gate and up, and down, of experts of Qwen3-30B-A3B (768), DeepSeek-V3 (2048) and Mixtral 8x7B (14336).
  const std::vector<Linear> experts = {{1536, 2048}, {2048, 768},   {4096, 7168},
                                       {7168, 2048}, {28672, 4096}, {4096, 14336}};
  constexpr std::int64_t kMostRows = 131072;
  std::vector<GroupedShape> plan;
  std::uint64_t seed = kSeed;
  for (const Linear& expert : experts) {
    for (const std::int64_t groups : {8, 32, 64, 128, 256}) {
      for (const std::int64_t mean : {16, 64, 128, 256, 512, 1024, 4096}) {
        const std::int64_t total = groups * mean;
        if (total > kMostRows) continue;
        const auto add = [&](std::vector<std::int64_t> rows, Pass pass, const char* name) {
          GroupedShape shape{std::move(rows), pass == Pass::dgrad ? expert.inputs : expert.outputs,
                             pass == Pass::dgrad ? expert.outputs : expert.inputs, pass, name};
          if (grouped_bytes(shape) <= most_bytes) plan.push_back(std::move(shape));
        };
        for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad})
          add(zipf_rows(total, groups, 0, 0), pass, "balanced");
        if (mean < 128) continue;  // few rows each: the weights count, not their spread
        add(zipf_rows(total, groups, 0.6, next_random(seed)), Pass::forward, "zipf 0.6");
        add(zipf_rows(total, groups, 1.2, next_random(seed)), Pass::forward, "zipf 1.2");
        std::vector<std::int64_t> one(static_cast<std::size_t>(groups), 0);
        one[static_cast<std::size_t>(groups / 2)] = total;
        add(std::move(one), Pass::forward, "one of all");
      }
    }
  }
  shuffle(plan, kSeed);
  return plan;
}

std::vector<std::int64_t> zipf_rows(std::int64_t total, std::int64_t groups, double exponent, std::uint64_t seed) {
  if (total < 0 || groups < 1) throw std::invalid_argument("rows need a group");
  std::vector<std::size_t> order(static_cast<std::size_t>(groups));
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (exponent != 0) shuffle(order, seed);
  const std::vector<double> by_rank = layer::zipf_weights(static_cast<int>(groups), exponent);
  const std::vector<std::int64_t> dealt = layer::spread_rows(by_rank, total, total);
  std::vector<std::int64_t> rows(order.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank) rows[order[rank]] = dealt[rank];
  return rows;
}

std::vector<std::int64_t> byte_matrix(std::int64_t ranks, std::int64_t bytes_each, double exponent, std::uint64_t seed,
                                      std::int64_t multiple) {
  const std::vector<std::int64_t> units = zipf_rows(bytes_each / multiple, ranks, exponent, seed);
  std::vector<std::int64_t> matrix;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (const std::int64_t unit : units) matrix.push_back(unit * multiple);
  }
  return matrix;
}

std::vector<std::int64_t> uneven_matrix(std::int64_t ranks) {
  std::vector<std::int64_t> matrix;
  for (std::int64_t from = 0; from < ranks; ++from)
    for (std::int64_t to = 0; to < ranks; ++to) matrix.push_back(16 * ((5 * from + 3 * to) % 13));
  return matrix;
}

std::vector<SentWord> words_received(const std::vector<std::int64_t>& matrix, std::int64_t ranks, std::int64_t rank) {
  constexpr std::int64_t kWord = 4;
  std::vector<SentWord> words;
  for (std::int64_t from = 0; from < ranks; ++from) {
    const auto row = matrix.begin() + static_cast<std::ptrdiff_t>(from * ranks);
    const std::int64_t before = std::accumulate(row, row + static_cast<std::ptrdiff_t>(rank), std::int64_t{0}) / kWord;
    const std::int64_t count = row[static_cast<std::ptrdiff_t>(rank)] / kWord;
    for (std::int64_t i = 0; i < count; ++i) words.push_back({from, static_cast<std::size_t>(before + i)});
  }
  return words;
}

std::vector<std::int64_t> size_ladder(std::int64_t first, std::int64_t last, std::int64_t factor) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = first; size <= last; size *= factor) {
    sizes.push_back(size);
    if (size > last / factor) break;
  }
  return sizes;
}

std::uint64_t next_random(std::uint64_t& state) {
  state += kernels::kGoldenStep;
  return kernels::mixed(state);
}

}  // namespace moeplan::device
