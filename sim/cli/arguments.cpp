#include "cli/arguments.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>

#include "base/error.h"
#include "base/nearest.h"
#include "report/version.h"

namespace moeplan::cli {
namespace {

// What CLI11 fills in; turned into Arguments afterwards.
struct Texts {
  std::vector<std::string> set;
  std::string counts = "1,2,4,8", policies = "none,recompute-moe,memfine,lrmoe,memfine+lrmoe", ep = "8,16,32";
  std::vector<std::string> filters;
};

constexpr std::int64_t kMostChunks = 4096, kMostRanks = 1'000'000;

[[noreturn]] void refuse(const std::string& message, const std::string& hint = {}) {
  throw base::Error(base::Where{}, message, hint);
}

void add_output_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--json", arguments.json,
                 "Also write the result as JSON to FILE; '-': nothing but JSON to standard output")
      ->type_name("FILE|-");
}

void add_data_option(CLI::App& app, Arguments& arguments) {
  app.add_option("--data", arguments.options.data_dirs,
                 "Folder with models/ and hw_profiles/ that add to the embedded ones (repeatable)")
      ->type_name("DIR")
      ->allow_extra_args(false);
}

CLI::App& add_command(CLI::App& app, const char* name, const char* description, const char* examples) {
  CLI::App& command = *app.add_subcommand(name, description);
  command.footer(examples);
  return command;
}

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

// import KIND INPUT [-o FILE] [--name NAME]: one subcommand a kind of input.
void add_import_options(CLI::App& app, Arguments& arguments, const char* input, const char* result) {
  app.add_option("INPUT", arguments.input, input)->required();
  app.add_option("-o,--output", arguments.out, result)->type_name("FILE");
  app.add_option("--name", arguments.name, "Name of the result (default: that of the input)")->type_name("NAME");
}

