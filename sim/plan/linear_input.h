#pragma once
#include <cstdint>
#include <string>

#include "plan/builder.h"

// Operands of linear layers in a narrow precision: copies beside the bf16 tensors, or in their place (docs/models.md,
// Narrow precisions in programs).
namespace moeplan::plan {

// How the linear layers of a scenario hold their operands.
struct OperandFormat {
  bool narrow = false;       // products read quantised copies
  bool saved = false;        // the copy for the weight gradient is kept for backward, not the bf16 input
  bool two_copies = false;   // forward and weight gradient read copies scaled (or laid out) in different directions
  bool norm_writes = false;  // norm kernels write the copies themselves
  bool amax_pass = false;    // the scale is found by reading the whole tensor first
  std::int64_t bytes(std::int64_t elements) const;         // of one copy with its scales, rounded up
  std::int64_t weight_bytes(std::int64_t elements) const;  // of all copies of a weight that are kept over a step
  std::int64_t bytes_of_32 = 64, weight_bytes_of_32 = 64;  // of 32 elements: of inputs and gradients, of weights
};
OperandFormat operand_format(const scenario::Scenario& scenario);

// Linear layers' parameters as they are held and travel: bf16 beside quantised copies, or (fp8_param_gather) quantised
// alone. Blockwise and tensorwise gather one byte an element and lay it out the other way where the part needs that;
// mxfp8's two directions do not follow from each other, so bf16 is gathered, into the gradient buffer, and quantised.
struct ParameterFormat {
  bool quantised = false;                         // held in no other form
  std::int64_t held(std::int64_t linear) const;   // all copies, outside sharded parameters
  std::int64_t shard(std::int64_t linear) const;  // of parameters that a group divides: without what can be made again
  std::int64_t gathered(std::int64_t linear) const;    // after an update
  std::int64_t whole(std::int64_t linear) const;       // gathered from shards
  std::int64_t transposed(std::int64_t linear) const;  // made again for backward, of gathered parameters
  OperandFormat operands;
  bool two_gathered = false;  // mxfp8
};
ParameterFormat parameter_format(const scenario::Scenario& scenario);

// Bytes of what a product reads, where a tensor-parallel group gathers it: narrow where the recipe casts before.
std::int64_t operand_bytes(const scenario::Scenario& scenario, std::int64_t elements);

// The input of a linear layer, or the gradient of its output. Emits the casts, and knows which copies are alive at the
// point of the program that was emitted last. In bf16 it emits nothing and stands for the bf16 tensor alone.
class LinearInput {
 public:
  enum class Role { input, gradient };
  struct Form {
    Role role = Role::input;
    bool shared = false;      // others read and free the bf16 tensor
    bool recast = false;      // keeps bf16 whatever the recipe keeps, and casts again in backward
    Size elements;            // of the bf16 tensor
    Size elements_allocated;  // static buffers are larger than what is computed on
  };
  // Of sizes that are equal on all ranks. Gradients are freed by those who made them.
  static Form fixed(std::int64_t elements) { return {Role::input, false, false, {elements, 0, {}}, {elements, 0, {}}}; }
  static Form shared(std::int64_t elements) { return {Role::input, true, false, {elements, 0, {}}, {elements, 0, {}}}; }
  static Form gradient(std::int64_t elements) {
    return {Role::gradient, true, false, {elements, 0, {}}, {elements, 0, {}}};
  }
  LinearInput(Builder& builder, std::string name, Family family, TensorKind kind, TensorId wide, const Form& form);

  // The bf16 tensor was allocated: copies for forward, and for the weight gradient when it keeps (gradients: both).
  void cast(bool keep);
  // In place of cast, where `norm` computes the tensor: true when its kernel writes the copies, and not the bf16
  // tensor.
  bool cast_inside_norm() const { return format_.narrow && format_.saved && format_.norm_writes; }
  void cast_inside(Op& norm);
  double cast_bytes_inside() const;  // written
  // The product of forward ran: copies that nobody reads any more go.
  void consumed(Op& op, bool keep);
  // The copy that the weight gradient reads, where it was not kept; the bf16 tensor is there.
  void before_wgrad();
  void drop(Op& op);  // all that is alive
  TensorId kept() const { return column_alive_ ? column_ : wide_; }
  bool reads_wide() const { return !column_alive_; }  // the weight gradient does
  // The kept tensor leaves and comes back by other hands.
  Size kept_size() const;

 private:
  void emit_cast(bool row, bool column);
  void free(Op& op, TensorId id, bool& alive);
  Builder* b_;
  std::string name_;
  Family family_;
  Form form_;
  OperandFormat format_;
  TensorId wide_, row_, column_;
  bool wide_alive_ = false, row_alive_ = false, column_alive_ = false;
};

}  // namespace moeplan::plan
