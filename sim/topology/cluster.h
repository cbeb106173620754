#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "topology/hardware.h"

// The cluster as a graph: GPUs, one scale-up switch a node, NICs, and one non-blocking fabric (Boost.Graph inside).
namespace moeplan::topology {

struct Link {
  std::string name;  // "gpu3-switch0", "nic5-fabric"
  double bytes_per_s = 0;
  double latency_s = 0;
};

class Cluster {
 public:
  // `gpus` ranks, placed on nodes of gpus_per_node in rank order (a last node may be partly filled).
  Cluster(const HardwareProfile& profile, std::int64_t gpus);
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;

  std::int64_t gpus() const;
  std::int64_t nodes() const;
  std::int64_t gpus_per_node() const;
  std::int64_t node_of(std::int64_t gpu) const { return gpu / gpus_per_node(); }
  // NIC (index inside its node) that a GPU sends and receives through: GPUs spread evenly over the node's NICs.
  std::int64_t nic_of(std::int64_t gpu) const;
  // Links from a to b, in order (shortest path by latency); empty when a == b.
  std::vector<Link> route(std::int64_t a, std::int64_t b) const;
  // Rates one direction of a GPU's scale-up port and of its share of NIC offers, after efficiency; seconds of latency
  // of each class.
  double scale_up_rate() const;
  double nic_rate() const;  // of one NIC
  double scale_up_latency() const;
  double nic_latency() const;
  double gpus_per_nic() const;
  std::size_t vertex_count() const;
  std::size_t edge_count() const;

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace moeplan::topology
