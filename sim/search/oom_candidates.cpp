#include "search/oom_candidates.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/check.h"
#include "memory/replay.h"

namespace moeplan::search {
namespace {

using Match = OomCandidate::Match;
using RowsKey = std::pair<plan::Rows::Kind, bool>;  // over all chunks

constexpr double kRequestUnit = 2.0 * 1048576.0;  // requests to the device are whole numbers of it

struct Place {
  std::int64_t rank = -1, layer = -1, microbatch = -1;
};
// Every row count that occurs, with the first rank, layer and microbatch that has it.
using Counts = std::map<std::int64_t, Place>;

std::vector<plan::Rows> distinct_rows(const plan::Block& block) {
  std::set<std::tuple<plan::Rows::Kind, bool, std::int16_t>> seen;
  std::vector<plan::Rows> rows;
  for (const plan::Tensor& tensor : block.tensors) {
    const plan::Rows& r = tensor.size.rows;
    if (tensor.size.bytes_per_row == 0 || r.kind == plan::Rows::Kind::none) continue;
    if (seen.emplace(r.kind, r.backward, r.chunk).second) rows.push_back(r);
  }
  return rows;
}

std::map<RowsKey, Counts> count_rows(const plan::Plan& plan) {
  std::map<RowsKey, Counts> counts;
  std::vector<std::vector<plan::Rows>> of_block;
  for (const plan::Block& block : plan.blocks) of_block.push_back(distinct_rows(block));
  for (std::int64_t rank = 0; rank < plan.scenario->layout.world; ++rank) {
    if (plan.representative_of(rank) != rank) continue;
    for (const plan::Visit& visit : plan.program_of(rank).visits) {
      if (visit.direction != schedule::Direction::forward || visit.first_op != 0) continue;
      for (const plan::Rows& rows : of_block[static_cast<std::size_t>(visit.block)])
        counts[{rows.kind, rows.backward}].try_emplace(plan.rows(rows, visit, rank),
                                                       Place{rank, visit.layer, visit.microbatch});
    }
  }
  return counts;
}

OomSource source_of(const plan::Tensor& tensor) {
  if (tensor.name.find("weight gradient") != std::string::npos) return OomSource::weight_gradients;
  switch (tensor.kind) {
    case plan::TensorKind::parameters:
      return OomSource::gathered_parameters;
    case plan::TensorKind::gradients:
      return OomSource::gradients;
    case plan::TensorKind::optimizer:
      return OomSource::optimizer_states;
    case plan::TensorKind::logits_loss:
      return OomSource::logits;
    default:
      return tensor.size.bytes_per_row != 0 ? OomSource::routed_rows : OomSource::activations;
  }
}

// "expert input" of "expert input (chunk 1 of 4)".
std::string without_chunk(const std::string& name) {
  const std::size_t at = name.find(" (chunk ");
  return at == std::string::npos ? name : name.substr(0, at);
}

class Matcher {
 public:
  explicit Matcher(const PrintedBytes& printed) : printed_(printed) {}

  void fixed(const std::string& name, OomSource source, std::int64_t bytes, const std::string& derivation) {
    if (bytes <= 0) return;
    const double size = static_cast<double>(bytes), asked = static_cast<double>(device_request_bytes(bytes));
    const double off = std::min(std::abs(printed_.bytes - asked), std::abs(printed_.bytes - size));
    // Half a byte: figures that are printed in whole bytes.
    const bool exact = off <= printed_.half_unit + 0.5;
    if (!exact && off > kOomTolerance * size + printed_.half_unit) return;
    OomCandidate candidate;
    candidate.name = name;
    candidate.source = source;
    candidate.match = exact ? Match::exact : Match::near;
    candidate.bytes = bytes;
    candidate.error_fraction = printed_.bytes / (off == std::abs(printed_.bytes - asked) ? asked : size) - 1;
    candidate.derivation = derivation;
    found_.push_back(std::move(candidate));
  }

  // A tensor of fixed + per_row * rows bytes.
  void rows(const std::string& name, OomSource source, std::int64_t fixed_bytes, std::int64_t per_row,
            const Counts& counts) {
    const double one = static_cast<double>(per_row);
    const auto implied = std::llround((printed_.bytes - static_cast<double>(fixed_bytes)) / one);
    const auto slack = static_cast<std::int64_t>(std::ceil((printed_.half_unit + kRequestUnit) / one));
    const std::int64_t least = counts.begin()->first, most = counts.rbegin()->first;
    if (implied <= 0 || implied + slack < least || implied - slack > most) return;
    auto nearest = counts.lower_bound(implied);
    if (nearest == counts.end() ||
        (nearest != counts.begin() && implied - std::prev(nearest)->first < nearest->first - implied))
      nearest = std::prev(nearest);
    OomCandidate candidate;
    candidate.name = name;
    candidate.source = source;
    candidate.match = Match::rows;
    candidate.bytes = fixed_bytes + per_row * nearest->first;
    candidate.error_fraction = printed_.bytes / static_cast<double>(std::max<std::int64_t>(1, candidate.bytes)) - 1;
    candidate.derivation = std::to_string(per_row) + " B a row";
    candidate.implied = implied;
    candidate.least = least;
    candidate.most = most;
    candidate.rank = nearest->second.rank;
    candidate.layer = nearest->second.layer;
    candidate.microbatch = nearest->second.microbatch;
    found_.push_back(std::move(candidate));
  }

