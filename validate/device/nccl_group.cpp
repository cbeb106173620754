#if defined(MOEPLAN_HAVE_NCCL)
#include "nccl_group.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "fill.h"
#include "samples.h"
#include "shapes.h"

namespace moeplan::device {
namespace {

constexpr double kSampleSeconds = 2e-3;
constexpr std::int64_t kMostRepetitions = 50;
constexpr std::size_t kCheckWords = 1000;  // a rank's part, in fp32

std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }
const char* at(const void* data, std::size_t bytes) { return static_cast<const char*>(data) + bytes; }
char* at(void* data, std::size_t bytes) { return static_cast<char*>(data) + bytes; }

}  // namespace

void check_nccl(ncclResult_t code, const char* call, const char* file, int line) {
  if (code == ncclSuccess) return;
  fail_call(std::string(ncclGetErrorString(code)) + " (" + std::to_string(code) + "): " + ncclGetLastError(nullptr),
            call, file, line);
}

std::string nccl_version() {
  int number = 0;
  MOEPLAN_NCCL(ncclGetVersion(&number));
  return "NCCL " + std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

JsonObject Collected::fields() const {
  return JsonObject()
      .add("time_us", median_of(samples_us))
      .add("p10_us", quantile_of(samples_us, 0.1))
      .add("p90_us", quantile_of(samples_us, 0.9))
      .add("uncertainty", median_uncertainty(samples_us))
      .add("repetitions", repetitions)
      .add("samples_us", samples_us);
}

NcclGroup::NcclGroup(const Process& process, int gpus, const std::string& id_file, double wait_seconds) {
  int seen = 0;
  MOEPLAN_CUDA(cudaGetDeviceCount(&seen));
  if (gpus > seen)
    throw std::runtime_error("--gpus " + std::to_string(gpus) + ": this process sees " + std::to_string(seen));
  const bool alone = process.size == 1;
  const int count = alone ? (gpus > 0 ? gpus : seen) : 1;
  ranks_ = alone ? count : process.size;
  if (!alone && ranks_ % process.local_size != 0)
    throw std::runtime_error("the hosts have unequal numbers of processes");
  hosts_ = alone ? 1 : ranks_ / process.local_size;
  if (!alone && process.local_rank >= seen && seen != 1)
    throw std::runtime_error("process " + std::to_string(process.local_rank) + " of this host has no GPU of its own");
  for (int i = 0; i < count; ++i) {
    locals_.push_back(std::make_unique<Local>());
    Local& local = *locals_.back();
    local.device = alone ? i : (seen == 1 ? 0 : static_cast<int>(process.local_rank));
    local.rank = alone ? i : process.rank;
    MOEPLAN_CUDA(cudaSetDevice(local.device));
    local.stream = std::make_unique<Stream>();
    local.begin = std::make_unique<Event>();
    local.end = std::make_unique<Event>();
    local.scratch = Buffer(1024);
  }
  std::size_t before = 0, total = 0;
  MOEPLAN_CUDA(cudaSetDevice(first_device()));
  MOEPLAN_CUDA(cudaMemGetInfo(&before, &total));
  ncclUniqueId id;
  if (process.rank == 0) MOEPLAN_NCCL(ncclGetUniqueId(&id));
  if (!alone) {
    if (process.rank == 0) {
      publish(id_file, {reinterpret_cast<const char*>(&id), reinterpret_cast<const char*>(&id) + sizeof id});
    } else {
      const std::vector<char> bytes = await(id_file, sizeof id, wait_seconds);
      std::memcpy(&id, bytes.data(), sizeof id);
    }
  }
  MOEPLAN_NCCL(ncclGroupStart());
  for (const auto& local : locals_) {
    MOEPLAN_CUDA(cudaSetDevice(local->device));
    MOEPLAN_NCCL(ncclCommInitRank(&local->comm, static_cast<int>(ranks_), id, static_cast<int>(local->rank)));
  }
  MOEPLAN_NCCL(ncclGroupEnd());
  align();
  std::size_t after = 0;
  MOEPLAN_CUDA(cudaSetDevice(first_device()));
  MOEPLAN_CUDA(cudaMemGetInfo(&after, &total));
  memory_bytes_ = before > after ? static_cast<double>(before - after) : 0;
}

NcclGroup::~NcclGroup() {
  // After an error other ranks may wait for this one, and a group of calls may be open: destroying would wait, too.
  const bool failed = std::uncaught_exceptions() > 0;
  for (const auto& local : locals_) {
    if (local->comm == nullptr) continue;
    if (failed) {
      ncclCommAbort(local->comm);
    } else {
      ncclCommDestroy(local->comm);
    }
  }
}

Transfer NcclGroup::transfer(const std::string& name, std::int64_t asked) const {
  // Whole 16-byte words a rank, so that every part starts where wide loads can.
  const std::size_t part = size(asked) / size(ranks_) / 16 * 16, whole = part * size(ranks_);
  const std::size_t words = part / sizeof(float);
  const std::int64_t ranks = ranks_;
  Transfer transfer;
  transfer.bytes = static_cast<std::int64_t>(whole);
  if (name == "all_reduce") {
    transfer.send_bytes = transfer.receive_bytes = whole;
    transfer.enqueue = [=](std::int64_t, const void* send, void* receive, ncclComm_t comm, cudaStream_t stream) {
      MOEPLAN_NCCL(ncclAllReduce(send, receive, words * size(ranks), ncclFloat32, ncclSum, comm, stream));
    };
  } else if (name == "all_gather") {
    transfer.send_bytes = part;
    transfer.receive_bytes = whole;
    transfer.enqueue = [=](std::int64_t, const void* send, void* receive, ncclComm_t comm, cudaStream_t stream) {
      MOEPLAN_NCCL(ncclAllGather(send, receive, words, ncclFloat32, comm, stream));
    };
  } else if (name == "reduce_scatter") {
    transfer.send_bytes = whole;
    transfer.receive_bytes = part;
    transfer.enqueue = [=](std::int64_t, const void* send, void* receive, ncclComm_t comm, cudaStream_t stream) {
      MOEPLAN_NCCL(ncclReduceScatter(send, receive, words, ncclFloat32, ncclSum, comm, stream));
    };
  } else if (name == "alltoall") {
    const std::size_t pairs = size(ranks_) * size(ranks_);
    transfer = alltoallv(std::vector<std::int64_t>(pairs, static_cast<std::int64_t>(part)));
    transfer.bytes = static_cast<std::int64_t>(whole);
  } else if (name == "sendrecv") {
    transfer.bytes = asked / 16 * 16;
    transfer.send_bytes = transfer.receive_bytes = size(transfer.bytes);
    const std::size_t bytes = transfer.send_bytes;
    transfer.enqueue = [=](std::int64_t rank, const void* send, void* receive, ncclComm_t comm, cudaStream_t stream) {
      MOEPLAN_NCCL(ncclSend(send, bytes, ncclInt8, static_cast<int>((rank + 1) % ranks), comm, stream));
      MOEPLAN_NCCL(ncclRecv(receive, bytes, ncclInt8, static_cast<int>((rank + ranks - 1) % ranks), comm, stream));
    };
  } else {
    throw std::runtime_error("no collective " + name);
  }
  return transfer;
}

Transfer NcclGroup::alltoallv(const std::vector<std::int64_t>& matrix) const {
  Transfer transfer;
  const std::int64_t ranks = ranks_;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::int64_t sent = 0, received = 0;
    for (std::int64_t other = 0; other < ranks; ++other) {
      sent += matrix[size(rank * ranks + other)];
      received += matrix[size(other * ranks + rank)];
    }
    transfer.bytes = std::max(transfer.bytes, sent);
    transfer.send_bytes = std::max(transfer.send_bytes, size(sent));
    transfer.receive_bytes = std::max(transfer.receive_bytes, size(received));
  }
  transfer.enqueue = [=](std::int64_t rank, const void* send, void* receive, ncclComm_t comm, cudaStream_t stream) {
    std::size_t sent = 0, received = 0;
    for (std::int64_t other = 0; other < ranks; ++other) {
      const std::size_t out = size(matrix[size(rank * ranks + other)]), in = size(matrix[size(other * ranks + rank)]);
      if (out > 0) MOEPLAN_NCCL(ncclSend(at(send, sent), out, ncclInt8, static_cast<int>(other), comm, stream));
      if (in > 0) MOEPLAN_NCCL(ncclRecv(at(receive, received), in, ncclInt8, static_cast<int>(other), comm, stream));
      sent += out;
      received += in;
    }
  };
  return transfer;
}

