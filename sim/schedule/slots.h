#pragma once
#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

// One file a schedule; the table in schedule.cpp lists them. All: 0 <= stage < stages, microbatches >= 1.
namespace moeplan::schedule {

// PipeDream-Flush (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
// SC 2021, section 2.2.1).
std::vector<Slot> one_forward_one_backward(std::int64_t stage, std::int64_t stages, std::int64_t microbatches,
                                           std::int64_t chunks);
// GPipe (Huang et al., NeurIPS 2019): all forwards in order, then all backwards in the same order.
std::vector<Slot> gpipe(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks);

// Interleaved 1F1B (same paper, section 2.2.2), in the order that Megatron-Core runs it; microbatches a multiple of
// stages.
std::vector<Slot> interleaved(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks);

// Shared precondition of every schedule.
void check_arguments(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks);

}  // namespace moeplan::schedule
