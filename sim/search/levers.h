#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/document.h"
#include "scenario/scenario.h"

// Single settings that may lower a peak: what `moeplan explain` tries.
namespace moeplan::search {

// One key and what it becomes. An entry is added to what the key lists already; two changes may add to the same key,
// but not give it two values.
struct Setting {
  std::string path;   // "memory.recompute_modules"
  std::string value;  // of a list: the entry
  bool entry = false;
  bool operator==(const Setting&) const = default;
};

struct Change {
  std::string name;    // "recompute moe_act"
  std::string family;  // of alternatives, of which pairs take one: "memfine", "dispatcher"; "" for others
  std::vector<Setting> settings;
};

// Those that could apply to the scenario, in a fixed order. Whether the scenario's rules take them is not asked here.
std::vector<Change> single_changes(const scenario::Scenario& scenario);

// Both together; nothing when they give one key two values, or are alternatives.
std::optional<Change> combined(const Change& a, const Change& b);

// (key, value) as scenario::Options::overrides takes them; lists hold what the scenario lists already.
std::vector<std::pair<std::string, std::string>> overrides_of(const Change& change, const scenario::Scenario& scenario);

// "--set ep=16 --set 'recompute_modules=[core_attn, moe_act]'": keys as the scenario file spells them, else Megatron's
// names; quoted for a shell.
std::string set_text(const Change& change, const scenario::Scenario& scenario, const config::Node& file);

}  // namespace moeplan::search
