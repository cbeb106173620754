#include "measurements/predict.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "cost/collectives.h"
#include "cost/dispatch.h"
#include "cost/evidence.h"
#include "topology/cluster.h"

namespace moeplan::measurements {
namespace {

using topology::HardwareProfile;

constexpr std::int64_t kMostRanks = 1024;   // an all-to-all holds one entry a pair
constexpr std::int64_t kMostChosen = 1024;  // experts a token, counted one by one

// Forward of one MoE layer on one GPU, as fused-MoE kernels run it: rows gathered to their experts, gate and up in one
// product, the activation, down, rows weighted and summed back.
double moe_layer_s(const Measurement& row, const HardwareProfile& profile) {
  const Shape& s = row.shape;
  const double rows = real(std::accumulate(row.group_rows.begin(), row.group_rows.end(), std::int64_t{0}));
  const std::int64_t inter = s.n / 2;
  const double in = cost::operand_bytes(row.precision);
  // Reads n, writes n / 2 a row; the gather reads each token once; the sum reads every row and writes each token.
  const double activation_bytes = rows * (2 * real(s.n) + in * real(inter));
  const double gather_bytes = real(s.hidden) * in * (rows + real(s.tokens));
  const double sum_bytes = 2 * real(s.hidden) * (rows + real(s.tokens));
  const auto& overhead = profile.grouped_gemm.layer_overhead;
  return (overhead ? overhead->value : 0) +
         cost::grouped_gemm_time_s(row.group_rows, s.n, s.hidden, cost::GemmPass::forward, profile, row.precision) +
         cost::grouped_gemm_time_s(row.group_rows, s.hidden, inter, cost::GemmPass::forward, profile, row.precision) +
         cost::memory_bound_time_s(activation_bytes, cost::MemoryAccess::streaming, profile) +
         cost::memory_bound_time_s(gather_bytes, cost::MemoryAccess::permute, profile) +
         cost::memory_bound_time_s(sum_bytes, cost::MemoryAccess::permute, profile);
}

// Tables state gated layers (gate and up n wide together); of a layer without a gate a third of those weights is not
// there. What no memory could have read in the time was not read.
bool reads_too_fast(const Measurement& row, const HardwareProfile& profile) {
  const auto active = std::count_if(row.group_rows.begin(), row.group_rows.end(), [](std::int64_t r) { return r > 0; });
  const double bytes = 1.5 * cost::operand_bytes(row.precision) * static_cast<double>(active) * real(row.shape.n) *
                       real(row.shape.hidden);
  return bytes / row.seconds > profile.device.memory_bandwidth.value;
}

// Inference kernels write keys and values to a paged cache before they attend: a fixed cost a token, and bytes that are
// read and written.
double cache_write_s(const Shape& s, const HardwareProfile& profile) {
  if (!profile.attention.cache_token) return 0;
  const double tokens = real(s.batch) * real(s.seq);
  const double bytes = 2 * 2 * tokens * real(s.kv_heads) * real(s.qk_dim + s.v_dim);
  return tokens * profile.attention.cache_token->value + bytes / profile.memory_bound.bandwidth.value;
}

cost::ShapeTime attention_time(const Measurement& row, const HardwareProfile& profile) {
  const Shape& s = row.shape;
  cost::ShapeTime time = cost::attention_time({s.batch, s.heads, s.seq, s.qk_dim, s.v_dim}, row.backward, profile);
  if (row.cache_write && !row.backward) time.seconds += cache_write_s(s, profile);
  return time;
}

void take(const cost::ShapeTime& time, Prediction& result) {
  result.seconds = time.seconds;
  result.basis = time.basis;
}

double memory_s(const Measurement& row, const HardwareProfile& profile) {
  using cost::MemoryAccess;
  MemoryAccess access = MemoryAccess::streaming;
  if (row.kind.find("permute") != std::string::npos) access = MemoryAccess::permute;
  if (row.kind.starts_with("cross_entropy")) access = MemoryAccess::loss;
  return cost::memory_bound_time_s(row.shape.bytes, access, profile);
}

// The ranks of a communication row on a cluster of its own; sets a reason where the profile's nodes differ.
struct RankGroup {
  std::vector<std::int64_t> ranks;
  HardwareProfile profile;
  std::string reason;
};
RankGroup group_of(const Measurement& row, const HardwareProfile& profile) {
  const Shape& s = row.shape;
  RankGroup group{{}, profile, {}};
  const std::int64_t node = std::llround(profile.network.gpus_per_node.value);
  const std::int64_t nodes = std::max<std::int64_t>(s.nodes, 1);
  if (s.ranks > kMostRanks) {
    group.reason = fmt::format("more than {} ranks", kMostRanks);
  } else if (s.ranks < 2) {
    group.reason = "one rank alone";
  } else if (nodes == 1 ? s.ranks > profile.network.domain_gpus() : s.ranks != nodes * node) {
    group.reason = fmt::format("{} GPUs on {} nodes do not fill the profile's nodes of {}", s.ranks, nodes, node);
  }
  if (!group.reason.empty()) return group;
  for (std::int64_t rank = 0; rank < s.ranks; ++rank) group.ranks.push_back(rank);
  if (nodes > 1 && !row.fabric.empty()) group.profile.fabric = row.fabric;
  if (row.nic_bandwidth)
    group.profile.network.nic_bandwidth.value = *row.nic_bandwidth * real(node) / profile.network.nics_per_node.value;
  return group;
}

// What the collective library ran, where the row says so: one name of an algorithm, not a rule that chooses.
std::optional<cost::Algorithm> algorithm_of(const Measurement& row) {
  std::string name = row.algorithm;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name == "ring") return cost::Algorithm::ring;
  if (name == "tree") return cost::Algorithm::tree;
  if (name == "nvls" || name == "nvlstree") return cost::Algorithm::nvls;
  return std::nullopt;
}

bool adds_in_network(const Measurement& row) {
  std::string name = row.algorithm;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.find("sharp") != std::string::npos || name.starts_with("collnet");
}

topology::CollectiveKind collective_kind(const Measurement& row) {
  using topology::CollectiveKind;
  if (row.kind.starts_with("all_reduce")) return CollectiveKind::all_reduce;
  if (row.kind.starts_with("all_gather")) return CollectiveKind::all_gather;
  if (row.kind.starts_with("reduce_scatter")) return CollectiveKind::reduce_scatter;
  return row.kind.starts_with("all") ? CollectiveKind::all_to_all : CollectiveKind::send_recv;
}

// An entry speaks of the library's own choice among algorithms; a named one across nodes is priced as such.
double collective_s(const Measurement& row, const RankGroup& group, const topology::Cluster& cluster) {
  if (!row.byte_matrix.empty())
    return cost::all_to_all_time(row.byte_matrix, group.ranks, cluster, group.profile).total_s;
  const topology::CollectiveKind kind = collective_kind(row);
  if (kind == topology::CollectiveKind::all_reduce && row.shape.nodes > 1) {
    if (const auto algorithm = algorithm_of(row)) {
      const auto named = cost::algorithm_time_s(kind, *algorithm, row.shape.bytes, group.ranks, cluster, group.profile);
      if (named) return *named;
    }
  }
  return cost::priced_collective(kind, row.shape.bytes, group.ranks, cluster, group.profile).seconds;
}

double dispatch_s(const Measurement& row, const RankGroup& group, const topology::Cluster& cluster) {
  const Shape& s = row.shape;
  const double hidden = real(s.hidden);
  cost::DispatchKernel kernel;
  kernel.row_bytes = row.precision == cost::Precision::bf16 ? 2 * hidden : hidden + hidden / 32;
  kernel.experts = real(s.experts);
  kernel.top_k = real(s.top_k);
  kernel.sms = s.sms;
  kernel.combine = row.backward;
  const auto count = static_cast<std::int64_t>(group.ranks.size());
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<std::int64_t> sent = even_rows(s.tokens * s.top_k, count);
    rows.insert(rows.end(), sent.begin(), sent.end());
  }
  return cost::dispatch_time_s(kernel, rows, group.ranks, cluster, group.profile);
}

