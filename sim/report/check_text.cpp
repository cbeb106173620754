#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "report/report.h"
#include "report/table.h"
#include "report/version.h"

namespace moeplan::report {

using Json = nlohmann::ordered_json;

std::string check_text(const calibrate::MachineCheck& check) {
  std::string text;
  Table table({{"what", Align::left}, {"measured / expected"}, {"allowed"}, {"rows"}, {"", Align::left}});
  for (const calibrate::Finding& one : check.findings)
    table.add({one.what, fmt::format("{:.3f}", one.measured), fmt::format("{:.1f} %", 100 * one.allowed),
               std::to_string(one.rows), one.deviates ? "DEVIATES" : ""});
  if (check.findings.empty()) {
    text = fmt::format("Nothing to compare with {}\n", check.profile);
  } else {
    text = fmt::format("{} {}\n\n", check.deviates() ? "DEVIATES from" : "As", check.profile) + table.text();
  }
  for (const calibrate::Finding& one : check.findings) {
    if (one.deviates) text += "\n" + wrapped("      ", one.sentence);
  }
  for (const std::string& note : check.notes) text += "\n" + wrapped("Note  ", note);
  return text;
}

std::string check_json(const calibrate::MachineCheck& check) {
  Json json;
  json["schema"] = "moeplan.check/1";
  json["profile"] = check.profile;
  json["deviates"] = check.deviates();
  json["findings"] = Json::array();
  for (const calibrate::Finding& one : check.findings)
    json["findings"].push_back({{"what", one.what},
                                {"measured_over_expected", one.measured},
                                {"allowed", one.allowed},
                                {"rows", one.rows},
                                {"deviates", one.deviates},
                                {"sentence", one.sentence}});
  json["warnings"] = check.notes;
  json["provenance"] = {{"version", kVersion}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moeplan::report
