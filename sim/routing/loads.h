#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "routing/trace.h"

// Loads: how many of which tokens chose which expert, for every (iteration, microbatch, data-parallel replica, slice of the sequence, MoE layer).
// This is the only view of routing that policies and plans have; every source of routing gives the same one.
namespace moeplan::routing {

// The step that is simulated: what a LoadSource must fill.
struct StepShape {
  std::int64_t seq_length = 0;
  std::int64_t micro_batch_size = 0;
  std::int64_t data_parallel = 0;  // replicas that read different samples
  std::int64_t microbatches = 0;   // per replica and iteration
  std::int64_t moe_layers = 0;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
};

// Tokens of one replica's microbatch at sequence positions [begin, end) of each of its micro_batch_size samples.
struct TokenSlice {
  std::int64_t iteration = 0, microbatch = 0, replica = 0;
  std::int64_t begin = 0, end = 0;
};

// One routed (token, expert) pair. `token` counts from 0 inside the slice, sequence position first: sample = token % micro_batch_size.
struct Pair {
  std::int32_t token = 0;
  std::uint16_t expert = 0;
  float weight = 0;  // router weight; 1/top_k where the source carries none
};

class LoadSource {
 public:
  virtual ~LoadSource() = default;
  virtual const StepShape& shape() const = 0;
  // Adds to out[e] the pairs of the slice that go to expert e in MoE layer `layer` (0-based among MoE layers). Every slice adds exactly
  // (end - begin) * micro_batch_size * top_k pairs; slices of a partition add up to the whole. Thread-safe.
  virtual void add_counts(const TokenSlice& slice, std::int64_t layer, std::span<std::int64_t> out) const = 0;
  // The pairs themselves, in token order; `out` is replaced. Sources that know counts only make them up consistently with add_counts (the same k distinct experts a token).
  virtual void pairs(const TokenSlice& slice, std::int64_t layer, std::vector<Pair>& out) const = 0;
  virtual bool has_weights() const = 0;
  // Whether slices of equal [begin, end) are equal in every microbatch and replica of an iteration.
  virtual bool same_in_iteration() const { return false; }
  struct Description {
    std::string source;      // "trace traces/law (8,327 tokens in 33 lines)", "balanced", "log-normal sigma 0.4, seed 1"
    double repeats = 0;      // how often each token of the trace is used in one step; 0 when nothing repeats
    std::vector<std::string> notes;  // what was assumed: "counts scaled from 1,024 to 4,096 tokens", ...
  };
  virtual Description describe() const = 0;
};

// Every expert gets the same number (differences of one are spread evenly).
std::unique_ptr<LoadSource> make_balanced(const StepShape& shape);

// Log-normal shares, capped at 1/top_k (routing generator, steps 1, 3 and 4): z standard normal per (layer, expert) re-standardised over the experts, share ~ exp(sigma z),
// inclusion probability min(1, c q). The same shares in every microbatch; iterations take `draws` (>= 1) of them in turn.
// Counts by even spreading.
std::unique_ptr<LoadSource> make_lognormal(const StepShape& shape, double sigma, std::uint64_t seed,
                                           std::int64_t draws = 1);

enum class Resample { lines, tokens };
// A trace that is shorter than a step is continued by whole lines in their order, from the start again; each sample is filled with whole lines and cut to
// seq_length, the same token in every layer. Resample::tokens draws tokens independently instead (seeded). Sample number =
// (iteration * microbatches + microbatch) * data_parallel * micro_batch_size + replica * micro_batch_size + i.
// The layers of the trace must be those of the model (checked by trace_faults before).
std::unique_ptr<LoadSource> make_token_loads(std::shared_ptr<const TokenTrace> trace, const StepShape& shape, Resample resample, std::uint64_t seed);

// Counts: iteration i uses step i mod steps (in ascending order), microbatch m the (m mod n)-th microbatch of that step, replica r the (r mod n)-th source.
// A row's copies are spread evenly over the tokens it stands for: without a source those of all replicas together, without a microbatch those of all
// microbatches of a step. A row for another number of tokens is scaled (largest remainder, capped at one copy a token and expert), and describe() says so.
std::unique_ptr<LoadSource> make_count_loads(std::shared_ptr<const CountTrace> trace, const StepShape& shape);

// Which layer of a trace each MoE layer of a model reads. `same`: its own, so that the layers must agree. `cyclic`: MoE layer i reads the
// (i mod n)-th of the trace's n layers, ascending. `listed`: one layer of the trace (by its number there) for each MoE layer.
struct TraceMap {
  enum class Kind { same, cyclic, listed };
  Kind kind = Kind::same;
  std::vector<std::int64_t> layers;  // of `listed`
};

// Loads of either kind of trace; `resample` and `seed` are for token traces. shape.moe_layers are those of the model; `map` and trace agree with
// it (trace_faults). describe() says what the map does.
std::unique_ptr<LoadSource> make_trace_loads(const std::shared_ptr<const Trace>& trace, const StepShape& shape, const TraceMap& map,
                                             Resample resample, std::uint64_t seed);

// Loads whose MoE layer i is layer layers[i] of `source`; `note` is added to what describe() says.
std::unique_ptr<LoadSource> make_mapped_loads(std::unique_ptr<LoadSource> source, std::vector<std::int64_t> layers, std::string note);

// Disagreements of a trace with a model: (what, message with both numbers), for instance experts 64 against 128, layers {1..26} against {3..47}, top-k 6 against 8.
// A count trace that states no top-k: a row whose largest expert exceeds its tokens (sum / top_k) is named. With a map, layers are compared as it
// says: a list must have one entry for each MoE layer, each a layer of the trace.
std::vector<std::pair<std::string, std::string>> trace_faults(const Trace& trace, std::int64_t experts, std::int64_t top_k,
                                                              std::span<const int> moe_layer_ids, const TraceMap& map = {});

}  // namespace moeplan::routing
