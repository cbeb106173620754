#include <array>
#include <string_view>

#include "plan/side_streams.h"

namespace moeplan::plan {

void fuse_experts(Block& block, const scenario::Scenario& scenario) {
  // A clamped activation has a kernel of its own.
  if (!scenario.dispatch.op_fuser || scenario.model.activation_clamp > 0) return;
  constexpr std::array<std::string_view, 4> kWithin{"expert SwiGLU", "expert SwiGLU backward",
                                                    "quantise expert activation", "quantise expert gate-up gradient"};
  for (auto* ops : {&block.forward, &block.backward})
    for (Op& op : *ops)
      for (const std::string_view name : kWithin)
        if (op.name == name && !op.recompute) {
          op.size = Size{};  // nothing of its own to read or write
          op.work = Work::fixed;
          op.seconds = 0;
          op.launches = 0;
        }
}

}  // namespace moeplan::plan
