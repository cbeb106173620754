#include "plan/write_programs.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "plan/block_set.h"

namespace moeplan::plan {

namespace {

// One block of a virtual stage, in forward order; `layer` of what is no layer is -1, `moe_layer` of what routes
// nothing.
struct Entry {
  enum class Kind : std::uint8_t { embedding, receive, layer, mtp, head, send } kind = Kind::layer;
  std::int32_t layer = -1, moe_layer = -1;
  LayerTraits traits{};
  std::int32_t group = -1;   // of full recompute by groups of layers
  std::int32_t member = -1;  // among the layers of such groups: whose tensors in backward have slots of their own
};

std::vector<Entry> entries_of(const scenario::Scenario& scenario, std::int64_t stage, std::int64_t chunk_of_rank) {
  const scenario::StageMap& stages = scenario.stages;
  const scenario::StageChunk& chunk = stages.chunk(stage, chunk_of_rank);
  const auto& model = scenario.model;
  const auto& block_layers = scenario.recompute.block_layers;
  std::int64_t position = 0;  // in the virtual stage
  std::int32_t member = 0;
  const auto layer_entry = [&](std::int32_t layer, model::LayerKind kind, std::int64_t moe_layer, std::size_t like) {
    Entry entry;
    entry.layer = layer;
    if (kind == model::LayerKind::moe) entry.moe_layer = static_cast<std::int32_t>(moe_layer);
    entry.traits = {model.window(like), block_layers && position++ >= *block_layers};
    return entry;
  };
  std::vector<Entry> entries;
  if (!stages.turns_in(stage, chunk_of_rank))
    entries.push_back({chunk.embedding ? Entry::Kind::embedding : Entry::Kind::receive});
  const auto& recompute = scenario.recompute;
  const bool groups = recompute.granularity == scenario::RecomputeGranularity::full && recompute.uniform_layers > 1;
  for (const std::int32_t layer : chunk.layers) {
    const auto at = static_cast<std::size_t>(layer);
    const auto before = std::count(model.layers.begin(), model.layers.begin() + layer, model::LayerKind::moe);
    entries.push_back(layer_entry(layer, model.layers[at], before, at));
    if (!groups) continue;
    Entry& entry = entries.back();
    entry.member = member++;
    entry.group = static_cast<std::int32_t>(entry.member / recompute.uniform_layers);
    entry.traits.role = entry.member % recompute.uniform_layers == 0 ? GroupRole::first : GroupRole::inner;
  }
  for (std::int32_t m = 0; m < chunk.mtp; ++m) {
    entries.push_back({Entry::Kind::mtp});
    entries.push_back(layer_entry(static_cast<std::int32_t>(model.layer_count()) + m, model.mtp_kind(),
                                  model.moe_layer_count() + m, model.layers.size() - 1));
    entries.push_back({Entry::Kind::head});
  }
  if (!stages.turns_out(stage, chunk_of_rank)) entries.push_back({chunk.loss ? Entry::Kind::head : Entry::Kind::send});
  return entries;
}

class Writer {
 public:
  explicit Writer(Plan& plan) : plan_(plan), blocks_(plan) {}

  Program program(std::int64_t stage, std::int64_t group, std::int32_t optimizer) {
    const auto& scenario = *plan_.scenario;
    Program program;
    program.stage = stage;
    std::vector<Chunk> chunks;
    for (std::int64_t v = 0; v < scenario.stages.chunks(); ++v) {
      chunks.push_back({entries_of(scenario, stage, v), program.slots, scenario.stages.reversed(v)});
      for (const Entry& entry : chunks.back().entries) program.slots += entry.member < 0 ? 1 : 2;
    }
    const auto slots = stage_slots(scenario, stage);
    for (const schedule::Slot& slot : slots) chunks[static_cast<std::size_t>(slot.chunk)].see(slot.microbatch);
    std::vector<Visit> before;  // of the slot before, whose own receives are posted already
    for (std::size_t i = 0; i < slots.size(); ++i) {
      auto visits = visits_of(slots[i], chunks, group);
      auto posted = posted_ahead(visits);
      if (pairs(slots, i)) {
        auto second = visits_of(slots[++i], chunks, group);
        const auto posted_too = posted_ahead(second);
        posted.insert(posted.end(), posted_too.begin(), posted_too.end());
        visits = take_turns(visits, second, plan_.blocks);
      }
      append(program.visits, before, posted);
      before = std::move(visits);
    }
    append(program.visits, before, {});
    Visit step;
    step.block = optimizer;
    step.slot = static_cast<std::int32_t>(program.slots++);
    program.visits.push_back(step);
    return program;
  }

  BlockSet& blocks() { return blocks_; }

