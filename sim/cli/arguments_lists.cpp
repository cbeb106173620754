#include <CLI/CLI.hpp>

#include "cli/arguments_options.h"

namespace moeplan::cli {

// Traces and catalogues: commands without a scenario.
void add_trace(CLI::App& app, Arguments& arguments, Texts& texts) {
  CLI::App& trace =
      add_command(app, "trace", "Routing traces", "Example:\n  moeplan trace info scenarios/traces/esft_dsv2lite_law");
  trace.require_subcommand(1);
  CLI::App& info = add_command(trace, "info", "Checks a trace and shows how uneven each layer is",
                               "Examples:\n"
                               "  moeplan trace info scenarios/traces/esft_dsv2lite_law --ep 8,16,32\n"
                               "  moeplan trace info counts.csv --json -");
  info.add_option("PATH", arguments.trace,
                  "A trace (docs/traces.md): a folder of expert_weights_*.txt, or a .csv, .jsonl, .npy, .npz or "
                  ".json; each also .zst; FILE#PART where a file holds several")
      ->required();
  info.add_option("--ep", texts.ep, "Numbers of expert-parallel ranks (default " + texts.ep + ")")
      ->type_name("N,N,...");
  info.add_option("--top-k", arguments.top_k, "Experts a token, where the format leaves it to be inferred")
      ->type_name("N");
  add_output_options(info, arguments);
}

void add_list(CLI::App& app, Arguments& arguments) {
  CLI::App& list = add_command(app, "list", "Names to choose from",
                               "Examples:\n"
                               "  moeplan list models\n"
                               "  moeplan list models qwen3-30b-a3b\n"
                               "  moeplan list hardware h100-sxm\n"
                               "  moeplan list keys\n"
                               "  moeplan list groups scenarios/quickstart.yaml");
  list.add_option("TOPIC", arguments.topic, "models, hardware, policies, dispatchers, schedules, keys or groups")
      ->required();
  list.add_option("NAME", arguments.name,
                  "A model or a hardware profile: everything that is known of it; groups: a scenario");
  add_data_option(list, arguments);
  add_output_options(list, arguments);
}

}  // namespace moeplan::cli
