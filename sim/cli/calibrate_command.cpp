#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <ostream>

#include "base/file.h"
#include "base/nearest.h"
#include "calibrate/fit.h"
#include "cli/commands.h"
#include "measurements/profiles.h"
#include "measurements/read_table.h"
#include "report/report.h"

namespace moeplan::cli {
namespace {

using measurements::Measurement;
using measurements::Status;
using Rows = std::vector<const Measurement*>;

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::vector<measurements::MeasurementTable> read_tables(const Arguments& arguments) {
  std::vector<measurements::MeasurementTable> tables;
  base::Faults faults;
  for (const std::string& path : arguments.tables) {
    try {
      tables.push_back(measurements::read_measurements(path));
      for (const auto& [column, value] : arguments.filters)
        measurements::keep_where(tables.back(), column, value, "--filter " + column + "=" + value);
    } catch (const base::Error& error) {
      faults.add(error);
    }
  }
  faults.throw_if_any();
  return tables;
}

// The profile of --base, or the one that all rows name.
topology::HardwareProfile base_of(const Arguments& arguments, const Rows& rows,
                                  const measurements::Profiles& profiles) {
  if (!arguments.base.empty()) return measurements::load_profile(arguments.base, arguments.options.data_dirs, "--base");
  std::map<std::string, std::int64_t> found;
  const topology::HardwareProfile* profile = nullptr;
  for (const Measurement* row : rows) {
    const topology::HardwareProfile* of = profiles.find(row->gpu);
    if (of == nullptr) continue;
    ++found[of->id];
    profile = of;
  }
  if (found.size() == 1) return *profile;
  std::vector<std::string> names;
  for (const auto& [id, count] : found) names.push_back(fmt::format("{} ({} rows)", id, count));
  throw base::Error(
      {arguments.tables.front(), 0, 0, {}},
      found.empty() ? "no row is of a GPU that a profile names" : "rows of several devices: " + base::join_names(names),
      "--base ID names the profile to fit; rows of other devices are set aside");
}

bool is_of(const Measurement& row, const topology::HardwareProfile& base, const measurements::Profiles& profiles) {
  const topology::HardwareProfile* named = profiles.find(row.gpu);
  if (named != nullptr && named->id == base.id) return true;
  return measurements::Profiles({base}).find(row.gpu) != nullptr;
}

// Rows set aside, by reason: how many and where the first stands.
class SetAside {
 public:
  void add(const Measurement& row, const std::string& reason) {
    const auto [entry, is_new] = reasons_.try_emplace(reason, std::pair{std::int64_t{0}, row.where});
    ++entry->second.first;
  }
  void write(std::ostream& err) const {
    for (const auto& [reason, entry] : reasons_) {
      const auto& [count, where] = entry;
      err << fmt::format("warning: {}:{}: {}{}\n", where.file, where.line, reason,
                         count > 1 ? fmt::format(" (and {} more rows)", count - 1) : "");
    }
  }

 private:
  std::map<std::string, std::pair<std::int64_t, base::Where>> reasons_;
};

std::string poor_families(const calibrate::Fit& fit) {
  std::string poor;
  for (const calibrate::FamilyFit& family : fit.families) {
    if (!family.has_flop || family.judged().median <= calibrate::kLargestMedian) continue;
    poor += fmt::format("error: {}: a median error of {:.1f} % on {} rows, more than {:.0f} %\n", family.name,
                        100 * family.judged().median, family.judged().n, 100 * calibrate::kLargestMedian);
  }
  return poor;
}

}  // namespace

int calibrate_fit_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  if (!arguments.out.empty()) check_writable("-o", arguments.out, arguments.tables);
  const std::vector<measurements::MeasurementTable> tables = read_tables(arguments);
  const measurements::Profiles profiles(arguments.options.data_dirs);
  Rows good;
  SetAside aside;
  calibrate::FitOptions options;
  options.library = arguments.library;
  options.shapes = arguments.shapes;
  for (const measurements::MeasurementTable& table : tables) {
    options.source += (options.source.empty() ? "" : ", ") + file_name(table.file);
    for (const Measurement& row : table.rows) {
      if (row.status == Status::ok) {
        good.push_back(&row);
      } else {
        aside.add(row, row.reason);
      }
    }
  }
  const topology::HardwareProfile base = base_of(arguments, good, profiles);
  std::erase_if(good, [&](const Measurement* row) {
    if (is_of(*row, base, profiles)) return false;
    aside.add(*row, fmt::format("'{}' is another device than {}", row->gpu, base.id));
    return true;
  });
  aside.write(context.err);
  if (good.empty()) throw base::Error({arguments.tables.front(), 0, 0, {}}, "no row is of " + base.id);
  const calibrate::Fit fit = calibrate::fit_profile(good, base, options);
  context.output.text(report::calibrate_text(fit));
  if (context.output.wants_json()) context.output.json(report::calibrate_json(fit));
  const std::string poor = poor_families(fit);
  context.err << poor;
  if (!poor.empty() && !arguments.force) {
    context.err << "no profile is written; --force writes it all the same\n";
    return 1;
  }
  if (!arguments.out.empty()) base::write_file_atomically(arguments.out, calibrate::profile_yaml(fit.profile));
  return 0;
}

}  // namespace moeplan::cli