  // Sequences that are shorter than the scenario's, or packed: a row of logits a token. Not where the scenario's own
  // logits are it.
  void tokens(std::int64_t per_token, std::int64_t most) {
    for (const OomCandidate& candidate : found_)
      if (candidate.source == OomSource::logits) return;
    const auto implied = std::llround(printed_.bytes / static_cast<double>(per_token));
    if (implied <= 0 || implied > most) return;
    OomCandidate candidate;
    candidate.name = "logits, their softmax or their gradient, of fewer tokens (fp32)";
    candidate.source = OomSource::logits;
    candidate.match = Match::tokens;
    candidate.bytes = implied * per_token;
    candidate.error_fraction = printed_.bytes / static_cast<double>(candidate.bytes) - 1;
    candidate.derivation = std::to_string(per_token) + " B a token";
    candidate.implied = implied;
    candidate.least = 1;
    candidate.most = most;
    found_.push_back(std::move(candidate));
  }

  std::vector<OomCandidate> take(std::size_t most) {
    std::stable_sort(found_.begin(), found_.end(), [](const OomCandidate& a, const OomCandidate& b) {
      if (a.match != b.match) return a.match < b.match;
      // Sizes that print the same are equally close: the order in which they were added says which is likelier.
      if (a.match == Match::exact) return false;
      return std::abs(a.error_fraction) < std::abs(b.error_fraction);
    });
    std::vector<OomCandidate> merged;
    for (OomCandidate& candidate : found_) {
      const auto same = std::find_if(merged.begin(), merged.end(), [&](const OomCandidate& other) {
        return other.bytes == candidate.bytes && other.source == candidate.source && other.match == candidate.match;
      });
      if (same == merged.end())
        merged.push_back(std::move(candidate));
      else if (same->name != candidate.name)
        same->also.push_back(candidate.name);
    }
    if (merged.size() > most) merged.resize(most);
    return merged;
  }

 private:
  PrintedBytes printed_;
  std::vector<OomCandidate> found_;
};

void match_plan(const plan::Plan& plan, Matcher& matcher) {
  std::set<std::tuple<std::string, std::int64_t, std::int64_t>> seen;
  const std::map<RowsKey, Counts> counts = count_rows(plan);
  for (const plan::Block& block : plan.blocks)
    for (const plan::Tensor& tensor : block.tensors) {
      const std::string name = without_chunk(tensor.name);
      const plan::Size& size = tensor.size;
      if (!seen.emplace(name, size.bytes, size.bytes_per_row).second) continue;
      if (size.bytes_per_row == 0 || size.rows.kind == plan::Rows::Kind::none) {
        matcher.fixed(name, source_of(tensor), size.bytes, "");
        continue;
      }
      const auto of = counts.find({size.rows.kind, size.rows.backward});
      if (of != counts.end() && !of->second.empty())
        matcher.rows(name, source_of(tensor), size.bytes, size.bytes_per_row, of->second);
    }
}

}  // namespace

std::string_view match_name(OomCandidate::Match match) {
  switch (match) {
    case Match::exact:
      return "exact";
    case Match::near:
      return "near";
    case Match::rows:
      return "rows";
    case Match::tokens:
      return "tokens";
  }
  return "";
}

std::vector<OomCandidate> oom_candidates(const plan::Plan& plan, const OomLine& line, std::size_t most) {
  const scenario::Scenario& scenario = *plan.scenario;
  // The allocator's two smallest requests say nothing about the tensor.
  if (line.tried.bytes <= 20.0 * 1048576.0) return {};
  Matcher matcher(line.tried);
  if (!scenario.memory.given_static_bytes)
    for (const SizedTensor& size : static_sizes(scenario))
      matcher.fixed(size.name, size.source, size.bytes, size.derivation);
  for (const SizedTensor& size : loss_and_score_sizes(scenario))
    matcher.fixed(size.name, size.source, size.bytes, size.derivation);
  match_plan(plan, matcher);
  matcher.tokens(4 * plan.shape.vocab_rank, scenario.training.micro_batch_size * scenario.training.seq_length);
  std::vector<OomCandidate> candidates = matcher.take(most);
  for (OomCandidate& candidate : candidates) candidate.lever = oom_lever(candidate.source, scenario);
  return candidates;
}

}  // namespace moeplan::search
