#include "routing/esft_top_k.h"

#include <fmt/core.h>

namespace moeplan::routing {
namespace {

constexpr std::int64_t kLargestInferred = 16;

// Index of the first id that repeats an earlier one of the same token, or -1. k is small: comparing all pairs is
// faster than any set.
int repeated_slot(const std::uint16_t* ids, std::int64_t k) {
  for (int i = 1; i < k; ++i) {
    for (int j = 0; j < i; ++j) {
      if (ids[i] == ids[j]) return i;
    }
  }
  return -1;
}

struct Fit {
  std::int64_t lines = 0, bad_lines = 0, tokens = 0, bad_tokens = 0;
  bool exact() const { return bad_lines == 0 && bad_tokens == 0; }
  bool near() const { return tokens >= 1000 && bad_lines * 20 <= lines && bad_tokens * 1000 <= tokens; }
};

Fit fit_of(std::span<const EsftLayer> layers, std::int64_t k) {
  Fit fit;
  for (const EsftLayer& layer : layers) {
    for (const std::int64_t ids : layer.line_ids) {
      if (ids < 0) continue;
      ++fit.lines;
      if (ids % k != 0) {
        ++fit.bad_lines;
      } else {
        fit.tokens += ids / k;
      }
    }
  }
  if (fit.bad_lines * 20 > fit.lines) return fit;  // no need to look at tokens
  for (const EsftLayer& layer : layers) {
    const std::uint16_t* at = layer.ids.data();
    for (const std::int64_t ids : layer.line_ids) {
      if (ids < 0) continue;
      if (ids % k == 0) {
        for (std::int64_t first = 0; first < ids; first += k) fit.bad_tokens += repeated_slot(at + first, k) >= 0;
      }
      at += ids;
    }
    if (!fit.exact() && !fit.near()) return fit;
  }
  return fit;
}

}  // namespace

std::int64_t infer_esft_top_k(std::span<const EsftLayer> layers) {
  for (std::int64_t k = kLargestInferred; k > 1; --k) {
    const Fit fit = fit_of(layers, k);
    if (fit.lines > 0 && (fit.exact() || fit.near())) return k;
  }
  return 1;
}

void add_esft_top_k_faults(std::span<const EsftLayer> layers, std::int64_t top_k, base::Faults& faults) {
  for (const EsftLayer& layer : layers) {
    const std::uint16_t* at = layer.ids.data();
    for (std::size_t line = 0; line < layer.line_ids.size(); ++line) {
      const std::int64_t ids = layer.line_ids[line];
      if (ids < 0) continue;
      if (faults.size() >= kMostFaults) return;
      const base::Where where{layer.file, static_cast<int>(line) + 1, 0, {}};
      if (ids % top_k != 0) {
        faults.add(where, fmt::format("{} ids are no multiple of the {} experts a token", ids, top_k));
      } else {
        for (std::int64_t first = 0; first < ids; first += top_k) {
          const int slot = repeated_slot(at + first, top_k);
          if (slot < 0) continue;
          faults.add(where, fmt::format("token {} of the line (ids {} to {}) names expert {} twice", first / top_k + 1,
                                        first + 1, first + top_k, at[first + slot]));
          break;  // one fault a line
        }
      }
      at += ids;
    }
  }
}

}  // namespace moeplan::routing
