#include <algorithm>
#include <cmath>
#include <memory>

#include "fill.h"
#include "lt_product.h"
#include "run.h"
#include "shapes.h"

namespace moeplan::device {
namespace {

constexpr double kMostBytesOfPlan = 6e9;

// Sets of operands of a shape in one allocation a role.
struct Operands {
  Operands(const LtProduct& product, std::int64_t sets, std::uint64_t seed, cudaStream_t stream)
      : a_bytes(aligned(product.a_bytes())),
        b_bytes(aligned(product.b_bytes())),
        c_bytes(aligned(product.c_bytes())),
        a(a_bytes * static_cast<std::size_t>(sets)),
        b(b_bytes * static_cast<std::size_t>(sets)),
        c(c_bytes * static_cast<std::size_t>(sets)) {
    const bool fp8 = product.shape().type == Type::fp8;
    const Element element = fp8 ? Element::fp8_e4m3 : Element::bf16;
    fill_random(a.data(), a.bytes() / element_bytes(element), element, 1, seed, stream);
    fill_random(b.data(), b.bytes() / element_bytes(element), element, fp8 ? 1.0f : 0.02f, seed + 1, stream);
    MOEPLAN_CUDA(cudaMemsetAsync(c.data(), 0, c.bytes(), stream));
  }
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  void run(const LtProduct& product, const Buffer& workspace, std::int64_t set, cudaStream_t stream) const {
    const auto at = static_cast<std::size_t>(set);
    product.run(a.as<unsigned char>() + at * a_bytes, b.as<unsigned char>() + at * b_bytes,
                c.as<unsigned char>() + at * c_bytes, workspace, stream);
  }
  std::size_t a_bytes, b_bytes, c_bytes;
  Buffer a, b, c;
};

JsonObject shape_fields(const ProductShape& shape, const std::string& library) {
  return JsonObject()
      .add("op", pass_name(shape.pass))
      .add("dtype", type_name(shape.type))
      .add("layout", layout_name(shape.pass))
      .add("m", shape.m)
      .add("n", shape.n)
      .add("k", shape.k)
      .add("library", library);
}

std::vector<Linear> linears_of(const std::vector<std::int64_t>& own) {
  std::vector<Linear> linears;
  for (std::size_t i = 0; i + 1 < own.size(); i += 2) linears.push_back({own[i], own[i + 1]});
  const std::vector<Linear>& plan = plan_linears();
  linears.insert(linears.end(), plan.begin(), plan.end());
  return linears;
}

}  // namespace

void measure_products(Run& run, const Budget& budget, const std::vector<std::int64_t>& own) {
  const LtHandle handle;
  const Buffer workspace(kWorkspaceBytes);
  const std::string library = "cublasLt " + LtHandle::version();
  const bool fp8 = run.timer.properties().major * 10 + run.timer.properties().minor >= 89;
  if (!fp8) write_left_out(run.writer, "fp8 products", "the part has none");
  const std::vector<std::int64_t> tokens = {16, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768};
  std::vector<ProductShape> plan =
      product_plan(linears_of(own), tokens, fp8, std::min(kMostBytesOfPlan, free_bytes() / 4));
  plan.insert(plan.begin(), {8192, 8192, 8192, Pass::forward, Type::bf16});  // what everybody quotes
  std::size_t done = 0;
  for (const ProductShape& shape : plan) {
    if (!budget.left()) break;
    ++done;
    attempt(run.writer, shape_fields(shape, library).text(), [&] {
      const LtProduct product(handle, shape);
      const std::int64_t sets = rotation_for(product_bytes(shape), run.timer.properties().l2CacheSize);
      const Operands operands(product, sets, run.seed, run.timer.stream());
      TimingOptions options;
      options.rotation = sets;
      options.cold = true;
      options.stopping.most_seconds = 0.1;
      const Timing timing = run.timer.time(
          [&](cudaStream_t stream, std::int64_t round) { operands.run(product, workspace, round % sets, stream); },
          options);
      run.writer.write("measurement", shape_fields(shape, library).add("rotation", sets).add(timing_fields(timing)));
    });
  }
  if (done < plan.size())
    write_left_out(run.writer, std::to_string(plan.size() - done) + " of " + std::to_string(plan.size()) + " products",
                   "the time was used up");
}

// The rate that large products keep up until power and temperature have settled: that of training steps.
void measure_sustained(Run& run, double seconds) {
  const LtHandle handle;
  const Buffer workspace(kWorkspaceBytes);
  const ProductShape shape{8192, 8192, 8192, Pass::forward, Type::bf16};
  const LtProduct product(handle, shape);
  const Operands operands(product, 1, run.seed, run.timer.stream());
  const Budget budget(seconds);
  std::vector<double> rates;
  std::vector<std::int64_t> clocks;
  const Event first, last;
  constexpr int kProducts = 200;  // some 0.3 s
  do {
    first.record(run.timer.stream());
    for (int i = 0; i < kProducts; ++i) operands.run(product, workspace, 0, run.timer.stream());
    last.record(run.timer.stream());
    const Reading reading = run.timer.monitor().read();
    last.wait();
    rates.push_back(kProducts * product_flop(shape) / seconds_between(first, last));
    if (reading.available) clocks.push_back(reading.sm_mhz);
  } while (budget.left());
  // The second half: the first one warms up.
  const std::vector<double> settled(rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2), rates.end());
  run.writer.write("sustained", JsonObject().add("rates_flops", rates).add("clocks_mhz", clocks));
  write_value(run.writer, "gemm.sustained", median_of(settled),
              "bf16 products of 8192 cubed one after another, median of the second half");
}

}  // namespace moeplan::device
