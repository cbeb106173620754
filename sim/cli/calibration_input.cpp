#include "cli/calibration_input.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <ostream>
#include <set>

#include "base/file.h"
#include "base/nearest.h"
#include "measurements/nccl_log.h"
#include "measurements/read_table.h"

namespace moeplan::cli {
namespace {

using measurements::Measurement;
using measurements::Status;

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

// Rows set aside, by reason: how many and where the first stands.
class SetAside {
 public:
  void add(const base::Where& where, const std::string& reason) {
    const auto [entry, is_new] = reasons_.try_emplace(reason, std::pair{std::int64_t{0}, where});
    ++entry->second.first;
  }
  void add(const Measurement& row, const std::string& reason) { add(row.where, reason); }
  void write(std::ostream& err) const {
    for (const auto& [reason, entry] : reasons_) {
      const auto& [count, where] = entry;
      const std::string place = where.line > 0 ? fmt::format("{}:{}", where.file, where.line) : where.file;
      err << fmt::format("warning: {}: {}{}\n", place, reason,
                         count > 1 ? fmt::format(" (and {} more rows)", count - 1) : "");
    }
  }

 private:
  std::map<std::string, std::pair<std::int64_t, base::Where>> reasons_;
};

// Whether a text is a log of collectives: a row of one stands in it, and it is no JSON.
bool read_log(const Arguments& arguments, const std::string& text, const std::string& path, SetAside& aside,
              CalibrationInput& input) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return false;
  const measurements::CollectiveLog log =
      measurements::read_nccl_log(text, path, {arguments.collective, arguments.gpu, arguments.ranks, arguments.nodes});
  if (log.rows.empty()) return false;
  for (const base::Fault& fault : log.set_aside) aside.add(fault.where, fault.message);
  for (const measurements::CollectiveRow& row : log.rows) {
    Measurement& measured = input.of_logs.emplace_back();
    measured.where = row.where;
    measured.gpu = row.gpu;
    measured.kind = row.collective;
    measured.family = measurements::Family::collective;
    measured.shape.bytes = row.size_bytes;
    measured.shape.ranks = row.ranks;
    measured.shape.nodes = row.nodes;
    measured.seconds = row.time_s;
    if (!(row.size_bytes > 0)) measured.status = Status::skipped;  // size 0: too small for this many ranks
  }
  return true;
}

void read_files(const Arguments& arguments, SetAside& aside, CalibrationInput& input) {
  base::Faults faults;
  for (const std::string& path : arguments.tables) {
    input.options.source += (input.options.source.empty() ? "" : ", ") + file_name(path);
    try {
      const std::string text = base::read_text(path, measurements::kMostFileBytes);
      if (read_log(arguments, text, path, aside, input)) continue;
      input.tables.push_back(measurements::parse_measurements(text, path));
      for (const auto& [column, value] : arguments.filters)
        measurements::keep_where(input.tables.back(), column, value, "--filter " + column + "=" + value);
    } catch (const base::Error& error) {
      faults.add(error);
    }
  }
  faults.throw_if_any();
}

// The profile of --base, or the one that all rows name.
topology::HardwareProfile base_of(const Arguments& arguments, const CalibrationInput& input,
                                  const measurements::Profiles& profiles) {
  if (!arguments.base.empty()) return measurements::load_profile(arguments.base, arguments.options.data_dirs, "--base");
  std::map<std::string, std::int64_t> found;
  const topology::HardwareProfile* profile = nullptr;
  const auto count_gpu = [&](const std::string& gpu) {
    const topology::HardwareProfile* of = profiles.find(gpu);
    if (of == nullptr) return;
    ++found[of->id];
    profile = of;
  };
  for (const Measurement* row : input.rows) count_gpu(row->gpu);
  for (const measurements::ReadOffValue& value : input.options.values) count_gpu(value.gpu);
  if (found.size() == 1) return *profile;
  std::vector<std::string> names;
  for (const auto& [id, count] : found) names.push_back(fmt::format("{} ({} rows)", id, count));
  throw base::Error(
      {arguments.tables.front(), 0, 0, {}},
      found.empty() ? "no row is of a GPU that a profile names" : "rows of several devices: " + base::join_names(names),
      "--base ID names the profile to fit; rows of other devices are set aside");
}

// Files of other drivers or libraries than the first of the part: their timings do not belong into one fit. Another
// program (tools/attention.py) has its own CUDA and its own version: of the two the driver alone counts.
std::set<std::string> of_other_software(const CalibrationInput& input, const measurements::Profiles& profiles,
                                        SetAside& aside) {
  std::set<std::string> files;
  std::vector<const measurements::Software*> taken;
  for (const measurements::MeasurementTable& table : input.tables) {
    if (table.device == nullptr || table.device->software.text.empty()) continue;
    const measurements::Software& software = table.device->software;
    const topology::HardwareProfile* named = profiles.find(software.gpu);
    if (named != nullptr && named->id != input.base.id) continue;  // told as another device
    const auto other = std::find_if(taken.begin(), taken.end(), [&](const measurements::Software* first) {
      return first->program == software.program ? first->text != software.text : first->driver != software.driver;
    });
    if (other == taken.end()) {
      taken.push_back(&software);
      continue;
    }
    const measurements::Software& first = **other;
    aside.add(software.where, fmt::format("mixed versions: {}, but {}:{} has {}; --mixed-versions takes both",
                                          software.text, first.where.file, first.where.line, first.text));
    files.insert(table.file);
  }
  return files;
}

}  // namespace

