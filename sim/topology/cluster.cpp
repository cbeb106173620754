#include "topology/cluster.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/property_map/function_property_map.hpp>
#include <cmath>

#include "base/check.h"
#include "base/checked.h"

namespace moeplan::topology {
namespace {

enum class LinkKind : std::uint8_t { gpu_switch, switch_gpu, gpu_nic, nic_fabric, fabric_nic, nic_gpu, leaf_spine };

struct LinkProperty {
  LinkKind kind = LinkKind::gpu_switch;
};

using SparseGraph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, LinkProperty,
                                                       boost::no_property, std::uint32_t, std::uint32_t>;
using Vertex = SparseGraph::vertex_descriptor;
using Edge = SparseGraph::edge_descriptor;

// Ends the search once the target's distance is final.
struct Found {};
struct StopAt : boost::default_dijkstra_visitor {
  explicit StopAt(Vertex wanted) : target(wanted) {}
  void examine_vertex(Vertex vertex, const SparseGraph&) const {
    if (vertex == target) throw Found{};
  }
  Vertex target;
};

}  // namespace

// Vertices in this order: GPUs, domain switches, NICs as senders, fabric switches (leaves and then the spine; or one
// that stands for a fabric that does not block), NICs as receivers. A NIC stands twice, once a direction, so that no
// path turns round inside a NIC; links are full duplex for the same reason.
struct Cluster::Graph {
  Graph(const HardwareProfile& profile, std::int64_t gpus);

  double latency(LinkKind kind) const {
    if (kind == LinkKind::leaf_spine) return 0;  // nic_latency is of any pair of hosts
    const bool scale_up = kind == LinkKind::gpu_switch || kind == LinkKind::switch_gpu;
    return scale_up ? scale_up_latency / 2 : nic_latency / 4;  // two links inside a domain, four across
  }
  double bandwidth(LinkKind kind) const {
    if (kind == LinkKind::leaf_spine) return uplink_rate;
    const bool scale_up = kind == LinkKind::gpu_switch || kind == LinkKind::switch_gpu;
    return scale_up ? scale_up_rate : port_rate;
  }
  std::int64_t rail_of(std::int64_t gpu) const { return gpu % gpus_per_node * ports_per_node / gpus_per_node; }
  std::int64_t port_of(std::int64_t gpu) const {  // NIC vertices are numbered over the cluster
    const std::int64_t rail = rail_of(gpu);
    return gpu / gpus_per_node * ports_per_node +
           (used_rail.empty() ? rail : used_rail[static_cast<std::size_t>(rail)]);
  }
  std::int64_t leaf_of_port(std::int64_t port) const {
    if (leaves == 0) return 0;
    if (!rails) return port / ports_per_leaf;
    return port / ports_per_node / ports_per_leaf * ports_per_node + port % ports_per_node;
  }
  std::string name(std::int64_t vertex) const;
  // Share of its usual rate that the link from or to a vertex has left.
  double share_of(std::int64_t from, std::int64_t to) const;

  void read(const HardwareProfile& profile);
  void degrade(const std::vector<DegradedLink>& degraded);
  void connect();

