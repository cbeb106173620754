#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cli/arguments.h"

namespace CLI {
class App;
}

// The options of the commands, as CLI11 takes them: one file a family of commands. For the sources of arguments alone.
namespace moeplan::cli {

// What CLI11 fills in as text; checked and taken apart afterwards.
struct Texts {
  std::vector<std::string> set;
  std::string counts = "1,2,4,8", policies = "none,recompute-moe,memfine,lrmoe,memfine+lrmoe", ep = "8,16,32";
  std::vector<std::string> filters;
};

inline constexpr std::int64_t kMostChunks = 4096, kMostRanks = 1'000'000;

// What several commands share.
CLI::App& add_command(CLI::App& app, const char* name, const char* description, const char* examples);
void add_output_options(CLI::App& app, Arguments& arguments);
void add_data_option(CLI::App& app, Arguments& arguments);
void add_filter_option(CLI::App& app, Texts& texts);

void add_scenario_commands(CLI::App& app, Arguments& arguments, Texts& texts);  // run, sweep, chunks, compare, explain
void add_trace(CLI::App& app, Arguments& arguments, Texts& texts);
void add_list(CLI::App& app, Arguments& arguments);
void add_import_commands(CLI::App& app, Arguments& arguments);
void add_validate(CLI::App& app, Arguments& arguments, Texts& texts);
void add_collective(CLI::App& app, Arguments& arguments);
void add_calibrate(CLI::App& app, Arguments& arguments, Texts& texts);

}  // namespace moeplan::cli
