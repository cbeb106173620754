#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "calibrate/fit.h"
#include "measurements/power_fit.h"

namespace moeplan::calibrate {
namespace {

using measurements::CollectiveTable;
using topology::CollectiveEntry;

std::string title_of(const CollectiveTable& table) {
  return fmt::format("{} on {} ranks and {} nodes", table.collective, table.ranks, table.nodes);
}

// Errors on the sizes that a law did not see: every second one from the second on.
std::vector<double> kept_errors(const CollectiveTable& table, const CollectiveEntry& law) {
  std::vector<double> errors;
  for (std::size_t i = 1; i < table.sizes_bytes.size(); i += 2)
    errors.push_back(std::abs(topology::entry_time(law, table.sizes_bytes[i]).seconds / table.times_s[i] - 1));
  return errors;
}

CollectiveEntry law_of(const CollectiveTable& table, CollectiveEntry entry) {
  std::vector<measurements::SizedTime> points;
  const double share = topology::wire_share(entry.kind, static_cast<double>(entry.ranks));
  for (std::size_t i = 0; i < table.sizes_bytes.size(); ++i)
    points.push_back({share * table.sizes_bytes[i], table.times_s[i]});
  const measurements::PowerFit fit = measurements::fit_power(points);
  entry.latency_s = fit.latency_s;
  entry.bandwidth = fit.bandwidth;
  entry.exponent = fit.exponent;
  return entry;
}

}  // namespace

std::vector<measurements::CollectiveRow> collective_rows(const std::vector<const measurements::Measurement*>& rows) {
  std::vector<measurements::CollectiveRow> result;
  for (const measurements::Measurement* row : rows) {
    if (row->family != measurements::Family::collective || !row->pair.empty() || !row->byte_matrix.empty()) continue;
    if (!(row->shape.bytes > 0)) continue;
    const std::string name = row->kind.substr(0, row->kind.find_first_of(" ("));
    result.push_back({name == "all2all" ? "alltoall"
                      : name == "p2p"   ? "sendrecv"
                                        : name,
                      row->shape.ranks, row->shape.nodes, row->gpu, row->shape.bytes, row->seconds, row->where});
  }
  return result;
}

std::vector<CollectiveFit> fit_collectives(const std::vector<measurements::CollectiveRow>& rows,
                                           const topology::HardwareProfile& base, const std::string& source,
                                           std::vector<std::string>& notes) {
  // The part is one, whatever its name is in each log.
  std::vector<measurements::CollectiveRow> renamed = rows;
  for (measurements::CollectiveRow& row : renamed) row.gpu.clear();
  std::vector<CollectiveFit> fits;
  for (const CollectiveTable& table : measurements::collect(renamed)) {
    const auto kind = topology::collective_kind(table.collective);
    const char* why = nullptr;
    if (!kind) why = "no cost model uses this collective";
    if (kind && table.nodes == 0) why = "nothing says on how many nodes it ran; state it with --nodes";
    if (kind && table.ranks < 2) why = "one rank alone";
    if (kind && table.nodes > 0 && table.ranks % table.nodes != 0) why = "the nodes have unequal numbers of ranks";
    if (kind && table.sizes_bytes.size() < 2) why = "one size makes no table";
    if (why != nullptr) {
      notes.push_back(title_of(table) + ": " + why);
      continue;
    }
    CollectiveFit fit;
    fit.sizes = table.sizes_bytes.size();
    CollectiveEntry& entry = fit.entry;
    entry.kind = *kind;
    entry.ranks = table.ranks;
    entry.nodes = table.nodes;
    if (table.nodes > 1) entry.fabric = base.fabric;
    entry.link_rate = measurements::link_rate(table, base);
    entry.evidence = topology::Evidence::measured;
    entry.source = fmt::format("{}: {} sizes from {:.0f} to {:.0f} bytes", source, fit.sizes, table.sizes_bytes.front(),
                               table.sizes_bytes.back());
    if (const CollectiveEntry* old = base.collective(*kind, table.ranks, table.nodes)) {
      std::vector<double> errors;
      for (std::size_t i = 0; i < fit.sizes; ++i)
        errors.push_back(
            std::abs(topology::entry_time(*old, table.sizes_bytes[i], entry.link_rate).seconds / table.times_s[i] - 1));
      fit.before = residual_of(std::move(errors));
    }
    bool is_law = false;
    if (fit.sizes >= measurements::kLeastPoints) {
      const CollectiveEntry law = law_of(table, entry);
      fit.told = kept_errors(table, law);
      fit.kept_out = residual_of(fit.told);
      is_law = fit.kept_out.median <= kLargestMedian;
      if (is_law) {
        entry = law;
        entry.source +=
            fmt::format("; fitted to every second, median error of the others {:.1f} %", 100 * fit.kept_out.median);
      } else {
        notes.push_back(fmt::format("{}: no law describes it (median error {:.0f} %): the sizes themselves are kept",
                                    title_of(table), 100 * fit.kept_out.median));
        fit.told.clear();
      }
    }
    if (!is_law) {
      entry.sizes_bytes = table.sizes_bytes;
      entry.times_s = table.times_s;
    }
    fits.push_back(std::move(fit));
  }
  return fits;
}

}  // namespace moeplan::calibrate