Prediction communication(const Measurement& row, const HardwareProfile& profile) {
  Prediction result;
  const bool dispatch = row.family == Family::dispatch;
  if (dispatch && !cost::has_dispatch_kernels(profile)) {
    result.reason = "the profile states no dispatch kernels";
    return result;
  }
  const RankGroup group = group_of(row, profile);
  result.reason = group.reason;
  if (!result.reason.empty()) return result;
  if (dispatch && row.shape.top_k > kMostChosen) {
    result.reason = fmt::format("more than {} experts a token", kMostChosen);
    return result;
  }
  if (dispatch && (row.shape.top_k > row.shape.experts || row.shape.ranks > row.shape.experts)) {
    result.reason = "more ranks or chosen experts than experts";
    return result;
  }
  if (row.kind.starts_with("all_reduce") && adds_in_network(row)) {
    result.reason = "sums in the network's switches (SHARP) are never assumed";
    return result;
  }
  const topology::Cluster cluster(group.profile, static_cast<std::int64_t>(group.ranks.size()));
  result.seconds = dispatch ? dispatch_s(row, group, cluster) : collective_s(row, group, cluster);
  return result;
}

const char* evidence_family(const Measurement& row) {
  switch (row.family) {
    case Family::gemm:
      return "dense GEMM";
    case Family::grouped_gemm:
    case Family::moe_layer:
      return "grouped GEMM";
    case Family::attention:
      return "attention";
    case Family::memory:
      return "memory-bound";
    case Family::collective:
      return row.kind.starts_with("alltoall") || row.kind.starts_with("all2all") ? "all-to-all" : "collectives";
    case Family::dispatch:
      return "all-to-all";
  }
  MOEPLAN_CHECK(false, "unknown family");
}

