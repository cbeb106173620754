#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "routing/loads.h"

// Loads made of other loads, for properties that compare two routings.
namespace moeplan::property {

// Expert e of the source becomes the next expert of the same rank; `per_rank` experts a rank.
class RotatedLoads : public routing::LoadSource {
 public:
  RotatedLoads(std::shared_ptr<const routing::LoadSource> source, std::int64_t per_rank)
      : source_(std::move(source)), per_rank_(per_rank) {}
  const routing::StepShape& shape() const override { return source_->shape(); }
  void add_counts(const routing::TokenSlice& slice, std::int64_t layer, std::span<std::int64_t> out) const override {
    std::vector<std::int64_t> counts(out.size(), 0);
    source_->add_counts(slice, layer, counts);
    for (std::size_t e = 0; e < counts.size(); ++e) out[moved(e)] += counts[e];
  }
  void pairs(const routing::TokenSlice& slice, std::int64_t layer, std::vector<routing::Pair>& out) const override {
    source_->pairs(slice, layer, out);
    for (routing::Pair& pair : out) pair.expert = static_cast<std::uint16_t>(moved(pair.expert));
  }
  bool has_weights() const override { return source_->has_weights(); }
  bool same_in_iteration() const override { return source_->same_in_iteration(); }
  Description describe() const override { return source_->describe(); }

 private:
  std::size_t moved(std::size_t expert) const {
    const auto n = static_cast<std::size_t>(per_rank_);
    return expert / n * n + (expert + 1) % n;
  }
  std::shared_ptr<const routing::LoadSource> source_;
  std::int64_t per_rank_;
};

// Every sample of the source twice: the loads of a microbatch of twice the samples.
class DoubledLoads : public routing::LoadSource {
 public:
  explicit DoubledLoads(std::shared_ptr<const routing::LoadSource> source)
      : source_(std::move(source)), shape_(source_->shape()) {
    shape_.micro_batch_size *= 2;
  }
  const routing::StepShape& shape() const override { return shape_; }
  void add_counts(const routing::TokenSlice& slice, std::int64_t layer, std::span<std::int64_t> out) const override {
    source_->add_counts(slice, layer, out);
    source_->add_counts(slice, layer, out);
  }
  // Position first, then sample: position p holds the source's samples and then the same again.
  void pairs(const routing::TokenSlice& slice, std::int64_t layer, std::vector<routing::Pair>& out) const override {
    std::vector<routing::Pair> once;
    source_->pairs(slice, layer, once);
    const auto samples = static_cast<std::int32_t>(source_->shape().micro_batch_size);
    out.clear();
    for (std::size_t begin = 0, end = 0; begin < once.size(); begin = end) {
      const std::int32_t position = once[begin].token / samples;
      while (end < once.size() && once[end].token / samples == position) ++end;
      for (std::int32_t copy = 0; copy < 2; ++copy) {
        for (std::size_t i = begin; i < end; ++i) {
          out.push_back(once[i]);
          out.back().token = position * 2 * samples + copy * samples + once[i].token % samples;
        }
      }
    }
  }
  bool has_weights() const override { return source_->has_weights(); }
  bool same_in_iteration() const override { return source_->same_in_iteration(); }
  Description describe() const override { return source_->describe(); }

 private:
  std::shared_ptr<const routing::LoadSource> source_;
  routing::StepShape shape_;
};

}  // namespace moeplan::property
