#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "topology/hardware.h"

// The cluster as a graph (Boost.Graph inside): GPUs in hosts, one scale-up switch a domain, NICs, and either one fabric
// that does not block or, where the profile names leaves, leaf switches under one spine.
namespace moeplan::topology {

struct Link {
  std::string name;  // "gpu3-switch0", "nic5-fabric"
  double bytes_per_s = 0;
  double latency_s = 0;
};

class Cluster {
 public:
  // `gpus` ranks, placed on hosts of gpus_per_node in rank order (a last host, domain or leaf may be partly filled).
  Cluster(const HardwareProfile& profile, std::int64_t gpus);
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;

  std::int64_t gpus() const;
  std::int64_t nodes() const;  // hosts
  std::int64_t gpus_per_node() const { return gpus_per_node_; }
  std::int64_t host_of(std::int64_t gpu) const { return gpu / gpus_per_node_; }
  // Scale-up domains: ranks of one domain reach each other without NICs. One host, or several (NVL72).
  std::int64_t domain_gpus() const { return domain_gpus_; }
  std::int64_t domain_of(std::int64_t gpu) const { return gpu / domain_gpus_; }
  // Leaf switch of the GPU's NIC, and its pod: the hosts whose mutual traffic stays below the spine (the leaf's hosts;
  // with rails, the hosts that share a set of leaves, one a NIC). Both 0 where the profile names no leaves.
  std::int64_t leaf_of(std::int64_t gpu) const;
  std::int64_t pod_of(std::int64_t gpu) const { return pod_gpus_ == 0 ? 0 : gpu / pod_gpus_; }
  // Of the cut between leaves and spine; 1: it never binds.
  double oversubscription() const { return oversubscription_; }
  // What a GPU sends and receives through, numbered over the cluster, ports_per_node() a node: a NIC, or all of the
  // GPU's where NICs outnumber GPUs; where its rail is missing, that of the next rail.
  std::int64_t port_of(std::int64_t gpu) const;
  std::int64_t ports_per_node() const;
  // Degraded links (profile.degraded): shares of the usual rate that are left, 1 where a link is whole. Of the port of
  // a GPU; of nic_rate_per_gpu(), when all GPUs of a host send (fewer NICs may serve more GPUs); of the uplinks of a
  // pod.
  bool degraded() const { return degraded_; }
  double port_share(std::int64_t gpu) const;
  double nic_share(std::int64_t gpu) const;
  double pod_share(std::int64_t pod) const;
  // NIC (index inside its node) that a GPU sends and receives through: GPUs spread evenly over the node's NICs.
  std::int64_t nic_of(std::int64_t gpu) const;
  // Links from a to b, in order (shortest path by latency); empty when a == b.
  std::vector<Link> route(std::int64_t a, std::int64_t b) const;
  // Bytes/s that one direction of a GPU's scale-up port and of a NIC offers, after efficiency and the fabric's health;
  // seconds of latency of each class. Without peer to peer a scale-up step goes to host memory and back: twice the
  // latency.
  double scale_up_rate() const;
  double nic_rate() const;                                                 // of one NIC
  double nic_rate_per_gpu() const { return nic_rate() / gpus_per_nic(); }  // when all GPUs of a host send
  double scale_up_latency() const;
  double nic_latency() const;
  double gpus_per_nic() const;
  std::size_t vertex_count() const;
  std::size_t edge_count() const;

 private:
  struct Graph;
  std::int64_t gpus_per_node_ = 1, domain_gpus_ = 1;
  std::int64_t pod_gpus_ = 0;  // 0: no leaves
  double oversubscription_ = 1;
  bool degraded_ = false;
  std::unique_ptr<Graph> graph_;
};

}  // namespace moeplan::topology
