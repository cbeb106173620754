#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "search/evaluate.h"
#include "search/oom_line.h"

// What tensor an out-of-memory text is about: its size against every size of the plan.
namespace moeplan::search {

// What lowers a tensor; kinds that the same settings lower share one.
enum class OomSource {
  expert_parameters,
  dense_parameters,
  gathered_parameters,
  optimizer_states,
  gradients,
  weight_gradients,
  logits,
  scores,
  routed_rows,
  activations,
  collected_checkpoint,
};

struct SizedTensor {
  std::string name;
  OomSource source = OomSource::activations;
  std::int64_t bytes = 0;
  std::string derivation;  // "47 layers x 16 experts x 3 x 4096 x 1536 x 2 B"; "" where the plan itself counts it
};

// Tensors of one size each: parameters and their buffers, gradients, optimizer states, sharded and whole, of one
// matrix, one layer or the rank; logits; attention scores. Names may share a size.
std::vector<SizedTensor> static_sizes(const scenario::Scenario& scenario);
std::vector<SizedTensor> loss_and_score_sizes(const scenario::Scenario& scenario);

struct OomCandidate {
  enum class Match {
    exact,   // to what the text prints
    near,    // within 0.3 %
    rows,    // of a tensor that routing sizes: a count within what this plan's ranks have
    tokens,  // logits of fewer tokens than a microbatch has
  };
  std::string name;
  std::vector<std::string> also;  // other tensors of this size and source
  OomSource source = OomSource::activations;
  Match match = Match::exact;
  std::int64_t bytes = 0;     // of the tensor, or of the nearest one among the plan's
  double error_fraction = 0;  // what the text prints / what the tensor asks the device for - 1
  std::string derivation;
  std::string lever;
  // rows, tokens: the count that the size implies; the least and most of this plan; where the nearest stands.
  std::optional<std::int64_t> implied, least, most;
  std::int64_t rank = -1, layer = -1, microbatch = -1;
};
std::string_view match_name(OomCandidate::Match match);  // "exact", "near", "rows", "tokens"

inline constexpr double kOomTolerance = 0.003;

// Best first: by match, then by closeness; at most `most`. A size that routing can give to many tensors says less than
// one that a single tensor has, so rows stand behind.
std::vector<OomCandidate> oom_candidates(const plan::Plan& plan, const OomLine& line, std::size_t most = 8);

// What to set against tensors of this source, under this scenario.
std::string oom_lever(OomSource source, const scenario::Scenario& scenario);

struct OomDecoding {
  OomLine line;
  std::vector<OomCandidate> candidates;
  std::vector<std::string> notes;  // the figures of the text against those of the prediction
};
OomDecoding decode_oom(const plan::Plan& plan, const Evaluation& evaluation, const OomLine& line);

}  // namespace moeplan::search
