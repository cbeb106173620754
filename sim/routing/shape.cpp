#include "routing/shape.h"

#include <fmt/core.h>

#include <limits>
#include <optional>

#include "base/checked.h"
#include "base/error.h"
#include "routing/count_rows.h"

namespace moeplan::routing {
namespace {

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();

base::Where key(const char* name) { return {"", 0, 0, name}; }

void require_range(base::Faults& faults, const char* name, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) {
    faults.add(key(name), fmt::format("expected 1 to {}, got {}", with_thousands(most), with_thousands(value)));
  }
}

}  // namespace

void require_shape(const StepShape& shape) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  base::Faults faults;
  require_range(faults, "seq_length", shape.seq_length, kMostTokens);
  require_range(faults, "micro_batch_size", shape.micro_batch_size, kMostTokens);
  require_range(faults, "data_parallel", shape.data_parallel, kAny);
  require_range(faults, "microbatches", shape.microbatches, kAny);
  require_range(faults, "moe_layers", shape.moe_layers, kAny);
  require_range(faults, "experts", shape.experts, static_cast<std::int64_t>(kMostExperts));
  require_range(faults, "top_k", shape.top_k, kMostTopK);
  faults.throw_if_any();
  if (shape.top_k > shape.experts) {
    faults.add(key("top_k"), fmt::format("a token cannot choose {} of {} experts", shape.top_k, shape.experts));
  }
  const std::optional<std::int64_t> tokens = base::checked_multiply(shape.seq_length, shape.micro_batch_size);
  if (!tokens || *tokens > kMostTokens) {
    faults.add(key("micro_batch_size"), fmt::format("a microbatch of {} samples of {} tokens has more than {} tokens",
                                                    with_thousands(shape.micro_batch_size),
                                                    with_thousands(shape.seq_length), with_thousands(kMostTokens)));
  }
  const std::optional<std::int64_t> replicas = base::checked_multiply(shape.data_parallel, shape.microbatches);
  if (!replicas || !base::checked_multiply(*replicas, shape.micro_batch_size)) {
    faults.add(key("microbatches"), "the samples of one step cannot be counted: too many");
  }
  faults.throw_if_any();
}

std::int64_t tokens_of_microbatch(const StepShape& shape) { return shape.seq_length * shape.micro_batch_size; }

double tokens_of_step(const StepShape& shape) {
  return static_cast<double>(tokens_of_microbatch(shape)) * static_cast<double>(shape.data_parallel) *
         static_cast<double>(shape.microbatches);
}

std::string with_thousands(std::int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t digits_from = value < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > digits_from + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string counted(std::int64_t value, std::string noun) {
  return with_thousands(value) + " " + std::move(noun) + (value == 1 ? "" : "s");
}

}  // namespace moeplan::routing
