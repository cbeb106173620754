#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "plan/op.h"
#include "plan/passes.h"
#include "plan/shape.h"

namespace moeplan::plan {

using TensorId = std::uint32_t;

// Writes ops into one list of a block. Keeps the short forms that the emitters share; knows costs of ops that are equal
// on all ranks.
class Builder {
 public:
  Builder(Block& block, const scenario::Scenario& scenario, const Shape& shape)
      : block_(&block), scenario_(&scenario), shape_(shape), passes_(plan::passes(scenario)) {}

  void into_forward() { target_ = &block_->forward; }
  void into_backward() { target_ = &block_->backward; }
  void set_recompute(bool on) { recompute_ = on; }

  TensorId tensor(TensorKind kind, std::string name, std::int64_t bytes);
  TensorId row_tensor(TensorKind kind, std::string name, std::int64_t bytes_per_row, Rows rows);
  TensorId sized_tensor(TensorKind kind, std::string name, const Size& size);

  using Ids = std::initializer_list<TensorId>;
  Op& gemm(std::string name, Family family, const cost::GemmShape& shape, Ids allocates, Ids frees = {});
  // A product of a linear layer: in the precision of training.
  Op& linear(std::string name, Family family, const cost::GemmShape& shape, Ids allocates, Ids frees = {});
  Op& fixed(std::string name, Family family, double seconds, int launches, Ids allocates, Ids frees = {});
  Op& memory(std::string name, Family family, double bytes, int launches, Ids allocates, Ids frees = {},
             cost::MemoryAccess access = cost::MemoryAccess::streaming);
  Op& row_memory(std::string name, Family family, std::int64_t bytes, std::int64_t bytes_per_row, Rows rows,
                 cost::MemoryAccess access, Ids allocates, Ids frees = {});
  // Expert matrices are linear layers.
  Op& grouped(std::string name, std::int64_t n, std::int64_t k, cost::GemmPass pass, Rows rows, Ids allocates,
              Ids frees = {});
  Op& collective(std::string name, topology::GroupKind group, cost::Collective kind, std::int64_t bytes, Ids allocates,
                 Ids frees = {});
  // Of rows: `bytes_per_row` times the rows of the group, gathered or summed over its members.
  Op& row_collective(std::string name, topology::GroupKind group, cost::Collective kind, std::int64_t bytes_per_row,
                     Rows rows, Ids allocates, Ids frees = {});
  Op& all_to_all(std::string name, Rows rows, std::int64_t bytes_per_row, bool towards_source, Ids allocates,
                 Ids frees = {});
  // By a kernel that sends a token's row once to each rank, over expert and expert tensor parallel peers together.
  Op& dispatch_kernel(std::string name, Rows rows, std::int64_t bytes_per_row, bool towards_source, Ids allocates,
                      Ids frees = {});

  // A product that was emitted last makes a weight gradient of its own, which the next op adds to the
  // gradient buffer, where products do not (linear and grouped products do this themselves).
  void holds_weight_gradient(Op& wgrad, std::int64_t elements, std::int64_t matrices);

  // A copy between device and host that the ops after it wait for.
  Op& host_copy(std::string name, Family family, double bytes);

  const scenario::Scenario& scenario() const { return *scenario_; }
  const Shape& shape() const { return shape_; }
  const Passes& passes() const { return passes_; }
  Block& block() { return *block_; }
  Op& last() { return target_->back(); }       // the op that was emitted last
  std::vector<Op>& ops() { return *target_; }  // all that were, in this direction

 private:
  Op& add(std::string name, Work work, Family family, Ids allocates, Ids frees);
  void add_weight_gradient();
  struct WeightGradient {
    TensorId tensor = 0;
    Family family = Family::dense;
    std::int64_t elements = 0, matrices = 0;
  };
  std::optional<WeightGradient> weight_gradient_;
  Block* block_;
  const scenario::Scenario* scenario_;
  Shape shape_;
  Passes passes_;
  std::vector<Op>* target_ = nullptr;
  bool recompute_ = false;
};

}  // namespace moeplan::plan
