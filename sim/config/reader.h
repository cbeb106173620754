#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "config/document.h"

namespace moeplan::config {

struct IntRange {
  std::int64_t low = 0;
  std::int64_t high = std::int64_t{1} << 40;
};
struct RealRange {
  double low = 0.0;
  double high = 1e18;
  bool open_low = false;  // true: low itself is refused
};

// Reads one mapping key by key. It never throws for a bad value: it adds a fault (place, key path, what was found, what
// was expected) and returns a fallback, so that one pass finds all faults. finish() reports the keys that nobody read,
// with the nearest known name. Keys are known by having been asked for, whether present or not.
// Integers: decimal digits only ("010", "0x10", "1e3" and "1_000" are refused); reals: finite decimal or e-notation.
// The `X_or` forms give `fallback` when the key is absent; the plain forms add "missing key" at the mapping's place.
// Aliases: `alias` names of a key ("tp" for "tensor_model_parallel_size") are declared once; both present is a fault.
class Reader {
 public:
  Reader(Node map, base::Faults& faults);  // a node that is no mapping is a fault, and reads as an empty mapping

  void alias(std::string_view key, std::string_view short_name);
  bool has(std::string_view key);           // present (under its name or alias); marks it as known
  base::Where where() const;                // of the mapping
  base::Where where(std::string_view key);  // of the value, or of the mapping when the key is absent
  std::int64_t integer(std::string_view key, IntRange range = {});
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, IntRange range = {});
  double real(std::string_view key, RealRange range = {});
  double real_or(std::string_view key, double fallback, RealRange range = {});
  bool flag_or(std::string_view key, bool fallback);  // true / false only
  std::string text(std::string_view key);             // non-empty scalar
  std::string text_or(std::string_view key, std::string fallback);
  // Index into `names`; an unknown name is a fault with the list and the nearest name; the fallback is `fallback` (0).
  std::size_t choice(std::string_view key, std::span<const std::string> names);
  std::size_t choice_or(std::string_view key, std::span<const std::string> names, std::size_t fallback);
  // In base units; a bare number is a fault that shows an example with a unit. Bytes come rounded to whole bytes.
  double quantity(std::string_view key, base::Dimension dimension, RealRange range = {});
  std::optional<double> quantity_if(std::string_view key, base::Dimension dimension, RealRange range = {});
  std::vector<std::int64_t> integers(std::string_view key, IntRange range = {});  // a list of integers; absent: empty
  std::vector<std::string> texts(std::string_view key);                           // a list of scalars; absent: empty
  Reader map(std::string_view key);                                               // required mapping
  std::optional<Reader> map_if(std::string_view key);
  std::optional<Node> node_if(std::string_view key);
  std::vector<Node> list(std::string_view key);  // a list's nodes; absent: empty; not a list: a fault
  void fault(std::string_view key, std::string message, std::string hint = {});  // a fault of one's own at a key
  base::Faults& faults() { return *faults_; }
  void finish();  // call once at the end; adds a fault for each key that was not asked for

 private:
  std::optional<Node> find(std::string_view key);
  std::optional<Node> require(std::string_view key);  // find(), and the fault "missing key"
  void expected(const Node& found, std::string what, std::string hint = {});
  std::optional<std::int64_t> integer_of(const Node& node, IntRange range);
  Node map_;
  base::Faults* faults_;
  bool stands_in_ = false;  // for a mapping whose absence is a fault already: its keys are not missed one by one
  std::vector<std::string> known_;
  std::vector<std::pair<std::string, std::string>> aliases_;  // (key, short name)
};

}  // namespace moeplan::config
