#include "plan/op.h"

namespace moeplan::plan {

std::string_view tensor_kind_name(TensorKind kind) {
  switch (kind) {
    case TensorKind::parameters:
      return "parameters";
    case TensorKind::gradients:
      return "gradients";
    case TensorKind::optimizer:
      return "optimizer";
    case TensorKind::given_static:
      return "given_static";
    case TensorKind::activations_dense:
      return "activations_dense";
    case TensorKind::activations_moe:
      return "activations_moe";
    case TensorKind::dispatch_buffers:
      return "dispatch_buffers";
    case TensorKind::logits_loss:
      return "logits_loss";
    case TensorKind::workspace:
      return "workspace";
    case TensorKind::communication:
      return "communication";
    case TensorKind::block_tails:
      return "block_tails";
    case TensorKind::kCount:
      break;
  }
  return "";
}

std::string_view family_name(Family family) {
  switch (family) {
    case Family::attention:
      return "attention";
    case Family::expert:
      return "expert";
    case Family::dense:
      return "dense";
    case Family::router_permute:
      return "router_permute";
    case Family::loss:
      return "loss";
    case Family::optimizer:
      return "optimizer";
    case Family::communication:
      return "communication";
    case Family::kCount:
      break;
  }
  return "";
}

}  // namespace moeplan::plan
