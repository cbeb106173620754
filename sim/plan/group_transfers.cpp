#include "plan/group_transfers.h"

#include "plan/linear_input.h"

namespace moeplan::plan {

namespace {

Op transfer(const char* name, topology::GroupKind group, cost::Collective kind, std::int64_t bytes,
            std::int64_t members) {
  Op op;
  op.name = name;
  op.work = Work::collective;
  op.family = Family::communication;
  op.stream = kind == cost::Collective::all_gather ? Stream::gather : Stream::reduce;
  op.asynchronous = true;
  op.group = group;
  op.collective = kind;
  op.size.bytes = bytes;
  op.members = members;
  return op;
}

}  // namespace

TransferBytes gradient_bytes(const BlockParameters& parameters, const scenario::Scenario& scenario) {
  const std::int64_t element = scenario.optimizer.reduce_bytes();
  return {parameters.dense * element, parameters.experts * element};
}

TransferBytes gathered_bytes(const BlockParameters& parameters, const scenario::Scenario& scenario) {
  const ParameterFormat format = parameter_format(scenario);
  const auto of = [&](std::int64_t linear) {
    return scenario.optimizer.shards_parameters() ? format.whole(linear) : format.gathered(linear);
  };
  return {(parameters.dense - parameters.linear) * Shape::kElement + of(parameters.linear), of(parameters.experts)};
}

std::vector<Op> group_transfers(cost::Collective kind, const TransferBytes& bytes, const Shards& members) {
  const bool gathers = kind == cost::Collective::all_gather;
  std::vector<Op> ops;
  if (bytes.experts > 0) {
    ops.push_back(transfer(gathers ? "gather expert parameters" : "reduce expert gradients", topology::GroupKind::edp,
                           kind, bytes.experts, members.experts));
  }
  ops.push_back(transfer(gathers ? "gather parameters" : "reduce gradients", topology::GroupKind::dp, kind, bytes.dense,
                         members.dense));
  return ops;
}

Op wait_for_parameters() {
  Op op;
  op.name = "parameters are gathered";
  op.work = Work::fixed;
  op.joins = stream_bit(Stream::gather);
  return op;
}

}  // namespace moeplan::plan
