#include "cli/arguments_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace moeplan::cli {
namespace {

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

void check_words(const CLI::App& app, const std::vector<std::string>& words, std::size_t at, const std::string& of) {
  const std::vector<std::string> known = names_of_commands(app);
  if (known.empty()) return;
  if (at >= words.size())
    refuse_arguments("expected a command of " + of + ": " + base::join_names(known), of + " --help");
  if (words[at] == "--help" || words[at] == "-h" || (at == 0 && words[at] == "--version")) return;
  if (words[at].starts_with("-")) {
    refuse_arguments("unknown option '" + words[at] + "', expected a command of " + of + ": " + base::join_names(known),
                     of + " --help");
  }
  if (std::find(known.begin(), known.end(), words[at]) == known.end()) {
    refuse_arguments("unknown command '" + of + " " + words[at] + "', expected one of " + base::join_names(known),
                     base::nearest_hint(words[at], known));
  }
  check_words(*app.get_subcommand(words[at]), words, at + 1, of + " " + words[at]);
}

}  // namespace

void refuse_arguments(const std::string& message, const std::string& hint) {
  throw base::Error(base::Where{}, message, hint);
}

void check_command(const CLI::App& app, const std::vector<std::string>& words) {
  check_words(app, words, 0, "moeplan");
}

const CLI::App& selected_command(const CLI::App& app) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  return commands.empty() ? app : selected_command(*commands.front());
}

void refuse_extras(const CLI::App& app) {
  const CLI::App& command = selected_command(app);
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
  refuse_arguments("unexpected arguments");
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
    return selected_command(app).get_name() == "check" ? Command::calibrate_check : Command::calibrate_fit;
  if (name == "import") {
    const std::string& kind = selected_command(app).get_name();
    if (kind == "nccl-tests") return Command::import_nccl_tests;
    return kind == "megatron" ? Command::import_megatron : kind == "runs" ? Command::import_runs : Command::import_hf;
  }
  return Command::run;
}

}  // namespace moeplan::cli
