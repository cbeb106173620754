#pragma once
#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/op_costs.h"
#include "engine/picoseconds.h"
#include "engine/step_template.h"

namespace moeplan::engine {

// What a local piece does to each rank of a row, as a map of (end of the chain, host): the chain ends at
// max(chain + work, host + host_work). Sums of time by family go with it.
struct PieceTable {
  static constexpr std::size_t kRecompute = plan::kFamilies;
  std::int64_t longest_ps = 0;                                               // largest of work and host_work
  std::vector<std::int64_t> work_ps, host_work_ps;                           // [member]; of one entry: the same for all
  std::array<std::int64_t, plan::kFamilies + 1> fixed_ps{};                  // of ops that take the same on all
  std::vector<std::pair<std::size_t, std::vector<std::int64_t>>> family_ps;  // (family, [member]) of those that do not
  std::int64_t uses = 0;                                                     // visits so far
};

// Tables of a row's pieces, kept by decision where decisions repeat.
class PieceTables {
 public:
  PieceTables(const plan::Plan& plan, OpCosts& costs, std::int64_t first_rank, std::size_t members)
      : plan_(plan), costs_(costs), first_rank_(first_rank), members_(members) {}
  PieceTable& of(const Piece& piece, const plan::Visit& visit);
  // Adds what all visits so far took to the members' sums; called when a table is dropped, and at the end.
  void settle(std::vector<PartsPs>& parts);

 private:
  struct Key {
    const Piece* piece;
    const policy::LayerDecision* decision;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return (reinterpret_cast<std::uintptr_t>(key.piece) * 0x9e3779b97f4a7c15U) ^
             (reinterpret_cast<std::uintptr_t>(key.decision) * 0xbf58476d1ce4e5b9U >> 7);
    }
  };
  void fill(PieceTable& table, const Piece& piece, const plan::Visit& visit);
  void keep_sums(PieceTable& table);
  void add_sums(const PieceTable& table, std::vector<PartsPs>& parts) const;

  const plan::Plan& plan_;
  OpCosts& costs_;
  std::int64_t first_rank_ = 0;
  std::size_t members_ = 0;
  std::unordered_map<Key, PieceTable, Hash> tables_;
  PieceTable scratch_;
  std::vector<PartsPs> dropped_;  // sums of tables that were not kept
  std::vector<std::int64_t> durations_;
};

}  // namespace moeplan::engine
