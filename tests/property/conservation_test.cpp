#include <numeric>

#include "cases.h"
#include "memory/replay.h"
#include "memory/walk.h"

// What goes in comes out: token copies over an EP group, bytes over an iteration, and the parts of a peak.
using namespace moeplan;
using moeplan::property::Case;

namespace {

// Of all chunks and members; every chunk's matrix, instances and totals agree on the way.
std::int64_t rows_of(const std::vector<policy::RoutedRows>& chunks) {
  std::int64_t all = 0;
  for (const policy::RoutedRows& rows : chunks) {
    const std::int64_t matrix = std::accumulate(rows.matrix.begin(), rows.matrix.end(), std::int64_t{0});
    const std::int64_t instances =
        std::accumulate(rows.instance_rows.begin(), rows.instance_rows.end(), std::int64_t{0});
    std::int64_t sent = 0, received = 0;
    for (std::int64_t member = 0; member < rows.members; ++member) {
      const auto on = rows.rows_on(member);
      RC_ASSERT(std::accumulate(on.begin(), on.end(), std::int64_t{0}) == rows.received(member));
      sent += rows.sent(member);
      received += rows.received(member);
    }
    for (const std::int32_t n : rows.matrix) RC_ASSERT(n >= 0);
    RC_ASSERT(sent == matrix);
    RC_ASSERT(received == matrix);
    RC_ASSERT(instances == matrix);
    RC_ASSERT(rows.total() == matrix);
    all += matrix;
  }
  return all;
}

}  // namespace

TEST_CASE("token copies: routed ones are sent, dropped or padding, and all that is sent arrives") {
  property::for_all("copies", 150, [] {
    const Case c = *property::any_case();
    const plan::Plan plan = c.plan();
    // Of one EP group: positions of a rank x samples, top-2 of 8 experts, over its ranks.
    const std::int64_t chosen = c.seq / (c.tp * c.cp) * c.mbs * 2 * c.ep * c.etp;
    for (const policy::LayerDecision& d : plan.decisions) {
      RC_ASSERT(static_cast<std::int64_t>(d.forward_rows.size()) == d.chunks);
      RC_ASSERT(d.routed_rows + d.dropped_rows == static_cast<double>(chosen));
      RC_ASSERT(static_cast<double>(rows_of(d.forward_rows)) == d.routed_rows + d.padding_rows);
      const auto backward = static_cast<double>(rows_of(d.rows_of_backward()));
      RC_ASSERT(backward == (d.backward_rows.empty() ? d.routed_rows + d.padding_rows : d.retained_rows));
      RC_ASSERT(d.retained_rows <= d.routed_rows);
    }
  });
}

TEST_CASE("bytes: an iteration frees what it allocates, kind by kind, on the device and on the host") {
  property::for_all("bytes", 60, [] {
    Case c = *property::any_case();
    if (c.memory == "{}")
      c.memory = *rc::gen::element<std::string>("{}", "{ offload_modules: [core_attn, attn_proj] }");
    const plan::Plan plan = c.plan();
    for (std::int64_t rank = 0; rank < c.gpus(); ++rank) {
      memory::Walk::Live last;
      memory::Walk walk(plan, rank);  // ends the program when a tensor is left or freed twice
      walk.run([&](std::size_t, std::size_t, const memory::Walk::Live& live) {
        for (const std::int64_t bytes : live.by_kind) RC_ASSERT(bytes >= 0);
        RC_ASSERT(std::accumulate(live.by_kind.begin(), live.by_kind.end(), std::int64_t{0}) == live.bytes);
        RC_ASSERT(live.routed_bytes >= 0);
        RC_ASSERT(live.host_bytes >= 0);
        last = live;
      });
      RC_ASSERT(last.host_bytes == 0);
      RC_ASSERT(last.routed_bytes == 0);
    }
  });
}

TEST_CASE("a peak is the sum of its kinds and of the tensors alive at it, and no phase is above it") {
  property::for_all("peaks", 60, [] {
    const Case c = *property::any_case();
    const plan::Plan plan = c.plan();
    for (std::int64_t rank = 0; rank<c.gpus(); rank += c.gpus()> 1 ? c.gpus() - 1 : 1) {
      const memory::RankMemory memory = memory::replay(plan, rank);
      const auto& kinds = memory.peak.by_kind;
      RC_ASSERT(std::accumulate(kinds.begin(), kinds.end(), std::int64_t{0}) == memory.peak.allocated_bytes);
      std::int64_t alive = 0;
      for (const memory::AliveTensor& tensor : memory::alive_at_peak(plan, memory)) alive += tensor.bytes;
      RC_ASSERT(alive == memory.peak.allocated_bytes);
      for (const std::int64_t peak : memory.phase_peak_bytes) RC_ASSERT(peak <= memory.peak.allocated_bytes);
      RC_ASSERT(memory.routed_peak_bytes <= memory.peak.allocated_bytes - memory.static_bytes);
    }
  });
}
