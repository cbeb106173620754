#include "topology/collective_entries.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/check.h"
#include "base/units.h"

namespace moeplan::topology {
namespace {

auto key_of(const CollectiveEntry& entry) { return std::tie(entry.kind, entry.ranks, entry.nodes, entry.fabric); }

// A list of quantities of one dimension, each above 0.
std::vector<double> quantities(config::Reader& reader, const char* key, base::Dimension dimension) {
  std::vector<double> values;
  for (const config::Node& node : reader.list(key)) {
    const std::optional<double> value =
        node.kind() == config::Node::Kind::scalar ? base::parse_quantity(node.scalar(), dimension) : std::nullopt;
    if (!value || !(*value > 0)) {
      reader.faults().add(node.where(), fmt::format("expected {} above 0, got {}", base::dimension_example(dimension),
                                                    node.describe()));
      continue;
    }
    values.push_back(*value);
  }
  return values;
}

void read_table(config::Reader& reader, CollectiveEntry& entry, base::Faults& faults) {
  const std::size_t before = faults.size();
  entry.sizes_bytes = quantities(reader, "sizes", base::Dimension::bytes);
  entry.times_s = quantities(reader, "times", base::Dimension::seconds);
  if (faults.size() != before) return;
  if (entry.sizes_bytes.size() != entry.times_s.size() || entry.sizes_bytes.size() < 2) {
    reader.fault("times", fmt::format("expected as many times as sizes, at least two; got {} times and {} sizes",
                                      entry.times_s.size(), entry.sizes_bytes.size()));
    return;
  }
  for (std::size_t i = 1; i < entry.sizes_bytes.size(); ++i) {
    if (entry.sizes_bytes[i] > entry.sizes_bytes[i - 1]) continue;
    reader.fault("sizes", fmt::format("expected sizes that rise; number {} is not above the one before it", i + 1));
    return;
  }
}

CollectiveEntry read_entry(const config::Node& node, base::Faults& faults) {
  CollectiveEntry entry;
  entry.where = node.where();
  config::Reader reader(node, faults);
  entry.kind = static_cast<CollectiveKind>(reader.choice("collective", collective_names()));
  entry.ranks = reader.integer("ranks", {2, 1'000'000});
  entry.nodes = reader.integer("nodes", {1, 1'000'000});
  entry.evidence = static_cast<Evidence>(reader.choice("evidence", evidence_names()));
  entry.source = reader.text("source");
  if (entry.ranks >= 2 && entry.nodes >= 1 && entry.ranks % entry.nodes != 0)
    reader.fault("nodes", fmt::format("expected a number that divides the {} ranks, got {}", entry.ranks, entry.nodes));
  entry.fabric = reader.text_or("fabric", "");
  entry.link_rate = reader.quantity_if("link", base::Dimension::bytes_per_second, {0.0, 1e18, true}).value_or(0);
  const bool table = reader.has("sizes") || reader.has("times");
  const bool law = reader.has("latency") || reader.has("bandwidth") || reader.has("exponent");
  if (table == law) {
    faults.add(entry.where, table ? "expected sizes and times, or latency, bandwidth and exponent; got both"
                                  : "expected sizes and times, or latency, bandwidth and exponent");
  } else if (table) {
    read_table(reader, entry, faults);
  } else {
    entry.latency_s = reader.quantity("latency", base::Dimension::seconds, {0.0, 1e3, true});
    entry.bandwidth = reader.quantity("bandwidth", base::Dimension::bytes_per_second, {0.0, 1e18, true});
    entry.exponent = reader.real("exponent", {0.0, 16.0, true});
  }
  reader.finish();
  return entry;
}

double interpolate(const CollectiveEntry& entry, std::size_t i, double bytes, bool outside) {
  const auto log_size = [&](std::size_t at) { return std::log(entry.sizes_bytes[at]); };
  const auto log_time = [&](std::size_t at) { return std::log(entry.times_s[at]); };
  double slope = (log_time(i) - log_time(i - 1)) / (log_size(i) - log_size(i - 1));
  const bool above = bytes > entry.sizes_bytes[i];
  if (outside) slope = std::clamp(slope, 0.0, 1.0);
  const std::size_t from = above ? i : i - 1;
  return std::exp(log_time(from) + slope * (std::log(bytes) - log_size(from)));
}

}  // namespace

const std::array<std::string, kCollectiveKinds>& collective_names() {
  static const std::array<std::string, kCollectiveKinds> names = {"all_reduce", "all_gather", "reduce_scatter",
                                                                  "all_to_all", "send_recv"};
  return names;
}

std::optional<CollectiveKind> collective_kind(std::string_view name) {
  if (name == "alltoall") return CollectiveKind::all_to_all;
  if (name == "sendrecv") return CollectiveKind::send_recv;
  for (std::size_t i = 0; i < kCollectiveKinds; ++i)
    if (collective_names()[i] == name) return static_cast<CollectiveKind>(i);
  return std::nullopt;
}

double wire_share(CollectiveKind kind, double ranks) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return 2 * (ranks - 1) / ranks;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      return (ranks - 1) / ranks;
    case CollectiveKind::send_recv:
      return 1;
  }
  MOEPLAN_CHECK(false, "unknown collective");
}

EntryTime entry_time(const CollectiveEntry& entry, double bytes, double link_rate) {
  MOEPLAN_CHECK(bytes > 0, "an empty buffer takes no time");
  // A slower link is like more bytes: the times of transfers scale, latencies stay.
  if (link_rate > 0 && entry.link_rate > 0) bytes *= entry.link_rate / link_rate;
  if (entry.sizes_bytes.empty()) {
    const double transfer_s = wire_share(entry.kind, static_cast<double>(entry.ranks)) * bytes / entry.bandwidth;
    const double high = std::max(entry.latency_s, transfer_s);
    const double low = std::min(entry.latency_s, transfer_s) / high;
    return {high * std::pow(1 + std::pow(low, entry.exponent), 1 / entry.exponent), Read::law};
  }
  const auto above = std::lower_bound(entry.sizes_bytes.begin(), entry.sizes_bytes.end(), bytes);
  const auto at = static_cast<std::size_t>(above - entry.sizes_bytes.begin());
  if (above != entry.sizes_bytes.end() && *above == bytes) return {entry.times_s[at], Read::measured};
  const bool outside = at == 0 || above == entry.sizes_bytes.end();
  const std::size_t end = std::clamp<std::size_t>(at, 1, entry.sizes_bytes.size() - 1);
  return {interpolate(entry, end, bytes, outside), outside ? Read::extrapolated : Read::interpolated};
}

std::vector<CollectiveEntry> read_collectives(config::Reader& profile, const char* key, base::Faults& faults) {
  std::vector<CollectiveEntry> entries;
  for (const config::Node& node : profile.list(key)) entries.push_back(read_entry(node, faults));
  std::stable_sort(entries.begin(), entries.end(),
                   [](const CollectiveEntry& a, const CollectiveEntry& b) { return key_of(a) < key_of(b); });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].ranks == 0 || key_of(entries[i]) != key_of(entries[i - 1])) continue;
    faults.add(
        entries[i].where,
        fmt::format("a second entry of {} on {} ranks and {} nodes",
                    collective_names()[static_cast<std::size_t>(entries[i].kind)], entries[i].ranks, entries[i].nodes),
        {}, {entries[i - 1].where});
  }
  return entries;
}

}  // namespace moeplan::topology
