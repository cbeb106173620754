#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "engine/op_costs.h"
#include "plan/plan.h"

namespace moeplan::engine {

// A run of a block's ops that wait for nothing but what was before them on the same rank, or one op that meets other
// ranks. Each waits for the one before it; sends run beside, and so do receives that are posted ahead.
struct Piece {
  // post: a receive that the row goes on beside; join: the op that waits for those posted so far.
  enum class Kind : std::uint8_t { local, meet, send, receive, post, join } kind = Kind::local;
  bool by_rows = false;    // local: some op takes what the rows of the rank make it take
  bool host_sync = false;  // the host waits for the last op
  std::uint32_t first = 0, end = 0;
  std::int64_t issue_ps = 0;     // sum over the ops
  std::int64_t ops = 0;          // that the engine runs
  const plan::Op* op = nullptr;  // what meets
};

// The pieces of (block, direction, range of ops), written once and replayed by every visit.
struct Template {
  std::vector<Piece> pieces;
  std::int64_t ops = 0;
};

// Templates of a plan whose every program is such a chain. None of one in which ops run beside others of their rank:
// two microbatches that take turns, transfers beside computation, side streams.
class Templates {
 public:
  static std::optional<Templates> of_chain(const plan::Plan& plan, const OpCosts& costs);
  // Number of the template of each visit of a program.
  const std::vector<std::int32_t>& of_program(std::size_t program) const { return programs_[program]; }
  const Template& at(std::int32_t number) const { return templates_[static_cast<std::size_t>(number)]; }
  std::size_t size() const { return templates_.size(); }

 private:
  using Key = std::tuple<std::int32_t, schedule::Direction, std::uint32_t, std::uint32_t>;
  std::int32_t number_of(const plan::Plan& plan, const OpCosts& costs, const plan::Visit& visit);

  std::vector<Template> templates_;
  std::vector<std::vector<std::int32_t>> programs_;
  std::map<Key, std::int32_t> numbers_;
};

}  // namespace moeplan::engine
