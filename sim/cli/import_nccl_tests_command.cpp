#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>
#include <system_error>

#include "base/file.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "measurements/collective_table.h"
#include "measurements/log_line.h"
#include "measurements/profiles.h"
#include "measurements/read_table.h"
#include "topology/hardware.h"

namespace moeplan::cli {
namespace {

constexpr std::size_t kMostWarnings = 40;

// Letters and digits alone, in lower case, without the maker: "NVIDIA H100 80GB HBM3" and "H100-80GB-HBM3" are one.
std::string folded(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) text += c;
    if (c >= 'A' && c <= 'Z') text += static_cast<char>(c - 'A' + 'a');
  }
  for (const char* maker : {"nvidia", "amdinstinct", "amd"}) {
    if (text.starts_with(maker)) return text.substr(std::string(maker).size());
  }
  return text;
}

measurements::CollectiveLog read_logs(const Arguments& arguments) {
  const measurements::Stated stated{arguments.collective, arguments.gpu, arguments.ranks, arguments.nodes};
  measurements::CollectiveLog all;
  base::Faults faults;
  for (const std::string& path : arguments.inputs) {
    try {
      const std::string text = base::read_text(path, measurements::kMostFileBytes);
      measurements::CollectiveLog log = measurements::is_collective_csv(text)
                                            ? measurements::read_collective_csv(text, path, stated)
                                            : measurements::read_nccl_log(text, path, stated);
      if (log.rows.empty() && log.set_aside.empty())
        faults.add({path, 0, 0, {}}, "no row of a collective benchmark in this file",
                   "nccl-tests, rccl-tests, all_reduce_bench and HCCL print such rows; a CSV needs the columns "
                   "collective, ranks, nodes, size_bytes and time_us");
      all.rows.insert(all.rows.end(), log.rows.begin(), log.rows.end());
      all.set_aside.insert(all.set_aside.end(), log.set_aside.begin(), log.set_aside.end());
    } catch (const base::Error& error) {
      faults.add(error);
    }
  }
  faults.throw_if_any();
  return all;
}

std::optional<topology::HardwareProfile> part_of(const Arguments& arguments) {
  const std::string& id = arguments.hardware_filter;
  if (id.empty()) return std::nullopt;
  return measurements::load_profile(id, arguments.options.data_dirs, "--hardware " + id);
}

// Sets rows of other parts aside.
void keep_part(const topology::HardwareProfile& profile, measurements::CollectiveLog& log) {
  std::vector<std::string> names = {folded(profile.id)};
  for (const std::string& alias : profile.aliases) names.push_back(folded(alias));
  std::erase_if(log.rows, [&](const measurements::CollectiveRow& row) {
    if (row.gpu.empty() || std::find(names.begin(), names.end(), folded(row.gpu)) != names.end()) return false;
    log.set_aside.push_back({row.where, "of another part: '" + row.gpu + "', not " + profile.id, {}, {}});
    return true;
  });
}

void check(const Arguments& arguments) {
  base::Faults faults;
  if (!arguments.collective.empty() && measurements::collective_of_name(arguments.collective) != arguments.collective &&
      arguments.collective != "all_to_all" && arguments.collective != "send_recv") {
    const std::vector<std::string> known = {"all_reduce", "all_gather", "reduce_scatter", "alltoall",
                                            "sendrecv",   "broadcast",  "reduce",         "gather",
                                            "scatter",    "hypercube",  "alltoallv"};
    faults.add({"--collective " + arguments.collective, 0, 0, {}}, "expected one of " + base::join_names(known),
               base::nearest_hint(arguments.collective, known));
  }
  for (const std::string& input : arguments.inputs) {
    std::error_code error;
    if (!arguments.out.empty() && std::filesystem::equivalent(arguments.out, input, error) && !error)
      faults.add({"-o " + arguments.out, 0, 0, {}}, "would replace the input " + input);
  }
  faults.throw_if_any();
}

void warn(const Context& context, const std::vector<base::Fault>& set_aside) {
  for (std::size_t i = 0; i < std::min(set_aside.size(), kMostWarnings); ++i)
    context.err << "set aside: " << base::format_fault(set_aside[i]) << "\n";
  if (set_aside.size() > kMostWarnings) context.err << "set aside: " << set_aside.size() - kMostWarnings << " more\n";
}

}  // namespace

int import_nccl_tests_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  check(arguments);
  measurements::CollectiveLog log = read_logs(arguments);
  const std::optional<topology::HardwareProfile> part = part_of(arguments);
  if (part) keep_part(*part, log);
  if (log.rows.empty()) throw base::Error(std::move(log.set_aside));
  warn(context, log.set_aside);
  const std::vector<measurements::CollectiveTable> tables = measurements::collect(log.rows);
  std::string text;
  if (arguments.out.ends_with(".csv")) {
    text = measurements::tables_csv(tables);
  } else {
    std::vector<std::string> left_out;
    measurements::EntrySettings settings;
    if (arguments.form == "law") settings.form = measurements::EntryForm::law;
    settings.fabric = arguments.fabric;
    settings.source = arguments.source;
    if (part) settings.profile = &*part;
    text = measurements::tables_yaml(tables, settings, left_out);
    for (const std::string& table : left_out) context.err << "left out: " << table << "\n";
  }
  if (arguments.out.empty()) {
    context.output.text(text);
  } else {
    base::write_file_atomically(arguments.out, text);
  }
  return 0;
}

}  // namespace moeplan::cli
