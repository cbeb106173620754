#pragma once
#include <nccl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "json_lines.h"
#include "processes.h"
#include "resources.h"

// All ranks of a communicator that live in this process, and how long a collective takes over all of them.
namespace moeplan::device {

void check_nccl(ncclResult_t code, const char* call, const char* file, int line);
#define MOEPLAN_NCCL(call) ::moeplan::device::check_nccl((call), #call, __FILE__, __LINE__)
std::string nccl_version();  // "NCCL 2.28.9"

struct Transfer {
  std::int64_t bytes = 0;                         // as nccl-tests counts it; 0: too small for this many ranks
  std::size_t send_bytes = 0, receive_bytes = 0;  // buffers of one rank, the largest of all
  // Enqueues the part of one rank; called inside a group of all local ranks.
  std::function<void(std::int64_t rank, const void* send, void* receive, ncclComm_t comm, cudaStream_t stream)> enqueue;
};

struct Collected {
  std::vector<double> samples_us;  // of one repetition, each the longest of all ranks
  std::int64_t repetitions = 0;
  JsonObject fields() const;
};

class NcclGroup {
 public:
  // One process alone drives `gpus` devices (0: all it sees); of several, each drives the one of its local rank.
  NcclGroup(const Process& process, int gpus, const std::string& id_file, double wait_seconds);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  std::int64_t ranks() const { return ranks_; }
  std::int64_t hosts() const { return hosts_; }
  std::int64_t host_of(std::int64_t rank) const { return rank / (ranks_ / hosts_); }
  int first_device() const { return locals_.front()->device; }
  double memory_bytes() const { return memory_bytes_; }

  // all_reduce, all_gather, reduce_scatter (fp32), alltoall, sendrecv (a ring) of `size` bytes as nccl-tests counts.
  Transfer transfer(const std::string& name, std::int64_t size) const;
  // matrix[i * ranks + j]: bytes from rank i to rank j.
  Transfer alltoallv(const std::vector<std::int64_t>& matrix) const;

  Collected time(const Transfer& transfer, std::int64_t samples);
  // Small transfers of known contents; what is wrong with the results on some rank, empty: nothing. All processes get
  // an answer, so that none goes on without the others.
  std::string check();

 private:
  struct Local {
    int device = 0;
    std::int64_t rank = 0;
    ncclComm_t comm = nullptr;
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Event> begin, end;
    Buffer send, receive, scratch;
  };
  void run(const Transfer& transfer);
  void reserve(const Transfer& transfer);
  void wait();
  void align();
  // The largest over all ranks, of one number each.
  double largest(const std::vector<double>& of_locals);
  // `words`: of a rank's result.
  std::string verify(const Transfer& transfer, const std::string& name,
                     const std::function<float(std::int64_t rank, std::size_t word)>& sent,
                     const std::function<float(std::int64_t rank, std::size_t word)>& wanted,
                     const std::function<std::size_t(std::int64_t rank)>& words);

  std::int64_t ranks_ = 0, hosts_ = 1;
  double memory_bytes_ = 0;
  std::vector<std::unique_ptr<Local>> locals_;
};

}  // namespace moeplan::device
