#include "cli/cli.h"

#include <exception>
#include <ostream>

#include "base/error.h"
#include "cli/commands.h"
#include "routing/trace.h"

namespace moeplan::cli {
namespace {

int dispatch(const Context& context) {
  switch (context.arguments.command) {
    case Command::run:
      return run_command(context);
    case Command::sweep:
      return sweep_command(context);
    case Command::chunks:
      return chunks_command(context);
    case Command::compare:
      return compare_command(context);
    case Command::explain:
      return explain_command(context);
    case Command::trace_info:
      return trace_info_command(context);
    case Command::list:
      return list_command(context);
    case Command::import_hf:
      return import_hf_command(context);
    case Command::import_megatron:
      return import_megatron_command(context);
    case Command::import_runs:
      return import_runs_command(context);
    case Command::collective:
      return collective_command(context);
    case Command::import_nccl_tests:
      return import_nccl_tests_command(context);
    case Command::calibrate_fit:
      return calibrate_fit_command(context);
    case Command::calibrate_check:
      return calibrate_check_command(context);
    case Command::validate:
      if (context.arguments.layer) return validate_layer_command(context);
      return context.arguments.operators ? validate_operators_command(context) : validate_command(context);
  }
  return 3;
}

// The files that a command reads and --json must not replace.
std::vector<std::string> inputs_of(const Arguments& arguments) {
  std::vector<std::string> inputs;
  if (!arguments.scenario.empty()) inputs.push_back(arguments.scenario);
  if (arguments.command == Command::validate) inputs.push_back(arguments.input);
  if (!arguments.bytes_matrix.empty()) inputs.push_back(arguments.bytes_matrix);
  inputs.insert(inputs.end(), arguments.tables.begin(), arguments.tables.end());
  if (!arguments.trace.empty()) inputs.push_back(routing::split_trace_path(arguments.trace).file);
  return inputs;
}

int run_parsed(const std::vector<std::string>& words, std::ostream& out, std::ostream& err) {
  Stats stats;
  const std::optional<Arguments> arguments = parse_arguments(words, out);
  if (!arguments) return 0;
  Output output(out, arguments->json, inputs_of(*arguments));
  const int status = dispatch({*arguments, output, err, stats});
  if (arguments->stats) stats.write(err);
  return status;
}

}  // namespace

int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  try {
    return run_parsed(arguments, out, err);
  } catch (const base::Error& error) {
    for (const base::Fault& fault : error.faults()) err << "error: " << base::format_fault(fault) << "\n";
    err << std::flush;
    return 2;
  } catch (const std::bad_alloc&) {
    err << "error: out of memory; a smaller scenario, fewer iterations or fewer threads need less\n" << std::flush;
    return 2;
  } catch (const std::exception& error) {
    err << "internal fault, please report: " << error.what() << "\n" << std::flush;
    return 3;
  }
}

}  // namespace moeplan::cli
