#include "plan/builder.h"

#include <cmath>
#include <utility>

namespace moeplan::plan {

namespace {

void multiplies(Op& op, const cost::GemmShape& shape, cost::Precision precision) {
  op.product = true;
  op.m = shape.m;
  op.n = shape.n;
  op.k = shape.k;
  op.pass = shape.pass;
  op.precision = precision;
}

}  // namespace

TensorId Builder::tensor(TensorKind kind, std::string name, std::int64_t bytes) {
  block_->tensors.push_back(Tensor{kind, std::move(name), Size{bytes, 0, {}}});
  return static_cast<TensorId>(block_->tensors.size() - 1);
}

TensorId Builder::row_tensor(TensorKind kind, std::string name, std::int64_t bytes_per_row, Rows rows) {
  block_->tensors.push_back(Tensor{kind, std::move(name), Size{0, bytes_per_row, rows}});
  return static_cast<TensorId>(block_->tensors.size() - 1);
}

TensorId Builder::sized_tensor(TensorKind kind, std::string name, const Size& size) {
  block_->tensors.push_back(Tensor{kind, std::move(name), size});
  return static_cast<TensorId>(block_->tensors.size() - 1);
}

void Builder::holds_weight_gradient(Op& wgrad, std::int64_t elements, std::int64_t matrices) {
  if (scenario_->optimizer.gradient_accumulation_fusion ||
      scenario_->training.framework != scenario::Framework::megatron) {
    return;
  }
  const std::string name = "weight gradient of " + wgrad.name.substr(0, wgrad.name.find(" wgrad"));
  weight_gradient_ = {tensor(TensorKind::workspace, name, elements * Shape::kElement), wgrad.family, elements,
                      matrices};
  wgrad.allocates.push_back(weight_gradient_->tensor);
}

// Autograd hands the tensor to the hook of its parameter, which adds it to the buffer and drops it.
void Builder::add_weight_gradient() {
  const WeightGradient held = *weight_gradient_;
  weight_gradient_.reset();
  const std::int64_t bytes = held.elements * (Shape::kElement + 2 * scenario_->optimizer.main_grad_bytes);
  const std::string name = "add " + block_->tensors[held.tensor].name;
  memory(name, held.family, static_cast<double>(bytes), static_cast<int>(held.matrices), {}, {held.tensor})
      .weight_gradient = true;
}

Op& Builder::add(std::string name, Work work, Family family, Ids allocates, Ids frees) {
  if (weight_gradient_) add_weight_gradient();
  Op op;
  op.name = std::move(name);
  op.work = work;
  op.family = family;
  op.recompute = recompute_;
  op.allocates.assign(allocates);
  op.frees.assign(frees);
  target_->push_back(std::move(op));
  return target_->back();
}

Op& Builder::gemm(std::string name, Family family, const cost::GemmShape& shape, Ids allocates, Ids frees) {
  Op& op = add(std::move(name), Work::fixed, family, allocates, frees);
  op.seconds = cost::gemm_time_s(shape, scenario_->hardware);
  multiplies(op, shape, cost::Precision::bf16);
  op.weight_gradient = shape.pass == cost::GemmPass::wgrad;
  return op;
}

Op& Builder::linear(std::string name, Family family, const cost::GemmShape& shape, Ids allocates, Ids frees) {
  Op& op = add(std::move(name), Work::fixed, family, allocates, frees);
  const cost::Precision precision = scenario::cost_precision(scenario_->training.precision);
  op.seconds = cost::gemm_time_s(shape, scenario_->hardware, precision);
  multiplies(op, shape, precision);
  const bool casts_weights = precision != cost::Precision::bf16 && shape.pass != cost::GemmPass::wgrad &&
                             scenario_->training.framework == scenario::Framework::torchtitan;
  if (casts_weights) {  // no copy is kept: read bf16, write the narrow one, in front of every product
    const double bytes = static_cast<double>(shape.n * shape.k) * (2 + cost::operand_bytes(precision));
    op.seconds += cost::memory_bound_time_s(bytes, cost::MemoryAccess::streaming, scenario_->hardware);
    ++op.launches;
  }
  op.weight_gradient = shape.pass == cost::GemmPass::wgrad;
  if (shape.pass == cost::GemmPass::wgrad) holds_weight_gradient(op, shape.m * shape.n, 1);
  return op;
}

Op& Builder::fixed(std::string name, Family family, double seconds, int launches, Ids allocates, Ids frees) {
  Op& op = add(std::move(name), Work::fixed, family, allocates, frees);
  op.seconds = seconds;
  op.launches = static_cast<std::uint16_t>(launches);
  return op;
}

Op& Builder::memory(std::string name, Family family, double bytes, int launches, Ids allocates, Ids frees,
                    cost::MemoryAccess access) {
  // Several small kernels share the bytes; each pays the floor of a kernel.
  const double floor_s = scenario_->hardware.time_scale.memory_bound * scenario_->hardware.memory_bound.floor.value;
  const double seconds = cost::memory_bound_time_s(bytes, access, scenario_->hardware) + floor_s * (launches - 1);
  return fixed(std::move(name), family, seconds, launches, allocates, frees);
}

Op& Builder::row_memory(std::string name, Family family, std::int64_t bytes, std::int64_t bytes_per_row, Rows rows,
                        cost::MemoryAccess access, Ids allocates, Ids frees) {
  Op& op = add(std::move(name), Work::row_memory, family, allocates, frees);
  op.size = Size{bytes, bytes_per_row, rows};
  op.access = access;
  return op;
}

Op& Builder::grouped(std::string name, std::int64_t n, std::int64_t k, cost::GemmPass pass, Rows rows, Ids allocates,
                     Ids frees) {
  Op& op = add(std::move(name), Work::grouped_gemm, Family::expert, allocates, frees);
  op.product = true;
  op.n = n;
  op.k = k;
  op.pass = pass;
  op.weight_gradient = pass == cost::GemmPass::wgrad;
  op.precision = scenario::cost_precision(scenario_->training.precision);
  op.size.rows = rows;
  if (pass == cost::GemmPass::wgrad) holds_weight_gradient(op, n * k * shape_.local_experts, shape_.local_experts);
  return op;
}

Op& Builder::collective(std::string name, topology::GroupKind group, cost::Collective kind, std::int64_t bytes,
                        Ids allocates, Ids frees) {
  Op& op = add(std::move(name), Work::collective, Family::communication, allocates, frees);
  op.group = group;
  op.collective = kind;
  op.size.bytes = bytes;
  switch (group) {
    case topology::GroupKind::cp:
    case topology::GroupKind::tp:
      op.stream = Stream::tp;
      break;
    case topology::GroupKind::etp:
    case topology::GroupKind::etp_ep:
    case topology::GroupKind::ep:
      op.stream = Stream::ep;
      break;
    default:
      op.stream = Stream::dp;
      break;
  }
  return op;
}

Op& Builder::row_collective(std::string name, topology::GroupKind group, cost::Collective kind,
                            std::int64_t bytes_per_row, Rows rows, Ids allocates, Ids frees) {
  Op& op = collective(std::move(name), group, kind, 0, allocates, frees);
  op.size.bytes_per_row = bytes_per_row;
  op.size.rows = rows;
  return op;
}

Op& Builder::host_copy(std::string name, Family family, double bytes) {
  Op& op = add(std::move(name), Work::host_copy, family, {}, {});
  op.stream = Stream::dp;  // of the chain
  op.size.bytes = std::llround(bytes);
  return op;
}

Op& Builder::all_to_all(std::string name, Rows rows, std::int64_t bytes_per_row, bool towards_source, Ids allocates,
                        Ids frees) {
  Op& op = add(std::move(name), Work::all_to_all, Family::communication, allocates, frees);
  op.size = Size{0, bytes_per_row, rows};
  op.group = topology::GroupKind::ep;
  op.stream = Stream::ep;
  op.towards_source = towards_source;
  return op;
}

Op& Builder::dispatch_kernel(std::string name, Rows rows, std::int64_t bytes_per_row, bool towards_source,
                             Ids allocates, Ids frees) {
  Op& op = all_to_all(std::move(name), rows, bytes_per_row, towards_source, allocates, frees);
  op.group = topology::GroupKind::etp_ep;
  op.once_per_rank = true;
  return op;
}

}  // namespace moeplan::plan
