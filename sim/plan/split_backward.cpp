#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "plan/side_streams.h"

namespace moeplan::plan {

namespace {

using Ids = std::vector<std::uint32_t>;

bool contains(const Ids& ids, std::uint32_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

// Gradients of experts that other ranks host go home at the end of backward: they cannot wait.
bool returns_gradients(const Block& block) {
  return std::any_of(block.backward.begin(), block.backward.end(),
                     [](const Op& op) { return op.name == "return expert gradients"; });
}

bool reads(const Op& op, std::uint32_t id) {
  return contains(op.reads, id) || (contains(op.frees, id) && !contains(op.unread, id));
}

// What the ops read and do not make themselves.
std::set<std::uint32_t> inputs_of(const std::vector<Op>& ops) {
  std::set<std::uint32_t> inputs;
  for (const Op& op : ops)
    for (const Ids* ids : {&op.reads, &op.frees})
      for (const std::uint32_t id : *ids)
        if (reads(op, id)) inputs.insert(id);
  for (const Op& op : ops)
    for (const std::uint32_t id : op.allocates) inputs.erase(id);
  return inputs;
}

bool allocates_behind(const std::vector<Op>& ops, std::size_t i, std::uint32_t id) {
  return std::any_of(ops.begin() + static_cast<std::ptrdiff_t>(i) + 1, ops.end(),
                     [id](const Op& op) { return contains(op.allocates, id); });
}

Op& last_reader(std::vector<Op>& ops, std::uint32_t id) {
  const auto reader = std::find_if(ops.rbegin(), ops.rend(), [id](const Op& op) { return reads(op, id); });
  MOEPLAN_CHECK(reader != ops.rend(), "what weight gradients need, one of them reads");
  return *reader;
}

}  // namespace

void split_backward(Block& block) {
  const bool returns = returns_gradients(block);
  std::vector<Op> first, weights;
  std::vector<std::size_t> behind;  // ops of `first` in front of each of `weights`
  for (Op& op : block.backward) {
    if (!op.weight_gradient || (returns && op.family == Family::expert)) {
      first.push_back(std::move(op));
      continue;
    }
    op.beside_exchange = op.beside_tp = false;  // no exchange runs there
    behind.push_back(first.size());
    weights.push_back(std::move(op));
  }
  const std::set<std::uint32_t> needed = inputs_of(weights);
  // What weight gradients read too stays until the last of them; a tensor may live more than once in backward.
  for (std::size_t i = 0; i < first.size(); ++i) {
    const Ids freed = std::exchange(first[i].frees, {});
    for (const std::uint32_t id : freed)
      (needed.contains(id) && !allocates_behind(first, i, id) ? last_reader(weights, id) : first[i])
          .frees.push_back(id);
  }
  // What input gradients alone read goes with them.
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Ids freed = std::exchange(weights[i].frees, {});
    for (const std::uint32_t id : freed) {
      const bool leaves = contains(weights[i].unread, id) && !needed.contains(id);
      MOEPLAN_CHECK(!leaves || behind[i] > 0, "an input gradient comes before the weight gradient");
      (leaves ? first[behind[i] - 1] : weights[i]).frees.push_back(id);
    }
  }
  block.backward = std::move(first);
  block.weights = std::move(weights);
}

}  // namespace moeplan::plan
