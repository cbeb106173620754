#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>

// The one table of the keys of a scenario file: the reader declares its aliases from it, and --set and --vary find
// their paths in it, so that both always know the same names.
namespace moeplan::scenario {

struct Key {
  std::string_view path;                             // "parallel.expert_model_parallel_size"
  std::array<std::string_view, 2> short_names = {};  // "ep"; empty entries are none
  bool section = false;                              // a mapping that holds other keys of the table
};

// Sections stand before what they hold.
std::span<const Key> key_table();

std::string_view parent_path(std::string_view path);  // "a.b" of "a.b.c", "" of "a"
std::string_view last_name(std::string_view path);    // "c" of "a.b.c"

// True when a path overrides the model file or the hardware profile: it starts with "model." or "hardware.".
bool is_model_path(std::string_view path);
bool is_hardware_path(std::string_view path);

}  // namespace moeplan::scenario
