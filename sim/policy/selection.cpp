#include "policy/selection.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/check.h"
#include "policy/score.h"
#include "policy/select_key.h"

namespace moeplan::policy {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// A score and a token in one number that orders like (score up, token down): the bits of a float that is not negative
// ascend with its value. Tokens are numbered through the sources of the group, so a lower source also wins a tie. No
// two pairs of one expert have the same key.
using Key = std::uint64_t;
constexpr Key kKeepAll = 0;
constexpr Key kKeepNone = std::numeric_limits<Key>::max();
constexpr std::uint32_t kLastToken = std::numeric_limits<std::uint32_t>::max();

Key make_key(float score, std::int64_t token) {
  return (Key{std::bit_cast<std::uint32_t>(score)} << 32) | (kLastToken - static_cast<std::uint32_t>(token));
}
std::int64_t token_of(Key key) { return kLastToken - static_cast<std::uint32_t>(key); }
double score_of(Key key) { return std::bit_cast<float>(static_cast<std::uint32_t>(key >> 32)); }

struct CutPair {  // a pair of an expert that does not keep everything
  Key key = 0;
  std::uint16_t expert = 0;
};

// Walks over the tokens of one source in order and tells the chunk of each.
class ChunkCursor {
 public:
  ChunkCursor(const GroupContext::Source& source, std::int64_t chunks, std::int64_t micro_batch)
      : source_(source), chunks_(chunks), micro_batch_(micro_batch) {
    end_ = end_token();
  }
  std::int64_t chunk_of_token(std::int64_t token) {
    while (token >= end_) {
      ++chunk_;
      end_ = end_token();
    }
    return chunk_;
  }

 private:
  std::int64_t end_token() const { return (chunk_of(source_, chunk_, chunks_).end - source_.begin) * micro_batch_; }

  GroupContext::Source source_;
  std::int64_t chunks_, micro_batch_;
  std::int64_t chunk_ = 0, end_ = 0;
};

class Selector {
 public:
  Selector(const GroupContext& context, const LrmoeSettings& settings, std::span<const std::int64_t> counts,
           const Quotas& quotas, std::int64_t chunks)
      : context_(context),
        settings_(settings),
        counts_(counts),
        quotas_(quotas),
        chunks_(chunks),
        local_(context.experts / context.members()),
        lowest_(counts.size(), kKeepAll),
        keys_(counts.size()) {
    result_.counts.assign(at(chunks), std::vector<std::int64_t>(at(context.members() * context.experts), 0));
    find_cut_experts();
  }

  Selection run() {
    score_all_pairs();
    for (std::int64_t member = 0; member < context_.members(); ++member) set_lowest_keys(member);
    count_retained_pairs();
    return std::move(result_);
  }

 private:
  std::int64_t cut_rows_on(std::int64_t member) const {
    std::int64_t sum = 0;
    for (std::int64_t expert = member * local_; expert < (member + 1) * local_; ++expert)
      sum += counts_[at(expert)] - quotas_.rows[at(expert)];
    return sum;
  }

  // Where the room of a member holds all that its experts lost, none of them is cut, and none of their pairs need
  // sorting.
  void find_cut_experts() {
    cut_.assign(counts_.size(), false);
    std::int64_t pairs = 0;
    for (std::int64_t member = 0; member < context_.members(); ++member) {
      if (cut_rows_on(member) <= quotas_.room[at(member)]) continue;
      for (std::int64_t expert = member * local_; expert < (member + 1) * local_; ++expert) {
        if (quotas_.rows[at(expert)] >= counts_[at(expert)]) continue;
        cut_[at(expert)] = true;
        keys_[at(expert)].reserve(at(counts_[at(expert)]));
        pairs += counts_[at(expert)];
      }
    }
    cut_pairs_.reserve(at(pairs));
  }

