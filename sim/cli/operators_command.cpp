#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <ostream>

#include "cli/commands.h"
#include "measurements/profiles.h"
#include "measurements/read_table.h"
#include "report/report.h"
#include "search/operators.h"

namespace moeplan::cli {

int validate_operators_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  measurements::MeasurementTable table = measurements::read_measurements(arguments.input);
  for (const auto& [column, value] : arguments.filters) {
    measurements::keep_where(table, column, value, "--filter " + column + "=" + value);
  }
  if (table.rows.empty()) throw base::Error({arguments.input, 0, 0, {}}, "no row is left by --filter");
  std::optional<topology::HardwareProfile> fixed;
  if (!arguments.operators_hardware.empty()) {
    fixed = measurements::load_profile(arguments.operators_hardware, arguments.options.data_dirs, "--hardware");
  }
  const search::OperatorValidation validation =
      search::validate_operators(table, measurements::Profiles(arguments.options.data_dirs), fixed ? &*fixed : nullptr);
  context.output.text(report::operators_text(validation));
  if (context.output.wants_json()) context.output.json(report::operators_json(validation));
  if (validation.errors == 0) {
    const bool any = std::any_of(validation.rows.begin(), validation.rows.end(),
                                 [](const search::OperatorRow& row) { return row.predicted.has_value(); });
    if (any) return 0;
    context.err << "error: no row was predicted: nothing is compared\n";
    return 2;
  }
  context.err << fmt::format("error: {} of {} rows cannot be read\n", validation.errors, validation.rows.size());
  return 1;
}

}  // namespace moeplan::cli
