#include <cmath>
#include <cstring>
#include <functional>

#include "basic_kernels.h"
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
  std::int64_t device = 0;
  std::string path;
  bool help = false;
  Options options;
  options.whole("--device", device, 0, 63, "which GPU (0)")
      .text("--output", path, "write to this file")
      .flag("--help", help, "this text");
  options.parse(words);
  if (help) {
    std::cout << "moeplan-device check\n" << options.help();
    return 0;
  }
  require_device();
  Output output(path);
  LineWriter writer(output.stream());
  Timer timer(static_cast<int>(device));
  writer.set_common(common_fields(timer.properties(), timer.monitor()));
  write_device(writer, timer);
  Checks checks(writer);
  const cudaStream_t stream = timer.stream();
  const LtHandle handle;
  const bool fp8 = timer.properties().major * 10 + timer.properties().minor >= 89;
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad})
    checks.add(std::string("bf16 product ") + layout_name(pass),
               product_error(handle, {272, 320, 1184, pass, Type::bf16}, stream), kMostError);
  if (fp8)
    checks.add("fp8 product TN", product_error(handle, {272, 320, 1184, Pass::forward, Type::fp8}, stream), kMostError);
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
    const GroupedShape shape{{40, 0, 129, 7, 256}, 320, 192, pass, "uneven"};
    for (const bool together : {true, false}) {
      const GroupedOperands operands(shape, 7, stream);
      const std::string what =
          std::string("grouped product ") + layout_name(pass) + (together ? " in one call" : " one a group");
      try {
        const auto product = together ? one_call(shape, operands) : product_a_group(handle, shape, operands);
        if (!product) continue;
        product->run(stream);
        MOEPLAN_CUDA(cudaStreamSynchronize(stream));
        checks.add(what, sampled_grouped_error(shape, operands, 11), kMostError);
      } catch (const DeviceError& error) {
        write_left_out(writer, what, error.what());
      }
    }
  }
  checks.add(
      "copy kernel",
      copied_wrong([&](void* to, const void* from, std::size_t bytes) { launch_copy(to, from, bytes, 0, stream); },
                   stream),
      0);
  checks.add(
      "copy kernel on few multiprocessors",
      copied_wrong([&](void* to, const void* from, std::size_t bytes) { launch_copy(to, from, bytes, 3, stream); },
                   stream),
      0);
  // Rounding of bf16 once more or less: 2^-8 of the largest.
  for (const KernelCheck& kernel : check_memory_operations(stream)) checks.add(kernel.what, kernel.error, 4e-3);
  // Several roundings to bf16 lie one behind the other, and sums in two orders may round to neighbours.
  for (const KernelCheck& layer : check_layers(stream)) checks.add(layer.what, layer.error, 2e-2);
  writer.finish();
  if (checks.failed() > 0) std::cerr << "error: " << checks.failed() << " checks failed\n";
  return checks.failed() > 0 ? 1 : 0;
}

}  // namespace moeplan::device
