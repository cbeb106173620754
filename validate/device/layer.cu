#include <algorithm>
#include <cmath>

#include "device_executor.h"
#include "difference.h"
#include "layer.h"
#include "layer/host_layer.h"
#include "layer/layer_data.h"

namespace moeplan::device {
namespace {

using layer::FixedSpec;
using layer::LayerCase;
using Times = std::map<std::string, double>;

constexpr int kWarmUps = 3;            // the pool has settled after two
constexpr std::size_t kReadings = 20;  // steps during which clocks are read, until one ran longer than the reading

// The fixed tensors of a case on the device.
class DeviceData {
 public:
  DeviceData(const LayerCase& layer_case, const std::vector<std::int32_t>& choices, cudaStream_t stream) {
    const std::vector<std::int64_t> retained = layer::retained_offsets(layer_case);
    const std::vector<FixedSpec> specs = layer::fixed_specs(layer_case);
    std::vector<void*> pointers;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const FixedSpec& spec = specs[i];
      memory_.emplace_back(static_cast<std::size_t>(spec.bytes));
      void* data = memory_.back().data();
      bytes_ += spec.bytes;
      if (spec.fill == FixedSpec::Fill::random_bf16)
        MOEPLAN_CUDA(kernels::launch(kernels::FillRandom<kernels::Bf16>{static_cast<kernels::Bf16*>(data),
                                                                        spec.bytes / 2, spec.seed, spec.scale},
                                     stream));
      if (spec.fill == FixedSpec::Fill::zero)
        MOEPLAN_CUDA(cudaMemsetAsync(data, 0, static_cast<std::size_t>(spec.bytes), stream));
      const void* given = i == layer::kChoices ? static_cast<const void*>(choices.data())
                                               : (i == layer::kRetained ? retained.data() : nullptr);
      if (given != nullptr)
        MOEPLAN_CUDA(
            cudaMemcpyAsync(data, given, static_cast<std::size_t>(spec.bytes), cudaMemcpyHostToDevice, stream));
      pointers.push_back(data);
    }
    MOEPLAN_CUDA(cudaStreamSynchronize(stream));
    fixed_ = layer::fixed_tensors(pointers);
  }
  const layer::FixedTensors& fixed() const { return fixed_; }
  std::int64_t bytes() const { return bytes_; }
  const Buffer& buffer(std::size_t name) const { return memory_[name]; }

 private:
  std::vector<Buffer> memory_;
  layer::FixedTensors fixed_{};
  std::int64_t bytes_ = 0;
};

// Of the layer itself: without the copies that stand for the layers before and behind.
double total_of(const Times& times) {
  double sum = 0;
  for (const auto& [name, us] : times) sum += name == "arrive" || name == "leave" ? 0 : us;
  return sum;
}

// Samples of one direction.
struct Direction {
  std::vector<double> totals;
  std::map<std::string, std::vector<double>> phases;
  std::int64_t peak_bytes = 0;

  void add(const Times& times) {
    totals.push_back(total_of(times));
    for (const auto& [name, us] : times) phases[name].push_back(us);
  }
  void write(const std::string& name, JsonObject& fields) const {
    fields.add(name + "_us", median_of(totals)).add(name + "_uncertainty", median_uncertainty(totals));
    for (const auto& [phase, samples] : phases)
      if (phase != "arrive" && phase != "leave") fields.add(name + "_" + phase + "_us", median_of(samples));
    fields.add(name + "_peak_bytes", peak_bytes).add(name + "_samples_us", totals);
  }
};

std::int64_t free_now() {
  std::size_t free = 0, total = 0;
  MOEPLAN_CUDA(cudaMemGetInfo(&free, &total));
  return static_cast<std::int64_t>(free);
}

JsonObject case_fields(const LayerCase& c, const std::vector<std::int32_t>& choices) {
  JsonObject fields;
  fields.add("tokens", c.shape.tokens)
      .add("hidden", c.shape.hidden)
      .add("ffn", c.shape.ffn)
      .add("experts", c.shape.experts)
      .add("top_k", c.shape.top_k)
      .add("distribution", c.distribution)
      .add("chunks", c.chunks)
      .add("backward", layer::backward_name(c.backward))
      .add("retention", c.retention)
      .add("chunk_rows", layer::chunk_rows(c, choices));
  if (c.backward == layer::Backward::redispatch) fields.add("retained_rows", layer::retained_rows(c));
  return fields;
}

void measure(const LayerCase& c, const std::vector<std::int32_t>& choices, bool together, double seconds, Timer& timer,
             LineWriter& writer) {
  const DeviceData data(c, choices, timer.stream());
  DeviceExecutor executor(timer.stream(), c.shape, together);
  const std::int64_t free_before = free_now();
  layer::LayerProgram<DeviceExecutor> program(executor, c, data.fixed());
  Direction forward, backward;
  Reading reading;
  const auto step = [&](bool counts) {
    executor.pool().start_peaks();
    program.forward();
    const Times forward_times = executor.take_times();
    forward.peak_bytes = std::max(forward.peak_bytes, executor.pool().stats().allocated_peak);
    executor.pool().start_peaks();
    program.backward();
    // What backward enqueued last still runs: some steps are tried, as a short one may end before a reading does.
    const Event& end = executor.mark_end();
    if (counts && !reading.available && forward.totals.size() < kReadings) reading = timer.read_before(end);
    const Times backward_times = executor.take_times();
    backward.peak_bytes = std::max(backward.peak_bytes, executor.pool().stats().allocated_peak);
    if (!counts) return 0.0;
    forward.add(forward_times);
    backward.add(backward_times);
    return forward.totals.back() + backward.totals.back();
  };
  for (int i = 0; i < kWarmUps; ++i) step(false);
  StoppingOptions stopping;
  stopping.most_seconds = seconds;
  StoppingRule rule(stopping);
  while (!rule.done()) {
    const double us = step(true);
    rule.add(us, us * 1e-6);
  }
  JsonObject fields = case_fields(c, choices);
  fields.add("library", executor.products().library())
      .add("stopped", stop_reason_name(rule.reason()))
      .add("steps", static_cast<std::int64_t>(rule.samples().size()));
  forward.write("forward", fields);
  backward.write("backward", fields);
  fields.add("peak_allocated_bytes", std::max(forward.peak_bytes, backward.peak_bytes))
      .add("peak_reserved_bytes", executor.pool().stats().reserved_peak)
      .add("device_bytes", free_before - free_now())
      .add("fixed_bytes", data.bytes());
  fields.add(reading_fields(reading));
  writer.write_schema("moeplan.layer/1", fields);
}

std::string title(const LayerCase& c) {
  return "layer of " + std::to_string(c.shape.tokens) + " tokens, " + c.distribution + ", " +
         layer::backward_name(c.backward) + ", " + std::to_string(c.chunks) + " chunks, retention " +
         json_number(c.retention);
}

// The tensor on the device against the one on the host.
template <class Element>
double difference_there(const Buffer& there, const Element* here, std::int64_t count) {
  std::vector<Element> values(static_cast<std::size_t>(count));
  MOEPLAN_CUDA(cudaMemcpy(values.data(), there.data(), values.size() * sizeof(Element), cudaMemcpyDeviceToHost));
  return difference(values, here);
}

}  // namespace

