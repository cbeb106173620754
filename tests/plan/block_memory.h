#pragma once
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "plan/blocks.h"

// What a block's tensors do, by hand: alive or not.
namespace moeplan::test {

using Alive = std::map<std::string, plan::Size>;  // by name

// Runs the operations; a tensor that is allocated twice, or freed when it is not alive, fails the test.
inline void run_ops(const plan::Block& block, const std::vector<plan::Op>& ops, std::vector<char>& alive) {
  alive.resize(block.tensors.size(), 0);
  for (const plan::Op& op : ops) {
    CAPTURE(op.name);
    for (const auto id : op.allocates) {
      CAPTURE(block.tensors[id].name);
      REQUIRE(alive[id] == 0);
      alive[id] = 1;
    }
    for (const auto id : op.frees) {
      CAPTURE(block.tensors[id].name);
      REQUIRE(alive[id] == 1);
      alive[id] = 0;
    }
  }
}

// What forward leaves behind, tensors without bytes left out.
inline Alive kept_by_forward(const plan::Block& block) {
  std::vector<char> alive;
  run_ops(block, block.forward, alive);
  Alive kept;
  for (std::size_t id = 0; id < alive.size(); ++id) {
    const plan::Tensor& tensor = block.tensors[id];
    if (alive[id] && (tensor.size.bytes != 0 || tensor.size.bytes_per_row != 0)) kept[tensor.name] = tensor.size;
  }
  return kept;
}

inline void check_conserved(const plan::Block& block) {
  std::vector<char> alive;
  run_ops(block, block.forward, alive);
  run_ops(block, block.backward, alive);
  for (std::size_t id = 0; id < alive.size(); ++id) {
    CAPTURE(block.tensors[id].name);
    CHECK(alive[id] == 0);
  }
}

inline const plan::Tensor& tensor(const plan::Block& block, const std::string& name) {
  for (const plan::Tensor& t : block.tensors)
    if (t.name == name) return t;
  FAIL("no tensor " << name);
  return block.tensors.front();
}

inline const plan::Op& op(const std::vector<plan::Op>& ops, const std::string& name) {
  for (const plan::Op& o : ops)
    if (o.name == name) return o;
  FAIL("no operation " << name);
  return ops.front();
}

}  // namespace moeplan::test
