#include <algorithm>
#include <memory>

#include "grouped_product.h"
#include "run.h"

namespace moeplan::device {
namespace {

constexpr double kMostBytes = 12e9;  // of one set of a shape

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
    std::vector<GroupedOperands> sets;
    const bool there = attempt(run.writer, shape_fields(shape, "all").text(), [&] {
      const std::int64_t wanted = rotation_for(grouped_bytes(shape), run.timer.properties().l2CacheSize);
      for (std::int64_t set = 0; set < wanted; ++set)
        sets.emplace_back(shape, run.seed + static_cast<std::uint64_t>(3 * set), run.timer.stream());
    });
    for (const bool together : {true, false}) {
      if (!there) break;
      std::string library = together ? "cuBLAS grouped" : "cublasLt a product a group";
      attempt(run.writer, shape_fields(shape, library).text(), [&] {
        const std::unique_ptr<GroupedProduct> product =
            together ? one_call(shape, sets, run.timer.stream()) : product_a_group(handle, shape, sets);
        if (!product) return;
        library = product->library();
        TimingOptions options;
        options.rotation = static_cast<std::int64_t>(sets.size());
        options.stopping.most_seconds = 0.1;
        const Timing timing =
            run.timer.time([&](cudaStream_t stream, std::int64_t round) { product->run(stream, round); }, options);
        run.writer.write("measurement",
                         shape_fields(shape, library).add("rotation", options.rotation).add(timing_fields(timing)));
      });
    }
  }
  if (done < plan.size())
    write_left_out(run.writer,
                   std::to_string(plan.size() - done) + " of " + std::to_string(plan.size()) + " grouped products",
                   "the time was used up");
}

}  // namespace moeplan::device
