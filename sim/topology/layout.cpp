#include "topology/layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/checked.h"

namespace moeplan::topology {

Layout::Place Layout::place(std::int64_t rank) const {
  MOEPLAN_CHECK(rank >= 0 && rank < world, "rank outside the world");
  Place place;
  place.pp = rank / stage_size();
  const std::int64_t inside = rank % stage_size();
  place.tp = inside % tp;
  place.cp = inside / tp % cp;
  place.dp = inside / (tp * cp);
  place.etp = inside % etp;
  place.ep = inside / etp % ep;
  place.edp = inside / (etp * ep);
  return place;
}

std::int64_t Layout::rank_of(std::int64_t tp_index, std::int64_t cp_index, std::int64_t dp_index,
                             std::int64_t pp_index) const {
  return tp_index + tp * (cp_index + cp * dp_index) + stage_size() * pp_index;
}

namespace {

// A group is an arithmetic sequence of ranks: first, first + stride, ...
struct Sequence {
  std::int64_t first = 0, stride = 1, size = 1;
};

Sequence sequence_of(const Layout& layout, GroupKind kind, std::int64_t rank) {
  const Layout::Place place = layout.place(rank);
  const std::int64_t stage_start = place.pp * layout.stage_size();
  switch (kind) {
    case GroupKind::tp:
      return {rank - place.tp, 1, layout.tp};
    case GroupKind::ep:
      return {rank - place.ep * layout.etp, layout.etp, layout.ep};
    case GroupKind::dp:
      return {stage_start + place.tp, layout.tp, layout.cp * layout.dp()};
    case GroupKind::edp:
      return {stage_start + place.ep * layout.etp + place.etp, layout.etp * layout.ep, layout.edp()};
    case GroupKind::stage:
      return {stage_start, 1, layout.stage_size()};
    case GroupKind::world:
      return {0, 1, layout.world};
    case GroupKind::cp:
      return {rank - place.cp * layout.tp, layout.tp, layout.cp};
    case GroupKind::dp_only:
      return {rank - place.dp * layout.tp * layout.cp, layout.tp * layout.cp, layout.dp()};
    case GroupKind::etp:
      return {rank - place.etp, 1, layout.etp};
    case GroupKind::etp_ep:
      return {rank - place.ep * layout.etp - place.etp, 1, layout.etp * layout.ep};
    case GroupKind::pp:
      return {rank % layout.stage_size(), layout.stage_size(), layout.pp};
    case GroupKind::mirror: {
      const std::int64_t near = std::min(place.pp, layout.pp - 1 - place.pp), apart = layout.pp - 1 - 2 * near;
      return {near * layout.stage_size() + rank % layout.stage_size(), apart * layout.stage_size(), apart > 0 ? 2 : 1};
    }
  }
  MOEPLAN_CHECK(false, "unknown group kind");
}

}  // namespace

std::vector<std::int64_t> group_members(const Layout& layout, GroupKind kind, std::int64_t rank) {
  const Sequence sequence = sequence_of(layout, kind, rank);
  std::vector<std::int64_t> members;
  members.reserve(static_cast<std::size_t>(sequence.size));
  for (std::int64_t i = 0; i < sequence.size; ++i) members.push_back(sequence.first + i * sequence.stride);
  return members;
}

std::int64_t group_index(const Layout& layout, GroupKind kind, std::int64_t rank) {
  const Sequence sequence = sequence_of(layout, kind, rank);
  if (kind == GroupKind::mirror) return sequence.first;  // on the first half of the stages
  // A block of stride x size ranks holds `stride` interleaved groups, numbered by their first rank.
  const std::int64_t block = sequence.stride * sequence.size;
  return sequence.first / block * sequence.stride + sequence.first % sequence.stride;
}

std::int64_t group_size(const Layout& layout, GroupKind kind) { return sequence_of(layout, kind, 0).size; }

std::int64_t group_count(const Layout& layout, GroupKind kind) { return layout.world / group_size(layout, kind); }

namespace {

using NamedSize = std::pair<std::string, std::int64_t>;

// Adds a fault unless the product of `sizes` divides the world. Sizes are >= 1.
void check_divides(const std::array<NamedSize, 3>& sizes, std::int64_t world,
                   std::vector<std::pair<std::string, std::string>>& faults) {
  std::string names, numbers;
  std::optional<std::int64_t> product = 1;
  for (const auto& [name, size] : sizes) {
    names += (names.empty() ? "" : " x ") + name;
    numbers += (numbers.empty() ? "" : " x ") + fmt::format("{}", size);
    if (product) product = base::checked_multiply(*product, size);
  }
  if (product && world % *product == 0) return;
  const std::string value = product ? fmt::format("{}", *product) : std::string("more than 2^63");
  faults.emplace_back(sizes[0].first,
                      fmt::format("{} = {} = {} does not divide the {} GPUs", names, numbers, value, world));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> layout_faults(const Layout& layout) {
  std::vector<std::pair<std::string, std::string>> faults;
  const NamedSize world{"world_size", layout.world};
  const NamedSize tp{"tensor_model_parallel_size", layout.tp};
  const NamedSize cp{"context_parallel_size", layout.cp};
  const NamedSize pp{"pipeline_model_parallel_size", layout.pp};
  const NamedSize ep{"expert_model_parallel_size", layout.ep};
  const NamedSize etp{"expert_tensor_parallel_size", layout.etp};
  const NamedSize vpp{"virtual_pipeline_model_parallel_size", layout.vpp};
  for (const NamedSize& size : {world, tp, cp, pp, ep, etp, vpp})
    if (size.second < 1) faults.emplace_back(size.first, fmt::format("expected an integer >= 1, got {}", size.second));
  const auto all_positive = [](const std::array<NamedSize, 3>& sizes) {
    for (const NamedSize& size : sizes)
      if (size.second < 1) return false;
    return true;
  };
  if (layout.world < 1) return faults;
  for (const std::array<NamedSize, 3>& sizes : {std::array{tp, cp, pp}, std::array{ep, etp, pp}})
    if (all_positive(sizes)) check_divides(sizes, layout.world, faults);
  if (layout.vpp > 1 && layout.pp == 1) {
    faults.emplace_back(
        vpp.first,
        fmt::format("{} virtual stages need a pipeline_model_parallel_size of 2 or more, got 1", layout.vpp));
  }
  return faults;
}

}  // namespace moeplan::topology