void add_import_commands(CLI::App& app, Arguments& arguments) {
  CLI::App& import = add_command(app, "import", "Makes moeplan's files from what people have",
                                 "Examples:\n"
                                 "  moeplan import hf Qwen3-30B-A3B/config.json -o my-model.yaml\n"
                                 "  moeplan import megatron pretrain.sh -o job.yaml\n"
                                 "  moeplan import nccl-tests all_reduce.log -o collectives.csv\n"
                                 "  moeplan import runs runs.csv --id GT-083 -o run.yaml");
  import.require_subcommand(1);
  CLI::App& hf = add_command(import, "hf", "A Hugging Face config.json into a model file",
                             "Examples:\n"
                             "  moeplan import hf Qwen3-30B-A3B/config.json\n"
                             "  moeplan import hf config.json --name my-model -o models/my-model.yaml\n"
                             "A scenario takes a config.json directly too: model: path/config.json");
  add_import_options(hf, arguments, "The config.json", "Write the model file there instead of to standard output");
  CLI::App& megatron = add_command(import, "megatron", "A Megatron launch script, argument list or argument dump",
                                   "Examples:\n"
                                   "  moeplan import megatron pretrain.sh -o job.yaml\n"
                                   "  moeplan import megatron log.txt --hardware h800-sxm --gpus 256\n"
                                   "What was not understood, or is not supported, stands at the end of the scenario.");
  add_import_options(megatron, arguments, "The script, list or log", "Write the scenario there");
  megatron
      .add_option("--model-out", arguments.model_out,
                  "Write the model file there, where no shipped model has its shape (default: FILE.model.yaml beside "
                  "the file of -o)")
      ->type_name("FILE");
  megatron.add_option("--hardware", arguments.hardware, "Profile of the scenario (default h100-sxm)")->type_name("ID");
  megatron.add_option("--gpus", arguments.gpus, "GPUs of the job (default: what the input says)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kMostRanks));
  megatron.add_option("--vocab-size", arguments.vocabulary, "Vocabulary (default: what the input says)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
}

void add_import_runs(CLI::App& app, Arguments& arguments) {
  CLI::App& import = *app.get_subcommand("import");
  CLI::App& runs = add_command(import, "runs", "A row of a table of measured runs into a scenario (docs/runs.md)",
                               "Examples:\n"
                               "  moeplan import runs runs.csv\n"
                               "  moeplan import runs runs.csv --id GT-083 -o run.yaml");
  runs.add_option("RUNS", arguments.input, "The table, as CSV")->required();
  runs.add_option("--id", arguments.id, "The row (default: lists every row with its status)")->type_name("ID");
  runs.add_option("-o,--output", arguments.out, "Write the result there instead of to standard output")
      ->type_name("FILE");
  runs.add_option("--limit", arguments.options.limit, "Factor on the bound of work of a row (default 1)")
      ->type_name("X");
  add_data_option(runs, arguments);
}

void add_import_nccl_tests(CLI::App& app, Arguments& arguments) {
  CLI::App& import = *app.get_subcommand("import");
  CLI::App& logs = add_command(
      import, "nccl-tests",
      "Logs of nccl-tests, rccl-tests, torch's all_reduce_bench or HCCL into tables of collectives",
      "Examples:\n"
      "  moeplan import nccl-tests all_reduce.log alltoall.log -o collectives.csv\n"
      "  moeplan import nccl-tests sweep.log --ranks 16 --nodes 2 -o collectives.yaml\n"
      "The YAML goes into a hardware profile (docs/models.md, Collectives). Rows that are cut, mixed or wrong are set\n"
      "aside, each with its line on standard error.");
  logs.add_option("LOG", arguments.inputs, "Logs, or tables of measured collectives as CSV")->required();
  logs.add_option("-o,--output", arguments.out,
                  "Write there instead of to standard output: rows where FILE ends in .csv, else entries of a profile")
      ->type_name("FILE");
  logs.add_option("--form", arguments.form, "Entries as sizes and times, or as the fitted law (default table)")
      ->type_name("table|law")
      ->check(CLI::IsMember({"table", "law"}));
  logs.add_option("--hardware", arguments.hardware_filter,
                  "Take only rows of this profile's part; entries then name its link")
      ->type_name("ID");
  logs.add_option("--fabric", arguments.fabric, "Entries across hosts count for profiles of this fabric only")
      ->type_name("NAME");
  logs.add_option("--source", arguments.source, "Source of the entries (default: the names of the logs)")
      ->type_name("TEXT");
  logs.add_option("--collective", arguments.collective, "Where the log names none")->type_name("NAME");
  logs.add_option("--gpu", arguments.gpu, "Where the log names none")->type_name("NAME");
  logs.add_option("--ranks", arguments.ranks, "Where the log does not tell")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{2}, kMostRanks));
  logs.add_option("--nodes", arguments.nodes, "Where the log does not tell")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kMostRanks));
  add_data_option(logs, arguments);
}

