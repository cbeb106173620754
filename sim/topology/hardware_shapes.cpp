#include "topology/hardware_shapes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <tuple>

namespace moeplan::topology {
namespace {

using Shape = HardwareProfile::MeasuredShape;

constexpr std::int64_t kMostSize = std::int64_t{1} << 31;

// The lists of names live as long as the program: a Reader looks into them.
struct Names {
  std::array<std::string, 2> ops = {"gemm", "attention"};
  std::array<std::string, 3> gemm_passes = {"forward", "dgrad", "wgrad"};
  std::array<std::string, 2> attention_passes = {"forward", "backward"};
  std::array<std::string, 4> types = {"bf16", "fp8", "mxfp8", "nvfp4"};
};

const Names& names() {
  static const Names all;
  return all;
}

Shape read_shape(config::Reader entry) {
  Shape shape;
  const bool gemm = entry.choice("op", names().ops) == 0;
  shape.op = names().ops[gemm ? 0 : 1];
  shape.pass = gemm ? names().gemm_passes[entry.choice("pass", names().gemm_passes)]
                    : names().attention_passes[entry.choice("pass", names().attention_passes)];
  shape.dtype = names().types[entry.choice_or("dtype", names().types, 0)];
  shape.sizes = entry.integers("sizes", {1, kMostSize});
  const std::size_t expected = gemm ? 3 : 5;
  if (shape.sizes.size() != expected) {
    entry.fault("sizes", fmt::format("expected {} sizes ({}), got {}", expected,
                                     gemm ? "m, n, k" : "batch, heads, seq, qk_dim, v_dim", shape.sizes.size()));
    shape.sizes.resize(expected, 1);
  }
  shape.seconds = entry.quantity("time", base::Dimension::seconds, {0.0, 1e3, true});
  entry.finish();
  return shape;
}

}  // namespace

bool before(const Shape& a, const Shape& b) {
  return std::tie(a.op, a.pass, a.dtype, a.sizes) < std::tie(b.op, b.pass, b.dtype, b.sizes);
}

std::vector<Shape> read_shapes(config::Reader& profile) {
  std::vector<Shape> shapes;
  for (const config::Node& node : profile.list("shapes"))
    shapes.push_back(read_shape(config::Reader(node, profile.faults())));
  std::sort(shapes.begin(), shapes.end(), before);
  const auto same =
      std::adjacent_find(shapes.begin(), shapes.end(), [](const Shape& a, const Shape& b) { return !before(a, b); });
  if (same != shapes.end())
    profile.fault("shapes", fmt::format("a {} {} of the same sizes stands twice", same->op, same->pass));
  return shapes;
}

}  // namespace moeplan::topology
