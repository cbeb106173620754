#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "config/document.h"

// The inside of Node, shared by the sources of this folder only.
namespace moeplan::config {

inline constexpr std::size_t kMaxDepth = 32;       // levels of lists and mappings, the root being the first
inline constexpr std::size_t kMaxNodes = 100'000;  // after aliases are expanded

// Never changed once built, so that copies of a document share what they have in common.
struct Node::Data {
  struct Entry {
    std::string key;
    base::Where key_where;
    std::shared_ptr<const Data> value;
  };
  Kind kind = Kind::null;
  std::string text;  // of a scalar
  bool quoted = false;
  base::Where where;
  std::vector<std::shared_ptr<const Data>> items;  // of a list
  std::vector<Entry> entries;                      // of a map, in written order
};

// Parses one YAML document of any kind (an empty text is a null node). `depth` levels and the key path `path` lie above
// it. With `positions` false, places say `name` alone: the text is that of an option, not of a file.
std::shared_ptr<const Node::Data> parse_data(const std::string& text, const std::string& name, const std::string& path,
                                             std::size_t depth, bool positions);

// A mapping without keys at `where`.
Node empty_map(const base::Where& where);

}  // namespace moeplan::config
