#include <fmt/core.h>

#include <limits>
#include <map>
#include <mutex>

#include "base/check.h"
#include "base/random.h"
#include "routing/shape.h"
#include "routing/token_source.h"

namespace moeplan::routing {
namespace {

// Keeps these draws apart from those of other users of the same seed.
constexpr std::uint64_t kStream = std::uint64_t{0xD2A3} << 48;
// Drawn tokens that are kept (64 MiB): all layers and slices of a sample ask for the same ones.
constexpr std::int64_t kMostKeptTokens = std::int64_t{16} << 20;

// Resample::tokens: position t of sample g is a token drawn with replacement, a function of (seed, g, t) alone.
class DrawnLoads final : public TokenSource {
 public:
  DrawnLoads(std::shared_ptr<const TokenTrace> source, const StepShape& shape, std::uint64_t seed)
      : TokenSource(std::move(source), shape), seed_(seed) {
    MOEPLAN_CHECK(trace().tokens() >= 1 && trace().tokens() <= std::numeric_limits<std::uint32_t>::max(),
                  "tokens are drawn by 32 bits");
  }

  void add_counts(const TokenSlice& slice, std::int64_t layer, std::span<std::int64_t> out) const override {
    const std::uint16_t* experts = trace().experts_of[checked_layer(layer)].data();
    MOEPLAN_CHECK(static_cast<std::int64_t>(out.size()) >= trace().experts, "out has a place for every expert");
    const std::int64_t sample = first_sample(slice);
    const auto top_k = static_cast<std::size_t>(shape().top_k);
    for (std::int64_t i = 0; i < shape().micro_batch_size; ++i) {
      const std::shared_ptr<const Tokens> tokens = tokens_of(sample + i);
      for (std::int64_t position = slice.begin; position < slice.end; ++position) {
        const std::uint16_t* choice = experts + (*tokens)[static_cast<std::size_t>(position)] * top_k;
        for (std::size_t slot = 0; slot < top_k; ++slot) ++out[choice[slot]];
      }
    }
  }

  void pairs(const TokenSlice& slice, std::int64_t layer, std::vector<Pair>& out) const override {
    const std::int64_t sample = first_sample(slice);
    std::vector<std::shared_ptr<const Tokens>> tokens;
    for (std::int64_t i = 0; i < shape().micro_batch_size; ++i) tokens.push_back(tokens_of(sample + i));
    const auto token_of = [&](std::int64_t i, std::int64_t position) {
      return static_cast<std::int64_t>((*tokens[static_cast<std::size_t>(i)])[static_cast<std::size_t>(position)]);
    };
    fill_pairs(slice, layer, token_of, out);
  }

  Description describe() const override {
    const double uses = uses_per_token();
    return {
        trace_text(),
        uses > 1.0 ? uses : 0.0,
        {fmt::format("tokens drawn independently with replacement, seed {}; the step uses each token {:.1f} times on "
                     "average",
                     seed_, uses)}};
  }

 private:
  using Tokens = std::vector<std::uint32_t>;

  std::shared_ptr<const Tokens> tokens_of(std::int64_t sample) const {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = kept_.find(sample); found != kept_.end()) return found->second;
    }
    const base::Random random(seed_);
    const auto size = static_cast<std::uint64_t>(trace().tokens());
    auto tokens = std::make_shared<Tokens>(static_cast<std::size_t>(shape().seq_length));
    for (std::size_t t = 0; t < tokens->size(); ++t) {
      const std::uint64_t high = random.bits(kStream + static_cast<std::uint64_t>(sample), t) >> 32;
      (*tokens)[t] = static_cast<std::uint32_t>(high * size >> 32);
    }
    const std::lock_guard lock(mutex_);
    // Whoever still uses a dropped sample holds it.
    if (static_cast<std::int64_t>(kept_.size() + 1) * shape().seq_length > kMostKeptTokens) kept_.clear();
    return kept_.try_emplace(sample, std::move(tokens)).first->second;
  }

  std::uint64_t seed_;
  mutable std::mutex mutex_;
  mutable std::map<std::int64_t, std::shared_ptr<const Tokens>> kept_;
};

}  // namespace

std::unique_ptr<LoadSource> make_drawn_loads(std::shared_ptr<const TokenTrace> trace, const StepShape& shape,
                                             std::uint64_t seed) {
  return std::make_unique<DrawnLoads>(std::move(trace), shape, seed);
}

}  // namespace moeplan::routing