void NcclGroup::run(const Transfer& transfer) {
  MOEPLAN_NCCL(ncclGroupStart());
  for (const auto& local : locals_) {
    MOEPLAN_CUDA(cudaSetDevice(local->device));
    transfer.enqueue(local->rank, local->send.data(), local->receive.data(), local->comm, local->stream->get());
  }
  MOEPLAN_NCCL(ncclGroupEnd());
}

void NcclGroup::reserve(const Transfer& transfer) {
  for (const auto& local : locals_) {
    MOEPLAN_CUDA(cudaSetDevice(local->device));
    if (local->send.bytes() < transfer.send_bytes) {
      local->send = Buffer();
      local->send = Buffer(transfer.send_bytes);
      fill_random(local->send.data(), transfer.send_bytes / sizeof(float), Element::fp32, 1,
                  17 + static_cast<std::uint64_t>(local->rank), local->stream->get());
    }
    if (local->receive.bytes() < transfer.receive_bytes) {
      local->receive = Buffer();
      local->receive = Buffer(transfer.receive_bytes);
    }
  }
}

void NcclGroup::wait() {
  for (const auto& local : locals_) {
    MOEPLAN_CUDA(cudaSetDevice(local->device));
    local->stream->wait();
  }
}

// A tiny all-reduce: afterwards all ranks stand at the same place.
void NcclGroup::align() { largest(std::vector<double>(locals_.size(), 0)); }

