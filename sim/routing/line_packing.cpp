#include "routing/line_packing.h"

#include <algorithm>

#include "base/check.h"

namespace moeplan::routing {

LinePacking::LinePacking(std::span<const std::int64_t> line_tokens, std::int64_t seq_length) {
  std::vector<std::int64_t> offset = {0};  // of each line, and the end
  for (const std::int64_t tokens : line_tokens) {
    MOEPLAN_CHECK(tokens >= 1, "a line has a token");
    offset.push_back(offset.back() + tokens);
  }
  MOEPLAN_CHECK(offset.size() > 1 && seq_length >= 1, "a trace has a line");
  const auto lines = static_cast<std::int64_t>(line_tokens.size());
  const std::int64_t tokens = offset.back();
  constexpr std::size_t kUnseen = SIZE_MAX;
  std::vector<std::size_t> sample_of_line(line_tokens.size(), kUnseen);
  // The next start depends on this start alone, so the starts become periodic within `lines` samples.
  for (std::size_t line = 0; sample_of_line[line] == kUnseen;) {
    sample_of_line[line] = starts_.size();
    // The first line end at or after the last token that the sample needs.
    const std::int64_t last = offset[line] + seq_length;
    const std::int64_t rounds = (last - 1) / tokens;
    const auto end = std::lower_bound(offset.begin(), offset.end(), last - rounds * tokens) - offset.begin();
    const std::int64_t end_line = rounds * lines + end;
    starts_.push_back({offset[line], end_line - static_cast<std::int64_t>(line)});
    line = static_cast<std::size_t>(end_line % lines);
    cycle_from_ = sample_of_line[line];
  }
}

const LinePacking::Start& LinePacking::start(std::int64_t sample) const {
  MOEPLAN_CHECK(sample >= 0, "samples count from 0");
  auto index = static_cast<std::size_t>(sample);
  if (index >= starts_.size()) index = cycle_from_ + (index - cycle_from_) % (starts_.size() - cycle_from_);
  return starts_[index];
}

std::int64_t LinePacking::first_token(std::int64_t sample) const { return start(sample).token; }

std::int64_t LinePacking::lines_used(std::int64_t samples, std::int64_t most) const {
  std::int64_t used = 0;
  for (std::int64_t sample = 0; sample < samples && used <= most; ++sample) used += start(sample).lines;
  return used;
}

}  // namespace moeplan::routing
