#include "config/reader.h"

#include <algorithm>
#include <cmath>

#include "base/nearest.h"
#include "config/node_data.h"
#include "config/scalars.h"

namespace moeplan::config {

using base::Where;

Reader::Reader(Node map, base::Faults& faults) : map_(std::move(map)), faults_(&faults) {
  if (map_.kind() == Node::Kind::map) return;
  expected(map_, "a mapping");
  map_ = empty_map(map_.where());
  stands_in_ = true;
}

void Reader::expected(const Node& found, std::string what, std::string hint) {
  faults_->add(found.where(), "expected " + what + ", got " + found.describe(), std::move(hint));
}

void Reader::alias(std::string_view key, std::string_view short_name) {
  aliases_.emplace_back(std::string(key), std::string(short_name));
}

std::optional<Node> Reader::find(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  std::string found = map_.has(key) ? std::string(key) : std::string();
  for (auto alias = aliases_.begin(); alias != aliases_.end();) {
    if (alias->first != key || !map_.has(alias->second)) {
      ++alias;
      continue;
    }
    if (found.empty()) {
      found = alias->second;
      ++alias;
      continue;
    }
    if (found == alias->second) {
      ++alias;
      continue;
    }
    faults_->add(map_.key_where(alias->second),
                 "'" + alias->second + "' and '" + found + "' are the same key: give one of them", {},
                 {map_.key_where(found)});
    known_.push_back(alias->second);  // known still, so that finish() does not report it; and not reported again
    alias = aliases_.erase(alias);
  }
  if (found.empty()) return std::nullopt;
  return map_.at(found);
}

std::optional<Node> Reader::require(std::string_view key) {
  std::optional<Node> node = find(key);
  if (!node && !stands_in_) faults_->add(map_.where(), "missing key '" + std::string(key) + "'");
  return node;
}

bool Reader::has(std::string_view key) { return find(key).has_value(); }

Where Reader::where() const { return map_.where(); }

Where Reader::where(std::string_view key) {
  const std::optional<Node> node = find(key);
  return node ? node->where() : map_.where();
}

std::optional<std::int64_t> Reader::integer_of(const Node& node, IntRange range) {
  const ParsedInteger parsed = parse_integer(node);
  if (parsed.value && *parsed.value >= range.low && *parsed.value <= range.high) return parsed.value;
  const bool show_high = parsed.value && *parsed.value > range.high;
  expected(node, describe_range(range, show_high), parsed.hint);
  return std::nullopt;
}

std::int64_t Reader::integer(std::string_view key, IntRange range) {
  const std::optional<Node> node = require(key);
  return node ? integer_of(*node, range).value_or(range.low) : range.low;
}

std::int64_t Reader::integer_or(std::string_view key, std::int64_t fallback, IntRange range) {
  const std::optional<Node> node = find(key);
  return node ? integer_of(*node, range).value_or(fallback) : fallback;
}

double Reader::real(std::string_view key, RealRange range) {
  const std::optional<Node> node = require(key);
  return node ? real_or(key, range.low, range) : range.low;
}

double Reader::real_or(std::string_view key, double fallback, RealRange range) {
  const std::optional<Node> node = find(key);
  if (!node) return fallback;
  const ParsedReal parsed = parse_real(*node);
  if (parsed.value && contains(range, *parsed.value)) return *parsed.value;
  const bool show_high = parsed.value && *parsed.value > range.high;
  expected(*node, "a number" + describe_range(range, {}, show_high), parsed.hint);
  return fallback;
}

bool Reader::flag_or(std::string_view key, bool fallback) {
  const std::optional<Node> node = find(key);
  if (!node) return fallback;
  if (node->kind() == Node::Kind::scalar && !node->quoted()) {
    if (node->scalar() == "true") return true;
    if (node->scalar() == "false") return false;
  }
  expected(*node, "true or false", quotes_hint(*node));
  return fallback;
}

std::string Reader::text(std::string_view key) {
  const std::optional<Node> node = require(key);
  return node ? text_or(key, {}) : std::string();
}

std::string Reader::text_or(std::string_view key, std::string fallback) {
  const std::optional<Node> node = find(key);
  if (!node) return fallback;
  if (node->kind() == Node::Kind::scalar && !node->scalar().empty()) return node->scalar();
  expected(*node, "a text");
  return fallback;
}

std::size_t Reader::choice(std::string_view key, std::span<const std::string> names) {
  const std::optional<Node> node = require(key);
  return node ? choice_or(key, names, 0) : 0;
}

std::size_t Reader::choice_or(std::string_view key, std::span<const std::string> names, std::size_t fallback) {
  const std::optional<Node> node = find(key);
  if (!node) return fallback;
  std::string hint;
  if (node->kind() == Node::Kind::scalar) {
    const auto name = std::find(names.begin(), names.end(), node->scalar());
    if (name != names.end()) return static_cast<std::size_t>(name - names.begin());
    hint = base::nearest_hint(node->scalar(), names);
  }
  expected(*node, "one of " + base::join_names(names), hint);
  return fallback;
}

double Reader::quantity(std::string_view key, base::Dimension dimension, RealRange range) {
  const std::optional<Node> node = require(key);
  return node ? quantity_if(key, dimension, range).value_or(range.low) : range.low;
}

std::optional<double> Reader::quantity_if(std::string_view key, base::Dimension dimension, RealRange range) {
  const std::optional<Node> node = find(key);
  if (!node) return std::nullopt;
  std::optional<double> value;
  if (node->kind() == Node::Kind::scalar) value = base::parse_quantity(node->scalar(), dimension);
  if (!value) {
    expected(*node, base::dimension_example(dimension), unit_hint(*node));
    return std::nullopt;
  }
  if (dimension == base::Dimension::bytes) value = std::round(*value);
  if (!contains(range, *value)) {
    expected(*node, base::dimension_example(dimension) + "," +
                        describe_range(range, unit_name(dimension), *value > range.high));
    return std::nullopt;
  }
  return value;
}

std::vector<std::int64_t> Reader::integers(std::string_view key, IntRange range) {
  std::vector<std::int64_t> values;
  for (const Node& item : list(key)) {
    if (const auto value = integer_of(item, range)) values.push_back(*value);
  }
  return values;
}

std::vector<std::string> Reader::texts(std::string_view key) {
  std::vector<std::string> values;
  for (const Node& item : list(key)) {
    if (item.kind() == Node::Kind::scalar && !item.scalar().empty()) {
      values.push_back(item.scalar());
    } else {
      expected(item, "a text");
    }
  }
  return values;
}

Reader Reader::map(std::string_view key) {
  if (const std::optional<Node> node = require(key)) return Reader(*node, *faults_);
  Reader missing(empty_map(map_.where()), *faults_);
  missing.stands_in_ = true;
  return missing;
}

std::optional<Reader> Reader::map_if(std::string_view key) {
  const std::optional<Node> node = find(key);
  if (!node) return std::nullopt;
  return Reader(*node, *faults_);
}

std::optional<Node> Reader::node_if(std::string_view key) { return find(key); }

std::vector<Node> Reader::list(std::string_view key) {
  const std::optional<Node> node = find(key);
  if (!node) return {};
  if (node->kind() == Node::Kind::list) return node->items();
  expected(*node, "a list");
  return {};
}

void Reader::fault(std::string_view key, std::string message, std::string hint) {
  faults_->add(where(key), std::move(message), std::move(hint));
}

void Reader::finish() {
  std::vector<std::string> accepted = known_;
  for (const auto& [key, short_name] : aliases_) accepted.push_back(short_name);
  for (const std::string& key : map_.keys()) {
    if (std::find(accepted.begin(), accepted.end(), key) != accepted.end()) continue;
    std::string hint = base::nearest_hint(key, accepted);
    if (hint.empty()) hint = accepted.empty() ? "no key is known here" : "known keys: " + base::join_names(known_);
    faults_->add(map_.key_where(key), "unknown key '" + key + "'", hint);
  }
}

}  // namespace moeplan::config
