#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/pass.h"

// What is measured, in an order that does not go along with any size: a run that is cut short still covers all sizes,
// and a part that warms up does not make the large ones slow. Plain C++17.
namespace moeplan::device {

using kernels::Pass;  // TN, NN, NT
enum class Type { bf16, fp8 };
const char* pass_name(Pass pass);    // "fwd", "dgrad", "wgrad"
const char* layout_name(Pass pass);  // "TN", "NN", "NT"
const char* type_name(Type type);    // "bf16", "fp8"

// C[m,n] = A[m,k] B[k,n] (docs/operators.md).
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  Pass pass = Pass::forward;
  Type type = Type::bf16;
};
double product_flop(const ProductShape& shape);
// Operands and result, each once; a weight gradient reads and writes fp32.
double product_bytes(const ProductShape& shape);

// A linear layer: `outputs` x `inputs` weights.
struct Linear {
  std::int64_t outputs = 0, inputs = 0;
};
// Of public MoE models, and some that lie between.
const std::vector<Linear>& plan_linears();

// Every layer at every number of tokens, in three passes of bf16 and, with `fp8`, forward in fp8 (the one layout in
// which cuBLASLt multiplies it). Products that do not fit into `most_bytes` are left out.
std::vector<ProductShape> product_plan(const std::vector<Linear>& linears, const std::vector<std::int64_t>& tokens,
                                       bool fp8, double most_bytes);

struct GroupedShape {
  std::vector<std::int64_t> rows;  // of each group
  std::int64_t n = 0, k = 0;
  Pass pass = Pass::forward;
  std::string distribution;  // "balanced", "zipf 0.8", "one of all"
};
double grouped_bytes(const GroupedShape& shape);
std::vector<GroupedShape> grouped_plan(double most_bytes);

// `total` rows over `groups`, group i of weight (rank of i)^-exponent, the ranks in an order drawn from `seed`; whole
// numbers that add up to the total (largest remainders). Exponent 0: as even as whole numbers allow.
std::vector<std::int64_t> zipf_rows(std::int64_t total, std::int64_t groups, double exponent, std::uint64_t seed);

// Bytes that rank i sends to rank j at [i * ranks + j]: each rank sends `bytes_each`, its own part included, spread
// over destinations as zipf_rows; the same hot destinations for all, as an uneven router makes them. Multiples of
// `multiple`, so that sums may fall short of bytes_each by less than that a destination.
std::vector<std::int64_t> byte_matrix(std::int64_t ranks, std::int64_t bytes_each, double exponent, std::uint64_t seed,
                                      std::int64_t multiple);

// Bytes of a small exchange that shows whether uneven parts arrive where they should: from 0 to 192, multiples of 16,
// other ones from i to j than from j to i.
std::vector<std::int64_t> uneven_matrix(std::int64_t ranks);
// What `rank` holds after an exchange by `matrix`: for each 4-byte word received, the rank that sent it and its place
// among the words that this one sent. Parts lie by sender; each sender's lie by receiver.
struct SentWord {
  std::int64_t rank = 0;
  std::size_t place = 0;
};
std::vector<SentWord> words_received(const std::vector<std::int64_t>& matrix, std::int64_t ranks, std::int64_t rank);

// Sizes from `first` to `last`, each `factor` times the one before; `last` itself where it is reached.
std::vector<std::int64_t> size_ladder(std::int64_t first, std::int64_t last, std::int64_t factor);

// The same elements in an order drawn from `seed`.
template <class Element>
void shuffle(std::vector<Element>& elements, std::uint64_t seed);
std::uint64_t next_random(std::uint64_t& state);  // splitmix64

template <class Element>
void shuffle(std::vector<Element>& elements, std::uint64_t seed) {
  for (std::size_t i = elements.size(); i > 1; --i) std::swap(elements[i - 1], elements[next_random(seed) % i]);
}

}  // namespace moeplan::device
