#include <fmt/core.h>

#include <array>

#include "topology/layout.h"

// Groups as text, in Megatron's rank order.
namespace moeplan::topology {
namespace {

struct Kind {
  GroupKind kind;
  const char* title;
};

constexpr std::array<Kind, kGroupKinds> kKinds = {{
    {GroupKind::tp, "tensor parallel (tp)"},
    {GroupKind::cp, "context parallel (cp)"},
    {GroupKind::dp_only, "data parallel (dp)"},
    {GroupKind::dp, "data and context parallel (dp-cp)"},
    {GroupKind::pp, "pipeline parallel (pp)"},
    {GroupKind::etp, "expert tensor parallel (etp)"},
    {GroupKind::ep, "expert parallel (ep)"},
    {GroupKind::etp_ep, "expert tensor and expert parallel (etp-ep)"},
    {GroupKind::edp, "expert data parallel (edp)"},
    {GroupKind::stage, "pipeline stage"},
    {GroupKind::world, "world"},
}};

constexpr std::size_t kShown = 32;  // longer groups are shortened

// Members are an arithmetic sequence: nothing is lost by naming its ends and its step.
std::string members_text(const std::vector<std::int64_t>& members) {
  if (members.size() > kShown)
    return fmt::format("{} {} .. {} ({} ranks)", members[0], members[1], members.back(), members.size());
  std::string text;
  for (const std::int64_t member : members) text += fmt::format("{}{}", text.empty() ? "" : " ", member);
  return text;
}

}  // namespace

std::string groups_text(const Layout& layout) {
  std::string text;
  for (const auto& [kind, title] : kKinds) {
    const std::int64_t count = group_count(layout, kind), size = group_size(layout, kind);
    text += fmt::format("{}: {} group{} of {}\n", title, count, count == 1 ? "" : "s", size);
    std::vector<std::int64_t> first(static_cast<std::size_t>(count), -1);  // lowest rank of each group
    for (std::int64_t rank = 0; rank < layout.world; ++rank) {
      std::int64_t& lowest = first[static_cast<std::size_t>(group_index(layout, kind, rank))];
      if (lowest < 0) lowest = rank;
    }
    for (std::int64_t index = 0; index < count; ++index) {
      text += fmt::format("  {}: {}\n", index,
                          members_text(group_members(layout, kind, first[static_cast<std::size_t>(index)])));
    }
  }
  return text;
}

}  // namespace moeplan::topology