 private:
  struct Chunk {
    std::vector<Entry> entries;
    std::int64_t first_slot = 0;
    bool reversed = false;                                     // runs from the last rank to the first
    std::int64_t first_microbatch = -1, last_microbatch = -1;  // every schedule takes a chunk's in order
    void see(std::int64_t microbatch) {
      if (first_microbatch < 0 || microbatch < first_microbatch) first_microbatch = microbatch;
      last_microbatch = std::max(last_microbatch, microbatch);
    }
  };

  // The transfer that the visits begin with where it needs nothing of this rank (overlap_p2p_comm): taken out of them.
  std::vector<Visit> posted_ahead(std::vector<Visit>& visits) const {
    if (!plan_.scenario->training.overlap_p2p_comm || visits.empty()) return {};
    Visit& first = visits.front();
    const auto& ops = ops_of(plan_.blocks[static_cast<std::size_t>(first.block)], first.direction);
    if (ops.empty() || ops.front().work != Work::receive) return {};
    Visit transfer = first;
    transfer.end_op = first.first_op = 1;
    return {transfer};
  }

  // Adds visits, and among them the transfers that are posted beside them: behind the last wait for a transfer, which
  // waits for all that were posted before it.
  static void append(std::vector<Visit>& program, const std::vector<Visit>& visits, const std::vector<Visit>& posted) {
    const auto waits = [](const Visit& visit) { return visit.first_op == 1 && visit.layer < 0; };
    const auto last = std::find_if(visits.rbegin(), visits.rend(), waits).base();
    program.insert(program.end(), visits.begin(), last);
    program.insert(program.end(), posted.begin(), posted.end());
    program.insert(program.end(), last, visits.end());
  }

  // A forward and the backward behind it that take turns: of different microbatches or virtual stages.
  bool pairs(const std::vector<schedule::Slot>& slots, std::size_t i) const {
    if (!slots[i].takes_turns || i + 1 >= slots.size()) return false;
    const schedule::Slot &first = slots[i], &second = slots[i + 1];
    return second.direction == schedule::Direction::backward &&
           (first.microbatch != second.microbatch || first.chunk != second.chunk);
  }

  std::vector<Visit> visits_of(const schedule::Slot& slot, const std::vector<Chunk>& chunks, std::int64_t group) {
    const bool forward = slot.direction == schedule::Direction::forward;
    const bool weights = slot.direction == schedule::Direction::weights;
    const Chunk& chunk = chunks[static_cast<std::size_t>(slot.chunk)];
    const bool edge = slot.microbatch == (forward ? chunk.first_microbatch : chunk.last_microbatch);
    std::vector<Visit> visits;
    for (std::size_t i = 0; i < chunk.entries.size(); ++i) {
      const Entry& entry = chunk.entries[i];
      if (!forward && entry.group >= 0) {  // the visits of a group, in reverse
        std::size_t end = i;
        while (end < chunk.entries.size() && chunk.entries[end].group == entry.group) ++end;
        std::vector<Visit> of_group = group_visits(slot, chunk, i, end, group, edge);
        visits.insert(visits.end(), of_group.rbegin(), of_group.rend());
        i = end - 1;
        continue;
      }
      Visit visit = visit_of(slot, entry, chunk.first_slot + static_cast<std::int64_t>(i));
      visit.block = block_of(entry, slot.microbatch, group, chunk.reversed,
                             {edge && !shares_matrix(chunks, slot.chunk, i), slot.split || weights});
      if (weights && plan_.blocks[static_cast<std::size_t>(visit.block)].weights.empty()) continue;
      visits.push_back(visit);
    }
    if (forward) return visits;
    std::reverse(visits.begin(), visits.end());
    if (!slot.split && !weights) hold_gradients(visits);
    return visits;
  }

  // Backward of heads that share their matrix: their gradients stay until the last of them, or the embedding, is done.
  void hold_gradients(std::vector<Visit>& visits) const {
    const SharedMatrix shared = shared_matrix(*plan_.scenario);
    if (!shared.any()) return;
    std::vector<std::size_t> heads;
    for (std::size_t i = 0; i < visits.size(); ++i)
      if (plan_.blocks[static_cast<std::size_t>(visits[i].block)].name == "loss") heads.push_back(i);
    if (heads.empty() || (heads.size() == 1 && !shared.embedding)) return;
    std::vector<Visit> sums;
    for (const std::size_t i : heads) {
      Visit& head = visits[i];
      sums.push_back(head);
      head.end_op = static_cast<std::uint32_t>(plan_.blocks[static_cast<std::size_t>(head.block)].backward.size() - 1);
      sums.back().first_op = head.end_op;
    }
    const std::size_t after = shared.embedding ? visits.size() : heads.back() + 1;
    visits.insert(visits.begin() + static_cast<std::ptrdiff_t>(after), sums.begin(), sums.end());
  }

