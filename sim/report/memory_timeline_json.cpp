#include <fmt/core.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "report/report.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;
using memory::MemoryEvent;

// NumberedNames that stand once, events hold their numbers: in the order of their first use.
class NumberedNames {
 public:
  std::size_t of(const std::string& name) {
    const auto [entry, is_new] = places_.try_emplace(name, list_.size());
    if (is_new) list_.push_back(name);
    return entry->second;
  }
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::map<std::string, std::size_t> places_;
  std::vector<std::string> list_;
};

const char* action_name(MemoryEvent::Action action) {
  switch (action) {
    case MemoryEvent::Action::alloc:
      return "alloc";
    case MemoryEvent::Action::free:
      return "free";
    case MemoryEvent::Action::free_requested:
      return "free_requested";
    case MemoryEvent::Action::free_completed:
      return "free_completed";
  }
  return "";
}

std::string event_line(const search::MemoryTimeline& timeline, const MemoryEvent& event, NumberedNames& tensors,
                       NumberedNames& ops) {
  // While loading nothing is timed.
  double host_s = 0, device_s = 0;
  std::string where = "null,null,null,null";
  if (event.visit >= 0) {
    const plan::Visit& visit = timeline.plan.program_of(timeline.rank).visits[static_cast<std::size_t>(event.visit)];
    const plan::Block& block = timeline.plan.blocks[static_cast<std::size_t>(visit.block)];
    const bool forward = visit.direction == schedule::Direction::forward;
    const auto& list = plan::ops_of(block, visit.direction);
    const auto& clock = timeline.clocks[static_cast<std::size_t>(event.visit)][static_cast<std::size_t>(event.op)];
    host_s = clock.issued_s;
    device_s = clock.start_s;
    where = fmt::format("{},\"{}\",{},{}", ops.of(list[static_cast<std::size_t>(event.op)].name),
                        block.name == "optimizer" ? "step" : (forward ? "forward" : "backward"), visit.layer,
                        visit.microbatch);
  }
  const double offset = static_cast<double>(std::max<std::int64_t>(event.iteration, 0)) * timeline.step_s;
  return fmt::format("[{:.9f},{:.9f},\"{}\",{},\"{}\",{},{},\"{}\",{},{},\"{}\",{},{}]", offset + host_s,
                     offset + device_s, action_name(event.action), tensors.of(event.tensor),
                     plan::tensor_kind_name(event.kind), event.bytes, event.address, memory::pool_name(event.pool),
                     event.iteration, where, memory::phase_name(event.phase), event.allocated_bytes,
                     event.reserved_bytes);
}

}  // namespace

std::string memory_timeline_json(const search::MemoryTimeline& timeline) {
  const memory::Reserved& reserved = timeline.memory.reserved;
  NumberedNames tensors, ops;
  std::string events;
  for (const MemoryEvent& event : timeline.memory.events)
    events += (events.empty() ? "\n    " : ",\n    ") + event_line(timeline, event, tensors, ops);
  Json head;
  head["schema"] = "moeplan.memory_timeline/1";
  head["rank"] = timeline.rank;
  head["pipeline_stage"] = reserved.stage;
  head["iterations"] = timeline.iterations;
  head["step_time_s"] = timeline.step_s;
  head["peak_allocated_bytes"] = reserved.allocated_peak_bytes;
  head["peak_reserved_bytes"] = reserved.peak_bytes;
  head["out_of_memory"] = reserved.failure ? Json{{"iteration", reserved.failure->iteration},
                                                  {"op", reserved.failure->op},
                                                  {"tensor", reserved.failure->tensor},
                                                  {"bytes", reserved.failure->bytes}}
                                           : Json();
  head["provenance"] = {{"version", kVersion}};
  head["columns"] = {"time_s",        "device_start_s", "action",     "tensor",    "kind",
                     "bytes",         "address",        "pool",       "iteration", "op",
                     "part",          "layer",          "microbatch", "phase",     "allocated_bytes",
                     "reserved_bytes"};
  head["tensors"] = tensors.list();
  head["ops"] = ops.list();
  std::string text = head.dump(2, ' ', false, Json::error_handler_t::replace);
  text.resize(text.rfind('}'));  // the events, a line each, close the object
  while (text.back() == '\n' || text.back() == ' ') text.pop_back();
  return text + ",\n  \"events\": [" + events + (events.empty() ? "]" : "\n  ]") + "\n}\n";
}

}  // namespace moeplan::report
