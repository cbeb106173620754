#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "report/report.h"
#include "report/sweep_row_json.h"

// Rows of a sweep that stand alone: a line of CSV or of JSON each, in any tool and after any interruption.
namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;

// Keys of the JSON row that become columns, after those of --vary.
constexpr std::array kColumns = {"verdict",
                                 "step_time_s",
                                 "peak_allocated_bytes",
                                 "peak_reserved_bytes",
                                 "device_bytes",
                                 "usable_bytes",
                                 "headroom_fraction",
                                 "worst_rank",
                                 "phase",
                                 "routed_activation_bytes",
                                 "tokens_per_s_per_gpu",
                                 "model_tflops_per_gpu",
                                 "mfu",
                                 "exposed_ep_s",
                                 "imbalance_wait_s",
                                 "bubble_s",
                                 "recompute_s",
                                 "overflow_probability",
                                 "profile",
                                 "routing",
                                 "error"};

// `routing` may be a varied key too.
std::string column_name(std::string_view key) { return key == "routing" ? "routing_source" : std::string(key); }

// RFC 4180: quotes where commas, quotes or spaces at the ends would be misread. Line feeds become " | ", so that a line
// is a row.
std::string cell(std::string_view text) {
  std::string flat;
  bool after_break = false;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      if (!after_break) flat += " | ";
      after_break = true;
    } else if (!after_break || c != ' ') {
      flat += c;
      after_break = false;
    }
  }
  const bool plain = flat.find_first_of(",\"") == std::string::npos && !flat.starts_with(' ') && !flat.ends_with(' ');
  if (plain) return flat;
  std::string quoted = "\"";
  for (const char c : flat) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string cell(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return cell(std::string_view(value.get_ref<const std::string&>()));
  return value.dump();  // numbers: reading them gives the same double
}

}  // namespace

std::string sweep_csv_header(const std::vector<search::Axis>& axes) {
  std::string line;
  for (const search::Axis& axis : axes) line += cell(std::string_view(axis.key)) + ",";
  for (const char* key : kColumns) line += column_name(key) + (key == kColumns.back() ? "\n" : ",");
  return line;
}

std::string sweep_csv_row(const search::SweepRow& row) {
  const Json json = sweep_row_json(row);
  std::string line;
  for (const std::string& value : row.values) line += cell(std::string_view(value)) + ",";
  for (const char* key : kColumns) {
    if (json.contains(key)) line += cell(json.at(key));
    line += key == kColumns.back() ? "\n" : ",";
  }
  return line;
}

std::string sweep_jsonl_row(const std::vector<search::Axis>& axes, const search::SweepRow& row) {
  Json line;
  line["schema"] = "moeplan.sweep-row/1";
  line["set"] = Json::object();
  for (std::size_t a = 0; a < axes.size(); ++a) line["set"][axes[a].key] = row.values[a];
  Json rest = sweep_row_json(row);
  rest.erase("values");
  line.update(rest);
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moeplan::report
