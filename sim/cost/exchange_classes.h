#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "cost/exchange.h"
#include "cost/fair_share.h"

namespace moeplan::cost {

// The transfers of an exchange, like ones together.
struct ExchangeClasses {
  FlowClasses flows;
  std::vector<double> latency_s;  // of each class
};

// Ranks are alike when they send and receive the same bytes to and from alike ranks over alike links (the coarsest such
// partition, by refinement of signatures of 64 bits). Transfers of the same bytes between alike ranks are then alike,
// and so are their rates under max-min fairness: the mean of a fair solution over a class is fair, too, and there is
// one solution only. An exchange without symmetry has a class a transfer.
ExchangeClasses classes_of(std::span<const std::int64_t> bytes, const Fabric& fabric);

}  // namespace moeplan::cost
