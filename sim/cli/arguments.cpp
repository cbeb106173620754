#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <ostream>

#include "cli/arguments_checks.h"
#include "cli/arguments_options.h"
#include "cli/arguments_words.h"
#include "report/version.h"

namespace moeplan::cli {

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
  add_scenario_commands(app, arguments, texts);
  add_trace(app, arguments, texts);
  add_list(app, arguments);
  add_import_commands(app, arguments);
  add_validate(app, arguments, texts);
  add_collective(app, arguments);
  add_calibrate(app, arguments, texts);
  check_command(app, words);
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 takes them
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::Success& success) {  // help and version
    app.exit(success, out, out);
    return std::nullopt;
  } catch (const CLI::ExtrasError&) {
    refuse_extras(app);
  } catch (const CLI::ParseError& error) {
    refuse_arguments(error.what(), "moeplan --help, or --help behind a command, shows the options");
  }
  arguments.command = command_of(app);
  check_files(selected_command(app), arguments);
  check_values(texts, arguments);
  return arguments;
}

}  // namespace moeplan::cli