  std::int64_t gpus = 0, nodes = 0, domains = 0, gpus_per_node = 1, domain_gpus = 1, nics_per_node = 1;
  std::int64_t ports_per_node = 1;  // NIC vertices a node: where NICs outnumber GPUs, the NICs of one GPU are one port
  std::int64_t leaves = 0, ports_per_leaf = 0;  // no leaves: one fabric
  bool rails = false;
  double scale_up_rate = 0, nic_rate = 0, port_rate = 0, uplink_rate = 0, scale_up_latency = 0, nic_latency = 0;
  double oversubscription = 1;
  std::int64_t first_switch = 0, first_sender = 0, first_leaf = 0, fabric = 0, first_receiver = 0;
  // Degraded links, all empty where there are none.
  std::vector<std::int64_t> used_rail;          // of each rail, the one that its GPUs use
  std::vector<double> usual_gpus, served_gpus;  // of each rail, a node
  std::vector<double> port_share, pod_share;
  SparseGraph links;
};

Cluster::Graph::Graph(const HardwareProfile& profile, std::int64_t gpu_count) : gpus(gpu_count) {
  MOEPLAN_CHECK(gpus >= 1, "a cluster has at least one GPU");
  read(profile);
  degrade(profile.degraded);
  connect();
}

// Links that are not there change nothing: the scenario has refused them (degraded_faults).
void Cluster::Graph::degrade(const std::vector<DegradedLink>& degraded) {
  if (degraded.empty()) return;
  const auto rails_of_node = static_cast<std::size_t>(ports_per_node);
  std::vector<char> missing(rails_of_node, 0);
  port_share.assign(static_cast<std::size_t>(nodes * ports_per_node), 1);
  for (const DegradedLink& link : degraded) {
    const auto which = static_cast<std::size_t>(link.which);
    switch (link.what) {
      case DegradedLink::What::nic: {
        const std::int64_t port = link.which / gpus_per_node * ports_per_node + rail_of(link.which);
        if (link.which < gpus) port_share[static_cast<std::size_t>(port)] *= link.share;
        break;
      }
      case DegradedLink::What::rail:
        if (which >= rails_of_node) break;
        if (link.share <= 0) missing[which] = 1;
        for (std::size_t port = which; port < port_share.size() && link.share > 0; port += rails_of_node)
          port_share[port] *= link.share;
        break;
      case DegradedLink::What::pod:
        if (pod_share.size() <= which) pod_share.resize(which + 1, 1);
        pod_share[which] *= link.share;
        break;
    }
  }
  MOEPLAN_CHECK(std::count(missing.begin(), missing.end(), char{0}) > 0, "a node without NICs was refused");
  for (std::size_t rail = 0; rail < rails_of_node; ++rail) {
    std::size_t used = rail;
    while (missing[used] != 0) used = (used + 1) % rails_of_node;
    used_rail.push_back(static_cast<std::int64_t>(used));
  }
  usual_gpus.assign(rails_of_node, 0);
  served_gpus.assign(rails_of_node, 0);
  for (std::int64_t gpu = 0; gpu < gpus_per_node; ++gpu) {
    const auto rail = static_cast<std::size_t>(rail_of(gpu));
    ++usual_gpus[rail];
    ++served_gpus[static_cast<std::size_t>(used_rail[rail])];
  }
}

void Cluster::Graph::read(const HardwareProfile& profile) {
  const HardwareProfile::Network& network = profile.network;
  gpus_per_node = std::llround(network.gpus_per_node.value);
  nics_per_node = std::llround(network.nics_per_node.value);
  domain_gpus = network.domain_gpus();
  MOEPLAN_CHECK(gpus_per_node >= 1 && nics_per_node >= 1 && domain_gpus % gpus_per_node == 0,
                "the profile was read without its faults being thrown");
  nodes = base::ceil_div(gpus, gpus_per_node);
  domains = base::ceil_div(gpus, domain_gpus);
  ports_per_node = std::min(nics_per_node, gpus_per_node);
  scale_up_rate = network.scale_up_bandwidth.value * network.scale_up_efficiency.value;
  nic_rate = network.nic_bandwidth.value * network.nic_efficiency.value;
  if (network.health) nic_rate *= network.health->value;
  port_rate = nic_rate * static_cast<double>(nics_per_node) / static_cast<double>(ports_per_node);
  scale_up_latency = network.scale_up_latency.value;
  if (network.peer_to_peer && network.peer_to_peer->value == 0) scale_up_latency *= 2;
  nic_latency = network.nic_latency.value;
  if (network.oversubscription) oversubscription = network.oversubscription->value;
  if (!network.gpus_per_leaf) return;
  rails = network.rails && network.rails->value > 0;
  const std::int64_t leaf_gpus = std::llround(network.gpus_per_leaf->value);
  ports_per_leaf = std::max<std::int64_t>(1, leaf_gpus * ports_per_node / gpus_per_node);
  // With rails, a set of ports_per_node leaves serves as many hosts as a leaf has ports.
  leaves = rails ? base::ceil_div(nodes, ports_per_leaf) * ports_per_node
                 : base::ceil_div(nodes * ports_per_node, ports_per_leaf);
  uplink_rate = port_rate * static_cast<double>(ports_per_leaf) / oversubscription;
}

void Cluster::Graph::connect() {
  const std::int64_t ports = nodes * ports_per_node;
  first_switch = gpus;
  first_sender = first_switch + domains;
  first_leaf = first_sender + ports;
  fabric = first_leaf + leaves;  // the spine, where there are leaves
  first_receiver = fabric + 1;
  const std::int64_t vertices = first_receiver + ports;

  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // sorted by source, as the sparse form needs
  std::vector<LinkProperty> properties;
  edges.reserve(static_cast<std::size_t>(4 * gpus + 2 * ports + 2 * leaves));
  properties.reserve(edges.capacity());
  const auto add = [&](std::int64_t from, std::int64_t to, LinkKind kind) {
    edges.emplace_back(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to));
    properties.push_back({kind});
  };
  for (std::int64_t gpu = 0; gpu < gpus; ++gpu) {
    add(gpu, first_switch + gpu / domain_gpus, LinkKind::gpu_switch);
    add(gpu, first_sender + port_of(gpu), LinkKind::gpu_nic);
  }
  for (std::int64_t domain = 0; domain < domains; ++domain) {
    const std::int64_t end = std::min(gpus, (domain + 1) * domain_gpus);
    for (std::int64_t gpu = domain * domain_gpus; gpu < end; ++gpu)
      add(first_switch + domain, gpu, LinkKind::switch_gpu);
  }
  const auto switch_of = [&](std::int64_t port) { return leaves > 0 ? first_leaf + leaf_of_port(port) : fabric; };
  for (std::int64_t port = 0; port < ports; ++port) add(first_sender + port, switch_of(port), LinkKind::nic_fabric);
  std::vector<std::vector<std::int64_t>> ports_of(static_cast<std::size_t>(leaves));
  if (leaves > 0)
    for (std::int64_t port = 0; port < ports; ++port)
      ports_of[static_cast<std::size_t>(leaf_of_port(port))].push_back(port);
  for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
    add(first_leaf + leaf, fabric, LinkKind::leaf_spine);
    for (const std::int64_t port : ports_of[static_cast<std::size_t>(leaf)])
      add(first_leaf + leaf, first_receiver + port, LinkKind::fabric_nic);
  }
  for (std::int64_t leaf = 0; leaf < leaves; ++leaf) add(fabric, first_leaf + leaf, LinkKind::leaf_spine);
  if (leaves == 0)
    for (std::int64_t port = 0; port < ports; ++port) add(fabric, first_receiver + port, LinkKind::fabric_nic);
  std::vector<std::pair<std::int64_t, std::int64_t>> received;  // sorted: GPUs of a missing rail lie on another port
  received.reserve(static_cast<std::size_t>(gpus));
  for (std::int64_t gpu = 0; gpu < gpus; ++gpu) received.emplace_back(port_of(gpu), gpu);
  if (!used_rail.empty()) std::sort(received.begin(), received.end());
  for (const auto& [port, gpu] : received) add(first_receiver + port, gpu, LinkKind::nic_gpu);
  links = SparseGraph(boost::edges_are_sorted, edges.begin(), edges.end(), properties.begin(),
                      static_cast<std::uint32_t>(vertices));
}

