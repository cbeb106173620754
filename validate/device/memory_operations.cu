#include <algorithm>
#include <cmath>
#include <cstring>

#include "difference.h"
#include "fill.h"
#include "kernels/elementwise.h"
#include "kernels/launch.h"
#include "kernels/permute.h"
#include "kernels/swiglu.h"
#include "run.h"
#include "shapes.h"

// The memory-bound operations of a MoE layer, by the bodies of validate/kernels.
namespace moeplan::device {
namespace {

using kernels::Bf16;
using kernels::Pack;

constexpr std::int64_t kTopK = 8, kExperts = 64;

std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }
#define MOEPLAN_RUN(body, stream) \
  ::moeplan::device::check_cuda(kernels::launch(body, stream), #body, __FILE__, __LINE__)

// Rows of the pairs as a router gives them: pairs in order of their experts, which are drawn.
std::vector<std::int64_t> drawn_rows(std::int64_t tokens, std::uint64_t seed) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;  // expert, pair
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::uint64_t first = next_random(seed) % kExperts;
    for (std::int64_t k = 0; k < kTopK; ++k)
      pairs.emplace_back(static_cast<std::int64_t>((first + 7 * static_cast<std::uint64_t>(k)) % kExperts),
                         token * kTopK + k);
  }
  std::sort(pairs.begin(), pairs.end());
  std::vector<std::int64_t> rows(pairs.size());
  for (std::size_t row = 0; row < pairs.size(); ++row) rows[size(pairs[row].second)] = static_cast<std::int64_t>(row);
  return rows;
}

// What an operation reads of a set: filled anew with values of that kind before each operation, so that none reads what
// another one left (a second moment below 0 has no root, and what has none spreads).
struct Operand {
  std::int64_t offset, count;  // bytes, elements
  Element element;
  float scale;
};

class Operations {
 public:
  Operations(Run& run, const Budget& budget, std::size_t bytes)
      : run_(run), budget_(budget), from_(bytes), to_(bytes) {}

  // `work(stream, in, out)`: the operation on one set, which reads `read` bytes, of them `operands` at `in`, and writes
  // `written` at `out`.
  template <class WorkOfSet>
  void time(const char* kind, std::int64_t read, std::int64_t written, const std::vector<Operand>& operands,
            const JsonObject& shape, const WorkOfSet& work) {
    const std::size_t stride = (size(std::max(read, written)) + 255) / 256 * 256;
    if (!budget_.left() || stride > from_.bytes()) {
      ++left_out_;
      return;
    }
    const auto room = static_cast<std::int64_t>(from_.bytes() / stride);
    const std::int64_t sets =
        std::min(rotation_for(static_cast<double>(read + written), run_.timer.properties().l2CacheSize), room);
    attempt(run_.writer, std::string(kind) + " " + shape.text(), [&] {
      std::uint64_t seed = run_.seed;
      for (std::int64_t set = 0; set < sets; ++set)
        for (const Operand& operand : operands)
          fill_random(from_.as<unsigned char>() + size(set) * stride + operand.offset, size(operand.count),
                      operand.element, operand.scale, seed++, run_.timer.stream());
      TimingOptions options;
      options.rotation = sets;
      options.cold = true;
      options.stopping.most_seconds = 0.15;
      const Timing timing = run_.timer.time(
          [&](cudaStream_t stream, std::int64_t round) {
            const std::size_t at = size(round % sets) * stride;
            work(stream, from_.as<unsigned char>() + at, to_.as<unsigned char>() + at);
          },
          options);
      run_.writer.write("measurement", JsonObject()
                                           .add("kind", kind)
                                           .add("bytes", read + written)
                                           .add("library", "moeplan")
                                           .add(shape)
                                           .add("rotation", sets)
                                           .add(timing_fields(timing)));
    });
  }
  int left_out() const { return left_out_; }

 private:
  Run& run_;
  const Budget& budget_;
  Buffer from_, to_;
  int left_out_ = 0;
};

template <class To>
To* part(unsigned char* data, std::int64_t bytes) {
  return reinterpret_cast<To*>(data + bytes);
}

