#include "report/collective.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "report/format.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWorthTelling = 0.02;  // by which L1 exceeds L0

const char* basis_name(cost::CollectiveBasis basis) {
  switch (basis) {
    case cost::CollectiveBasis::measured:
      return "measured";
    case cost::CollectiveBasis::interpolated:
      return "interpolated";
    case cost::CollectiveBasis::extrapolated:
      return "extrapolated";
    case cost::CollectiveBasis::law:
      return "law fitted to measurements";
    case cost::CollectiveBasis::general:
      break;
  }
  return "general form";
}

std::string exact_time(double seconds) {
  if (seconds >= 1) return fmt::format("{:.6f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.6f} ms", seconds * 1e3) : fmt::format("{:.3f} us", seconds * 1e6);
}

}  // namespace

std::string collective_text(const CollectiveAnswer& answer) {
  const cost::ExchangeTime& time = answer.time.exchange;
  std::string text = fmt::format("{} of {} ranks, {} bytes{}\n", answer.collective, answer.ranks,
                                 thousands(static_cast<std::int64_t>(answer.bytes)),
                                 answer.collective == "all_to_all" ? " in all" : "");
  for (const auto& [name, value] : answer.fabric) text += fmt::format("  {:<18}{}\n", name, value);
  text += fmt::format("L0 (fullest link)   {}\nL1 (fair sharing)   {}\n", exact_time(time.l0_s), exact_time(time.l1_s));
  if (time.l1_s > time.l0_s * (1 + kWorthTelling))
    text += fmt::format("  links wait for each other: L1 is {} above L0\n", percent(time.l1_s / time.l0_s - 1));
  if (time.binding.empty()) {
    text += "binding             nothing is sent\n";
  } else {
    text += fmt::format("binding             {}\nslack to the next   {}{}\n", time.binding, exact_time(time.slack_s),
                        time.next.empty() ? std::string() : " (" + time.next + ")");
  }
  text += fmt::format("priced by           {}{}\n", basis_name(answer.time.priced.basis),
                      answer.time.source.empty() ? std::string() : ": " + answer.time.source);
  for (const std::string& warning : answer.warnings) text += "warning: " + warning + "\n";
  return text;
}

std::string collective_json(const CollectiveAnswer& answer) {
  const cost::ExchangeTime& time = answer.time.exchange;
  Json json;
  json["schema"] = "moeplan.collective/1";
  json["collective"] = answer.collective;
  json["ranks"] = answer.ranks;
  json["bytes"] = answer.bytes;
  json["l0_s"] = time.l0_s;
  json["l1_s"] = time.l1_s;
  json["binding"] = time.binding.empty() ? Json() : Json(time.binding);
  json["slack"] = time.slack_s;
  json["next"] = time.next.empty() ? Json() : Json(time.next);
  json["priced_by"] = basis_name(answer.time.priced.basis);
  json["source"] = answer.time.source.empty() ? Json() : Json(answer.time.source);
  json["transfer_classes"] = time.classes;
  Json fabric = Json::object();
  for (const auto& [name, value] : answer.fabric) {
    if (name == "degrade") {
      fabric[name].push_back(value);
    } else {
      fabric[name] = value;
    }
  }
  json["fabric"] = std::move(fabric);
  json["warnings"] = answer.warnings;
  json["provenance"] = {{"version", kVersion}};
  return json.dump(2) + "\n";
}

}  // namespace moeplan::report
