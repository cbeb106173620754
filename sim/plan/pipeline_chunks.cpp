#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "plan/moe.h"

namespace moeplan::plan {

namespace {

using Ops = std::vector<Op>;

void append(Ops& to, Ops from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// A chunk's ops, taken apart.
struct Parts {
  Ops sent;     // its rows, up to the exchange
  Ops arrived;  // the rest of the dispatch
  Ops beside;   // the experts, and what they hand to the exchange back: needs nothing of another chunk's rows
  Ops rest;
};

Parts take_apart(Ops& ops, const ChunkParts& at) {
  const auto range = [&](std::size_t begin, std::size_t end) {
    return Ops(std::make_move_iterator(ops.begin() + static_cast<std::ptrdiff_t>(begin)),
               std::make_move_iterator(ops.begin() + static_cast<std::ptrdiff_t>(end)));
  };
  const auto is_exchange = [](const Op& op) { return op.work == Work::all_to_all; };
  const auto first = ops.begin() + static_cast<std::ptrdiff_t>(at.dispatch);
  const auto last = ops.begin() + static_cast<std::ptrdiff_t>(at.experts);
  const auto exchange = std::find_if(std::make_reverse_iterator(last), std::make_reverse_iterator(first), is_exchange);
  MOEPLAN_CHECK(exchange != std::make_reverse_iterator(first), "the rows of a chunk travel");
  const auto sent_end = static_cast<std::size_t>(exchange.base() - ops.begin());
  std::size_t beside_end = at.combine;
  while (beside_end < at.rest && ops[beside_end].stream == Stream::compute) ++beside_end;
  return {range(at.dispatch, sent_end), range(sent_end, at.experts), range(at.experts, beside_end),
          range(beside_end, at.end)};
}

}  // namespace

void pipeline_chunks(Ops& ops, const std::vector<ChunkParts>& chunks) {
  MOEPLAN_CHECK(!chunks.empty() && chunks.back().end == ops.size(), "nothing stands behind the chunks");
  std::vector<Parts> parts;
  for (const ChunkParts& chunk : chunks) parts.push_back(take_apart(ops, chunk));
  ops.resize(chunks.front().dispatch);
  append(ops, std::move(parts.front().sent));
  append(ops, std::move(parts.front().arrived));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool ahead = i + 1 < parts.size();
    if (ahead) {
      parts[i + 1].sent.back().covered = true;
      append(ops, std::move(parts[i + 1].sent));
      for (Op& op : parts[i].beside) op.beside_exchange = true;
    }
    append(ops, std::move(parts[i].beside));
    append(ops, std::move(parts[i].rest));
    if (ahead) append(ops, std::move(parts[i + 1].arrived));
  }
}

}  // namespace moeplan::plan
