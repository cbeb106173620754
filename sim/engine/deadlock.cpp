#include "engine/deadlock.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "base/check.h"

namespace moeplan::engine {

void throw_deadlock(std::int64_t ranks, std::vector<Stuck> stuck) {
  constexpr std::size_t kShown = 8;
  std::sort(stuck.begin(), stuck.end(), [](const Stuck& a, const Stuck& b) { return a.key < b.key; });
  std::string text = fmt::format("deadlock: {} ranks wait for ever", ranks);
  for (std::size_t i = 0; i < std::min(kShown, stuck.size()); ++i) {
    text += fmt::format("; rendezvous {}: {} of {} members, rank {} the lowest", stuck[i].key, stuck[i].arrived,
                        stuck[i].members, stuck[i].first_rank);
  }
  if (stuck.size() > kShown) text += fmt::format("; and {} more", stuck.size() - kShown);
  throw base::InternalError(text);
}

}  // namespace moeplan::engine
