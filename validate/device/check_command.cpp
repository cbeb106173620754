#include <cmath>
#include <cstring>
#include <functional>

#include "basic_kernels.h"
#include "difference.h"
#include "fill.h"
#include "grouped_product.h"
#include "layer.h"
#include "options.h"
#include "run.h"

namespace moeplan::device {
namespace {

// Sums in fp32 of bf16 operands, rounded to bf16 once: relative to the sum of sizes they lie far below this.
constexpr double kMostError = 4e-3;

class Checks {
 public:
  explicit Checks(LineWriter& writer) : writer_(writer) {}
  void add(const std::string& what, double error, double most) {
    const bool good = error <= most;  // false for NaN
    failed_ += good ? 0 : 1;
    JsonObject fields;
    fields.add("what", what).add("good", good);
    if (std::isfinite(error)) fields.add("error", error).add("most", most);
    writer_.write("check", fields);
  }
  void missed() { ++failed_; }
  int failed() const { return failed_; }

 private:
  LineWriter& writer_;
  int failed_ = 0;
};

double product_error(const LtHandle& handle, const ProductShape& shape, cudaStream_t stream) {
  const LtProduct product(handle, shape);
  const Buffer workspace(kWorkspaceBytes), a(product.a_bytes()), b(product.b_bytes()), c(product.c_bytes());
  const Element element = shape.type == Type::fp8 ? Element::fp8_e4m3 : Element::bf16;
  fill_random(a.data(), a.bytes() / element_bytes(element), element, 1, 1, stream);
  fill_random(b.data(), b.bytes() / element_bytes(element), element, 1, 2, stream);
  // Poison where the result is written; zero where it is added.
  MOEPLAN_CUDA(cudaMemsetAsync(c.data(), shape.pass == Pass::wgrad ? 0 : 0xFF, c.bytes(), stream));
  product.run(a.data(), b.data(), c.data(), workspace, stream);
  MOEPLAN_CUDA(cudaStreamSynchronize(stream));
  return sampled_error(shape, a.data(), b.data(), c.data(), 64, 3);
}

double copied_wrong(const std::function<void(void*, const void*, std::size_t)>& copy, cudaStream_t stream) {
  const std::size_t bytes = (std::size_t{3} << 20) + 48;  // no multiple of a block
  const Buffer from(bytes), to(bytes);
  fill_random(from.data(), bytes, Element::bytes, 1, 5, stream);
  MOEPLAN_CUDA(cudaMemsetAsync(to.data(), 0xFF, bytes, stream));
  copy(to.data(), from.data(), bytes);
  std::vector<unsigned char> a(bytes), b(bytes);
  MOEPLAN_CUDA(cudaStreamSynchronize(stream));
  MOEPLAN_CUDA(cudaMemcpy(a.data(), from.data(), bytes, cudaMemcpyDeviceToHost));
  MOEPLAN_CUDA(cudaMemcpy(b.data(), to.data(), bytes, cudaMemcpyDeviceToHost));
  return std::memcmp(a.data(), b.data(), bytes) == 0 ? 0 : 1;
}

}  // namespace

int check_command(const std::vector<std::string>& words) {
  Common common;
  Options options;
  if (!read_words("check", options, common, words)) return 0;
  Session session(common);
  Timer& timer = session.timer;
  LineWriter& writer = session.writer;
  Checks checks(writer);
  const cudaStream_t stream = timer.stream();
  const LtHandle handle;
  const bool fp8 = timer.properties().major * 10 + timer.properties().minor >= 89;
  // A check that cannot be made is told as left out and fails no less than one that does not hold.
  const auto make = [&](const std::string& what, const std::function<void()>& check) {
    if (!attempt(writer, what, check)) checks.missed();
  };
  const auto product = [&](const std::string& what, Pass pass, Type type) {
    make(what, [&] { checks.add(what, product_error(handle, {272, 320, 1184, pass, type}, stream), kMostError); });
  };
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad})
    product(std::string("bf16 product ") + layout_name(pass), pass, Type::bf16);
  if (fp8) product("fp8 product TN", Pass::forward, Type::fp8);
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
    for (const bool together : {true, false}) {
      const std::string what =
          std::string("grouped product ") + layout_name(pass) + (together ? " in one call" : " one a group");
      // The library need not have every pass in one call.
      const bool made = attempt(writer, what, [&] {
        const GroupedShape shape{{40, 0, 129, 7, 256}, 320, 192, pass, "uneven"};
        std::vector<GroupedOperands> sets;
        for (const std::uint64_t seed : {7, 8}) sets.emplace_back(shape, seed, stream);
        const auto grouped = together ? one_call(shape, sets, stream) : product_a_group(handle, shape, sets);
        if (!grouped) return;
        for (std::int64_t round = 0; round < 2; ++round) grouped->run(stream, round);
        MOEPLAN_CUDA(cudaStreamSynchronize(stream));
        double error = 0;
        for (const GroupedOperands& set : sets) error = worse(error, sampled_grouped_error(shape, set, 11));
        checks.add(what, error, kMostError);
      });
      if (!made && !together) checks.missed();
    }
  }
  for (const int blocks : {0, 3}) {
    const std::string what = blocks == 0 ? "copy kernel" : "copy kernel on few multiprocessors";
    make(what, [&] {
      const auto copy = [&](void* to, const void* from, std::size_t bytes) {
        launch_copy(to, from, bytes, blocks, stream);
      };
      checks.add(what, copied_wrong(copy, stream), 0);
    });
  }
  // Rounding of bf16 once more or less: 2^-8 of the largest.
  make("kernels", [&] {
    for (const KernelCheck& kernel : check_memory_operations(stream)) checks.add(kernel.what, kernel.error, 4e-3);
  });
  // Several roundings to bf16 lie one behind the other, and sums in two orders may round to neighbours.
  make("layers", [&] {
    for (const KernelCheck& layer : check_layers(stream)) checks.add(layer.what, layer.error, 2e-2);
  });
  writer.finish();
  if (checks.failed() > 0) std::cerr << "error: " << checks.failed() << " checks failed or could not be made\n";
  return checks.failed() > 0 ? 1 : 0;
}

}  // namespace moeplan::device
