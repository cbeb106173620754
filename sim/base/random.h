#pragma once
#include <array>
#include <cstdint>

// Counter-based random numbers: the value is a pure function of (seed, stream, index), so results do not depend on the
// order of evaluation or on threads. Generator: Philox4x32-10 (Salmon et al., SC 2011).
namespace moeplan::base {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t bits(std::uint64_t stream, std::uint64_t index) const;
  double uniform(std::uint64_t stream, std::uint64_t index) const;  // in (0, 1), never 0 or 1
  double normal(std::uint64_t stream, std::uint64_t index) const;   // mean 0, standard deviation 1 (Box-Muller)

 private:
  std::uint64_t seed_;
};

}  // namespace moeplan::base