  static Visit visit_of(const schedule::Slot& slot, const Entry& entry, std::int64_t place) {
    Visit visit;
    visit.direction = slot.direction;
    visit.slot = static_cast<std::int32_t>(place);
    visit.layer = entry.layer;
    visit.moe_layer = entry.moe_layer;
    visit.microbatch = static_cast<std::int32_t>(slot.microbatch);
    return visit;
  }

  // Backward of the layers [begin, end) that are recomputed together: all forward again, then each backward.
  std::vector<Visit> group_visits(const schedule::Slot& slot, const Chunk& chunk, std::size_t begin, std::size_t end,
                                  std::int64_t group, bool edge) {
    const Entry& first = chunk.entries[begin];
    Visit kept = visit_of(slot, first, chunk.first_slot + static_cast<std::int64_t>(begin));
    // The block that ran forward: an edge of its own, in the first microbatch.
    kept.block =
        block_of(first, slot.microbatch, group, chunk.reversed, {slot.microbatch == chunk.first_microbatch, false});
    Visit goes_on = kept;
    kept.end_op = goes_on.first_op = 1;
    std::vector<Visit> forward, backward;
    for (std::size_t i = begin; i < end; ++i) {
      Entry entry = chunk.entries[i];
      const auto place = chunk.first_slot + static_cast<std::int64_t>(chunk.entries.size()) + entry.member;
      entry.traits.role = GroupRole::member;
      Visit visit = visit_of(slot, entry, place);
      visit.block = block_of(entry, slot.microbatch, group, chunk.reversed, {edge, false});
      backward.insert(backward.begin(), visit);
      visit.block = block_of(entry, slot.microbatch, group, chunk.reversed, {});
      visit.direction = schedule::Direction::forward;
      forward.push_back(visit);
    }
    std::vector<Visit> visits = {kept};
    visits.insert(visits.end(), forward.begin(), forward.end());
    visits.push_back(goes_on);
    visits.insert(visits.end(), backward.begin(), backward.end());
    return visits;
  }

  // Whether the entry's matrix is that of an entry before it, which in backward comes after it: the head of every MTP
  // block, and a head that is tied to the embedding (of any chunk: that with the embedding begins first and ends last).
  // It arrives and leaves once.
  bool shares_matrix(const std::vector<Chunk>& chunks, std::int64_t chunk, std::size_t i) const {
    const auto& entries = chunks[static_cast<std::size_t>(chunk)].entries;
    if (entries[i].kind != Entry::Kind::head) return false;
    const auto any = [](const std::vector<Entry>& list, std::size_t end, Entry::Kind kind) {
      return std::any_of(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(end),
                         [kind](const Entry& entry) { return entry.kind == kind; });
    };
    if (any(entries, i, Entry::Kind::head)) return true;
    if (!plan_.scenario->model.tied_embeddings) return false;
    return std::any_of(chunks.begin(), chunks.end(), [&](const Chunk& other) {
      return any(other.entries, other.entries.size(), Entry::Kind::embedding);
    });
  }

  std::int32_t block_of(const Entry& entry, std::int64_t microbatch, std::int64_t group, bool reversed,
                        Variant variant) {
    switch (entry.kind) {
      case Entry::Kind::embedding:
        return blocks_.embedding(variant);
      case Entry::Kind::receive:
        return blocks_.receive(reversed);
      case Entry::Kind::mtp:
        return blocks_.mtp(variant);
      case Entry::Kind::head:
        return blocks_.head(variant);
      case Entry::Kind::send:
        return blocks_.send(reversed);
      case Entry::Kind::layer:
        break;
    }
    if (entry.moe_layer < 0) return blocks_.dense(entry.traits, variant);
    return blocks_.moe(entry.traits, treatment_of(plan_.decision(entry.moe_layer, microbatch, group)), variant);
  }

  Plan& plan_;
  BlockSet blocks_;
};

}  // namespace

std::vector<schedule::Slot> stage_slots(const scenario::Scenario& scenario, std::int64_t stage) {
  const auto* schedule = schedule::find_schedule(scenario.training.schedule);
  MOEPLAN_CHECK(schedule != nullptr, "schedule was checked when the scenario was read");
  auto slots = schedule->slots(stage, scenario.layout.pp, scenario.microbatches(), scenario.stages.chunks());
  return scenario.dispatch.overlap && !schedule->splits ? schedule::one_forward_ahead(slots) : slots;
}

void write_programs(Plan& plan) {
  Writer writer(plan);
  for (std::int64_t stage = 0; stage < plan.scenario->layout.pp; ++stage) {
    const std::int32_t optimizer = writer.blocks().optimizer(stage);
    const bool folded = plan.fold < plan.scenario->layout.stage_size();
    for (std::int64_t group = 0; group < (folded ? 1 : plan.groups_per_stage()); ++group)
      plan.programs.push_back(writer.program(stage, group, optimizer));
  }
}

}  // namespace moeplan::plan
