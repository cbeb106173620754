#include <fmt/core.h>

#include <optional>
#include <ostream>

#include "cli/commands.h"
#include "measurements/layer_run.h"
#include "measurements/profiles.h"
#include "report/report.h"
#include "search/layer_runs.h"

namespace moeplan::cli {

int validate_layer_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  const measurements::LayerRunFile file = measurements::read_layer_runs(arguments.input);
  std::optional<topology::HardwareProfile> fixed;
  if (!arguments.operators_hardware.empty()) {
    fixed = measurements::load_profile(arguments.operators_hardware, arguments.options.data_dirs, "--hardware");
  }
  const search::LayerValidation validation =
      search::validate_layers(file, measurements::Profiles(arguments.options.data_dirs), fixed ? &*fixed : nullptr);
  context.output.text(report::layers_text(validation));
  if (context.output.wants_json()) context.output.json(report::layers_json(validation));
  for (const base::Fault& fault : validation.faults) context.err << "error: " << base::format_fault(fault) << "\n";
  for (const measurements::LayerRun& run : file.runs)
    for (const base::Fault& fault : run.faults) context.err << "error: " << base::format_fault(fault) << "\n";
  if (validation.errors > 0 || !validation.faults.empty()) return 1;
  if (validation.ok > 0) return 0;
  context.err << "error: no run was predicted: nothing is compared\n";
  return 2;
}

}  // namespace moeplan::cli
