#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cost/collective_links.h"

namespace moeplan::report {

// One answer of `moeplan collective`.
struct CollectiveAnswer {
  std::string collective;
  std::int64_t ranks = 0;
  double bytes = 0;  // the buffer as nccl-tests counts it; of a matrix: its sum
  bool matrix = false;
  cost::LinkedTime time;
  std::vector<std::pair<std::string, std::string>> fabric;  // what it was worked out on, name and value
  std::vector<std::string> warnings;
};

std::string collective_text(const CollectiveAnswer& answer);
std::string collective_json(const CollectiveAnswer& answer);  // schema "moeplan.collective/1"

}  // namespace moeplan::report
