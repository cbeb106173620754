#include "engine/picoseconds.h"

#include <fmt/core.h>

#include <cmath>

#include "base/error.h"

namespace moeplan::engine {

void too_long(const plan::Plan& plan, const std::string& what, double seconds) {
  throw base::Error({"profile " + plan.scenario->hardware.id, 0, 0, {}},
                    fmt::format("{} would take {:.3g} s, more than can be simulated", what, seconds),
                    "a rate of the profile is far too low, or the step far too large");
}

std::int64_t to_ps(const plan::Plan& plan, const std::string& what, double seconds) {
  if (!(seconds <= kLongestOp_s)) too_long(plan, what, seconds);
  return std::llround(seconds / kPicosecond);
}

TimeParts PartsPs::seconds() const {
  const auto s = [](std::int64_t ps) { return static_cast<double>(ps) * kPicosecond; };
  TimeParts parts;
  for (std::size_t i = 0; i < family.size(); ++i) parts.family_s[i] = s(family[i]);
  parts.recompute_s = s(recompute);
  parts.exposed_ep_s = s(exposed_ep);
  parts.exposed_tp_s = s(exposed_tp);
  parts.exposed_pp_s = s(exposed_pp);
  parts.exposed_dp_s = s(exposed_dp);
  parts.exposed_offload_s = s(exposed_offload);
  parts.imbalance_wait_s = s(imbalance_wait);
  parts.bubble_s = s(bubble);
  parts.host_s = s(host);
  return parts;
}

}  // namespace moeplan::engine