void add_collective(CLI::App& app, Arguments& arguments) {
  CLI::App& command =
      add_command(app, "collective", "How long does one collective take, and which link binds?",
                  "Examples:\n"
                  "  moeplan collective all_to_all --uniform '1 MB' --ranks 64 --hardware h100-sxm\n"
                  "  moeplan collective all_to_all --bytes-matrix bytes.csv --gpus-per-node 8 --scale-up '360 GB/s'\n"
                  "    --scale-up-latency '1 us' --nic '45 GB/s' --nic-latency '5 us' --oversubscription 4\n"
                  "  moeplan collective all_gather --size '2 GiB' --ranks 16 --hardware h100-sxm --degrade rail:2=0\n"
                  "L0 is the time of the fullest link, L1 that of max-min fair sharing of all links.");
  command.add_option("COLLECTIVE", arguments.topic, "all_to_all, all_reduce, all_gather, reduce_scatter or send_recv")
      ->required();
  command
      .add_option("--bytes-matrix", arguments.bytes_matrix, "all_to_all: bytes from each rank (line) to each, as CSV")
      ->type_name("FILE");
  command.add_option("--uniform", arguments.uniform, "all_to_all: bytes from each rank to each other one")
      ->type_name("SIZE");
  command
      .add_option("--size", arguments.size,
                  "The others: the whole buffer (all_gather, reduce_scatter: the total over ranks)")
      ->type_name("SIZE");
  command.add_option("--ranks", arguments.ranks, "Ranks, filling nodes in order")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kMostRanks));
  command.add_option("--hardware", arguments.hardware_filter, "Profile of GPU and network")->type_name("ID");
  command.add_option("--gpus-per-node", arguments.gpus_per_node, "In place of a profile: GPUs of a node, a NIC each")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kMostRanks));
  command.add_option("--scale-up", arguments.scale_up, "Rate of a GPU inside a node, one direction")->type_name("RATE");
  command.add_option("--scale-up-latency", arguments.scale_up_latency, "Of a transfer inside a node (default 0 us)")
      ->type_name("TIME");
  command.add_option("--nic", arguments.nic, "Rate of a NIC, one direction")->type_name("RATE");
  command.add_option("--nic-latency", arguments.nic_latency, "Of a transfer between nodes (default 0 us)")
      ->type_name("TIME");
  command
      .add_option("--oversubscription", arguments.oversubscription,
                  "A node's uplinks carry its NICs' rate over this (default 1)")
      ->type_name("X");
  command
      .add_option("--degrade", arguments.degrade,
                  "What is left of a link: nic:RANK=SHARE, rail:NIC=SHARE (of every node; 0: missing), pod:POD=SHARE "
                  "(repeatable)")
      ->type_name("LINK=SHARE")
      ->allow_extra_args(false);
  add_data_option(command, arguments);
  add_output_options(command, arguments);
}

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
  validate.add_option("--filter", texts.filters, "Only rows whose cell in COLUMN is VALUE (repeatable)")
      ->type_name("COLUMN=VALUE")
      ->allow_extra_args(false);
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

// Files of timings, and what they do not say.
void add_calibration_input(CLI::App& command, Arguments& arguments, Texts& texts) {
  command
      .add_option("TABLE", arguments.tables,
                  "Lines of moeplan-device, tables of timed operations (docs/operators.md), logs of nccl-tests")
      ->required();
  command.add_option("--filter", texts.filters, "Only rows whose cell in COLUMN is VALUE (repeatable)")
      ->type_name("COLUMN=VALUE")
      ->allow_extra_args(false);
  command.add_option("--ranks", arguments.ranks, "Of logs that do not say")->check(CLI::Range(1, 1'000'000));
  command.add_option("--nodes", arguments.nodes, "Of logs that do not say")->check(CLI::Range(1, 1'000'000));
  command.add_flag("--mixed-versions", arguments.mixed_versions,
                   "Take files of several drivers, CUDA or program versions together (default: set aside)");
}

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

void add_commands(CLI::App& app, Arguments& arguments, Texts& texts) {
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

  CLI::App& chunks = add_command(app, "chunks", "MemFine: what do chunk counts and the adaptive rule cost and save?",
                                 "Examples:\n"
                                 "  moeplan chunks scenarios/quickstart.yaml\n"
                                 "  moeplan chunks scenarios/quickstart.yaml --counts 1,2,4,8,16 --json chunks.json");
  add_scenario_options(chunks, arguments, texts);
  chunks.add_option("--counts", texts.counts, "Fixed chunk counts (default " + texts.counts + ")")
      ->type_name("N,N,...");

  CLI::App& compare = add_command(app, "compare", "What does each memory or balancing policy buy on this routing?",
                                  "Examples:\n"
                                  "  moeplan compare scenarios/quickstart.yaml\n"
                                  "  moeplan compare scenarios/quickstart.yaml --policies none,memfine,memfine+lrmoe");
  add_scenario_options(compare, arguments, texts);
  compare
      .add_option("--policies", texts.policies,
                  "Policies, '+' joins several; the first is the baseline (default " + texts.policies + ")")
      ->type_name("A,B+C,...");

  add_explain(app, arguments, texts);

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

  add_import_commands(app, arguments);
  add_import_runs(app, arguments);
  add_import_nccl_tests(app, arguments);
  add_validate(app, arguments, texts);
  add_collective(app, arguments);
  add_calibrate(app, arguments, texts);
}

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// The words that select commands, checked before CLI11 sees them: its own message names no command.
void check_command(const CLI::App& app, const std::vector<std::string>& words, std::size_t at, const std::string& of) {
  const std::vector<std::string> known = names_of_commands(app);
  if (known.empty()) return;
  if (at >= words.size()) refuse("expected a command of " + of + ": " + base::join_names(known), of + " --help");
  if (words[at] == "--help" || words[at] == "-h" || (at == 0 && words[at] == "--version")) return;
  if (words[at].starts_with("-")) {
    refuse("unknown option '" + words[at] + "', expected a command of " + of + ": " + base::join_names(known),
           of + " --help");
  }
  if (std::find(known.begin(), known.end(), words[at]) == known.end()) {
    refuse("unknown command '" + of + " " + words[at] + "', expected one of " + base::join_names(known),
           base::nearest_hint(words[at], known));
  }
  check_command(*app.get_subcommand(words[at]), words, at + 1, of + " " + words[at]);
}

