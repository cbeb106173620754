#include "config/document.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "config/node_data.h"

namespace moeplan::config {
namespace {

using base::Where;
using DataPointer = std::shared_ptr<const Node::Data>;
using Entry = Node::Data::Entry;

constexpr std::size_t kMaxShownBytes = 60;

const Entry* find_entry(const Node::Data& data, std::string_view key) {
  for (const Entry& entry : data.entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

// Printable on one line: control characters as '?', long texts cut between characters.
std::string shown(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool starts_character = (byte & 0xC0) != 0x80;
    if (result.size() >= kMaxShownBytes && starts_character) return result + "...";
    result += byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  return result;
}

std::vector<std::string> split_path(const std::string& path, const Where& where) {
  std::vector<std::string> parts(1);
  for (const char c : path) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  for (const std::string& part : parts) {
    if (part.empty()) throw base::Error(where, "expected a key path such as 'section.key', got '" + shown(path) + "'");
  }
  if (parts.size() > kMaxDepth) {
    throw base::Error(where, "nested deeper than " + std::to_string(kMaxDepth) + " levels");
  }
  return parts;
}

// A copy of `map` (nothing: an empty mapping) in which parts[at], parts[at + 1], ... lead to `value`.
DataPointer replaced(const Node::Data* map, const std::vector<std::string>& parts, std::size_t at,
                     const std::string& path_above, const DataPointer& value, const std::string& origin) {
  if (at == parts.size()) return value;
  auto copy = std::make_shared<Node::Data>();
  copy->where = Where{origin, 0, 0, path_above};
  if (map != nullptr && map->kind != Node::Kind::null) {
    if (map->kind != Node::Kind::map) {
      const bool is_list = map->kind == Node::Kind::list;
      throw base::Error({base::Fault{Where{origin, 0, 0, path_above},
                                     "expected a mapping that can hold '" + parts[at] + "', found " +
                                         (is_list ? "a list" : "'" + shown(map->text) + "'"),
                                     is_list ? "give the whole list" : "",
                                     {map->where}}});
    }
    *copy = *map;
  }
  copy->kind = Node::Kind::map;
  const std::string path = path_above.empty() ? parts[at] : path_above + "." + parts[at];
  const Entry* old = find_entry(*copy, parts[at]);
  Entry entry{parts[at], Where{origin, 0, 0, path},
              replaced(old != nullptr ? old->value.get() : nullptr, parts, at + 1, path, value, origin)};
  if (old == nullptr) {
    copy->entries.push_back(std::move(entry));
  } else {
    const bool is_leaf = at + 1 == parts.size();
    if (!is_leaf) entry.key_where = old->key_where;
    copy->entries[static_cast<std::size_t>(old - copy->entries.data())] = std::move(entry);
  }
  return copy;
}

}  // namespace

Node::Kind Node::kind() const { return data_->kind; }

Where Node::where() const { return data_->where; }

std::string Node::scalar() const {
  MOEPLAN_CHECK(data_->kind == Kind::scalar, "scalar() of a node that is none");
  return data_->text;
}

bool Node::quoted() const { return data_->quoted; }

std::vector<Node> Node::items() const {
  MOEPLAN_CHECK(data_->kind == Kind::list, "items() of a node that is no list");
  std::vector<Node> nodes;
  nodes.reserve(data_->items.size());
  for (const DataPointer& item : data_->items) nodes.emplace_back(item);
  return nodes;
}

std::vector<std::string> Node::keys() const {
  MOEPLAN_CHECK(data_->kind == Kind::map, "keys() of a node that is no mapping");
  std::vector<std::string> names;
  names.reserve(data_->entries.size());
  for (const Entry& entry : data_->entries) names.push_back(entry.key);
  return names;
}

bool Node::has(std::string_view key) const { return find_entry(*data_, key) != nullptr; }

Node Node::at(std::string_view key) const {
  const Entry* entry = find_entry(*data_, key);
  MOEPLAN_CHECK(entry != nullptr, "at() of a key that is not there");
  return Node(entry->value);
}

Where Node::key_where(std::string_view key) const {
  const Entry* entry = find_entry(*data_, key);
  MOEPLAN_CHECK(entry != nullptr, "key_where() of a key that is not there");
  return entry->key_where;
}

std::string Node::describe() const {
  switch (data_->kind) {
    case Kind::null:
      return "nothing";
    case Kind::scalar:
      return "'" + shown(data_->text) + "'";
    case Kind::list:
      return "a list";
    case Kind::map:
      return "a mapping";
  }
  return "nothing";
}

Node empty_map(const Where& where) {
  auto data = std::make_shared<Node::Data>();
  data->kind = Node::Kind::map;
  data->where = where;
  return Node(std::move(data));
}

Node parse_yaml(const std::string& text, const std::string& name) {
  Node root(parse_data(text, name, {}, 0, true));
  if (root.kind() == Node::Kind::null) throw base::Error(root.where(), "expected a mapping, the document is empty");
  if (root.kind() != Node::Kind::map) throw base::Error(root.where(), "expected a mapping, got " + root.describe());
  return root;
}

Node load_yaml(const std::string& path) { return parse_yaml(base::read_text(path, kMostFileBytes), path); }

Node with_override(const Node& root, const std::string& path, const std::string& value, const std::string& origin) {
  const std::vector<std::string> parts = split_path(path, Where{origin, 0, 0, {}});
  const DataPointer data = parse_data(value, origin, path, parts.size(), false);
  return Node(replaced(root.data_.get(), parts, 0, {}, data, origin));
}

}  // namespace moeplan::config
