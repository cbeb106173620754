#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

// What the three forms of input have in common: options of Megatron with their values.
namespace moeplan::scenario {

struct MegatronOption {
  std::string name;     // as argparse keeps it: "num_layers"
  std::string written;  // "--num-layers" or, in a dump, "num_layers"
  std::vector<std::string> values;
  int line = 0;
  std::string text() const;  // "--num-layers 4", on one line
};

struct MegatronInput {
  std::string file;
  bool dump = false;                    // every option of the run is listed, at its default too
  std::vector<MegatronOption> options;  // the last of each name, in order
  std::vector<std::string> off;         // dump: options at None or False
  std::int64_t gpus = 0;                // 0: not stated
  std::string gpus_from;                // what states them
  std::vector<base::Fault> not_understood;
};

// Which of the forms `text` is, and what it gives. Throws base::Error.
MegatronInput read_megatron(const std::string& text, const std::string& file);

bool holds_megatron_dump(const std::string& text);
MegatronInput read_megatron_dump(const std::string& text, const std::string& file);
MegatronInput read_megatron_launch(const std::string& text, const std::string& file);

// Adds an option; one of the same name and other values before it is named as replaced.
void add_option(MegatronInput& input, MegatronOption option);

// `text` with control characters as blanks and cut behind `most` bytes: safe in a comment and on a terminal.
std::string one_line(const std::string& text, std::size_t most = 200);
// Decimal digits, at most 2^53.
std::optional<std::int64_t> whole_number(const std::string& text);

}  // namespace moeplan::scenario
