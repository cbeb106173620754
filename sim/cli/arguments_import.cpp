#include <CLI/CLI.hpp>

#include "cli/arguments_options.h"

namespace moeplan::cli {
namespace {

// import KIND INPUT [-o FILE] [--name NAME]: one subcommand a kind of input.
void add_import_options(CLI::App& app, Arguments& arguments, const char* input, const char* result) {
  app.add_option("INPUT", arguments.input, input)->required();
  app.add_option("-o,--output", arguments.out, result)->type_name("FILE");
  app.add_option("--name", arguments.name, "Name of the result (default: that of the input)")->type_name("NAME");
}

void add_import_hf(CLI::App& import, Arguments& arguments) {
  CLI::App& hf = add_command(import, "hf", "A Hugging Face config.json into a model file",
                             "Examples:\n"
                             "  moeplan import hf Qwen3-30B-A3B/config.json\n"
                             "  moeplan import hf config.json --name my-model -o models/my-model.yaml\n"
                             "A scenario takes a config.json directly too: model: path/config.json");
  add_import_options(hf, arguments, "The config.json", "Write the model file there instead of to standard output");
}

void add_import_megatron(CLI::App& import, Arguments& arguments) {
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

void add_import_runs(CLI::App& import, Arguments& arguments) {
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

void add_import_nccl_tests(CLI::App& import, Arguments& arguments) {
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

}  // namespace

void add_import_commands(CLI::App& app, Arguments& arguments) {
  CLI::App& import = add_command(app, "import", "Makes moeplan's files from what people have",
                                 "Examples:\n"
                                 "  moeplan import hf Qwen3-30B-A3B/config.json -o my-model.yaml\n"
                                 "  moeplan import megatron pretrain.sh -o job.yaml\n"
                                 "  moeplan import nccl-tests all_reduce.log -o collectives.csv\n"
                                 "  moeplan import runs runs.csv --id GT-083 -o run.yaml");
  import.require_subcommand(1);
  add_import_hf(import, arguments);
  add_import_megatron(import, arguments);
  add_import_runs(import, arguments);
  add_import_nccl_tests(import, arguments);
}

}  // namespace moeplan::cli
