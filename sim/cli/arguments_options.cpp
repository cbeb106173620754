#include "cli/arguments_options.h"

#include <CLI/CLI.hpp>

namespace moeplan::cli {

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

void add_filter_option(CLI::App& app, Texts& texts) {
  app.add_option("--filter", texts.filters, "Only rows whose cell in COLUMN is VALUE (repeatable)")
      ->type_name("COLUMN=VALUE")
      ->allow_extra_args(false);
}

}  // namespace moeplan::cli
