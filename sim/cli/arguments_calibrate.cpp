#include <CLI/CLI.hpp>

#include "cli/arguments_options.h"

namespace moeplan::cli {
namespace {

// Files of timings, and what they do not say.
void add_calibration_input(CLI::App& command, Arguments& arguments, Texts& texts) {
  command
      .add_option("TABLE", arguments.tables,
                  "Lines of moeplan-device, tables of timed operations (docs/operators.md), logs of nccl-tests")
      ->required();
  add_filter_option(command, texts);
  command.add_option("--ranks", arguments.ranks, "Of logs that do not say")->check(CLI::Range(1, 1'000'000));
  command.add_option("--nodes", arguments.nodes, "Of logs that do not say")->check(CLI::Range(1, 1'000'000));
  command.add_flag("--mixed-versions", arguments.mixed_versions,
                   "Take files of several drivers, CUDA or program versions together (default: set aside)");
}

}  // namespace

void add_calibrate(CLI::App& app, Arguments& arguments, Texts& texts) {
  CLI::App& calibrate = add_command(app, "calibrate", "Hardware profiles from measurements",
                                    "Examples:\n"
                                    "  moeplan calibrate fit device.jsonl all_reduce.log -o my-h200.yaml\n"
                                    "  moeplan calibrate check device.jsonl");
  calibrate.require_subcommand(1);
  CLI::App& fit =
      add_command(calibrate, "fit", "Values of a hardware profile from timed operations",
                  "Examples:\n"
                  "  moeplan calibrate fit gemm.csv attention.csv -o my-h200.yaml\n"
                  "  moeplan calibrate fit device.jsonl --base h200-sxm -o hw_profiles/ours.yaml\n"
                  "  moeplan calibrate fit device.jsonl all_to_all.log --nodes 2 -o ours.yaml\n"
                  "  moeplan calibrate fit moe.csv --filter library=triton --library triton -o ours.yaml\n"
                  "Exit status: 0 done, 1 a cost model fits poorly or a check of the device program failed, and\n"
                  "nothing is written, 2 bad input.");
  add_calibration_input(fit, arguments, texts);
  fit.add_option("--base", arguments.base, "Profile whose other values stay (default: the one that the rows name)")
      ->type_name("ID|FILE");
  fit.add_option("-o,--output", arguments.out, "Write the profile there")->type_name("FILE");
  fit.add_option("--library", arguments.library, "Put the values below this library of the profile")->type_name("NAME");
  fit.add_flag("--shapes", arguments.shapes,
               "Put the timed products and attention calls into the profile: looked up, and interpolated between");
  fit.add_flag("--force", arguments.force, "Write the profile even where a cost model fits poorly");
  add_data_option(fit, arguments);
  add_output_options(fit, arguments);
  CLI::App& check = add_command(
      calibrate, "check", "Is this machine what its profile says?",
      "Examples:\n"
      "  moeplan calibrate check device.jsonl\n"
      "  moeplan calibrate check collectives.jsonl all_to_all.log --hardware h100-sxm --json check.json\n"
      "Exit status: 0 it is, 1 something deviates or a check of the device program failed, 2 bad input, or nothing\n"
      "but clocks to compare.");
  add_calibration_input(check, arguments, texts);
  check.add_option("--hardware", arguments.base, "Profile to compare with (default: the one that the rows name)")
      ->type_name("ID|FILE");
  add_data_option(check, arguments);
  add_output_options(check, arguments);
}

}  // namespace moeplan::cli
