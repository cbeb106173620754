#include "policy/decision.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "policy/index.h"

namespace moeplan::policy {
namespace {

std::int32_t narrow(std::int64_t value) {
  MOEPLAN_CHECK(value >= 0 && value <= std::numeric_limits<std::int32_t>::max(), "rows of one pair of members");
  return static_cast<std::int32_t>(value);
}

}  // namespace

std::span<const std::int64_t> RoutedRows::rows_on(std::int64_t destination) const {
  const std::int32_t begin = instance_begin[at(destination)];
  const std::int32_t end = instance_begin[at(destination) + 1];
  return std::span(instance_rows).subspan(at(begin), at(end - begin));
}

std::int64_t RoutedRows::received(std::int64_t destination) const {
  std::int64_t sum = 0;
  for (std::int64_t source = 0; source < members; ++source) sum += matrix[at(source * members + destination)];
  return sum;
}

std::int64_t RoutedRows::sent(std::int64_t source) const {
  std::int64_t sum = 0;
  for (std::int64_t destination = 0; destination < members; ++destination)
    sum += matrix[at(source * members + destination)];
  return sum;
}

std::int64_t RoutedRows::total() const {
  return std::accumulate(instance_rows.begin(), instance_rows.end(), std::int64_t{0});
}

std::int64_t RoutedRows::expert_of(std::int64_t instance) const {
  return instance_experts.empty() ? instance : instance_experts[at(instance)];
}

bool RoutedRows::even() const {
  if (!std::all_of(matrix.begin(), matrix.end(), [&](std::int32_t rows) { return rows == matrix.front(); }))
    return false;
  const std::span<const std::int64_t> first = rows_on(0);
  for (std::int64_t destination = 1; destination < members; ++destination) {
    const auto rows = rows_on(destination);
    if (!std::equal(rows.begin(), rows.end(), first.begin(), first.end())) return false;
  }
  return true;
}

bool LayerDecision::even() const {
  const auto is_even = [](const RoutedRows& rows) { return rows.even(); };
  return replicas.empty() && std::all_of(forward_rows.begin(), forward_rows.end(), is_even) &&
         std::all_of(backward_rows.begin(), backward_rows.end(), is_even);
}

std::int64_t LayerDecision::extra_instances(std::int64_t member) const {
  if (replicas.empty()) return 0;
  const std::int64_t members = forward_rows.front().members;
  std::int64_t sum = 0;
  for (std::int64_t home = 0; home < members; ++home) sum += replicas[at(home * members + member)];
  return sum;
}

std::int64_t LayerDecision::lent_instances(std::int64_t member) const {
  if (replicas.empty()) return 0;
  const std::int64_t members = forward_rows.front().members;
  std::int64_t sum = 0;
  for (std::int64_t host = 0; host < members; ++host) sum += replicas[at(member * members + host)];
  return sum;
}

GroupContext::Source chunk_of(const GroupContext::Source& source, std::int64_t chunk, std::int64_t chunks) {
  MOEPLAN_CHECK(chunks >= 1 && chunk >= 0 && chunk < chunks, "chunk number");
  const std::int64_t positions = source.end - source.begin;
  // floor(i n / c) as i (n div c) + floor(i (n mod c) / c): cannot overflow for any count of positions.
  const std::int64_t whole = positions / chunks;
  const std::int64_t rest = positions % chunks;
  return {source.replica, source.begin + chunk * whole + chunk * rest / chunks,
          source.begin + (chunk + 1) * whole + (chunk + 1) * rest / chunks};
}

std::vector<std::int64_t> chunk_counts(const GroupContext& context, std::int64_t chunk, std::int64_t chunks) {
  std::vector<std::int64_t> counts(at(context.members() * context.experts), 0);
  for (std::int64_t member = 0; member < context.members(); ++member) {
    const GroupContext::Source part = chunk_of(context.sources[at(member)], chunk, chunks);
    const routing::TokenSlice slice{context.iteration, context.microbatch, part.replica, part.begin, part.end};
    const std::span<std::int64_t> row = std::span(counts).subspan(at(member * context.experts), at(context.experts));
    context.loads->add_counts(slice, context.moe_layer, row);
  }
  return counts;
}

std::vector<std::int64_t> forward_counts(const GroupContext& context, std::int64_t chunk, std::int64_t chunks) {
  if (context.padded_rows.empty()) return chunk_counts(context, chunk, chunks);
  std::vector<std::int64_t> counts;
  counts.reserve(at(context.members() * context.experts));
  for (const std::int64_t capacity : context.padded_rows) {
    const std::int64_t rows = (chunk + 1) * capacity / chunks - chunk * capacity / chunks;
    counts.insert(counts.end(), at(context.experts), rows);
  }
  return counts;
}

RoutedRows place_at_home(std::span<const std::int64_t> counts, std::int64_t members, std::int64_t experts) {
  MOEPLAN_CHECK(members >= 1 && experts % members == 0, "experts must divide by the members of the group");
  MOEPLAN_CHECK(counts.size() == at(members * experts), "one count for each source and expert");
  const std::int64_t local = experts / members;
  RoutedRows rows;
  rows.members = members;
  rows.matrix.assign(at(members * members), 0);
  rows.instance_rows.assign(at(experts), 0);
  rows.instance_begin.resize(at(members) + 1);
  for (std::int64_t member = 0; member <= members; ++member) rows.instance_begin[at(member)] = narrow(member * local);
  for (std::int64_t source = 0; source < members; ++source) {
    for (std::int64_t destination = 0; destination < members; ++destination) {
      std::int64_t sum = 0;
      for (std::int64_t expert = destination * local; expert < (destination + 1) * local; ++expert) {
        const std::int64_t count = counts[at(source * experts + expert)];
        rows.instance_rows[at(expert)] += count;
        sum += count;
      }
      rows.matrix[at(source * members + destination)] = narrow(sum);
    }
  }
  return rows;
}

LayerDecision decide(const GroupContext& context, std::span<const Policy* const> policies) {
  LayerDecision decision;
  decision.forward_rows.push_back(place_at_home(chunk_counts(context, 0, 1), context.members(), context.experts));
  const RoutedRows& rows = decision.forward_rows.front();
  decision.routed_rows = static_cast<double>(rows.total());
  decision.retained_rows = decision.routed_rows;
  std::int64_t most = 0;
  for (std::int64_t member = 0; member < rows.members; ++member) most = std::max(most, rows.received(member));
  decision.max_received = static_cast<double>(most);
  if (policies.empty()) return decision;
  GroupContext working = context;
  for (const Policy* policy : policies) policy->apply(working, decision);
  return decision;
}

}  // namespace moeplan::policy
