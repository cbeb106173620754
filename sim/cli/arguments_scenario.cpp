#include <CLI/CLI.hpp>

#include "cli/arguments_options.h"

namespace moeplan::cli {
namespace {

void add_scenario_options(CLI::App& app, Arguments& arguments, Texts& texts) {
  app.add_option("SCENARIO", arguments.scenario, "Scenario file (docs/scenario.md)")->required();
  app.add_option("--set", texts.set, "Override a key of the scenario, its model or its profile (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_data_option(app, arguments);
  add_output_options(app, arguments);
  app.add_option("--iterations", arguments.options.iterations, "Iterations of the trace to evaluate (default 1)")
      ->type_name("N");
  app.add_option("--threads", arguments.threads, "Threads (default: all of the machine; results do not depend on it)")
      ->type_name("N");
  app.add_option("--limit", arguments.options.limit, "Factor on the bound of work (default 1)")->type_name("X");
  app.add_flag("--stats", arguments.stats, "Wall time, operations and memory of moeplan itself, on standard error");
  app.add_flag("--strict", arguments.strict, "Refuse profiles whose cost models read assumed values");
}

void add_run(CLI::App& app, Arguments& arguments, Texts& texts) {
  CLI::App& run =
      add_command(app, "run", "Does it fit, where is the peak, how long is a step?",
                  "Examples:\n"
                  "  moeplan run scenarios/quickstart.yaml\n"
                  "  moeplan run scenarios/quickstart.yaml --set ep=16 --set memfine.chunks=8 --json out.json\n"
                  "  moeplan run scenarios/quickstart.yaml --memory-timeline memory.json --rank 3");
  add_scenario_options(run, arguments, texts);
  run.add_option("--memory-timeline", arguments.memory_timeline,
                 "Also write every allocation and release of one rank to FILE, as JSON (docs/json.md)")
      ->type_name("FILE");
  run.add_flag("--sensitivities", arguments.sensitivities,
               "Also show how the step changes with 1 % more of each rate and latency of the profile");
  run.add_option("--rank", arguments.rank, "Rank of the timeline (default: the one with the highest peak)")
      ->type_name("R");
}

void add_sweep(CLI::App& app, Arguments& arguments, Texts& texts) {
  CLI::App& sweep =
      add_command(app, "sweep", "What if: any keys over any values",
                  "Examples:\n"
                  "  moeplan sweep scenarios/quickstart.yaml --vary ep=8,16 --vary mbs=1,2\n"
                  "  moeplan sweep scenarios/quickstart.yaml --vary memfine.chunks=1,2,4,8 --csv rows.csv");
  add_scenario_options(sweep, arguments, texts);
  sweep
      .add_option("--vary", arguments.vary,
                  "A key and its values; several make a grid, the last one fastest (repeatable)")
      ->type_name("KEY=V1,V2,...")
      ->required()
      ->allow_extra_args(false);
  sweep.add_option("--csv", arguments.csv, "Also write each row to FILE as it finishes, as CSV")->type_name("FILE");
  sweep.add_option("--jsonl", arguments.jsonl, "Also write each row to FILE as it finishes, a JSON object a line")
      ->type_name("FILE");
}

void add_chunks(CLI::App& app, Arguments& arguments, Texts& texts) {
  CLI::App& chunks = add_command(app, "chunks", "MemFine: what do chunk counts and the adaptive rule cost and save?",
                                 "Examples:\n"
                                 "  moeplan chunks scenarios/quickstart.yaml\n"
                                 "  moeplan chunks scenarios/quickstart.yaml --counts 1,2,4,8,16 --json chunks.json");
  add_scenario_options(chunks, arguments, texts);
  chunks.add_option("--counts", texts.counts, "Fixed chunk counts (default " + texts.counts + ")")
      ->type_name("N,N,...");
}

void add_compare(CLI::App& app, Arguments& arguments, Texts& texts) {
  CLI::App& compare = add_command(app, "compare", "What does each memory or balancing policy buy on this routing?",
                                  "Examples:\n"
                                  "  moeplan compare scenarios/quickstart.yaml\n"
                                  "  moeplan compare scenarios/quickstart.yaml --policies none,memfine,memfine+lrmoe");
  add_scenario_options(compare, arguments, texts);
  compare
      .add_option("--policies", texts.policies,
                  "Policies, '+' joins several; the first is the baseline (default " + texts.policies + ")")
      ->type_name("A,B+C,...");
}

void add_explain(CLI::App& app, Arguments& arguments, Texts& texts) {
  CLI::App& explain =
      add_command(app, "explain", "Why does it run out of memory, and which change of settings helps at which cost?",
                  "Examples:\n"
                  "  moeplan explain scenarios/quickstart.yaml\n"
                  "  moeplan explain my-run.yaml --oom-line 'CUDA out of memory. Tried to allocate 26.44 GiB ...'\n"
                  "Exit status: 0 it fits, or a change makes it fit, 1 neither, 2 bad input.");
  add_scenario_options(explain, arguments, texts);
  explain
      .add_option("--oom-line", arguments.oom_line,
                  "PyTorch's out-of-memory text: names the tensor whose size it states")
      ->type_name("TEXT");
  explain
      .add_option("--pairs", arguments.pairs, "Simulate pairs among the N best single changes (default 6; 0: no pairs)")
      ->type_name("N");
  explain.add_option("--top", arguments.top, "Rows of each table of changes (default 12)")->type_name("N");
}

}  // namespace

void add_scenario_commands(CLI::App& app, Arguments& arguments, Texts& texts) {
  add_run(app, arguments, texts);
  add_sweep(app, arguments, texts);
  add_chunks(app, arguments, texts);
  add_compare(app, arguments, texts);
  add_explain(app, arguments, texts);
}

}  // namespace moeplan::cli