  void score_all_pairs() {
    const std::int64_t micro_batch = context_.loads->shape().micro_batch_size;
    const TokenNorms norms(settings_.seed, settings_.score_sigma, context_);
    std::vector<routing::Pair> pairs;
    std::int64_t first_token = 0;  // of this source, in the numbering through the group
    for (std::int64_t member = 0; member < context_.members(); ++member) {
      const GroupContext::Source& source = context_.sources[at(member)];
      pairs.clear();
      context_.loads->pairs({context_.iteration, context_.microbatch, source.replica, source.begin, source.end},
                            context_.moe_layer, pairs);
      ChunkCursor cursor(source, chunks_, micro_batch);
      std::int64_t token = -1;
      double norm = 0;
      std::int64_t* row = nullptr;
      for (const routing::Pair& pair : pairs) {
        if (pair.token != token) {
          token = pair.token;
          norm = norms(source.replica, source.begin * micro_batch + token);
          row = result_.counts[at(cursor.chunk_of_token(token))].data() + member * context_.experts;
        }
        const float score = static_cast<float>(std::fabs(static_cast<double>(pair.weight)) * norm);
        result_.total_score += static_cast<double>(score);
        if (cut_[pair.expert]) {
          const Key key = make_key(score, first_token + token);
          keys_[pair.expert].push_back(key);
          cut_pairs_.push_back({key, pair.expert});
        } else {
          ++row[pair.expert];
          result_.retained_rows += 1;
          result_.retained_score += static_cast<double>(score);
        }
      }
      cut_end_.push_back(cut_pairs_.size());
      first_token += (source.end - source.begin) * micro_batch;
      MOEPLAN_CHECK(first_token < std::int64_t{kLastToken}, "tokens of one group and microbatch");
    }
  }

  // The lowest key that each cut expert of a member retains: the quota first, then what the room adds.
  void set_lowest_keys(std::int64_t member) {
    const std::int64_t room = quotas_.room[at(member)];
    std::vector<Key> lost;
    for (std::int64_t expert = member * local_; expert < (member + 1) * local_; ++expert) {
      if (!cut_[at(expert)]) continue;
      const std::vector<Key>& keys = keys_[at(expert)];
      MOEPLAN_CHECK(keys.size() == at(counts_[at(expert)]), "pairs and counts of a load source agree");
      const std::int64_t quota = quotas_.rows[at(expert)];
      lowest_[at(expert)] = quota == 0 ? kKeepNone : select_key(keys, at(quota));
      if (room == 0) continue;
      for (const Key key : keys) {
        if (key < lowest_[at(expert)]) lost.push_back(key);
      }
    }
    if (lost.empty()) return;  // none is cut here, or there is no room
    const Key last = select_key(lost, at(room));
    // All lost keys above the last one fit; of those equal to it (one token with the same score for several experts)
    // the lower experts' do.
    std::int64_t left = room;
    for (const Key key : lost) left -= key > last ? 1 : 0;
    for (std::int64_t expert = member * local_; expert < (member + 1) * local_; ++expert) {
      if (!cut_[at(expert)] || lowest_[at(expert)] <= last) continue;
      const std::vector<Key>& keys = keys_[at(expert)];
      const bool equal = left > 0 && std::find(keys.begin(), keys.end(), last) != keys.end();
      if (equal) --left;
      lowest_[at(expert)] = std::min(lowest_[at(expert)], equal ? last : last + 1);
    }
  }

  // In the order of the tokens, so that sums of scores do not depend on how a library partitions.
  void count_retained_pairs() {
    const std::int64_t micro_batch = context_.loads->shape().micro_batch_size;
    std::int64_t first_token = 0;
    std::size_t next = 0;
    for (std::int64_t member = 0; member < context_.members(); ++member) {
      const GroupContext::Source& source = context_.sources[at(member)];
      ChunkCursor cursor(source, chunks_, micro_batch);
      for (; next < cut_end_[at(member)]; ++next) {
        const CutPair& pair = cut_pairs_[next];
        if (pair.key < lowest_[pair.expert]) continue;
        const std::int64_t chunk = cursor.chunk_of_token(token_of(pair.key) - first_token);
        ++result_.counts[at(chunk)][at(member * context_.experts) + pair.expert];
        result_.retained_rows += 1;
        result_.retained_score += score_of(pair.key);
      }
      first_token += (source.end - source.begin) * micro_batch;
    }
  }

  const GroupContext& context_;
  const LrmoeSettings& settings_;
  std::span<const std::int64_t> counts_;
  const Quotas& quotas_;
  std::int64_t chunks_, local_;
  std::vector<Key> lowest_;             // by expert: what is below is not retained
  std::vector<std::vector<Key>> keys_;  // by cut expert
  std::vector<char> cut_;               // by expert: some of its pairs are lost
  std::vector<CutPair> cut_pairs_;      // in token order
  std::vector<std::size_t> cut_end_;    // by source, in cut_pairs_
  Selection result_;
};

}  // namespace

Selection select_pairs(const GroupContext& context, const LrmoeSettings& settings, std::span<const std::int64_t> counts,
                       const Quotas& quotas, std::int64_t chunks) {
  return Selector(context, settings, counts, quotas, chunks).run();
}

}  // namespace moeplan::policy
