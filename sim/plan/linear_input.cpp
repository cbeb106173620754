#include "plan/linear_input.h"

#include <utility>

#include "base/checked.h"

namespace moeplan::plan {

namespace {

constexpr std::int64_t kD = Shape::kElement;

Size narrowed(const Size& elements, const OperandFormat& format) {
  return {format.bytes(elements.bytes), format.bytes(elements.bytes_per_row), elements.rows};
}

}  // namespace

std::int64_t OperandFormat::bytes(std::int64_t elements) const {
  return base::ceil_div(elements * bytes_of_32, std::int64_t{32});
}

std::int64_t OperandFormat::weight_bytes(std::int64_t elements) const {
  if (!narrow || !saved) return 0;
  return (two_copies ? 2 : 1) * base::ceil_div(elements * weight_bytes_of_32, std::int64_t{32});
}

OperandFormat operand_format(const scenario::Scenario& scenario) {
  using scenario::Precision;
  OperandFormat format;
  const bool te = scenario.training.framework == scenario::Framework::megatron;
  const auto narrow = [&](std::int64_t bytes_of_32) {
    format.narrow = true;
    format.saved = te;
    format.two_copies = true;
    format.bytes_of_32 = format.weight_bytes_of_32 = bytes_of_32;
  };
  switch (scenario.training.precision) {
    case Precision::bf16:
    case Precision::fp16:
      break;
    case Precision::fp8_tensorwise:
      narrow(32);
      format.amax_pass = true;
      // Hopper multiplies fp8 in one layout alone, so that the weight gradient needs a transposed copy; parts that know
      // mxfp8 have products of all layouts.
      format.two_copies = !cost::supports(scenario.hardware, cost::Precision::mxfp8);
      break;
    case Precision::fp8_rowwise:
      narrow(32);
      break;
    case Precision::fp8_blockwise:  // an fp32 scale of 128
    case Precision::mxfp8:          // a byte of 32
      narrow(33);
      format.norm_writes = te && scenario.training.precision == Precision::mxfp8;
      if (scenario.training.precision == Precision::fp8_blockwise) format.weight_bytes_of_32 = 32;  // one of 128 x 128
      break;
    case Precision::nvfp4:  // half a byte, and a byte of 16
      narrow(18);
      break;
  }
  return format;
}

ParameterFormat parameter_format(const scenario::Scenario& scenario) {
  ParameterFormat format;
  format.operands = operand_format(scenario);
  format.quantised = scenario.training.fp8_param_gather;
  format.two_gathered = scenario.training.precision == scenario::Precision::mxfp8;
  return format;
}

std::int64_t ParameterFormat::held(std::int64_t linear) const {
  return operands.weight_bytes(linear) + (quantised ? 0 : kD * linear);
}

std::int64_t ParameterFormat::shard(std::int64_t linear) const {
  if (!quantised) return kD * linear;
  return two_gathered ? operands.weight_bytes(linear) : linear;
}

std::int64_t ParameterFormat::gathered(std::int64_t linear) const {
  return quantised && !two_gathered ? linear : kD * linear;
}

std::int64_t ParameterFormat::whole(std::int64_t linear) const { return shard(linear); }

std::int64_t ParameterFormat::transposed(std::int64_t linear) const {
  return quantised && !two_gathered && operands.two_copies ? linear : 0;
}

std::int64_t operand_bytes(const scenario::Scenario& scenario, std::int64_t elements) {
  const OperandFormat format = operand_format(scenario);
  return format.narrow && format.saved ? format.bytes(elements) : elements * kD;
}

LinearInput::LinearInput(Builder& builder, std::string name, Family family, TensorKind kind, TensorId wide,
                         const Form& form)
    : b_(&builder),
      name_(std::move(name)),
      family_(family),
      form_(form),
      format_(operand_format(builder.scenario())),
      wide_(wide),
      row_(wide),
      column_(wide) {
  if (form_.recast) format_.saved = false;
  if (!format_.narrow) return;
  const Size size = narrowed(form_.elements_allocated, format_);
  row_ = b_->sized_tensor(kind, name_ + ", quantised for forward", size);
  column_ = b_->sized_tensor(kind, name_ + ", quantised", size);
}

void LinearInput::free(Op& op, TensorId id, bool& alive) {
  if (alive) op.frees.push_back(id);
  alive = false;
}

void LinearInput::emit_cast(bool row, bool column) {
  const std::int64_t copies = (row ? 1 : 0) + (column ? 1 : 0), reads = format_.amax_pass ? 2 : 1;
  const auto moved = [&](std::int64_t elements) { return elements * kD * reads + copies * format_.bytes(elements); };
  Op& op = b_->row_memory("quantise " + name_, family_, moved(form_.elements.bytes),
                          moved(form_.elements.bytes_per_row), form_.elements.rows, cost::MemoryAccess::streaming, {});
  op.launches = static_cast<std::uint16_t>(reads);
  if (row) op.allocates.push_back(row_);
  if (column) op.allocates.push_back(column_);
  row_alive_ = row_alive_ || row;
  column_alive_ = column_alive_ || column;
}

void LinearInput::cast(bool keep) {
  wide_alive_ = !form_.shared;
  if (!format_.narrow) return;
  const bool column = form_.role == Role::gradient || (format_.saved && keep);
  emit_cast(format_.two_copies || !column, column);
  if (format_.saved && form_.role == Role::input) free(b_->last(), wide_, wide_alive_);
}

void LinearInput::cast_inside(Op& norm) {
  if (format_.two_copies) norm.allocates.push_back(row_);
  norm.allocates.push_back(column_);
  row_alive_ = format_.two_copies;
  column_alive_ = true;
}

double LinearInput::cast_bytes_inside() const {
  return static_cast<double>((format_.two_copies ? 2 : 1) * format_.bytes(form_.elements.bytes));
}

void LinearInput::consumed(Op& op, bool keep) {
  free(op, row_, row_alive_);
  if (keep) return;
  free(op, column_, column_alive_);
  free(op, wide_, wide_alive_);
}

void LinearInput::before_wgrad() {
  if (column_alive_) return;
  wide_alive_ = !form_.shared;
  if (!format_.narrow) return;
  emit_cast(false, true);
  b_->last().weight_gradient = true;
  b_->last().reads.push_back(wide_);
  if (format_.saved) free(b_->last(), wide_, wide_alive_);
}

void LinearInput::drop(Op& op) {
  if (op.weight_gradient) {
    op.reads.push_back(kept());
    if (row_alive_) op.unread.push_back(row_);      // forward's, or of the input gradient
    if (!reads_wide()) op.unread.push_back(wide_);  // whoever frees it
  }
  free(op, row_, row_alive_);
  free(op, column_, column_alive_);
  free(op, wide_, wide_alive_);
}

Size LinearInput::kept_size() const {
  if (column_alive_) return narrowed(form_.elements, format_);
  return {form_.elements.bytes * kD, form_.elements.bytes_per_row * kD, form_.elements.rows};
}

}  // namespace moeplan::plan
