#include <algorithm>

#include "basic_kernels.h"
#include "fill.h"
#include "lt_product.h"
#include "run.h"

namespace moeplan::device {
namespace {

constexpr int kSamples = 15, kProducts = 4;
constexpr std::size_t kCopyBytes = std::size_t{1} << 30;

struct Beside {
  double products_us = 0, copies_us = 0;  // medians, of all products and of one copy
  bool covered = false;                   // the copies ran from before the first product to after the last
};

class Bench {
 public:
  explicit Bench(Run& run)
      : run_(run),
        shape_{8192, 8192, 8192, Pass::forward, Type::bf16},
        product_(handle_, shape_),
        workspace_(kWorkspaceBytes),
        a_(product_.a_bytes()),
        b_(product_.b_bytes()),
        c_(product_.c_bytes()),
        from_(kCopyBytes),
        to_(kCopyBytes),
        host_(kCopyBytes / 4) {
    fill_random(a_.data(), a_.bytes() / 2, Element::bf16, 1, run.seed, run.timer.stream());
    fill_random(b_.data(), b_.bytes() / 2, Element::bf16, 0.02f, run.seed + 1, run.timer.stream());
    fill_random(from_.data(), kCopyBytes / 4, Element::fp32, 1, run.seed + 2, run.timer.stream());
    MOEPLAN_CUDA(cudaStreamSynchronize(run.timer.stream()));
  }

  // kind: "sms" (a copy kernel on `sms` multiprocessors), "to_host", "to_device", "device" (copy engines).
  void copy(const std::string& kind, int sms) {
    if (kind == "sms") return launch_copy(to_.data(), from_.data(), kCopyBytes, sms, side_.get());
    if (kind == "device") {
      MOEPLAN_CUDA(cudaMemcpyAsync(to_.data(), from_.data(), kCopyBytes, cudaMemcpyDeviceToDevice, side_.get()));
    } else if (kind == "to_host") {
      MOEPLAN_CUDA(cudaMemcpyAsync(host_.data(), from_.data(), host_.bytes(), cudaMemcpyDeviceToHost, side_.get()));
    } else {
      MOEPLAN_CUDA(cudaMemcpyAsync(to_.data(), host_.data(), host_.bytes(), cudaMemcpyHostToDevice, side_.get()));
    }
  }
  std::int64_t copy_bytes(const std::string& kind) const {
    return static_cast<std::int64_t>(kind == "sms" || kind == "device" ? 2 * kCopyBytes : host_.bytes());
  }

  double copy_alone_us(const std::string& kind, int sms) {
    std::vector<double> samples;
    for (int i = 0; i < 7; ++i) {
      copy_begin_.record(side_.get());
      copy(kind, sms);
      copy_end_.record(side_.get());
      copy_end_.wait();
      if (i >= 2) samples.push_back(seconds_between(copy_begin_, copy_end_) * 1e6);
    }
    return median_of(samples);
  }

  // `copies` of a kind beside the products; none: the products alone.
  Beside products(const std::string& kind, int sms, std::int64_t copies) {
    std::vector<double> product_times, copy_times;
    Beside beside;
    beside.covered = true;
    cudaStream_t main = run_.timer.stream();
    for (int sample = 0; sample < kSamples; ++sample) {
      // The copies stand before the products in the queue, so they hold their multiprocessors first.
      copy_begin_.record(side_.get());
      for (std::int64_t i = 0; i < copies; ++i) copy(kind, sms);
      copy_end_.record(side_.get());
      MOEPLAN_CUDA(cudaStreamWaitEvent(main, copy_begin_.get(), 0));
      begin_.record(main);
      for (int i = 0; i < kProducts; ++i) product_.run(a_.data(), b_.data(), c_.data(), workspace_, main);
      end_.record(main);
      end_.wait();
      copy_end_.wait();
      product_times.push_back(seconds_between(begin_, end_) * 1e6);
      if (copies == 0) continue;
      copy_times.push_back(seconds_between(copy_begin_, copy_end_) * 1e6 / static_cast<double>(copies));
      if (seconds_between(copy_begin_, end_) > seconds_between(copy_begin_, copy_end_)) beside.covered = false;
    }
    beside.products_us = median_of(product_times);
    if (!copy_times.empty()) beside.copies_us = median_of(copy_times);
    return beside;
  }

 private:
  Run& run_;
  LtHandle handle_;
  ProductShape shape_;
  LtProduct product_;
  Buffer workspace_, a_, b_, c_, from_, to_;
  HostBuffer host_;
  Stream side_;
  Event begin_, end_, copy_begin_, copy_end_;
};

}  // namespace

void measure_overlap(Run& run, const Budget& budget) {
  Bench bench(run);
  bench.products("", 0, 0);  // clocks settle
  const double alone = bench.products("", 0, 0).products_us;
  struct Case {
    const char* kind;
    int sms;
  };
  std::vector<Case> cases = {{"to_host", 0}, {"to_device", 0}, {"device", 0}};
  for (const int sms : {4, 8, 16, 24, 32, 48}) {
    if (sms * 2 < run.timer.properties().multiProcessorCount) cases.push_back({"sms", sms});
  }
  for (const Case& one : cases) {
    if (!budget.left()) return write_left_out(run.writer, "products beside copies", "the time was used up");
    const std::string what =
        std::string("products beside copies: ") + one.kind + (one.sms > 0 ? " " + std::to_string(one.sms) : "");
    attempt(run.writer, what, [&] {
      const double copy_alone = bench.copy_alone_us(one.kind, one.sms);
      // Copies slow products down and are slowed down themselves: twice as long as the products alone covers them.
      const auto copies = static_cast<std::int64_t>(2 * alone / copy_alone) + 1;
      const Beside beside = bench.products(one.kind, one.sms, copies);
      if (!beside.covered) {
        write_left_out(run.writer, what, "the copies ended before the products did");
        return;
      }
      const auto bytes = static_cast<double>(bench.copy_bytes(one.kind));
      run.writer.write("overlap", JsonObject()
                                      .add("copy", one.kind)
                                      .add("comm_sms", one.sms)
                                      .add("products_alone_us", alone / kProducts)
                                      .add("products_beside_us", beside.products_us / kProducts)
                                      .add("copy_alone_bytes_per_s", bytes / (copy_alone * 1e-6))
                                      .add("copy_beside_bytes_per_s", bytes / (beside.copies_us * 1e-6)));
    });
  }
}

}  // namespace moeplan::device