std::string Cluster::Graph::name(std::int64_t vertex) const {
  if (vertex < first_switch) return fmt::format("gpu{}", vertex);
  if (vertex < first_sender) return fmt::format("switch{}", vertex - first_switch);
  if (vertex >= first_leaf && vertex < fabric) return fmt::format("leaf{}", vertex - first_leaf);
  if (vertex == fabric) return leaves > 0 ? "spine" : "fabric";
  const std::int64_t port = vertex < first_leaf ? vertex - first_sender : vertex - first_receiver;
  const std::int64_t nic = port % ports_per_node * nics_per_node / ports_per_node;
  return fmt::format("nic{}", port / ports_per_node * nics_per_node + nic);
}

double Cluster::Graph::share_of(std::int64_t from, std::int64_t to) const {
  if (used_rail.empty()) return 1;
  for (const std::int64_t vertex : {from, to}) {
    if (vertex >= first_receiver) return port_share[static_cast<std::size_t>(vertex - first_receiver)];
    if (vertex >= first_sender && vertex < first_leaf)
      return port_share[static_cast<std::size_t>(vertex - first_sender)];
  }
  for (const std::int64_t vertex : {from, to}) {  // leaf and spine
    if (vertex < first_leaf || vertex >= fabric) continue;
    const auto pod = static_cast<std::size_t>(rails ? (vertex - first_leaf) / ports_per_node : vertex - first_leaf);
    return pod < pod_share.size() ? pod_share[pod] : 1;
  }
  return 1;
}