double NcclGroup::largest(const std::vector<double>& of_locals) {
  MOEPLAN_NCCL(ncclGroupStart());
  for (std::size_t i = 0; i < locals_.size(); ++i) {
    Local& local = *locals_[i];
    MOEPLAN_CUDA(cudaSetDevice(local.device));
    MOEPLAN_CUDA(cudaMemcpyAsync(local.scratch.data(), &of_locals[i], sizeof(double), cudaMemcpyHostToDevice,
                                 local.stream->get()));
    MOEPLAN_NCCL(ncclAllReduce(local.scratch.data(), local.scratch.data(), 1, ncclFloat64, ncclMax, local.comm,
                               local.stream->get()));
  }
  MOEPLAN_NCCL(ncclGroupEnd());
  wait();
  double result = 0;
  MOEPLAN_CUDA(cudaSetDevice(first_device()));
  MOEPLAN_CUDA(cudaMemcpy(&result, locals_.front()->scratch.data(), sizeof result, cudaMemcpyDeviceToHost));
  return result;
}

// All ranks take the same number of samples and repetitions: what decides them is the largest over all.
Collected NcclGroup::time(const Transfer& transfer, std::int64_t samples) {
  reserve(transfer);
  const auto timed = [&](std::int64_t repetitions) {
    align();
    for (const auto& local : locals_) {
      MOEPLAN_CUDA(cudaSetDevice(local->device));
      local->begin->record(local->stream->get());
    }
    for (std::int64_t i = 0; i < repetitions; ++i) run(transfer);
    std::vector<double> seconds;
    for (const auto& local : locals_) {
      MOEPLAN_CUDA(cudaSetDevice(local->device));
      local->end->record(local->stream->get());
    }
    for (const auto& local : locals_) {
      MOEPLAN_CUDA(cudaSetDevice(local->device));
      local->end->wait();
      seconds.push_back(seconds_between(*local->begin, *local->end));
    }
    return largest(seconds) / static_cast<double>(repetitions);
  };
  timed(2);
  Collected collected;
  collected.repetitions = repetitions_for(timed(5), kSampleSeconds, kMostRepetitions);
  for (std::int64_t i = 0; i < samples; ++i) collected.samples_us.push_back(timed(collected.repetitions) * 1e6);
  return collected;
}

