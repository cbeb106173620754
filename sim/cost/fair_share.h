#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

// Max-min fair sharing of links by transfers that all start at once (docs/models.md, Shared links).
namespace moeplan::cost {

// Transfers in classes: all transfers of a class carry the same bytes over links of the same classes, each of which
// carries `weight` transfers of the class. A transfer that has no like is a class of its own with weights of 1.
struct FlowClasses {
  std::vector<double> capacity;  // of one link of each class, bytes/s, > 0
  std::vector<double> bytes;     // of one transfer of each class, > 0
  // Links of class k: entries first[k] .. first[k + 1] - 1 of `link` and `weight`; at least one.
  std::vector<std::uint32_t> first{0};
  std::vector<std::uint32_t> link;
  std::vector<double> weight;

  void add(double transfer_bytes, const std::vector<std::pair<std::uint32_t, double>>& links);
  std::size_t size() const { return bytes.size(); }
};

struct FairShare {
  std::vector<double> finish_s;  // of each class
  std::size_t solves = 0;        // times that rates were worked out
};

// Rates are those of max-min fairness: no transfer can have more without another that has no more having less. They are
// worked out anew when transfers end; ends that follow each other closely share one solution as long as what a full
// link leaves unused by it stays below `tolerance` of what it could have carried so far, and gets it back in the next
// solutions. Links carry at no time more than their capacity allowed up to then, so no time is below the port bound;
// at tolerance 0 times are exact, else they are off by about that share.
FairShare share_fairly(const FlowClasses& flows, double tolerance);

}  // namespace moeplan::cost