Cluster::Cluster(const HardwareProfile& profile, std::int64_t gpus) : graph_(std::make_unique<Graph>(profile, gpus)) {
  gpus_per_node_ = graph_->gpus_per_node;
  domain_gpus_ = graph_->domain_gpus;
  oversubscription_ = graph_->oversubscription;
  degraded_ = !profile.degraded.empty();
  if (graph_->leaves == 0) return;
  const std::int64_t leaf_gpus = graph_->ports_per_leaf * gpus_per_node_ / graph_->ports_per_node;
  pod_gpus_ = graph_->rails ? graph_->ports_per_leaf * gpus_per_node_ : leaf_gpus;
}
Cluster::~Cluster() = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;

std::int64_t Cluster::gpus() const { return graph_->gpus; }
std::int64_t Cluster::nodes() const { return graph_->nodes; }
std::int64_t Cluster::leaf_of(std::int64_t gpu) const { return graph_->leaf_of_port(graph_->port_of(gpu)); }
std::int64_t Cluster::nic_of(std::int64_t gpu) const {
  return gpu % graph_->gpus_per_node * graph_->nics_per_node / graph_->gpus_per_node;
}
std::int64_t Cluster::port_of(std::int64_t gpu) const { return graph_->port_of(gpu); }
std::int64_t Cluster::ports_per_node() const { return graph_->ports_per_node; }
double Cluster::port_share(std::int64_t gpu) const {
  return graph_->port_share.empty() ? 1 : graph_->port_share[static_cast<std::size_t>(graph_->port_of(gpu))];
}
double Cluster::nic_share(std::int64_t gpu) const {
  if (!degraded_) return 1;
  const auto used = static_cast<std::size_t>(graph_->port_of(gpu) % graph_->ports_per_node);
  return port_share(gpu) * (graph_->usual_gpus[used] / graph_->served_gpus[used]);
}
double Cluster::pod_share(std::int64_t pod) const {
  const auto which = static_cast<std::size_t>(pod);
  return which < graph_->pod_share.size() ? graph_->pod_share[which] : 1;
}
double Cluster::scale_up_rate() const { return graph_->scale_up_rate; }
double Cluster::nic_rate() const { return graph_->nic_rate; }
double Cluster::scale_up_latency() const { return graph_->scale_up_latency; }
double Cluster::nic_latency() const { return graph_->nic_latency; }
double Cluster::gpus_per_nic() const {
  return static_cast<double>(graph_->gpus_per_node) / static_cast<double>(graph_->nics_per_node);
}
std::size_t Cluster::vertex_count() const { return boost::num_vertices(graph_->links); }
std::size_t Cluster::edge_count() const { return boost::num_edges(graph_->links); }

std::vector<Link> Cluster::route(std::int64_t a, std::int64_t b) const {
  MOEPLAN_CHECK(a >= 0 && a < gpus() && b >= 0 && b < gpus(), "rank outside the cluster");
  std::vector<Link> path;
  if (a == b) return path;
  const SparseGraph& links = graph_->links;
  const std::size_t count = boost::num_vertices(links);
  std::vector<Vertex> before(count);
  std::vector<double> distance(count);
  // The tiny term makes the path with fewer links win where latencies tie (or are all 0).
  constexpr double kHop = 1e-15;
  const auto weight = boost::make_function_property_map<Edge, double>(
      [&](const Edge& edge) { return graph_->latency(links[edge].kind) + kHop; });
  const auto target = static_cast<Vertex>(b);
  const auto index = boost::get(boost::vertex_index, links);
  try {
    boost::dijkstra_shortest_paths(links, static_cast<Vertex>(a),
                                   boost::weight_map(weight)
                                       .predecessor_map(boost::make_iterator_property_map(before.begin(), index))
                                       .distance_map(boost::make_iterator_property_map(distance.begin(), index))
                                       .visitor(StopAt(target)));
  } catch (const Found&) {  // the library's way to end a search early
  }
  for (Vertex to = target; to != static_cast<Vertex>(a); to = before[to]) {
    const Vertex from = before[to];
    MOEPLAN_CHECK(from != to, "every GPU reaches every other");
    const LinkKind kind = links[boost::edge(from, to, links).first].kind;
    const double share = graph_->share_of(static_cast<std::int64_t>(from), static_cast<std::int64_t>(to));
    path.push_back(
        {graph_->name(from) + "-" + graph_->name(to), share * graph_->bandwidth(kind), graph_->latency(kind)});
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace moeplan::topology
