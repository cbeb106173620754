#include "support.h"

namespace moeplan::kernels {
namespace {
using namespace testing;

// Each thread writes its own number, then reads its neighbour's: without the barrier between, the order would show.
struct Neighbours {
  static constexpr int kThreads = 8;
  struct Shared {
    int values[kThreads];
  };
  int* out;
  bool whole;  // the two phases are one: what a missing barrier looks like
  Grid grid() const { return {2, 2}; }
  void operator()(const Block& block, Shared& shared) const {
    int* mine = out + (block.by * 2 + block.bx) * kThreads;
    if (whole) {
      block.each([&](int t) {
        shared.values[t] = t;
        mine[t] = shared.values[(t + 1) % kThreads];
      });
      return;
    }
    block.each([&](int t) { shared.values[t] = t; });
    block.sync();
    block.each([&](int t) { mine[t] = shared.values[(t + 1) % kThreads]; });
  }
};

Data<int> neighbours(bool whole, Order order) {
  Data<int> out(32);
  run_on_host(Neighbours{out.data(), whole}, order);
  return out;
}
}  // namespace

TEST_CASE("the two orders of threads give equal bits with a barrier and differ without") {
  const auto with = in_both_orders([](Order order) { return neighbours(false, order); });
  for (std::int64_t i = 0; i < 32; ++i) CHECK(with[at(i)] == (i % 8 + 1) % 8);  // all four blocks ran
  CHECK_FALSE(same_bits(neighbours(true, Order::forward), neighbours(true, Order::reverse)));
}

TEST_CASE("a grid without blocks runs nothing") {
  // blocks_for(0, n) is 0: no element, no block, and no pointer is followed.
  run_on_host(Copy{nullptr, nullptr, 0});
  run_on_host(CastToBf16{nullptr, nullptr, 0});
  CHECK(blocks_for(0, 256) == 0);
  CHECK(blocks_for(256, 256) == 1);
  CHECK(blocks_for(257, 256) == 2);
}

TEST_CASE("rounding to bf16 is to nearest, to even when halfway") {
  // bf16 has 7 bits behind the point: between 1 and 1 + 2^-7 the half is 1 + 2^-8.
  CHECK(to_bf16(1.0F).bits == 0x3F80);
  CHECK(to_bf16(1.0F + 1.0F / 256).bits == 0x3F80);                        // halfway: even below
  CHECK(to_bf16(std::nextafter(1.0F + 1.0F / 256, 2.0F)).bits == 0x3F81);  // above the half
  CHECK(to_bf16(1.0F + 3.0F / 256).bits == 0x3F82);                        // halfway: even above
  CHECK(to_bf16(std::nextafter(1.0F + 3.0F / 256, 1.0F)).bits == 0x3F81);  // below the half
  CHECK(to_bf16(-1.0F - 1.0F / 256).bits == 0xBF80);
  CHECK(to_bf16(3.4e38F).bits == 0x7F80);  // beyond the largest bf16, 3.3895e38: infinity
  CHECK(to_bf16(INFINITY).bits == 0x7F80);
  CHECK(std::isnan(to_float(to_bf16(NAN))));
  CHECK(std::isnan(to_float(to_bf16(float_of(0x7F800001U)))));  // whose upper half alone would be infinity
}

TEST_CASE("every bf16 value survives the way to fp32 and back") {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const Bf16 value{static_cast<std::uint16_t>(bits)};
    if (std::isnan(to_float(value))) continue;
    REQUIRE(to_bf16(to_float(value)).bits == bits);
  }
}

TEST_CASE("a pack holds eight values in the order of an array") {
  const float values[8] = {0, 1, -2, 3, -4, 5, -6, 7};
  const Pack pack = pack_of(values);
  Bf16 array[8];
  static_assert(sizeof array == sizeof pack);
  std::memcpy(array, &pack, sizeof pack);
  for (int i = 0; i < 8; ++i) {
    CHECK(pack.get(i) == values[i]);
    CHECK(to_float(array[i]) == values[i]);
  }
}

}  // namespace moeplan::kernels
