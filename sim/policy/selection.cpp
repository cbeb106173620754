#include "policy/selection.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "policy/index.h"
#include "policy/pair_key.h"
#include "policy/score.h"
#include "policy/select_key.h"

namespace moeplan::policy {
namespace {

// Keys number tokens through the sources of the group, so a lower source also wins a tie.
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
           const Quotas& quotas, const Hosts& hosts, std::int64_t chunks)
      : context_(context),
        settings_(settings),
        counts_(counts),
        quotas_(quotas),
        chunks_(chunks),
        hosted_(at(context.members())),
        lowest_(counts.size(), kKeepAll),
        keys_(counts.size()) {
    result_.counts.assign(at(chunks), std::vector<std::int64_t>(at(context.members() * context.experts), 0));
    for (std::size_t expert = 0; expert < hosts.size(); ++expert) {
      for (const std::int32_t member : hosts[expert]) hosted_[at(member)].push_back(expert);
    }
    find_cut_experts();
  }

  Selection run() {
    score_all_pairs();
    set_quota_keys();
    for (std::int64_t member = 0; member < context_.members(); ++member) use_room(member);
    count_retained_pairs();
    return std::move(result_);
  }

 private:
  // Where the room of a member holds all that its experts lost, none of them is cut, and none of their pairs need
  // sorting.
  void find_cut_experts() {
    cut_.resize(counts_.size());
    for (std::size_t expert = 0; expert < counts_.size(); ++expert)
      cut_[expert] = quotas_.rows[expert] < counts_[expert];
    for (std::int64_t member = 0; member < context_.members(); ++member) {
      std::int64_t lost = 0;
      for (const std::size_t expert : hosted_[at(member)])
        lost += cut_[expert] ? counts_[expert] - quotas_.rows[expert] : 0;
      if (lost > quotas_.room[at(member)]) continue;
      for (const std::size_t expert : hosted_[at(member)]) cut_[expert] = false;
    }
    std::int64_t pairs = 0;
    for (std::size_t expert = 0; expert < counts_.size(); ++expert) {
      if (!cut_[expert]) continue;
      keys_[expert].reserve(at(counts_[expert]));
      pairs += counts_[expert];
      const std::int64_t quota = quotas_.rows[expert];
      lowest_[expert] = quota == 0 ? kKeepNone : kKeepAll;  // a quota above 0: known once the pairs are scored
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

  // The lowest key that each cut expert retains under its quota.
  void set_quota_keys() {
    for (std::size_t expert = 0; expert < counts_.size(); ++expert) {
      if (!cut_[expert]) continue;
      MOEPLAN_CHECK(keys_[expert].size() == at(counts_[expert]), "pairs and counts of a load source agree");
      const std::int64_t quota = quotas_.rows[expert];
      if (quota > 0) lowest_[expert] = select_key(keys_[expert], at(quota));
    }
  }

  // What the room of a member adds to the cut experts that it hosts. An expert with several instances takes room on
  // each of them in turn.
  void use_room(std::int64_t member) {
    const std::int64_t room = quotas_.room[at(member)];
    if (room == 0) return;
    std::vector<Key> lost;
    for (const std::size_t expert : hosted_[at(member)]) {
      if (!cut_[expert]) continue;
      for (const Key key : keys_[expert]) {
        if (key < lowest_[expert]) lost.push_back(key);
      }
    }
    if (lost.empty()) return;
    if (lost.size() <= at(room)) {  // other members' room took some of these before
      for (const std::size_t expert : hosted_[at(member)]) lowest_[expert] = kKeepAll;
      return;
    }
    const Key last = select_key(lost, at(room));
    // All lost keys above the last one fit; of those equal to it (one token with the same score for several experts)
    // the lower experts' do.
    std::int64_t left = room;
    for (const Key key : lost) left -= key > last ? 1 : 0;
    for (const std::size_t expert : hosted_[at(member)]) {
      if (!cut_[expert] || lowest_[expert] <= last) continue;
      const std::vector<Key>& keys = keys_[expert];
      const bool equal = left > 0 && std::find(keys.begin(), keys.end(), last) != keys.end();
      if (equal) --left;
      lowest_[expert] = std::min(lowest_[expert], equal ? last : last + 1);
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
  std::int64_t chunks_;
  std::vector<std::vector<std::size_t>> hosted_;  // by member: experts with an instance there, ascending
  std::vector<Key> lowest_;                       // by expert: what is below is not retained
  std::vector<std::vector<Key>> keys_;            // by cut expert
  std::vector<char> cut_;                         // by expert: some of its pairs are lost
  std::vector<CutPair> cut_pairs_;                // in token order
  std::vector<std::size_t> cut_end_;              // by source, in cut_pairs_
  Selection result_;
};

}  // namespace

Selection select_pairs(const GroupContext& context, const LrmoeSettings& settings, std::span<const std::int64_t> counts,
                       const Quotas& quotas, const Hosts& hosts, std::int64_t chunks) {
  return Selector(context, settings, counts, quotas, hosts, chunks).run();
}

}  // namespace moeplan::policy