// The command that was selected, down to the last word.
const CLI::App& selected(const CLI::App& app) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  return commands.empty() ? app : selected(*commands.front());
}

[[noreturn]] void refuse_extras(const CLI::App& app) {
  const CLI::App& command = selected(app);
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  base::Faults faults;
  for (const std::string& extra : app.remaining(true)) {
    if (extra.starts_with("-") && extra != "-") {
      const std::string name = extra.substr(0, extra.find('='));
      const std::string hint = base::nearest_hint(name, known);
      faults.add({}, "unknown option '" + name + "'", hint.empty() ? "known: " + base::join_names(known) : hint);
    } else {
      faults.add({}, "unexpected argument '" + extra + "'");
    }
  }
  faults.throw_if_any();
  refuse("unexpected arguments");
}

Command command_of(const CLI::App& app) {
  const std::string& name = app.get_subcommands().front()->get_name();
  if (name == "sweep") return Command::sweep;
  if (name == "chunks") return Command::chunks;
  if (name == "compare") return Command::compare;
  if (name == "explain") return Command::explain;
  if (name == "trace") return Command::trace_info;
  if (name == "list") return Command::list;
  if (name == "validate") return Command::validate;
  if (name == "collective") return Command::collective;
  if (name == "calibrate")
    return selected(app).get_name() == "check" ? Command::calibrate_check : Command::calibrate_fit;
  if (name == "import") {
    const std::string& kind = selected(app).get_name();
    if (kind == "nccl-tests") return Command::import_nccl_tests;
    return kind == "megatron" ? Command::import_megatron : kind == "runs" ? Command::import_runs : Command::import_hf;
  }
  return Command::run;
}

