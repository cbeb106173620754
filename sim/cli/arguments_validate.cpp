#include <CLI/CLI.hpp>

#include "cli/arguments_options.h"

namespace moeplan::cli {

void add_validate(CLI::App& app, Arguments& arguments, Texts& texts) {
  CLI::App& validate = add_command(app, "validate", "How good are the predictions? Measured runs simulated row by row",
                                   "Examples:\n"
                                   "  moeplan validate runs.csv\n"
                                   "  moeplan validate runs.csv --filter gpu=h100-sxm --filter use=mem --json -\n"
                                   "  moeplan validate --operators gemm.csv --filter gpu=H200-SXM\n"
                                   "  moeplan validate --layer layers.jsonl --hardware my-h200.yaml\n"
                                   "Exit status: 0 done, 1 some rows are wrong, 2 the table is.");
  validate.add_option("RUNS", arguments.input, "Table of measured runs, as CSV (docs/runs.md)")->required();
  CLI::Option* operators = validate.add_flag("--operators", arguments.operators,
                                             "The table holds timed operations, as CSV or JSON lines "
                                             "(docs/operators.md)");
  CLI::Option* layer = validate.add_flag(
      "--layer", arguments.layer, "The table holds runs of whole layers, by moeplan-device (docs/calibration.md)");
  layer->excludes(operators);
  validate
      .add_option("--hardware", arguments.operators_hardware,
                  "With --operators or --layer: predict every row from this profile (default: the one that its gpu "
                  "names)")
      ->type_name("ID");
  add_filter_option(validate, texts);
  validate.add_option("--markdown", arguments.markdown, "Also write the report as Markdown (docs/validation.md)")
      ->type_name("FILE")
      ->excludes(operators)
      ->excludes(layer);
  add_data_option(validate, arguments);
  add_output_options(validate, arguments);
  validate
      .add_option("--threads", arguments.threads, "Threads (default: all of the machine; results do not depend on it)")
      ->type_name("N");
  validate.add_option("--limit", arguments.options.limit, "Factor on the bound of work of a row (default 1)")
      ->type_name("X");
  validate.add_flag("--stats", arguments.stats,
                    "Wall time, operations and memory of moeplan itself, on standard error");
}

}  // namespace moeplan::cli
