#include "search/sensitivities.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "engine/step.h"
#include "search/in_order.h"
#include "topology/hardware_keys.h"

namespace moeplan::search {

namespace {

constexpr double kPercent = 0.01;

// Whether 1 % more of it means something, and some cost model reads it.
bool varies(std::string_view section, std::string_view key, topology::Quantity quantity) {
  using topology::Quantity;
  if (section == "device" || section == "overheads") return false;  // datasheet and memory
  switch (quantity) {
    case Quantity::bytes_per_second:
    case Quantity::flop_per_second:
    case Quantity::seconds:
    case Quantity::length:
    case Quantity::efficiency:
    case Quantity::ratio:
    case Quantity::health:
    case Quantity::share:
      return true;
    case Quantity::bytes_or_none:
      return key == "message_half_size";
    case Quantity::bytes:
    case Quantity::count:
    case Quantity::exponent:
    case Quantity::spread:
    case Quantity::flag:
      return false;
  }
  return false;
}

}  // namespace

double step_under(const plan::Plan& plan, const std::function<void(topology::HardwareProfile&)>& change) {
  auto scenario = std::make_shared<scenario::Scenario>(*plan.scenario);
  change(scenario->hardware);
  return engine::run_step(plan::repriced(plan, std::move(scenario), 1)).step_s;
}

std::vector<Sensitivity> sensitivities(const plan::Plan& plan, int threads) {
  std::vector<Sensitivity> keys;
  topology::visit_values(plan.scenario->hardware, [&](const char* section, const char* key,
                                                      const topology::Value& value, topology::Quantity quantity) {
    if (varies(section, key, quantity)) keys.push_back({std::string(section) + "." + key, value.value, 0});
  });
  const double step_s = engine::run_step(plan).step_s;
  std::vector<Sensitivity> results(keys.size());
  rows_in_order(
      results, threads,
      [&](std::size_t i) {
        Sensitivity result = keys[i];
        const double more_s = step_under(plan, [&](topology::HardwareProfile& profile) {
          topology::Value value = *topology::value_at(profile, result.key);
          value.value *= 1 + kPercent;
          topology::set_value(profile, result.key, std::move(value));
        });
        result.peak_unaffected = !plan::decides_by_time(*plan.scenario);
        result.step_change_per_percent = (more_s / step_s - 1) * 100;
        return result;
      },
      [](const Sensitivity&) {});
  std::stable_sort(results.begin(), results.end(), [](const Sensitivity& a, const Sensitivity& b) {
    return std::abs(a.step_change_per_percent) > std::abs(b.step_change_per_percent);
  });
  return results;
}

}  // namespace moeplan::search