int run_layer(const LayerOptions& options, Timer& timer, LineWriter& writer) {
  const Budget budget(options.seconds);
  const double runs = static_cast<double>(options.cases.size() * options.together.size());
  for (const LayerCase& c : options.cases) {
    const std::vector<std::int32_t> choices = layer::choices_of(c.shape, c.rows, options.seed);
    for (const bool together : options.together) {
      if (!budget.left()) {
        write_left_out(writer, title(c), "the time was used up");
        continue;
      }
      std::cerr << title(c) << "\n";
      attempt(writer, title(c), [&] { measure(c, choices, together, options.seconds / runs / 2, timer, writer); });
    }
  }
  return 0;
}

std::vector<KernelCheck> check_layers(cudaStream_t stream) {
  std::vector<KernelCheck> checks;
  LayerCase c;
  c.shape = {96, 128, 64, 8, 2};
  c.rows = {96, 0, 40, 1, 16, 17, 15, 7};  // 192 = 96 * 2
  struct Variant {
    layer::Backward backward;
    std::int64_t chunks;
    double retention;
  };
  for (const Variant& v : {Variant{layer::Backward::kept, 1, 1}, Variant{layer::Backward::recompute, 4, 1},
                           Variant{layer::Backward::redispatch, 1, 0.5}}) {
    c.backward = v.backward;
    c.chunks = v.chunks;
    c.retention = v.retention;
    const std::vector<std::int32_t> choices = layer::choices_of(c.shape, c.rows, 1);
    layer::HostLayer host(c, choices);
    host.forward();
    host.backward();
    for (const bool together : {true, false}) {
      const DeviceData data(c, choices, stream);
      DeviceExecutor executor(stream, c.shape, together);
      layer::LayerProgram<DeviceExecutor> program(executor, c, data.fixed());
      program.forward();
      program.backward();
      executor.take_times();
      const layer::LayerShape& s = c.shape;
      const std::string name = std::string("layer ") + layer::backward_name(c.backward) + ", " +
                               (together ? "grouped products" : "single products") + ": ";
      const auto add = [&](const char* what, double error) { checks.push_back({name + what, error}); };
      const auto bf16s = [&](layer::FixedName tensor, std::int64_t count) {
        return difference_there(data.buffer(tensor), host.data<kernels::Bf16>(tensor), count);
      };
      const auto floats = [&](layer::FixedName tensor, std::int64_t count) {
        return difference_there(data.buffer(tensor), host.data<float>(tensor), count);
      };
      add("output", bf16s(layer::kOutput, s.tokens * s.hidden));
      add("input gradient", bf16s(layer::kInputGradient, s.tokens * s.hidden));
      add("router gradient", floats(layer::kRouterGradient, s.experts * s.hidden));
      add("gate-up gradient", floats(layer::kGateUpGradient, s.experts * 2 * s.ffn * s.hidden));
      add("down gradient", floats(layer::kDownGradient, s.experts * s.ffn * s.hidden));
      const auto &there = executor.pool().stats(), &here = host.executor().pool().stats();
      const bool same = there.allocated_peak == here.allocated_peak && there.reserved_peak == here.reserved_peak;
      add("peak of memory", same && there.allocated == 0 ? 0.0 : 1.0);
    }
  }
  return checks;
}

}  // namespace moeplan::device
