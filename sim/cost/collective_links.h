#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cost/collectives.h"
#include "cost/exchange.h"

// A collective priced with the links it shares (docs/models.md, Shared links).
namespace moeplan::cost {

// Bytes from each rank to each of a collective of `bytes`: all-to-all evenly; send_recv to the next rank; all-gather,
// reduce-scatter and all-reduce as rings, one for each member of the domain that has fewest, each over a NIC of its
// own.
std::vector<std::int64_t> transfers_of(topology::CollectiveKind kind, double bytes, const Fabric& fabric);

struct LinkedTime {
  ExchangeTime exchange;  // l0_s and l1_s are of the collective
  CollectiveTime priced;  // without shared links: where the time comes from
  std::string source;     // of the entry that priced it; empty: the general form
};
// `whole`: the fabric as it should be, `fabric`: as it is. L0 is the priced time and what the fullest link takes longer
// for being degraded; L1 adds what fair sharing takes beyond the fullest link.
LinkedTime collective_with_links(topology::CollectiveKind kind, double bytes, std::span<const std::int64_t> ranks,
                                 const topology::Cluster& cluster, const topology::HardwareProfile& profile,
                                 const Fabric& whole, const Fabric& fabric);

// As above, of an exchange of bytes[i * P + j] from member i to member j.
LinkedTime exchange_with_links(std::span<const std::int64_t> bytes, std::span<const std::int64_t> ranks,
                               const topology::Cluster& cluster, const topology::HardwareProfile& profile,
                               const Fabric& whole, const Fabric& fabric);

// A profile of plain rates: what it does not name is as a fabric without losses has it.
topology::HardwareProfile plain_profile(const PlainFabric& plain);

// What max-min fair sharing of the links makes of an exchange that takes `ports_s` by its fullest port
// (all_to_all_time): never less.
double all_to_all_fair_time_s(std::span<const std::int64_t> bytes, std::span<const std::int64_t> ranks,
                              const topology::Cluster& cluster, const topology::HardwareProfile& profile,
                              double ports_s);

}  // namespace moeplan::cost
