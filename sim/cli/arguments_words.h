#pragma once
#include <string>
#include <vector>

#include "cli/arguments.h"

namespace CLI {
class App;
}

// The words that select a command, and those that nothing takes. For the sources of arguments alone.
namespace moeplan::cli {

[[noreturn]] void refuse_arguments(const std::string& message, const std::string& hint = {});  // throws base::Error

// Checked before CLI11 sees them: its own message names no command. Throws base::Error.
void check_command(const CLI::App& app, const std::vector<std::string>& words);
// The command that was selected, down to the last word.
const CLI::App& selected_command(const CLI::App& app);
Command command_of(const CLI::App& app);
// Every unknown option and every argument too many, each a fault.
[[noreturn]] void refuse_extras(const CLI::App& app);

}  // namespace moeplan::cli
