#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

// What a rank holds all the time as the tensors that Megatron makes, in its order: parameters one by one, then one
// contiguous buffer of parameters and one of gradients for each of dense and expert parameters (into which the
// parameters move), then the optimizer's shards of single parameters. Where gradients are sharded too (zero2, zero3,
// FSDP): shards of single parameters throughout. docs/models.md, Reserved memory.
namespace moeplan::memory {

// Elements of one parameter tensor on a rank.
struct ParameterTensor {
  std::string name;
  std::int64_t elements = 0;
  bool expert = false;
  bool linear = false;  // a weight of a linear layer
};

// Parameters of one virtual stage in the order of their registration; over the virtual stages of a stage they add up to
// plan::stage_parameters.
std::vector<ParameterTensor> parameter_tensors(const scenario::Scenario& scenario, std::int64_t stage,
                                               std::int64_t virtual_stage);

// Elements of the pieces that one of `ranks` owns of a contiguous buffer that holds `tensors` from the last to the
// first, in buckets of at least `bucket_elements` (0: one bucket) that are divided into equal parts; in the order of
// `tensors`, without those it owns nothing of.
std::vector<std::int64_t> owned_pieces(const std::vector<std::int64_t>& tensors, std::int64_t ranks, std::int64_t index,
                                       std::int64_t bucket_elements = 0);

// One allocation or release of the load phase, or of the first optimizer step.
struct StaticEvent {
  std::string name;
  std::int64_t bytes = 0;      // of an allocation
  std::int64_t releases = -1;  // index of the event whose memory goes back; -1: an allocation
  plan::TensorKind kind = plan::TensorKind::workspace;
};

// From an empty device to the start of the first iteration. The end state holds plan.statics[stage].load, up to
// rounding (and up to the elements by which equal parts exceed a buffer).
std::vector<StaticEvent> load_events(const plan::Plan& plan, std::int64_t rank);
// Bytes by kind when most is held in that time, each tensor rounded to 512 B: parameters move into buffers of their own.
plan::BytesByKind load_peak(const plan::Plan& plan, std::int64_t rank);
// Adam's moments, which the first step makes: plan.statics[stage].moments.
std::vector<StaticEvent> moment_events(const plan::Plan& plan, std::int64_t rank);

}  // namespace moeplan::memory
