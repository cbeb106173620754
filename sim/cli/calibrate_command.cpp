#include <fmt/core.h>

#include <ostream>

#include "base/file.h"
#include "calibrate/check.h"
#include "calibrate/fit.h"
#include "cli/calibration_input.h"
#include "cli/commands.h"
#include "report/report.h"

namespace moeplan::cli {
namespace {

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
  CalibrationInput input = read_calibration_input(arguments, context.err);
  input.options.library = arguments.library;
  input.options.shapes = arguments.shapes;
  const calibrate::Fit fit = calibrate::fit_profile(input.rows, input.base, input.options);
  context.output.text(report::calibrate_text(fit));
  if (context.output.wants_json()) context.output.json(report::calibrate_json(fit));
  std::string poor = poor_families(fit);
  if (input.failed_checks > 0)
    poor += fmt::format("error: {} of the device program failed: its kernels compute wrong results\n",
                        input.failed_checks == 1 ? "1 check" : fmt::format("{} checks", input.failed_checks));
  context.err << poor;
  if (!poor.empty() && !arguments.force) {
    context.err << "no profile is written; --force writes it all the same\n";
    return 1;
  }
  if (!arguments.out.empty()) base::write_file_atomically(arguments.out, calibrate::profile_yaml(fit.profile));
  return 0;
}

int calibrate_check_command(const Context& context) {
  const CalibrationInput input = read_calibration_input(context.arguments, context.err);
  const calibrate::MachineCheck check = calibrate::check_machine(input.rows, input.options, input.devices, input.base);
  context.output.text(report::check_text(check));
  if (context.output.wants_json()) context.output.json(report::check_json(check));
  if (check.deviates() || input.failed_checks > 0) return 1;
  if (check.compared()) return 0;
  context.err << "error: nothing but clocks could be compared: no timed operation is large enough, and no value was "
                 "read off\n";
  return 2;
}

}  // namespace moeplan::cli
