#pragma once
#include <cstdint>

#include "base/random.h"
#include "policy/decision.h"

// The scores of LRMoE's selection where no norms of activations and gradients are given (docs/models.md, LRMoE).
namespace moeplan::policy {

// e^x from the four basic operations, so that every machine gives the same bits; relative error below 1e-14 for |x| <=
// 80, beyond which x is cut off there (a score stays a finite float).
double portable_exp(double x);

// |dy| |x| of a token in one MoE layer: exp(sigma N(0,1)), a pure function of (seed; iteration, microbatch, layer,
// replica, token of the replica's microbatch). It does not depend on the parallel layout: the same token has the same
// norm whichever member holds it, and for all its experts.
class TokenNorms {
 public:
  TokenNorms(std::uint64_t seed, double sigma, const GroupContext& context);
  // token: sequence position times micro_batch_size plus sample.
  double operator()(std::int64_t replica, std::int64_t token) const;

 private:
  base::Random random_;
  double sigma_;
  std::uint64_t stream_;
};

}  // namespace moeplan::policy
