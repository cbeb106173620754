#include "engine/piece_table.h"

#include <algorithm>

namespace moeplan::engine {

PieceTable& PieceTables::of(const Piece& piece, const plan::Visit& visit) {
  if (piece.by_rows && !costs_.decisions_repeat()) {
    keep_sums(scratch_);
    fill(scratch_, piece, visit);
    return scratch_;
  }
  const auto [entry, is_new] =
      tables_.try_emplace(Key{&piece, piece.by_rows ? costs_.decision(visit, first_rank_) : nullptr});
  if (is_new) fill(entry->second, piece, visit);
  return entry->second;
}

void PieceTables::fill(PieceTable& table, const Piece& piece, const plan::Visit& visit) {
  const std::size_t entries = piece.by_rows ? members_ : 1;
  table.uses = 0;
  table.fixed_ps = {};
  for (auto& [family, ps] : table.family_ps) std::fill(ps.begin(), ps.end(), 0);
  table.work_ps.assign(entries, 0);
  table.host_work_ps.assign(entries, 0);
  const auto& ops = plan::ops_of(plan_.blocks[static_cast<std::size_t>(visit.block)], visit.direction);
  std::int64_t issued_ps = 0;
  for (std::uint32_t o = piece.first; o < piece.end; ++o) {
    const plan::Op& op = ops[o];
    if (op.work == plan::Work::fixed && op.launches == 0) continue;
    issued_ps += costs_.issue_ps(op);
    const std::size_t family = op.recompute ? PieceTable::kRecompute : static_cast<std::size_t>(op.family);
    if (!OpCosts::by_rows(op)) {
      const std::int64_t ps = costs_.local_ps(op, visit, first_rank_);
      table.fixed_ps[family] += ps;
      for (std::size_t i = 0; i < entries; ++i) {
        table.host_work_ps[i] = std::max(table.host_work_ps[i], issued_ps) + ps;
        table.work_ps[i] += ps;
      }
      continue;
    }
    auto sums = std::find_if(table.family_ps.begin(), table.family_ps.end(),
                             [&](const auto& entry) { return entry.first == family; });
    if (sums == table.family_ps.end())
      sums = table.family_ps.insert(sums, {family, std::vector<std::int64_t>(members_, 0)});
    // Expert tensor parallel peers share their rows.
    const auto etp = static_cast<std::size_t>(plan_.scenario->layout.etp);
    if (members_ == 1) {
      const std::int64_t ps = costs_.local_ps(op, visit, first_rank_);
      sums->second[0] += ps;
      table.host_work_ps[0] = std::max(table.host_work_ps[0], issued_ps) + ps;
      table.work_ps[0] += ps;
      continue;
    }
    const auto ps = costs_.member_ps(op, visit, first_rank_);
    for (std::size_t i = 0; i < entries; ++i) {
      const std::int64_t own_ps = ps[etp == 1 ? i : i / etp];
      sums->second[i] += own_ps;
      table.host_work_ps[i] = std::max(table.host_work_ps[i], issued_ps) + own_ps;
      table.work_ps[i] += own_ps;
    }
  }
  table.longest_ps = std::max(*std::max_element(table.work_ps.begin(), table.work_ps.end()),
                              *std::max_element(table.host_work_ps.begin(), table.host_work_ps.end()));
}

void PieceTables::keep_sums(PieceTable& table) {
  if (table.uses == 0) return;
  dropped_.resize(members_);
  add_sums(table, dropped_);
  table.uses = 0;
}

void PieceTables::add_sums(const PieceTable& table, std::vector<PartsPs>& parts) const {
  const auto add = [](PartsPs& to, std::size_t family, std::int64_t ps) {
    (family == PieceTable::kRecompute ? to.recompute : to.family[family]) += ps;
    to.busy += ps;
  };
  for (std::size_t family = 0; family < table.fixed_ps.size(); ++family) {
    if (table.fixed_ps[family] == 0) continue;
    for (PartsPs& part : parts) add(part, family, table.uses * table.fixed_ps[family]);
  }
  for (const auto& [family, ps] : table.family_ps)
    for (std::size_t i = 0; i < members_; ++i) add(parts[i], family, table.uses * ps[i]);
}

void PieceTables::settle(std::vector<PartsPs>& parts) {
  keep_sums(scratch_);
  for (const auto& [key, table] : tables_) add_sums(table, parts);
  for (std::size_t i = 0; i < dropped_.size(); ++i) {
    for (std::size_t f = 0; f < plan::kFamilies; ++f) parts[i].family[f] += dropped_[i].family[f];
    parts[i].recompute += dropped_[i].recompute;
    parts[i].busy += dropped_[i].busy;
  }
}

}  // namespace moeplan::engine