bool has_products(const Measurement& row) {
  return row.family == Family::gemm || row.family == Family::grouped_gemm || row.family == Family::moe_layer;
}

}  // namespace

HardwareProfile profile_for(const Measurement& row, const HardwareProfile& profile) {
  HardwareProfile burst = profile;
  burst.gemm.drop_sustained();
  const HardwareProfile::Library* library = topology::find_library(profile, row.library);
  return library == nullptr ? burst : topology::with_library(std::move(burst), *library);
}

Prediction predict_seconds(const Measurement& row, const HardwareProfile& profile) {
  MOEPLAN_CHECK(row.status == Status::ok, "a row that was set aside has no prediction");
  Prediction result;
  if (has_products(row) && !cost::supports(profile, row.precision)) {
    result.reason = fmt::format("the profile states no {} peak", cost::precision_name(row.precision));
    return result;
  }
  const Shape& s = row.shape;
  if (row.family == Family::moe_layer && reads_too_fast(row, profile)) {
    result.reason = "faster than device.memory_bandwidth reads the weights: a layer without a gate, or in a cache";
    return result;
  }
  switch (row.family) {
    case Family::gemm:
      take(cost::gemm_time({s.m, s.n, s.k, row.pass, row.gradient_bytes}, profile, row.precision), result);
      break;
    case Family::grouped_gemm:
      result.seconds =
          cost::grouped_gemm_time_s(row.group_rows, s.n, s.k, row.pass, profile, row.precision, row.gradient_bytes);
      break;
    case Family::moe_layer:
      result.seconds = moe_layer_s(row, profile);
      break;
    case Family::attention:
      take(attention_time(row, profile), result);
      break;
    case Family::memory:
      result.seconds = memory_s(row, profile);
      break;
    case Family::collective:
    case Family::dispatch:
      return communication(row, profile);
  }
  return result;
}

Prediction predict(const Measurement& row, const HardwareProfile& profile) {
  const HardwareProfile used = profile_for(row, profile);
  Prediction result = predict_seconds(row, used);
  if (!result.seconds) return result;
  const auto families = cost::family_evidence(used, has_products(row) ? row.precision : cost::Precision::bf16);
  for (const cost::FamilyEvidence& family : families) {
    if (family.family != evidence_family(row)) continue;
    result.evidence = family.evidence;
    result.weakest_key = family.weakest_key;
  }
  return result;
}

}  // namespace moeplan::measurements