void time_rows(Operations& operations, std::int64_t tokens, std::int64_t hidden, Run& run) {
  const std::vector<std::int64_t> rows = drawn_rows(tokens, run.seed);
  const Buffer map(rows.size() * sizeof(std::int64_t)), weights(rows.size() * sizeof(float));
  copy_to_device(map.data(), rows.data(), map.bytes(), run.timer.stream());
  fill_random(weights.data(), rows.size(), Element::fp32_positive, 0.1f, run.seed, run.timer.stream());
  const std::int64_t one = 2 * tokens * hidden, all = kTopK * one;
  const std::int64_t tables = tokens * kTopK * 12;  // rows and weights of the pairs
  const JsonObject shape = JsonObject().add("tokens", tokens).add("hidden", hidden).add("topk", kTopK);
  operations.time("permute_rows", one + tables, all + tables / 3, {{0, one / 2, Element::bf16, 1}}, shape,
                  [&](cudaStream_t stream, unsigned char* in, unsigned char* out) {
                    const kernels::Permute body{part<const Pack>(in, 0),
                                                weights.as<float>(),
                                                map.as<std::int64_t>(),
                                                part<Pack>(out, 0),
                                                part<float>(out, all),
                                                tokens,
                                                hidden,
                                                static_cast<int>(kTopK)};
                    MOEPLAN_RUN(body, stream);
                  });
  operations.time(
      "unpermute", all + tables, one, {{0, all / 2, Element::bf16, 1}}, shape,
      [&](cudaStream_t stream, unsigned char* in, unsigned char* out) {
        const kernels::Unpermute<std::int64_t> body{
            part<const Pack>(in, 0), weights.as<float>(), map.as<std::int64_t>(), part<Pack>(out, 0), tokens, hidden,
            static_cast<int>(kTopK)};
        MOEPLAN_RUN(body, stream);
      });
}

void time_activations(Operations& operations, std::int64_t rows, std::int64_t ffn, Run& run) {
  const Buffer weights(size(rows) * sizeof(float)), gradients(size(rows) * sizeof(float));
  fill_random(weights.data(), size(rows), Element::fp32_positive, 0.1f, run.seed, run.timer.stream());
  const std::int64_t one = 2 * rows * ffn;
  const JsonObject shape = JsonObject().add("rows", rows).add("ffn", ffn);
  operations.time(
      "swiglu", 2 * one + 4 * rows, one, {{0, one, Element::bf16, 1}}, shape,
      [&](cudaStream_t stream, unsigned char* in, unsigned char* out) {
        const kernels::SwiGlu body{part<const Pack>(in, 0), weights.as<float>(), part<Pack>(out, 0), rows, ffn};
        MOEPLAN_RUN(body, stream);
      });
  operations.time("swiglu_backward", 3 * one + 4 * rows, 2 * one + 4 * rows, {{0, 3 * one / 2, Element::bf16, 1}},
                  shape, [&](cudaStream_t stream, unsigned char* in, unsigned char* out) {
                    const kernels::SwiGluBackward body{part<const Pack>(in, 0),
                                                       weights.as<float>(),
                                                       part<const Pack>(in, 2 * one),
                                                       part<Pack>(out, 0),
                                                       gradients.as<float>(),
                                                       rows,
                                                       ffn};
                    MOEPLAN_RUN(body, stream);
                  });
}

void time_elements(Operations& operations, std::int64_t count) {
  const JsonObject shape = JsonObject().add("elements", count);
  operations.time("cast", 4 * count, 2 * count, {{0, count, Element::fp32, 1}}, shape,
                  [&](cudaStream_t stream, unsigned char* in, unsigned char* out) {
                    const kernels::CastToBf16 body{part<const float>(in, 0), part<Bf16>(out, 0), count};
                    MOEPLAN_RUN(body, stream);
                  });
  // Master, two moments and the gradient are read, all but the gradient written, and the parameter in bf16.
  const std::vector<Operand> state = {{0, count, Element::fp32, 0.02F},                   // master
                                      {4 * count, count, Element::fp32, 1e-3F},           // first moment
                                      {8 * count, count, Element::fp32_positive, 1e-6F},  // second moment: of squares
                                      {12 * count, count, Element::fp32, 1e-3F}};         // gradient
  operations.time("adam", 16 * count, 14 * count, state, shape,
                  [&](cudaStream_t stream, unsigned char* in, unsigned char* out) {
                    kernels::Adam body{};
                    body.master = part<float>(in, 0);
                    body.first_moment = part<float>(in, 4 * count);
                    body.second_moment = part<float>(in, 8 * count);
                    body.gradient = part<const float>(in, 12 * count);
                    body.parameter = part<Bf16>(out, 0);
                    body.count = count;
                    body.rate = 1e-4F, body.beta1 = 0.9F, body.beta2 = 0.95F, body.epsilon = 1e-8F, body.decay = 0.1F;
                    body.correction1 = 0.5F, body.correction2 = 0.3F;
                    MOEPLAN_RUN(body, stream);
                  });
}