CalibrationInput read_calibration_input(const Arguments& arguments, std::ostream& err) {
  CalibrationInput input;
  SetAside aside;
  read_files(arguments, aside, input);
  const auto take = [&](const Measurement& row) {
    if (row.status == Status::ok) {
      input.rows.push_back(&row);
    } else if (!row.reason.empty()) {
      aside.add(row, row.reason);
    }
  };
  for (const measurements::MeasurementTable& table : input.tables) {
    for (const std::string& note : table.notes) err << "note: " << table.file << ": " << note << "\n";
    for (const Measurement& row : table.rows) take(row);
    if (table.device == nullptr) continue;
    for (const base::Fault& fault : table.device->set_aside) aside.add(fault.where, fault.message);
    for (const std::string& left : table.device->left_out) err << "note: not measured: " << left << "\n";
    const measurements::DeviceLines& device = *table.device;
    input.failed_checks += device.failed_checks;
    input.devices.insert(input.devices.end(), device.devices.begin(), device.devices.end());
    input.options.overlaps.insert(input.options.overlaps.end(), device.overlaps.begin(), device.overlaps.end());
    input.options.values.insert(input.options.values.end(), device.values.begin(), device.values.end());
  }
  for (const Measurement& row : input.of_logs) take(row);
  const measurements::Profiles profiles(arguments.options.data_dirs);
  input.base = base_of(arguments, input, profiles);
  const measurements::Profiles own({input.base});
  const auto is_other = [&](const std::string& gpu, const base::Where& where) {
    if (gpu.empty()) return false;
    const topology::HardwareProfile* named = profiles.find(gpu);
    if ((named != nullptr && named->id == input.base.id) || own.find(gpu) != nullptr) return false;
    aside.add(where, fmt::format("'{}' is another device than {}", gpu, input.base.id));
    return true;
  };
  std::erase_if(input.rows, [&](const Measurement* row) { return is_other(row->gpu, row->where); });
  std::erase_if(input.options.values, [&](const auto& value) { return is_other(value.gpu, value.where); });
  std::erase_if(input.options.overlaps, [&](const auto& overlap) { return is_other(overlap.gpu, overlap.where); });
  std::erase_if(input.devices, [&](const auto& device) { return is_other(device.gpu, device.where); });
  if (!arguments.mixed_versions) {
    const std::set<std::string> files = of_other_software(input, profiles, aside);
    const auto is_mixed = [&](const base::Where& where) { return files.contains(where.file); };
    std::erase_if(input.rows, [&](const Measurement* row) { return is_mixed(row->where); });
    std::erase_if(input.options.values, [&](const auto& value) { return is_mixed(value.where); });
    std::erase_if(input.options.overlaps, [&](const auto& overlap) { return is_mixed(overlap.where); });
    std::erase_if(input.devices, [&](const auto& device) { return is_mixed(device.where); });
  }
  std::vector<std::string> notes;
  input.rows = calibrate::of_fastest_libraries(input.rows, notes);
  for (const std::string& note : notes) err << "note: " << note << "\n";
  input.options.collectives = calibrate::collective_rows(input.rows);
  aside.write(err);
  if (input.rows.empty() && input.options.values.empty())
    throw base::Error({arguments.tables.front(), 0, 0, {}}, "no row is of " + input.base.id);
  return input;
}

}  // namespace moeplan::cli
