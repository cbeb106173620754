#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

// Memory follows program order: a rank's visits are replayed, every tensor is live from the op that allocates it to the
// op that frees it. Sizes are rounded up to 512 B, as PyTorch's caching allocator does. Exact for the program; no
// durations enter.
namespace moeplan::memory {

enum class Phase : std::uint8_t {
  load,
  first_iteration,
  first_optimizer_step,
  steady_iteration,
  steady_optimizer_step,
  kCount
};
inline constexpr std::size_t kPhases = static_cast<std::size_t>(Phase::kCount);
std::string_view phase_name(Phase phase);

struct AliveTensor {
  std::string name;
  plan::TensorKind kind = plan::TensorKind::activations_dense;
  std::int64_t bytes = 0;
  std::int64_t count = 0;  // how many of that name are alive
};

struct Peak {
  std::int64_t allocated_bytes = 0;
  Phase phase = Phase::load;
  std::string op;         // name of the op that runs at the peak; "" in the load phase
  std::string direction;  // "forward", "backward", or "" outside both
  std::int64_t layer = -1, microbatch = -1;
  plan::BytesByKind by_kind{};
};

struct RankMemory {
  std::int64_t rank = 0, stage = 0;
  Peak peak;  // over all phases
  std::array<std::int64_t, kPhases> phase_peak_bytes{};
  std::int64_t static_bytes = 0;       // steady: parameters, gradients, optimizer states, workspace
  std::int64_t routed_peak_bytes = 0;  // largest sum of tensors sized by routed rows: dispatch, experts, combine
  std::int64_t host_bytes = 0;         // most in host memory at once: offloaded optimizer states and activations
  std::int64_t outside_bytes = 0;      // context, communicators, dispatcher buffers: outside the allocator
  // Of ranks that were replayed through the allocator (memory/reserved.h), else 0.
  std::int64_t reserved_bytes = 0;
  std::array<std::int64_t, kPhases> phase_reserved_bytes{};
  std::int64_t retries = 0;  // times that the allocator gave cached memory back to go on
  bool has_reserved() const { return reserved_bytes > 0; }
  std::int64_t fragmentation_bytes() const { return has_reserved() ? reserved_bytes - peak.allocated_bytes : 0; }
  std::int64_t device_bytes() const { return (has_reserved() ? reserved_bytes : peak.allocated_bytes) + outside_bytes; }
};

// Rounded size of an allocation: a multiple of 512 B; 0 stays 0.
std::int64_t allocation_bytes(std::int64_t bytes);

RankMemory replay(const plan::Plan& plan, std::int64_t rank);

// Tensors alive at the peak of a rank, largest first, summed by name; static memory first by kind.
std::vector<AliveTensor> alive_at_peak(const plan::Plan& plan, const RankMemory& memory);

// The highest closed-form activation bytes of the rank (MemFine's equation 2; plan/static_memory.h): what the replay is
// shown beside.
double closed_form_activation_bytes(const plan::Plan& plan, std::int64_t rank);

// Points (program position, allocated bytes) of one steady iteration, for timelines: after each op's allocations.
struct TimelinePoint {
  std::int32_t visit = 0, op = 0;
  std::int64_t allocated_bytes = 0;
};
std::vector<TimelinePoint> timeline(const plan::Plan& plan, std::int64_t rank);

}  // namespace moeplan::memory
