#include <algorithm>
#include <memory>

#include "grouped_product.h"
#include "run.h"

namespace moeplan::device {
namespace {

// Weights that the plan may take; several sets of activations are not needed, as weights alone exceed the cache in
// nearly all shapes, and experts' weights are cold in training.
constexpr double kMostBytes = 12e9;

JsonObject shape_fields(const GroupedShape& shape, const std::string& library) {
  return JsonObject()
      .add("op", std::string("grouped_gemm_") + pass_name(shape.pass))
      .add("dtype", "bf16")
      .add("n", shape.n)
      .add("k", shape.k)
      .add("distribution", shape.distribution)
      .add("library", library)
      .add("group_rows", shape.rows);
}

}  // namespace

void measure_grouped(Run& run, const Budget& budget) {
  const LtHandle handle;
  const std::vector<GroupedShape> plan = grouped_plan(std::min(kMostBytes, free_bytes() / 3));
  std::size_t done = 0;
  for (const GroupedShape& shape : plan) {
    if (!budget.left()) break;
    ++done;
    const GroupedOperands operands(shape, run.seed, run.timer.stream());
    for (const bool together : {true, false}) {
      std::string library = together ? "cuBLAS grouped" : "cublasLt a product a group";
      try {
        const std::unique_ptr<GroupedProduct> product =
            together ? one_call(shape, operands) : product_a_group(handle, shape, operands);
        if (!product) continue;
        library = product->library();
        TimingOptions options;
        options.most_repetitions = 8;
        options.stopping.most_seconds = 0.1;
        const Timing timing = run.timer.time([&](cudaStream_t stream, std::int64_t) { product->run(stream); }, options);
        run.writer.write("measurement", shape_fields(shape, library).add(timing_fields(timing)));
      } catch (const DeviceError& error) {
        write_left_out(run.writer, shape_fields(shape, library).text(), error.what());
      }
    }
  }
  if (done < plan.size())
    write_left_out(run.writer,
                   std::to_string(plan.size() - done) + " of " + std::to_string(plan.size()) + " grouped products",
                   "the time was used up");
}

}  // namespace moeplan::device
