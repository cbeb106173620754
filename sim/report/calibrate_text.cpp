#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "report/format.h"
#include "report/report.h"
#include "report/table.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;
using calibrate::FamilyFit;
using calibrate::Residual;

std::string shown_value(const std::string& key, double value) {
  const auto ends = [&](const char* end) { return key.ends_with(end); };
  if (key.find("peak") != std::string::npos) return fmt::format("{:.1f} TFLOP/s", value / 1e12);
  if (key == "device.memory_capacity" || key.starts_with("overheads."))
    return fmt::format("{:.2f} GiB", value / (1024.0 * 1024 * 1024));
  if (key.starts_with("gemm.sustained")) return fmt::format("{:.1f} TFLOP/s", value / 1e12);
  if (ends("bandwidth") || ends("cap") || ends("rate_per_sm")) return fmt::format("{:.1f} GB/s", value / 1e9);
  if (ends("launch") || ends("floor") || ends("overhead") || ends("issue"))
    return fmt::format("{:.2f} us", value * 1e6);
  if (ends("token")) return fmt::format("{:.3f} ns", value * 1e9);
  return fmt::format("{:.4g}", value);
}

std::string shown_residual(const Residual& residual) {
  if (residual.n == 0) return "-";
  return fmt::format("{:.1f} / {:.1f} %", 100 * residual.median, 100 * residual.p90);
}

Json residual_json(const Residual& residual) {
  if (residual.n == 0) return Json();
  return {{"rows", residual.n}, {"median_absolute_error", residual.median}, {"p90_absolute_error", residual.p90}};
}

std::string name_of(const topology::CollectiveEntry& entry) {
  return topology::collective_names()[static_cast<std::size_t>(entry.kind)];
}

std::string collectives_table(const calibrate::Fit& fit) {
  Table table({{"collective", Align::left},
               {"GPUs"},
               {"nodes"},
               {"sizes"},
               {"latency"},
               {"bandwidth"},
               {"median / p90 |error|"},
               {"before"}});
  for (const calibrate::CollectiveFit& one : fit.collectives) {
    const bool law = one.entry.sizes_bytes.empty();
    table.add({name_of(one.entry), std::to_string(one.entry.ranks), std::to_string(one.entry.nodes),
               std::to_string(one.sizes), law ? fmt::format("{:.1f} us", one.entry.latency_s * 1e6) : "table",
               law ? fmt::format("{:.1f} GB/s", one.entry.bandwidth / 1e9) : "table", shown_residual(one.kept_out),
               shown_residual(one.before)});
  }
  return table.text();
}

}  // namespace

std::string calibrate_text(const calibrate::Fit& fit) {
  Table errors({{"cost model", Align::left},
                {"rows of the fit"},
                {"median / p90 |error|"},
                {"rows kept out"},
                {"median / p90 |error|"},
                {"before"},
                {"from 1e10 FLOP"}});
  for (const FamilyFit& family : fit.families) {
    errors.add({family.name, std::to_string(family.fitted.n), shown_residual(family.fitted),
                std::to_string(family.kept_out.n), shown_residual(family.kept_out), shown_residual(family.before),
                family.has_flop ? shown_residual(family.kept_large) : "-"});
  }
  Table values({{"value", Align::left}, {"before"}, {"fitted"}});
  for (const FamilyFit& family : fit.families) {
    for (const calibrate::FittedValue& value : family.values)
      values.add({value.key, value.start > 0 ? shown_value(value.key, value.start) : "-",
                  shown_value(value.key, value.value)});
  }
  for (const calibrate::ReadOff& value : fit.read_off)
    values.add({value.key, value.before > 0 ? shown_value(value.key, value.before) : "-",
                shown_value(value.key, value.value)});
  for (const calibrate::FittedValue& spread : fit.spreads)
    values.add({spread.key, spread.start > 0 ? shown_value(spread.key, spread.start) : "-",
                shown_value(spread.key, spread.value)});
  std::string text = fmt::format("{} fitted\n\n", fit.profile.id);
  if (!errors.empty()) text += errors.text() + "\n";
  if (!fit.collectives.empty()) text += collectives_table(fit) + "\n";
  text += values.text();
  for (const std::string& note : fit.notes) text += "\n" + wrapped("Note  ", note);
  return text;
}

std::string calibrate_json(const calibrate::Fit& fit) {
  Json json;
  json["schema"] = "moeplan.calibrate/1";
  json["profile"] = fit.profile.id;
  json["families"] = Json::array();
  for (const FamilyFit& family : fit.families) {
    Json values = Json::array();
    for (const calibrate::FittedValue& value : family.values)
      values.push_back(
          {{"key", value.key}, {"before", value.start > 0 ? Json(value.start) : Json()}, {"value", value.value}});
    json["families"].push_back({{"name", family.name},
                                {"values", std::move(values)},
                                {"fitted", residual_json(family.fitted)},
                                {"kept_out", residual_json(family.kept_out)},
                                {"kept_out_before", residual_json(family.before)},
                                {"kept_out_from_1e10_flop", residual_json(family.kept_large)},
                                {"set_aside", family.set_aside}});
  }
  json["collectives"] = Json::array();
  for (const calibrate::CollectiveFit& one : fit.collectives) {
    const bool law = one.entry.sizes_bytes.empty();
    json["collectives"].push_back({{"collective", name_of(one.entry)},
                                   {"ranks", one.entry.ranks},
                                   {"nodes", one.entry.nodes},
                                   {"sizes", one.sizes},
                                   {"latency_s", law ? Json(one.entry.latency_s) : Json()},
                                   {"bandwidth_bytes_per_s", law ? Json(one.entry.bandwidth) : Json()},
                                   {"exponent", law ? Json(one.entry.exponent) : Json()},
                                   {"kept_out", residual_json(one.kept_out)},
                                   {"before", residual_json(one.before)}});
  }
  const auto with_before = [](const std::string& key, double before, double value) {
    return Json{{"key", key}, {"before", before > 0 ? Json(before) : Json()}, {"value", value}};
  };
  json["read_off"] = Json::array();
  for (const calibrate::ReadOff& value : fit.read_off)
    json["read_off"].push_back(with_before(value.key, value.before, value.value));
  json["spreads"] = Json::array();
  for (const calibrate::FittedValue& spread : fit.spreads)
    json["spreads"].push_back(with_before(spread.key, spread.start, spread.value));
  json["warnings"] = fit.notes;
  json["provenance"] = {{"version", kVersion}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moeplan::report