std::string NcclGroup::verify(const Transfer& transfer, const std::string& name,
                              const std::function<float(std::int64_t, std::size_t)>& sent,
                              const std::function<float(std::int64_t, std::size_t)>& wanted,
                              const std::function<std::size_t(std::int64_t)>& words_of) {
  reserve(transfer);
  std::vector<float> host(transfer.send_bytes / sizeof(float));
  for (const auto& local : locals_) {
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = sent(local->rank, i);
    MOEPLAN_CUDA(cudaSetDevice(local->device));
    local->stream->wait();
    MOEPLAN_CUDA(cudaMemcpy(local->send.data(), host.data(), transfer.send_bytes, cudaMemcpyHostToDevice));
    MOEPLAN_CUDA(cudaMemset(local->receive.data(), 0xFF, transfer.receive_bytes));
    MOEPLAN_CUDA(cudaDeviceSynchronize());
  }
  run(transfer);
  wait();
  for (const auto& local : locals_) {
    const std::size_t words = words_of(local->rank);
    std::vector<float> got(words);
    MOEPLAN_CUDA(cudaSetDevice(local->device));
    MOEPLAN_CUDA(cudaMemcpy(got.data(), local->receive.data(), words * sizeof(float), cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < words; ++i) {
      if (!(got[i] == wanted(local->rank, i)))
        return name + ": rank " + std::to_string(local->rank) + " received " + std::to_string(got[i]) + " at " +
               std::to_string(i) + ", expected " + std::to_string(wanted(local->rank, i));
    }
  }
  return {};
}

// Word i of rank r is r * 4096 + i mod 1024: whole numbers, whose sums are exact in fp32.
std::string NcclGroup::check() {
  const auto sent = [](std::int64_t rank, std::size_t i) {
    return static_cast<float>(rank * 4096 + static_cast<std::int64_t>(i % 1024));
  };
  const std::size_t part = kCheckWords / 4 * 4;
  const std::int64_t bytes = static_cast<std::int64_t>(part * sizeof(float)) * ranks_;
  const auto sum = [&](std::size_t i) {
    return static_cast<float>(4096 * ranks_ * (ranks_ - 1) / 2 + ranks_ * static_cast<std::int64_t>(i % 1024));
  };
  // Every rank takes part in all of them, whatever it found: a rank that stopped would leave the others waiting.
  std::string wrong;
  const auto take = [&](const std::string& found) {
    if (wrong.empty()) wrong = found;
  };
  const auto all = [&](std::int64_t) { return part * size(ranks_); };
  const auto one = [&](std::int64_t) { return part; };
  take(verify(
      transfer("all_reduce", bytes), "all_reduce", sent, [&](std::int64_t, std::size_t i) { return sum(i); }, all));
  take(verify(
      transfer("all_gather", bytes), "all_gather", sent,
      [&](std::int64_t, std::size_t i) { return sent(static_cast<std::int64_t>(i / part), i % part); }, all));
  take(verify(
      transfer("reduce_scatter", bytes), "reduce_scatter", sent,
      [&](std::int64_t rank, std::size_t i) { return sum(size(rank) * part + i); }, one));
  take(verify(
      transfer("alltoall", bytes), "alltoall", sent,
      [&](std::int64_t rank, std::size_t i) {
        return sent(static_cast<std::int64_t>(i / part), size(rank) * part + i % part);
      },
      all));
  take(verify(
      transfer("sendrecv", static_cast<std::int64_t>(part * sizeof(float))), "sendrecv", sent,
      [&](std::int64_t rank, std::size_t i) { return sent((rank + ranks_ - 1) % ranks_, i); }, one));
  const std::vector<std::int64_t> matrix = uneven_matrix(ranks_);
  std::vector<std::vector<SentWord>> uneven;
  for (std::int64_t rank = 0; rank < ranks_; ++rank) uneven.push_back(words_received(matrix, ranks_, rank));
  take(verify(
      alltoallv(matrix), "alltoallv", sent,
      [&](std::int64_t rank, std::size_t i) { return sent(uneven[size(rank)][i].rank, uneven[size(rank)][i].place); },
      [&](std::int64_t rank) { return uneven[size(rank)].size(); }));
  const bool anywhere = largest(std::vector<double>(locals_.size(), wrong.empty() ? 0 : 1)) > 0;
  if (anywhere && wrong.empty()) wrong = "a collective gave wrong results on another rank";
  return wrong;
}

}  // namespace moeplan::device
#endif
