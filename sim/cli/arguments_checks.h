#pragma once
#include "cli/arguments_options.h"

// What CLI11 took, before anything is done with it. For the sources of arguments alone.
namespace moeplan::cli {

// Throws base::Error: an option of a file without a path, two that name the same file.
void check_files(const CLI::App& command, const Arguments& arguments);
// Takes the texts apart and checks ranges and options that belong together; throws base::Error with all faults.
void check_values(const Texts& texts, Arguments& arguments);

}  // namespace moeplan::cli
