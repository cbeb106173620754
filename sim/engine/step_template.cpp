#include "engine/step_template.h"

#include <algorithm>

namespace moeplan::engine {

namespace {

using plan::Stream;
using plan::Work;

constexpr std::uint32_t kMostOpsOfPiece = 256;  // of 9000 s at most each: their sum stays below 2^61 ps

constexpr std::uint16_t kReceives = plan::stream_bit(Stream::receive_previous) | plan::stream_bit(Stream::receive_next);

bool joins_receives(const plan::Op& op) {
  return op.work == Work::fixed && op.stream == Stream::compute && !op.host_sync &&
         (op.joins == plan::stream_bit(Stream::receive_previous) || op.joins == plan::stream_bit(Stream::receive_next));
}

Piece::Kind kind_of(const plan::Op& op) {
  switch (op.work) {
    case Work::collective:
    case Work::all_to_all:
      return Piece::Kind::meet;
    case Work::send:
      return Piece::Kind::send;
    case Work::receive:
      return op.asynchronous ? Piece::Kind::post : Piece::Kind::receive;
    default:
      return (op.joins & kReceives) != 0 ? Piece::Kind::join : Piece::Kind::local;
  }
}

// Whether the op waits for all before it, and nothing but transfers over pipeline borders goes on beside it.
// `posts_ahead`: receives do, each flow on a stream of its own.
bool in_chain(const plan::Op& op, bool posts_ahead) {
  if (op.beside_exchange || op.beside_tp || op.covered) return false;
  if (op.joins != 0 && !(posts_ahead && joins_receives(op))) return false;
  const bool sends = op.work == Work::send, receives = op.work == Work::receive;
  if (op.asynchronous != (sends || (receives && posts_ahead))) return false;
  if ((sends || receives) && (op.host_sync || (posts_ahead && op.reversed))) return false;
  switch (op.stream) {
    case Stream::compute:
    case Stream::ep:
    case Stream::tp:
    case Stream::dp:
      return !sends && !receives;
    case Stream::receive_previous:
    case Stream::receive_next:
      return receives;
    case Stream::send_next:
    case Stream::send_previous:
    case Stream::send_activations_back:
    case Stream::send_gradients_ahead:
      return sends;
    default:
      return false;
  }
}

std::optional<Template> make_template(const std::vector<plan::Op>& ops, std::uint32_t first, std::uint32_t end,
                                      const OpCosts& costs, bool posts_ahead) {
  Template made;
  bool open = false;  // the last piece takes more
  for (std::uint32_t o = first; o < end; ++o) {
    const plan::Op& op = ops[o];
    if (op.work == Work::fixed && op.launches == 0) continue;  // a hand-over between blocks
    if (!in_chain(op, posts_ahead)) return std::nullopt;
    const Piece::Kind kind = kind_of(op);
    if (!open || kind != Piece::Kind::local || o - made.pieces.back().first >= kMostOpsOfPiece) {
      made.pieces.emplace_back();
      made.pieces.back().kind = kind;
      made.pieces.back().first = o;
    }
    Piece& piece = made.pieces.back();
    piece.end = o + 1;
    piece.op = &op;
    piece.issue_ps += costs.issue_ps(op);
    piece.host_sync = op.host_sync;
    piece.by_rows = piece.by_rows || (kind == Piece::Kind::local && OpCosts::by_rows(op));
    ++piece.ops;
    ++made.ops;
    open = kind == Piece::Kind::local && !op.host_sync;
  }
  return made;
}

}  // namespace

std::int32_t Templates::number_of(const plan::Plan& plan, const OpCosts& costs, const plan::Visit& visit) {
  if (visit.lane != plan::Lane::alone) return -1;
  const auto& ops = plan::ops_of(plan.blocks[static_cast<std::size_t>(visit.block)], visit.direction);
  const auto end = static_cast<std::uint32_t>(std::min<std::size_t>(visit.end_op, ops.size()));
  const auto [entry, is_new] = numbers_.try_emplace(Key{visit.block, visit.direction, visit.first_op, end}, -1);
  if (!is_new) return entry->second;
  auto made = make_template(ops, visit.first_op, end, costs, plan.scenario->training.overlap_p2p_comm);
  if (!made) return -1;
  templates_.push_back(std::move(*made));
  return entry->second = static_cast<std::int32_t>(templates_.size() - 1);
}

std::optional<Templates> Templates::of_chain(const plan::Plan& plan, const OpCosts& costs) {
  Templates templates;
  for (const plan::Program& program : plan.programs) {
    std::vector<std::int32_t>& numbers = templates.programs_.emplace_back();
    numbers.reserve(program.visits.size());
    for (const plan::Visit& visit : program.visits) {
      numbers.push_back(templates.number_of(plan, costs, visit));
      if (numbers.back() < 0) return std::nullopt;
    }
  }
  return templates;
}

}  // namespace moeplan::engine
