#pragma once
#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "search/evaluate.h"

namespace moeplan::search {

// Adds up what the decisions of one or more iterations say about routing.
class RoutingCollector {
 public:
  explicit RoutingCollector(const scenario::Scenario& scenario);
  void add(const plan::Plan& plan);
  RoutingSummary summary() const;

 private:
  double moved_by_instance(const policy::LayerDecision& decision) const;

  const scenario::Scenario& scenario_;

  std::vector<LayerRouting> layers_;
  double retained_ = 0, routed_ = 0, retained_score_ = 0, total_score_ = 0;
  double dropped_ = 0, moved_bytes_ = 0, iterations_ = 0;
  bool selects_ = false;
};

}  // namespace moeplan::search
