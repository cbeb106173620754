#include "measurements/device_lines.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/csv.h"
#include "base/nearest.h"
#include "measurements/fields.h"
#include "topology/hardware.h"

namespace moeplan::measurements {
namespace {

constexpr const char* kSchema = "moeplan.device/1";
constexpr const char* kLayerSchema = "moeplan.layer/1";
constexpr std::size_t kMostLeftOut = 20;  // that are told one by one

}  // namespace

const std::vector<std::string>& read_off_keys() {
  static const std::vector<std::string> keys = {
      "device.memory_capacity",      "device.sm_count",   "gemm.sustained",        "host.launch",
      "network.host_link_bandwidth", "overheads.context", "overheads.communicator"};
  return keys;
}

bool DeviceReader::is_row(Measurement& row) {
  Fields fields(row);
  const std::string schema = fields.text("schema"), record = fields.text("record");
  if (!row.faults.empty() || schema.empty()) {
    ++counted_;
    return true;
  }
  if (schema == kLayerSchema) {
    ++counted_;
    if (record.empty()) fields.skip("a run of a layer, which moeplan validate --layer compares");
    return true;
  }
  if (schema != kSchema) {
    fields.fault("schema", fmt::format("expected {}, got '{}'", kSchema, base::shown_cell(schema)));
    return true;
  }
  if (record == "measurement") {
    ++counted_;
    same_versions(row);
    return true;
  }
  if (record != "end") ++counted_;
  take(row, record);
  lines_.set_aside.insert(lines_.set_aside.end(), row.faults.begin(), row.faults.end());
  return false;
}

// Timings of two drivers or libraries do not belong into one fit.
bool DeviceReader::same_versions(Measurement& row) {
  Fields fields(row);
  const std::string software =
      fmt::format("{}, driver {}, CUDA {}", fields.text("program"), fields.text("driver"), fields.text("cuda"));
  const std::string versions = fields.text("gpu") + ", " + software;
  if (versions_.empty()) {
    const std::string program = fields.text("program");
    lines_.software = {row.where, fields.text("gpu"), software, program.substr(0, program.rfind(' ')),
                       fields.text("driver")};
    versions_ = versions;
    first_ = row.where;
  }
  if (versions == versions_) return true;
  row.faults.push_back(
      {row.where, fmt::format("mixed versions: {}, but the file begins with {}", versions, versions_), {}, {first_}});
  return false;
}

void DeviceReader::take(Measurement& row, const std::string& record) {
  Fields fields(row);
  const std::string gpu = fields.text("gpu");
  if (record == "device") {
    if (open_) fields.fault("record", "a run begins before the one above it has ended: it was cut short");
    open_ = true;
    counted_ = 1;
    if (!same_versions(row)) return;
    lines_.devices.push_back({row.where, fields.text("program"), gpu, fields.text("driver"), fields.text("cuda"),
                              fields.positive("max_sm_mhz").value_or(0), fields.positive("power_limit_w").value_or(0)});
  } else if (record == "value") {
    const std::string key = fields.text("key");
    const bool known = std::find(read_off_keys().begin(), read_off_keys().end(), key) != read_off_keys().end();
    if (!known)
      fields.fault(
          "key", fmt::format("expected one of {}, got '{}'", base::join_names(read_off_keys()), base::shown_cell(key)));
    if (fields.text("value").empty()) fields.fault("value", "expected a number > 0, got none");
    const auto value = fields.positive("value");
    if (known && value) {
      if (const std::string why = topology::value_fault(key, *value); !why.empty())
        fields.fault("value", fmt::format("{}: {}", key, why));
    }
    if (!same_versions(row) || !row.faults.empty()) return;
    lines_.values.push_back({row.where, gpu, key, fields.text("how"), *value});
  } else if (record == "overlap") {
    Overlap overlap{row.where, gpu, fields.text("copy"), fields.integer("comm_sms", 0).value_or(0), 0, 0};
    const auto alone = fields.positive("products_alone_us"), beside = fields.positive("products_beside_us");
    if (!same_versions(row) || !row.faults.empty() || !alone || !beside) return;
    overlap.alone_s = *alone * 1e-6;
    overlap.beside_s = *beside * 1e-6;
    lines_.overlaps.push_back(std::move(overlap));
  } else if (record == "check") {
    ++lines_.checks;
    if (fields.text("good") != "1") {
      ++lines_.failed_checks;
      row.faults.push_back(
          {row.where,
           fmt::format("a check of the device program failed: {}", base::shown_cell(fields.text("what"))),
           {},
           {}});
    }
  } else if (record == "left_out") {
    if (lines_.left_out.size() < kMostLeftOut)
      lines_.left_out.push_back(fields.text("what") + ": " + fields.text("why"));
  } else if (record == "end") {
    open_ = false;
    const auto lines = fields.integer("lines", 0);
    if (lines && *lines != counted_)
      fields.fault("lines", fmt::format("the run had {} lines before this one, but {} stand here", *lines, counted_));
    counted_ = 0;
  } else if (record != "sustained") {
    fields.fault("record", fmt::format("expected a record of {}, got '{}'", kSchema, base::shown_cell(record)));
  }
}

void DeviceReader::finish(const std::string& file) {
  if (!open_) return;
  lines_.set_aside.push_back(
      {{file, 0, 0, {}}, "the last run has no end line: it was cut short, and what came after is missing", {}, {}});
}

}  // namespace moeplan::measurements
