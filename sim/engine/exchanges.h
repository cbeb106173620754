#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "plan/plan.h"

// The exchanges of rows between expert ranks: what each rank sends to each, and what binds them.
namespace moeplan::engine {

// matrix[i * P + j]: bytes from member i to member j of the group; where a dispatch kernel of the profile prices the op
// (op.once_per_rank), the routed rows of member i on experts of member j instead.
void exchange_matrix(const plan::Plan& plan, const plan::Op& op, const plan::Visit& visit, std::int64_t rank,
                     std::size_t members, std::vector<std::int64_t>& matrix);

// One kind of exchange ("dispatch", "combine", "combine backward", "dispatch backward", ...) over a step: all layers,
// microbatches, chunks and groups of ranks that stand for others.
struct ExchangeKind {
  struct Bound {
    std::string resource;  // "nic receive", "scale-up send", "uplinks", "dispatch kernel": of some rank
    std::int64_t count = 0;
    double slack_s = 0;  // mean, to the next resource: what relieving this one saves at most
  };
  std::string name;
  std::int64_t count = 0;  // of exchanges in which something is sent
  double mean_s = 0;       // from the last arrival until the last rank is done
  double worst_s = 0;
  std::string worst_binding;  // "nic receive of rank 12"
  double worst_slack_s = 0;
  double l1_mean_s = 0, l1_worst_s = 0;        // by max-min fair sharing of the links; never below mean_s and worst_s
  std::int64_t l1_distinct = 0, distinct = 0;  // exchanges that differ, and those of them that L1 was worked out of
  std::int32_t worst_layer = 0, worst_microbatch = 0;
  std::vector<Bound> bounds;  // the most frequent first
};
// How much longer an exchange takes by fair sharing (L1) than by its fullest port (L0).
class ExchangeFactors {
 public:
  void set(const plan::Op& op, const policy::LayerDecision& decision, std::int64_t first_rank, double factor);
  void set_mean(const std::string& kind, double factor) { means_[kind] = factor; }
  // At least 1; of exchanges of which L1 was not worked out, the mean of their kind.
  double of(const plan::Op& op, const policy::LayerDecision* decision, std::int64_t first_rank) const;
  bool any() const;  // some are above 1

 private:
  std::map<std::tuple<const plan::Op*, const policy::LayerDecision*, std::int64_t>, double> factors_;
  std::map<std::string, double> means_;
};
struct Exchanges {
  std::vector<ExchangeKind> kinds;
  ExchangeFactors factors;
};
// As exchange_kinds, with what L1 makes of each.
Exchanges exchanges_of(const plan::Plan& plan);
// In the order of the program. Exchanges through collectives (the allgather dispatcher) have no port that binds, and
// are left out.
std::vector<ExchangeKind> exchange_kinds(const plan::Plan& plan);

}  // namespace moeplan::engine
