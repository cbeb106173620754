#include <algorithm>

#include "plan/write_programs.h"

namespace moeplan::plan {

namespace {

// Ops of one lane up to and including an exchange; parts of one or more visits.
using Segment = std::vector<Visit>;

bool exchanges(const Op& op) { return op.stream == Stream::ep && !op.host_sync && !op.announces; }

std::vector<Segment> segments_of(const std::vector<Visit>& visits, const std::vector<Block>& blocks, Lane lane) {
  std::vector<Segment> segments(1);
  for (const Visit& visit : visits) {
    const Block& block = blocks[static_cast<std::size_t>(visit.block)];
    const auto& ops = ops_of(block, visit.direction);
    Visit part = visit;
    part.lane = lane;
    bool exchanging = false;
    const auto end = std::min<std::uint32_t>(visit.end_op, static_cast<std::uint32_t>(ops.size()));
    for (std::uint32_t o = visit.first_op; o < end; ++o) {
      if (exchanges(ops[o])) exchanging = true;
      // What runs beside an exchange is issued with it.
      if (!exchanging || o + 1 == end || ops[o + 1].beside_exchange) continue;
      exchanging = false;
      part.end_op = o + 1;
      segments.back().push_back(part);
      segments.emplace_back();
      part.first_op = o + 1;
      part.end_op = visit.end_op;
    }
    segments.back().push_back(part);
  }
  return segments;
}

}  // namespace

std::vector<Visit> take_turns(const std::vector<Visit>& forward, const std::vector<Visit>& backward,
                              const std::vector<Block>& blocks) {
  const std::vector<Segment> ahead = segments_of(forward, blocks, Lane::forward);
  const std::vector<Segment> behind = segments_of(backward, blocks, Lane::backward);
  std::vector<Visit> merged;
  for (std::size_t i = 0; i < ahead.size() || i < behind.size(); ++i) {
    if (i < behind.size()) merged.insert(merged.end(), behind[i].begin(), behind[i].end());
    if (i < ahead.size()) merged.insert(merged.end(), ahead[i].begin(), ahead[i].end());
  }
  return merged;
}

}  // namespace moeplan::plan
