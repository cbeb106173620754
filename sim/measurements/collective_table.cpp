#include "measurements/collective_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "measurements/power_fit.h"
#include "topology/collective_entries.h"

namespace moeplan::measurements {
namespace {

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// The shortest text that reads back as the same number, without an exponent where that is short.
std::string plain(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find('e') != std::string::npos && value < 1e16) text = fmt::format("{:.0f}", value);
  return text;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? "\"\"" : std::string(1, c);
  return cell + "\"";
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + "\"";
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string file_name(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string title_of(const CollectiveTable& table) {
  return fmt::format("{} on {} ranks{}{}", table.collective, table.ranks,
                     table.nodes > 0 ? fmt::format(" and {} nodes", table.nodes) : std::string(),
                     table.gpu.empty() ? std::string() : " of " + table.gpu);
}

// Why a profile cannot hold the table; empty when it can.
std::string unfit(const CollectiveTable& table, EntryForm form) {
  if (!topology::collective_kind(table.collective)) return "no cost model uses this collective";
  if (table.nodes == 0) return "the log does not say on how many nodes it ran; state it with --nodes";
  if (table.ranks % table.nodes != 0) return "the nodes have unequal numbers of ranks";
  if (form == EntryForm::law && table.sizes_bytes.size() < kLeastPoints)
    return fmt::format("{} sizes are too few to fit three parameters and keep some out", table.sizes_bytes.size());
  if (table.sizes_bytes.size() < 2) return "one size makes no table";
  return {};
}

std::string law_text(const CollectiveTable& table, topology::CollectiveKind kind, const std::string& source) {
  std::vector<SizedTime> points;
  const double share = topology::wire_share(kind, static_cast<double>(table.ranks));
  for (std::size_t i = 0; i < table.sizes_bytes.size(); ++i)
    points.push_back({share * table.sizes_bytes[i], table.times_s[i]});
  const PowerFit fit = fit_power(points);
  return fmt::format(
      "    latency: {:.4g} us\n    bandwidth: {:.5g} GB/s\n    exponent: {:.3g}\n    evidence: published\n    source: "
      "{}\n",
      fit.latency_s * 1e6, fit.bandwidth / 1e9, fit.exponent,
      quoted(
          fmt::format("{}: fitted to every second of {} sizes from {} to {} bytes; median error of the others {:.1f} "
                      "%, worst {:.0f} %",
                      source, table.sizes_bytes.size(), plain(table.sizes_bytes.front()),
                      plain(table.sizes_bytes.back()), fit.median_error * 100, fit.worst_error * 100)));
}

std::string points_text(const CollectiveTable& table, const std::string& source) {
  std::string sizes, times;
  for (std::size_t i = 0; i < table.sizes_bytes.size(); ++i) {
    sizes += (i == 0 ? "" : ", ") + plain(table.sizes_bytes[i]) + " B";
    times += (i == 0 ? "" : ", ") + fmt::format("{:.6g} us", table.times_s[i] * 1e6);
  }
  return fmt::format("    sizes: [{}]\n    times: [{}]\n    evidence: measured\n    source: {}\n", sizes, times,
                     quoted(source));
}

}  // namespace

double link_rate(const CollectiveTable& table, const topology::HardwareProfile& profile) {
  const topology::HardwareProfile::Network& network = profile.network;
  const double gpus = network.gpus_per_node.value;
  const bool inside = static_cast<double>(table.nodes) * gpus <= static_cast<double>(network.domain_gpus());
  return inside ? network.scale_up_bandwidth.value : network.nic_bandwidth.value * network.nics_per_node.value / gpus;
}

std::vector<CollectiveTable> collect(const std::vector<CollectiveRow>& rows) {
  using Key = std::tuple<std::string, std::string, std::int64_t, std::int64_t>;
  struct Group {
    std::map<double, std::vector<double>> times;
    std::vector<std::string> files;
  };
  std::map<Key, Group> groups;
  for (const CollectiveRow& row : rows) {
    Group& group = groups[{row.gpu, row.collective, row.ranks, row.nodes}];
    group.times[row.size_bytes].push_back(row.time_s);
    const std::string file = file_name(row.where.file);
    if (std::find(group.files.begin(), group.files.end(), file) == group.files.end()) group.files.push_back(file);
  }
  std::vector<CollectiveTable> tables;
  for (auto& [key, group] : groups) {
    CollectiveTable& table = tables.emplace_back();
    std::tie(table.gpu, table.collective, table.ranks, table.nodes) = key;
    table.files = std::move(group.files);
    for (auto& [size, times] : group.times) {
      table.sizes_bytes.push_back(size);
      table.times_s.push_back(median(times));
    }
  }
  return tables;
}

std::string tables_csv(const std::vector<CollectiveTable>& tables) {
  std::string text = "collective,ranks,nodes,gpu,size_bytes,time_us,source\n";
  for (const CollectiveTable& table : tables) {
    for (std::size_t i = 0; i < table.sizes_bytes.size(); ++i) {
      text += fmt::format("{},{},{},{},{},{:.6g},{}\n", table.collective, table.ranks,
                          table.nodes > 0 ? std::to_string(table.nodes) : std::string(), csv_cell(table.gpu),
                          plain(table.sizes_bytes[i]), table.times_s[i] * 1e6, csv_cell(joined(table.files)));
    }
  }
  return text;
}

std::string tables_yaml(const std::vector<CollectiveTable>& tables, const EntrySettings& settings,
                        std::vector<std::string>& left_out) {
  std::string entries, gpu;
  for (const CollectiveTable& table : tables) {
    if (const std::string why = unfit(table, settings.form); !why.empty()) {
      left_out.push_back(title_of(table) + ": " + why);
      continue;
    }
    if (table.gpu != gpu && !table.gpu.empty()) entries += "  # " + table.gpu + "\n";
    gpu = table.gpu;
    const topology::CollectiveKind kind = *topology::collective_kind(table.collective);
    entries += fmt::format("  - collective: {}\n    ranks: {}\n    nodes: {}\n",
                           topology::collective_names()[static_cast<std::size_t>(kind)], table.ranks, table.nodes);
    if (!settings.fabric.empty() && table.nodes > 1)
      entries += fmt::format("    fabric: {}\n", quoted(settings.fabric));
    if (settings.profile != nullptr)
      entries += fmt::format("    link: {} GB/s\n", link_rate(table, *settings.profile) / 1e9);
    const std::string source = settings.source.empty() ? joined(table.files) : settings.source;
    entries += settings.form == EntryForm::law ? law_text(table, kind, source) : points_text(table, source);
  }
  return "# Entries of a hardware profile (docs/models.md, Collectives).\ncollectives:" +
         (entries.empty() ? std::string(" []\n") : "\n" + entries);
}

}  // namespace moeplan::measurements
