#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

// YAML text with places. This folder is the only one that sees yaml-cpp; everything else reads through Node and Reader.
namespace moeplan::config {

// Of one file: more cannot stand under the limit on nodes.
inline constexpr std::int64_t kMostFileBytes = std::int64_t{16} << 20;

// One node of a document: a scalar, a list or a mapping, with the place where it stands. Cheap to copy; keeps the
// document alive.
class Node {
 public:
  enum class Kind { null, scalar, list, map };
  Kind kind() const;
  base::Where where() const;              // of the value, with its key path
  std::string scalar() const;             // text of a scalar as written (unquoted)
  bool quoted() const;                    // a scalar that was written in quotes is text, never a number
  std::vector<Node> items() const;        // of a list
  std::vector<std::string> keys() const;  // of a map, in written order
  bool has(std::string_view key) const;
  Node at(std::string_view key) const;                // value of a key that is there
  base::Where key_where(std::string_view key) const;  // place of the key itself
  std::string describe() const;  // what an error says was found: "'abc'", "a list", "a mapping", "nothing"

  struct Data;
  explicit Node(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

 private:
  friend Node with_override(const Node& root, const std::string& path, const std::string& value,
                            const std::string& origin);
  std::shared_ptr<const Data> data_;
};

// Parses the text of one YAML document whose root must be a mapping. Throws base::Error (all faults found) for: syntax,
// invalid UTF-8, NUL, empty, several documents, duplicate keys (both places), non-scalar keys, merge keys, nesting
// deeper than 32, alias loops or expansion beyond 100,000 nodes, a tag. `name` is how messages call the file.
Node parse_yaml(const std::string& text, const std::string& name);

// Reads and parses a file (base::read_text).
Node load_yaml(const std::string& path);

// A copy of `root` with the value at the dotted `path` replaced or added (mappings on the way are made as needed).
// `value` is parsed as YAML ("8", "[1, 2]", "{ rule: fixed, chunks: 4 }"). Places of the new value say `origin`
// (for instance "--set parallel.ep=8"). Throws base::Error with `origin` when the value does not parse or when the path
// leads through a scalar.
Node with_override(const Node& root, const std::string& path, const std::string& value, const std::string& origin);

}  // namespace moeplan::config
