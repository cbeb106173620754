#pragma once
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenario/resolve.h"

namespace moeplan::cli {

enum class Command {
  run,
  sweep,
  chunks,
  compare,
  explain,
  trace_info,
  list,
  import_hf,
  import_megatron,
  import_runs,
  import_nccl_tests,
  collective,
  validate,
  calibrate_fit,
  calibrate_check
};

// The command line, read and checked by itself.
struct Arguments {
  Command command = Command::run;
  std::string scenario;       // run, sweep, chunks, compare, explain: the file
  scenario::Options options;  // --set, --data, --iterations, --limit
  std::string json;           // --json: a path, "-" for standard output, "" for none
  int threads = 0;            // --threads: 0 for as many as the machine has
  bool stats = false, strict = false;
  std::vector<std::string> vary;      // sweep: texts of --vary
  std::string csv, jsonl;             // sweep: files that rows are appended to, "" for none
  std::vector<std::int64_t> counts;   // chunks: ascending, distinct, >= 1
  std::vector<std::string> policies;  // compare: as typed, distinct
  bool default_policies = false;      // they were not typed
  std::string oom_line;               // explain: the text of --oom-line, "" for none
  std::string memory_timeline;        // run: file of the timeline, "" for none
  bool sensitivities = false;         // run: of the step to each rate of the profile
  std::optional<std::int64_t> rank;   // run: of the timeline; nothing: the one with the highest peak
  std::int64_t pairs = 6, top = 12;   // explain: best changes that pairs are made of; rows of its tables
  std::string trace;                  // trace info: the path
  std::vector<std::int64_t> ep;       // trace info: numbers of ranks
  std::int64_t top_k = 0;             // trace info: 0 to infer it
  std::string topic, name;            // list; import: name of the result, "" for that of the input
  std::vector<std::string> inputs;    // import nccl-tests: the logs
  std::string input, out;             // import: the file to read, and to write ("" for standard output)
  // import megatron: the profile; GPUs and vocabulary, 0 for those of the input; the model file, "" for one beside
  // `out`
  std::string hardware = "h100-sxm", model_out;
  std::string id;                                            // import runs: the row, "" to list all
  std::vector<std::pair<std::string, std::string>> filters;  // validate: (column, value)
  bool operators = false;                                    // validate: the input holds timed operations
  bool layer = false;                                        // validate: or runs of whole layers
  std::vector<std::string> tables;                           // calibrate: files of timed operations
  // calibrate: the profile to start from, or to compare with, "" for the one that the rows name; the library that
  // values go to, "" for the profile itself; write a poor fit, too
  std::string base, library;
  bool mixed_versions = false;         // calibrate: files of several drivers count together
  bool force = false, shapes = false;  // shapes: the timed ones go into the profile, too
  std::string operators_hardware;      // and this profile predicts them all, "" for the one of each row
  std::string markdown;                // validate: file of the report, "" for none
  std::int64_t gpus = 0, vocabulary = 0;
  // import nccl-tests: what the logs do not say (0, "": not stated), and the form of entries: "table" or "law"
  std::string collective, gpu, form = "table", hardware_filter, fabric, source;
  std::int64_t ranks = 0, nodes = 0;
  // collective: its name is `topic`, its profile `hardware_filter`; quantities as typed, "" for none
  std::string bytes_matrix, uniform, size, scale_up, scale_up_latency, nic, nic_latency, oversubscription;
  std::int64_t gpus_per_node = 0;
  std::vector<std::string> degrade;  // "nic:3=0.5"
};

// Nothing when the command line asked for help or the version, which is then written to `out`. Throws base::Error for
// everything that is wrong, with the nearest name for an unknown command or option.
std::optional<Arguments> parse_arguments(const std::vector<std::string>& arguments, std::ostream& out);

// "1,2,4" -> {1, 2, 4}: distinct integers from 1 to `most`; else an Error that names `option`.
std::vector<std::int64_t> parse_integers(const std::string& text, const std::string& option, std::int64_t most);
// "a,b+c" -> {"a", "b+c"}: distinct and not empty.
std::vector<std::string> parse_names(const std::string& text, const std::string& option);

}  // namespace moeplan::cli
