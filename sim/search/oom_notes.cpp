#include <fmt/core.h>

#include <cmath>

#include "base/units.h"
#include "search/oom_candidates.h"

// What to set against a tensor that does not fit, and what the other figures of the text say.
namespace moeplan::search {
namespace {

using scenario::Scenario;

std::string gib(double bytes) { return base::format_gib(bytes); }
std::string gib(std::int64_t bytes) { return base::format_gib(static_cast<double>(bytes)); }

std::string degree(const char* key, std::int64_t now) { return fmt::format("{} above {}", key, now); }

std::string logits_lever(const Scenario& s) {
  std::string text = s.training.fused_cross_entropy
                         ? "a cross-entropy that works on parts of the tokens"
                         : "cross_entropy_loss_fusion: true (the loss in place, without fp32 copies)";
  if (s.training.micro_batch_size > 1)
    text += fmt::format(", micro_batch_size below {}", s.training.micro_batch_size);
  else
    text += ", a shorter seq_length or " + degree("context_parallel_size", s.layout.cp);
  return text + ", " + degree("tensor_model_parallel_size", s.layout.tp) + " (divides the vocabulary)";
}

std::string expert_lever(const Scenario& s) {
  std::string text;
  if (2 * s.layout.ep <= s.model.moe.experts) text += degree("expert_model_parallel_size", s.layout.ep) + ", ";
  return text + degree("pipeline_model_parallel_size", s.layout.pp) + " or " +
         degree("expert_tensor_parallel_size", s.layout.etp) +
         ": each divides it; micro batch, recompute and sequence do not change it";
}

std::string optimizer_lever(const Scenario& s) {
  std::string text;
  if (!s.optimizer.shards_states())
    text = "optimizer.sharding: zero1 (divides it over data parallelism), ";
  else if (!s.optimizer.shards_parameters())
    text = "more data-parallel ranks, ";
  return text +
         "exp_avg_dtype and exp_avg_sq_dtype: bf16, optimizer.cpu_offload: true, or fewer parameters a rank "
         "(expert or pipeline parallelism)";
}

std::string rows_lever(const Scenario& s) {
  std::string text = "memfine.chunks (rows of one chunk at a time)";
  if (s.training.micro_batch_size > 1) text += fmt::format(", micro_batch_size below {}", s.training.micro_batch_size);
  return text + ", recompute_modules: [moe_act] or [moe], better balance: its size follows the rows that routing sends";
}

// "80.00 GiB against 79.10 GiB of the profile (+1.1 %)".
void against(std::vector<std::string>& notes, const char* what, const std::optional<PrintedBytes>& text,
             double predicted, const char* of) {
  if (!text || !(predicted > 0)) return;
  notes.push_back(fmt::format("{}: {} in the text, {} {} ({:+.1f} %)", what, gib(text->bytes), gib(predicted), of,
                              100.0 * (text->bytes / predicted - 1)));
}

void compare_allocator(const OomLine& line, const memory::RankMemory& rank, std::vector<std::string>& notes) {
  const auto static_bytes = static_cast<double>(rank.static_bytes);
  const auto peak = static_cast<double>(rank.peak.allocated_bytes);
  if (line.allocated) {
    const double wanted = line.allocated->bytes + line.tried.bytes;
    notes.push_back(fmt::format(
        "allocated: {} when it failed, {} with what was asked for; rank {} is predicted to hold {} all the time and {} "
        "at its peak",
        gib(line.allocated->bytes), gib(wanted), rank.rank, gib(static_bytes), gib(peak)));
    if (wanted > 1.02 * peak)
      notes.push_back(fmt::format(
          "that is {} more than the predicted peak: the job holds tensors that this scenario does not describe, or is "
          "set otherwise",
          gib(wanted - peak)));
    else if (wanted < 0.98 * peak)
      notes.push_back("that is below the predicted peak: it failed on its way there");
  }
  const auto reserved = line.reserved_bytes();
  if (reserved && rank.has_reserved())
    notes.push_back(
        fmt::format("reserved: {} when it failed, {} predicted as the most", gib(*reserved), gib(rank.reserved_bytes)));
  if (reserved && line.allocated) {
    const double idle = std::max(0.0, *reserved - line.allocated->bytes);
    if (idle >= line.tried.bytes)
      notes.push_back(
          fmt::format("{} are reserved and in no tensor, more than was asked for: fragmentation; "
                      "expandable_segments: true lets the allocator use them",
                      gib(idle)));
  }
  if (const auto outside = line.outside_bytes())
    notes.push_back(
        fmt::format("outside the allocator: {} in the text, {} predicted (context, communicators, dispatch "
                    "buffers)",
                    gib(*outside), gib(rank.outside_bytes)));
}

}  // namespace

std::string oom_lever(OomSource source, const Scenario& scenario) {
  switch (source) {
    case OomSource::expert_parameters:
      return expert_lever(scenario);
    case OomSource::dense_parameters:
      return degree("tensor_model_parallel_size", scenario.layout.tp) + " or " +
             degree("pipeline_model_parallel_size", scenario.layout.pp);
    case OomSource::gathered_parameters:
      return "smaller units to gather (one layer at a time), or " +
             degree("expert_model_parallel_size", scenario.layout.ep) + ", which leaves fewer experts to gather";
    case OomSource::optimizer_states:
      return optimizer_lever(scenario);
    case OomSource::gradients:
      return std::string("main_grads_dtype: bf16, optimizer.sharding: ") +
             (scenario.optimizer.shards_gradients() ? "over more ranks" : "zero2") +
             ", or fewer parameters a rank (expert or pipeline parallelism)";
    case OomSource::weight_gradients:
      return "gradient accumulation fused into the weight-gradient product, or a larger parallel degree of the matrix";
    case OomSource::logits:
      return logits_lever(scenario);
    case OomSource::scores:
      return "an attention that does not write its scores (FlashAttention, cuDNN), and a mask that is not stored";
    case OomSource::routed_rows:
      return rows_lever(scenario);
    case OomSource::activations:
      return "recompute_modules or recompute_granularity: full, a smaller micro_batch_size, " +
             degree("context_parallel_size", scenario.layout.cp);
    case OomSource::collected_checkpoint:
      return "a sharded (distributed) checkpoint, or collecting it in host memory layer by layer";
  }
  return "";
}

OomDecoding decode_oom(const plan::Plan& plan, const Evaluation& evaluation, const OomLine& line) {
  OomDecoding decoding{line, oom_candidates(plan, line), {}};
  std::vector<std::string>& notes = decoding.notes;
  const Scenario& scenario = *evaluation.scenario;
  if (line.tried.bytes <= 20.0 * 1048576.0)
    notes.push_back(line.tried.bytes <= 2.0 * 1048576.0
                        ? "2 MiB is what the allocator asks for whenever a tensor of up to 1 MiB finds no place: the "
                          "size names none; the device was full before"
                        : "20 MiB is what the allocator asks for whenever a tensor of 1 to 10 MiB finds no place: the "
                          "size names none; the device was full before");
  else if (decoding.candidates.empty())
    notes.push_back(
        "no tensor of this plan has that size: sizes follow model, layout, batch and vocabulary "
        "(--set model.vocab_size=...); parts of the job that the scenario lacks (a vision tower, LoRA, an "
        "inference engine) have others");
  const bool known_rank = line.rank && *line.rank < scenario.layout.world;
  if (line.rank && !known_rank)
    notes.push_back(
        fmt::format("rank {} of the text is not one of the scenario's {} ranks", *line.rank, scenario.layout.world));
  const memory::RankMemory& rank =
      known_rank ? evaluation.ranks[static_cast<std::size_t>(*line.rank)] : evaluation.worst;
  against(notes, "capacity", line.capacity, static_cast<double>(evaluation.fit.capacity_bytes), "of the profile");
  compare_allocator(line, rank, notes);
  if (line.other_processes && line.other_processes->bytes > 0)
    notes.push_back(fmt::format("other processes hold {} of the device: the plan does not know of them",
                                gib(line.other_processes->bytes)));
  if (line.private_pools && line.private_pools->bytes > 0)
    notes.push_back(
        fmt::format("{} of the allocated memory is in private pools (CUDA graphs)", gib(line.private_pools->bytes)));
  if (line.free && line.free->bytes >= line.tried.bytes)
    notes.push_back(
        "the device had more free than was asked for: a limit (set_per_process_memory_fraction, or a "
        "second request at the same time) or free memory in pieces");
  else if (line.free)
    notes.push_back(fmt::format("{} more would have done for this tensor; what comes after it is not in the text",
                                gib(line.tried.bytes - line.free->bytes)));
  return decoding;
}

}  // namespace moeplan::search
