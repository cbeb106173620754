#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "scenario/import_megatron_given.h"

namespace moeplan::scenario {

// Options by name. Each that is asked for counts as read; what nobody asked for is sorted out at the end.
class MegatronOptions {
 public:
  MegatronOptions(const MegatronInput& input, base::Faults& faults) : input_(input), faults_(faults) {}
  bool given(const std::string& name) const { return find(name) != nullptr; }
  bool dump() const { return input_.dump; }

  // Nothing (or false, or the fallback) where the option is not given. Faults: no value, a value of another kind, a
  // value that refers to something that the file does not set.
  bool flag(const std::string& name);
  std::optional<std::int64_t> integer(const std::string& name);
  std::int64_t integer_or(const std::string& name, std::int64_t fallback) { return integer(name).value_or(fallback); }
  std::int64_t required(const std::string& name);  // as size; missing: 0 with a fault
  // A number of things of which there is at least one: 0 is a fault.
  std::int64_t size_or(const std::string& name, std::int64_t fallback);
  std::optional<double> real(const std::string& name);
  std::optional<std::string> text(const std::string& name);
  std::string text_or(const std::string& name, const std::string& fallback) { return text(name).value_or(fallback); }
  std::vector<std::string> list(const std::string& name);  // values, or the parts of "[a,b]"

  void fault(const std::string& name, const std::string& message, const std::string& hint = {});
  // Read, and means something that this version does not simulate; `instead`: what it simulates.
  void unsupported(const std::string& name, const std::string& instead);
  void unsupported_at(const std::string& place, const std::string& message);
  void assume(const std::string& text) { assumptions_.push_back(text); }
  // Have no part in this run (MLA's ranks without MLA).
  void no_part(std::initializer_list<const char*> names);

  struct Sorted {
    std::vector<base::Fault> not_understood, unsupported;
    std::vector<std::string> ignored, assumptions;
  };
  Sorted sort_out() const;

 private:
  const MegatronOption* find(const std::string& name) const;
  const MegatronOption* take(const std::string& name);
  const std::string* value(const std::string& name);
  base::Where where(const std::string& name) const;

  const MegatronInput& input_;
  base::Faults& faults_;
  std::set<std::string> read_, no_part_;
  std::vector<base::Fault> unsupported_, extra_;
  std::vector<std::string> assumptions_;
};

}  // namespace moeplan::scenario
