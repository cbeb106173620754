#include <algorithm>

#include "plan/shape.h"
#include "plan/static_memory.h"

// docs/models.md, Dispatchers.
namespace moeplan::plan {

namespace {

constexpr std::int64_t kNvlPeers = 8;                               // NUM_MAX_NVL_PEERS of DeepEP
constexpr std::int64_t kRoutes = 128 * (8 + 4), kScales = 128 * 4;  // room of a token for experts, weights, scales
constexpr std::int64_t kSourceMeta = 8;
constexpr std::int64_t kMegatronSms = 20;  // moe_deepep_num_sms

// get_nvl_buffer_size_hint and get_rdma_buffer_size_hint of DeepEP's configuration: a queue of tokens for each channel
// (two multiprocessors) and peer, without its counters.
std::int64_t deepep_bytes(const scenario::Scenario& scenario, std::int64_t ranks) {
  const std::int64_t sms = scenario.dispatch.sms > 0 ? scenario.dispatch.sms : kMegatronSms;
  const std::int64_t channels = sms / 2;
  const std::int64_t token = scenario.model.hidden * Shape::kElement + kRoutes + kScales + kSourceMeta;
  const std::int64_t queue = ranks <= kNvlPeers ? 256 : ranks <= 64 ? 288 : 560;  // tokens, of its tuned configurations
  std::int64_t bytes = channels * std::min(ranks, kNvlPeers) * queue * token;
  if (ranks > kNvlPeers) bytes += channels * (ranks / kNvlPeers) * 128 * token * 2;
  return bytes;
}

}  // namespace

std::int64_t dispatch_buffer_bytes(const scenario::Scenario& scenario) {
  const Shape shape = make_shape(scenario);
  const std::int64_t ranks = shape.ep * shape.etp;
  if (scenario.model.moe_layer_count() == 0 || ranks == 1) return 0;
  switch (scenario.dispatch.kind) {
    case scenario::Dispatcher::alltoall:
    case scenario::Dispatcher::allgather:
      return 0;
    case scenario::Dispatcher::deepep:
      return deepep_bytes(scenario, ranks);
    case scenario::Dispatcher::hybridep:  // room for every token of every rank of the group
      return shape.tokens_local * ranks * shape.hidden * Shape::kElement;
  }
  return 0;
}

}  // namespace moeplan::plan
