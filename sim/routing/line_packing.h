#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace moeplan::routing {

// Which part of a trace each sample of a training run reads: sample 0 starts at line 0, takes whole lines in their
// order (after the last comes the first) until it has seq_length tokens, and is cut there; the next sample starts at
// the line after. A sample is therefore a window of seq_length tokens, which may go round, that begins at a line.
class LinePacking {
 public:
  LinePacking(std::span<const std::int64_t> line_tokens, std::int64_t seq_length);

  std::int64_t first_token(std::int64_t sample) const;  // of the trace; sample >= 0
  // Lines that `samples` samples use from sample 0 on; stops counting above `most`.
  std::int64_t lines_used(std::int64_t samples, std::int64_t most) const;

 private:
  struct Start {
    std::int64_t token = 0, lines = 0;  // where the sample begins, lines that it uses
  };
  const Start& start(std::int64_t sample) const;

  std::vector<Start> starts_;   // of sample 0, 1, ..., until a start line comes again
  std::size_t cycle_from_ = 0;  // after the last comes this one
};

}  // namespace moeplan::routing