// Runs a body on the device and on the host over the same random operands.
template <class MakeBody>
double device_against_host(std::size_t in_values, std::size_t out_values, std::size_t pairs,
                           const std::vector<std::int64_t>& rows, const MakeBody& make, cudaStream_t stream) {
  const Buffer in(in_values * 2), out(out_values * 2), weights(pairs * 4), map(rows.size() * 8);
  fill_random(in.data(), in_values, Element::bf16, 1, 3, stream);
  fill_random(weights.data(), pairs, Element::fp32, 1, 4, stream);
  copy_to_device(map.data(), rows.data(), map.bytes(), stream);
  MOEPLAN_CUDA(cudaMemsetAsync(out.data(), 0xFF, out.bytes(), stream));  // NaN where nothing is written
  MOEPLAN_RUN(make(in.as<Pack>(), weights.as<float>(), map.as<std::int64_t>(), out.as<Pack>()), stream);
  MOEPLAN_CUDA(cudaStreamSynchronize(stream));
  std::vector<Pack> host_in(in_values / Pack::kValues), host_out(out_values / Pack::kValues);
  std::vector<float> host_weights(pairs);
  std::vector<Bf16> got(out_values), wanted(out_values);
  MOEPLAN_CUDA(cudaMemcpy(host_in.data(), in.data(), in.bytes(), cudaMemcpyDeviceToHost));
  MOEPLAN_CUDA(cudaMemcpy(host_weights.data(), weights.data(), weights.bytes(), cudaMemcpyDeviceToHost));
  MOEPLAN_CUDA(cudaMemcpy(got.data(), out.data(), out.bytes(), cudaMemcpyDeviceToHost));
  kernels::run_on_host(make(host_in.data(), host_weights.data(), rows.data(), host_out.data()));
  std::memcpy(wanted.data(), host_out.data(), out_values * 2);
  return difference(got, wanted.data());
}

}  // namespace

void measure_memory_operations(Run& run, const Budget& budget) {
  const auto bytes = static_cast<std::size_t>(std::min(6e9, free_bytes() / 3));
  Operations operations(run, budget, bytes);
  struct Sizes {
    std::int64_t tokens, hidden, ffn;
  };
  std::vector<Sizes> plan;
  for (const std::int64_t tokens : {256, 1024, 4096, 8192, 16384}) {
    for (const std::int64_t hidden : {2048, 4096, 7168}) plan.push_back({tokens, hidden, hidden == 2048 ? 768 : 2048});
  }
  shuffle(plan, run.seed);
  for (const Sizes& sizes : plan) {
    const std::string what = std::to_string(sizes.tokens) + " tokens of " + std::to_string(sizes.hidden);
    attempt(run.writer, "rows of " + what, [&] { time_rows(operations, sizes.tokens, sizes.hidden, run); });
    attempt(run.writer, "activations of " + what,
            [&] { time_activations(operations, sizes.tokens * kTopK, sizes.ffn, run); });
    attempt(run.writer, "elements of " + what, [&] { time_elements(operations, sizes.tokens * sizes.hidden); });
  }
  if (operations.left_out() > 0)
    write_left_out(run.writer, std::to_string(operations.left_out()) + " memory-bound operations",
                   "the time was used up, or the memory is too small for them");
}

std::vector<KernelCheck> check_memory_operations(cudaStream_t stream) {
  constexpr std::int64_t kTokens = 37, kHidden = 264, kFfn = 136;
  const std::vector<std::int64_t> rows = drawn_rows(kTokens, 3);
  const std::size_t pairs = rows.size();
  std::vector<KernelCheck> checks;
  checks.push_back({"permute kernel", device_against_host(
                                          size(kTokens * kHidden), pairs * size(kHidden), pairs, rows,
                                          [](const Pack* in, const float*, const std::int64_t* map, Pack* out) {
                                            return kernels::Permute{in,      nullptr, map,     out,
                                                                    nullptr, kTokens, kHidden, static_cast<int>(kTopK)};
                                          },
                                          stream)});
  checks.push_back(
      {"unpermute kernel", device_against_host(
                               pairs * size(kHidden), size(kTokens * kHidden), pairs, rows,
                               [](const Pack* in, const float* weights, const std::int64_t* map, Pack* out) {
                                 return kernels::Unpermute<std::int64_t>{
                                     in, weights, map, out, kTokens, kHidden, static_cast<int>(kTopK)};
                               },
                               stream)});
  checks.push_back({"SwiGLU kernel", device_against_host(
                                         size(2 * kTokens * kFfn), size(kTokens * kFfn), size(kTokens), rows,
                                         [](const Pack* in, const float* weights, const std::int64_t*, Pack* out) {
                                           return kernels::SwiGlu{in, weights, out, kTokens, kFfn};
                                         },
                                         stream)});
  return checks;
}

}  // namespace moeplan::device
