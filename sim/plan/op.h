#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost/collectives.h"
#include "cost/kernels.h"
#include "topology/layout.h"

// The vocabulary of rank programs: tensors, operations, and blocks of both (a layer, the loss, the optimizer step) that
// are replayed with different row counts. Sizes in bytes, durations in seconds.
namespace moeplan::plan {

// Who holds memory: the rows of every breakdown.
enum class TensorKind : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  given_static,  // memory.given_static_bytes
  activations_dense,
  activations_moe,
  dispatch_buffers,
  logits_loss,
  workspace,
  communication,
  block_tails,  // of no tensor: what blocks of the allocator hold beyond what was asked of them
  kCount
};
inline constexpr std::size_t kTensorKinds = static_cast<std::size_t>(TensorKind::kCount);
using BytesByKind = std::array<std::int64_t, kTensorKinds>;
std::string_view tensor_kind_name(TensorKind kind);

// Which rows an op or tensor is about: those that a rank receives or sends in one chunk of the routed part, or, counted
// in their place, instances of experts beyond home: those it hosts for others, and those of its own on others.
struct Rows {
  // received: what this rank's experts compute on; arrived: its share of that before the gathering over expert tensor
  // parallelism (equal without it); distinct: tokens among the received rows, in the mean; sent: of its own tokens.
  enum class Kind : std::uint8_t { none, received, arrived, distinct, sent, hosted, lent };
  Kind kind = Kind::none;
  bool backward = false;  // the rows of backward (fewer than forward's under LRMoE)
  std::int16_t chunk = 0;
  bool of_instances() const { return kind == Kind::hosted || kind == Kind::lent; }
};

struct Size {
  std::int64_t bytes = 0;  // fixed part
  std::int64_t bytes_per_row = 0;
  Rows rows;
};

struct Tensor {
  TensorKind kind = TensorKind::activations_dense;
  std::string name;
  Size size;
  // One for all microbatches: made by the first that asks for it, and there until the next iteration begins.
  bool of_step = false;
};

enum class Stream : std::uint8_t {
  compute,
  ep,
  ep_behind,  // of the microbatch in backward where two take turns
  tp,
  dp,
  send_next,         // activations
  receive_previous,  // activations
  send_previous,     // gradients
  receive_next,      // gradients
  // Of chunks that run from the last rank to the first; what such a chunk receives comes on the streams above.
  send_activations_back,
  send_gradients_ahead,
  // Beside the chain of ops that wait for each other; an op that needs a result joins them.
  gather,     // parameters of the layer ahead
  reduce,     // gradients of the layer behind
  to_host,    // copies of saved activations
  from_host,  // and back
  tp_beside,  // tensor-parallel exchanges that products run beside
  kCount
};
constexpr std::uint16_t stream_bit(Stream stream) {
  return static_cast<std::uint16_t>(1U << static_cast<unsigned>(stream));
}

// What a second of device time is spent on, for attribution.
enum class Family : std::uint8_t { attention, expert, dense, router_permute, loss, optimizer, communication, kCount };
inline constexpr std::size_t kFamilies = static_cast<std::size_t>(Family::kCount);
std::string_view family_name(Family family);

enum class Work : std::uint8_t {
  fixed,         // `seconds`, equal on all ranks
  grouped_gemm,  // on the vector of rows of this rank's expert instances
  row_memory,    // streams bytes + bytes_per_row * rows
  collective,    // `collective` of `size.bytes` over `group`
  all_to_all,    // rows of the chunk's matrix, or instances, times size.bytes_per_row
  send,          // to the neighbour that `stream` names
  receive,
  host_copy,  // `size` between device and host memory
};

struct Op {
  std::string name;
  Work work = Work::fixed;
  Family family = Family::dense;
  Stream stream = Stream::compute;
  bool recompute = false;        // runs again what forward ran already
  bool asynchronous = false;     // the next op does not wait for it
  bool beside_exchange = false;  // runs while the exchange before it does: needs nothing of it
  bool beside_tp = false;        // nor of the tensor-parallel one
  bool covered = false;          // an exchange with computation beside it
  bool announces = false;        // a small exchange that the next one needs
  bool host_sync = false;        // the host reads a result (token counts) before it goes on
  std::uint16_t launches = 1;
  std::uint16_t calls = 0;    // eager operations of the framework; 0: the host only launches
  double seconds = 0;         // fixed
  bool product = false;       // of matrices: slower where other kernels hold multiprocessors
  std::int64_t m = 0;         // of a product that is not grouped: its rows
  std::int64_t n = 0, k = 0;  // of a product; grouped GEMM: one [k, n] matrix an expert
  cost::GemmPass pass = cost::GemmPass::forward;
  cost::Precision precision = cost::Precision::bf16;  // of its operands
  cost::MemoryAccess access = cost::MemoryAccess::streaming;
  Size size;  // bytes moved (row_memory), or sent (communication)
  cost::Collective collective = cost::Collective::all_reduce;
  topology::GroupKind group = topology::GroupKind::tp;
  std::int64_t members = 0;                     // collective: of the group, those that exchange; 0: all
  std::uint16_t repeats = 1;                    // collective: as many, one after the other, of that size
  std::int16_t sms = -1;                        // communication: multiprocessors that it holds; -1: by its library
  std::uint16_t joins = 0;                      // streams beside the chain whose ops so far it waits for
  bool towards_source = false;                  // all-to-all: from the expert's rank back to the token's
  bool once_per_rank = false;                   // all-to-all by a dispatch kernel: a token's row goes once to each rank
  bool reversed = false;                        // send, receive: of a chunk that runs from the last rank to the first
  bool weight_gradient = false;                 // needed for a weight gradient alone: may wait (split_backward)
  bool captured = false;                        // replayed from a CUDA graph: the host issues nothing
  bool in_graph = false;                        // what it allocates lies in the graphs' own pool
  std::vector<std::uint32_t> allocates, frees;  // tensors of the block; frees happen after the op
  // Of a weight gradient: what it reads beside what it frees, and what it frees without reading it.
  std::vector<std::uint32_t> reads, unread;
};

// A piece of program with the tensors that it owns. Tensors allocated in forward and freed in backward are what the
// layer keeps.
struct Block {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Op> forward, backward;
  std::vector<Op> weights;  // weight gradients that backward leaves for later
};

}  // namespace moeplan::plan
