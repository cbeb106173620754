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

// ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 3.1): 1F1B whose rank r computes the weight
// gradients of a microbatch r backwards later, so that input gradients travel sooner. p microbatches in flight on every
// rank, bubble (p - 1)(F + B - W) with B without W.
std::vector<Slot> zb_h1(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks);

// ZB-V (same paper, section 6): two chunks in a V, 2p chunks in flight on every rank (p microbatches), no idle time
// between first and last slot of a rank when F = B = W. Fewer than 2p - 1 microbatches: the order of 2p - 1 without
// those that are not there.
std::vector<Slot> zb_v(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks);

// DualPipe (DeepSeek-V3 report, arXiv 2412.19437, section 3.2.1, and the authors' repository): chunk 0 runs
// microbatches 0 .. m/2 - 1 from the first rank to the last, chunk 1 the others the other way; forwards of one take
// turns with backwards of the other. Even p, even m >= 2p. p + 1 chunks in flight.
std::vector<Slot> dualpipe(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks);

// DualPipeV (same repository): the same order over two chunks in a V, m >= 2p. 2p + 1 chunks in flight.
std::vector<Slot> dualpipe_v(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks);

// Shared precondition of every schedule.
void check_arguments(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks);

}  // namespace moeplan::schedule
