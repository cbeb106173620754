#include "plan/group_transfers.h"

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

std::vector<Op> group_transfers(cost::Collective kind, const BlockParameters& parameters, const Shards& members,
                                std::int64_t element_bytes) {
  const bool gathers = kind == cost::Collective::all_gather;
  std::vector<Op> ops;
  if (parameters.experts > 0) {
    ops.push_back(transfer(gathers ? "gather expert parameters" : "reduce expert gradients", topology::GroupKind::edp,
                           kind, parameters.experts * element_bytes, members.experts));
  }
  ops.push_back(transfer(gathers ? "gather parameters" : "reduce gradients", topology::GroupKind::dp, kind,
                         parameters.dense * element_bytes, members.dense));
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