void finish(const Texts& texts, Arguments& arguments) {
  base::Faults faults;
  const auto collect = [&](const auto& action) {
    try {
      action();
    } catch (const base::Error& error) {
      faults.add(error);
    }
  };
  for (const std::string& text : texts.set) {
    collect([&] { arguments.options.overrides.push_back(scenario::split_override(text, "--set")); });
  }
  for (const std::string& text : texts.filters) {
    collect([&] { arguments.filters.push_back(scenario::split_override(text, "--filter")); });
  }
  if (arguments.command == Command::chunks) {
    collect([&] { arguments.counts = parse_integers(texts.counts, "--counts", kMostChunks); });
    std::sort(arguments.counts.begin(), arguments.counts.end());
  }
  if (arguments.command == Command::compare) {
    collect([&] { arguments.policies = parse_names(texts.policies, "--policies"); });
    arguments.default_policies = texts.policies == Texts{}.policies;
  }
  if (arguments.command == Command::trace_info) {
    collect([&] { arguments.ep = parse_integers(texts.ep, "--ep", kMostRanks); });
  }
  if (!arguments.operators_hardware.empty() && !arguments.operators && !arguments.layer)
    faults.add({"--hardware", 0, 0, {}}, "goes with --operators or --layer: measured runs name their own");
  if (arguments.layer && !arguments.filters.empty())
    faults.add({"--filter", 0, 0, {}}, "goes with tables of rows, not with --layer");
  if (arguments.threads < 0 || arguments.threads > 4096) {
    faults.add({"--threads", 0, 0, {}}, "expected an integer from 0 to 4096, got " + std::to_string(arguments.threads));
  }
  if (!(arguments.options.limit > 0) || !std::isfinite(arguments.options.limit)) {
    faults.add({"--limit", 0, 0, {}}, fmt::format("expected a number > 0, got {}", arguments.options.limit));
  }
  if (arguments.top_k < 0 || arguments.top_k > 64) {
    faults.add({"--top-k", 0, 0, {}}, "expected an integer from 0 to 64, got " + std::to_string(arguments.top_k));
  }
  if (arguments.rank && arguments.memory_timeline.empty()) {
    faults.add({"--rank", 0, 0, {}}, "a rank is chosen for a timeline", "add --memory-timeline FILE");
  }
  if (arguments.pairs < 0 || arguments.pairs > 64) {
    faults.add({"--pairs", 0, 0, {}}, "expected an integer from 0 to 64, got " + std::to_string(arguments.pairs));
  }
  if (arguments.top < 1 || arguments.top > 10'000) {
    faults.add({"--top", 0, 0, {}}, "expected an integer from 1 to 10000, got " + std::to_string(arguments.top));
  }
  faults.throw_if_any();
}

}  // namespace

std::optional<Arguments> parse_arguments(const std::vector<std::string>& words, std::ostream& out) {
  Arguments arguments;
  Texts texts;
  CLI::App app("moeplan " + std::string(report::kVersion) +
                   ": memory and step time of mixture-of-experts training, from routing traces",
               "moeplan");
  app.set_version_flag("--version", "moeplan " + std::string(report::kVersion));
  app.require_subcommand(1);
  app.footer(
      "moeplan COMMAND --help shows the options of a command.\n"
      "Exit status: 0 done (and it fits), 1 it does not, 2 bad input, 3 a fault of moeplan.\n\n"
      "Example:\n  moeplan run scenarios/quickstart.yaml");
  add_commands(app, arguments, texts);
  check_command(app, words, 0, "moeplan");
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 takes them
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::Success& success) {  // help and version
    app.exit(success, out, out);
    return std::nullopt;
  } catch (const CLI::ExtrasError&) {
    refuse_extras(app);
  } catch (const CLI::ParseError& error) {
    refuse(error.what(), "moeplan --help, or --help behind a command, shows the options");
  }
  arguments.command = command_of(app);
  const CLI::Option* json = selected(app).get_option_no_throw("--json");
  if (json != nullptr && json->count() > 0 && arguments.json.empty()) refuse("--json: expected a path or '-'");
  for (const char* name : {"--csv", "--jsonl", "--markdown", "--memory-timeline"}) {
    const CLI::Option* rows = selected(app).get_option_no_throw(name);
    if (rows == nullptr || rows->count() == 0) continue;
    const std::string path = rows->as<std::string>();
    if (path.empty() || path == "-")
      refuse(std::string(name) + ": expected a path" + (path.empty() ? "" : ", got '-'; --json alone takes it"));
  }
  const std::pair<const char*, const std::string&> files[] = {{"--json", arguments.json},
                                                              {"--csv", arguments.csv},
                                                              {"--jsonl", arguments.jsonl},
                                                              {"--markdown", arguments.markdown},
                                                              {"--memory-timeline", arguments.memory_timeline}};
  for (std::size_t i = 0; i < std::size(files); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (files[i].second.empty() || files[i].second != files[j].second) continue;
      refuse(std::string(files[j].first) + " and " + files[i].first + " name the same file");
    }
  }
  const CLI::Option* oom = selected(app).get_option_no_throw("--oom-line");
  if (oom != nullptr && oom->count() > 0 && arguments.oom_line.empty())
    refuse("--oom-line: expected PyTorch's out-of-memory text, got nothing");
  finish(texts, arguments);
  return arguments;
}

}  // namespace moeplan::cli
