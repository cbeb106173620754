#include "collectives.h"
#include "options.h"
#include "run.h"

#if !defined(MOEPLAN_HAVE_NCCL)

namespace moeplan::device {

int run_collectives(const CollectiveSettings&, const Process&) {
  throw std::runtime_error("this program was built without NCCL (docs/calibration.md says how to build with it)");
}

}  // namespace moeplan::device

#else

#include <algorithm>
#include <memory>

#include "nccl_group.h"
#include "shapes.h"

namespace moeplan::device {
namespace {

constexpr std::int64_t kPairBytes = std::int64_t{64} << 20;

class Sweeps {
 public:
  Sweeps(NcclGroup& group, LineWriter* writer, const CollectiveSettings& settings)
      : group_(group), writer_(writer), settings_(settings) {}

  void sweep(const std::string& name) {
    for (const std::int64_t size : size_ladder(settings_.first, settings_.last, 2)) {
      if (name == "alltoallv") {
        for (const double exponent : {0.6, 1.2}) skewed(size, exponent);
        continue;
      }
      const Transfer transfer = group_.transfer(name, size);
      if (transfer.bytes > 0) write(name, transfer.bytes, group_.time(transfer, settings_.samples), JsonObject());
    }
  }

  // Every pair alone, so that a slow link or network card stands out.
  void pairs() {
    for (std::int64_t a = 0; a < group_.ranks(); ++a) {
      for (std::int64_t b = a + 1; b < group_.ranks(); ++b) {
        std::vector<std::int64_t> matrix(static_cast<std::size_t>(group_.ranks() * group_.ranks()), 0);
        matrix[static_cast<std::size_t>(a * group_.ranks() + b)] = kPairBytes;
        matrix[static_cast<std::size_t>(b * group_.ranks() + a)] = kPairBytes;
        const Collected collected = group_.time(group_.alltoallv(matrix), settings_.samples);
        const bool one_host = group_.host_of(a) == group_.host_of(b);
        if (writer_ != nullptr)
          writer_->write("measurement", JsonObject()
                                            .add("collective", "sendrecv")
                                            .add("pair", std::to_string(a) + "-" + std::to_string(b))
                                            .add("n_gpus", 2)
                                            .add("n_nodes", one_host ? 1 : 2)
                                            .add("size_bytes", kPairBytes)
                                            .add("library", nccl_version())
                                            .add(collected.fields()));
      }
    }
  }

 private:
  void skewed(std::int64_t size, double exponent) {
    const std::vector<std::int64_t> matrix =
        byte_matrix(group_.ranks(), size, exponent, static_cast<std::uint64_t>(settings_.seed), 16);
    std::int64_t sent = 0;
    for (std::int64_t to = 0; to < group_.ranks(); ++to) sent += matrix[static_cast<std::size_t>(to)];
    if (sent == 0) return;
    write("alltoallv", sent, group_.time(group_.alltoallv(matrix), settings_.samples),
          JsonObject().add("distribution", exponent < 1 ? "zipf 0.6" : "zipf 1.2").add("byte_matrix", matrix));
  }

  void write(const std::string& name, std::int64_t size, const Collected& collected, const JsonObject& more) {
    if (writer_ == nullptr) return;
    writer_->write("measurement", JsonObject()
                                      .add("collective", name)
                                      .add("n_gpus", group_.ranks())
                                      .add("n_nodes", group_.hosts())
                                      .add("size_bytes", size)
                                      .add("library", nccl_version())
                                      .add(more)
                                      .add(collected.fields()));
  }

  NcclGroup& group_;
  LineWriter* writer_;  // of the first process alone
  const CollectiveSettings& settings_;
};

}  // namespace

int run_collectives(const CollectiveSettings& settings, const Process& process) {
  NcclGroup group(process, static_cast<int>(settings.gpus), settings.id_file, settings.wait);
  const bool first = process.rank == 0;
  std::unique_ptr<Output> output;
  std::unique_ptr<LineWriter> writer;
  Timer timer(group.first_device());
  if (first) {
    output = std::make_unique<Output>(settings.path);
    writer = std::make_unique<LineWriter>(output->stream());
    writer->set_common(common_fields(timer.properties(), timer.monitor()));
    write_device(*writer, timer);
  }
  const std::string wrong = group.check();
  if (!wrong.empty()) throw std::runtime_error(wrong);
  if (writer && group.ranks() > 1 && group.memory_bytes() > 0)
    write_value(*writer, "overheads.communicator", group.memory_bytes(),
                "free memory before the communicator, less that after its first collectives, on one GPU");
  Sweeps sweeps(group, writer.get(), settings);
  for (const std::string& name : settings.what) {
    if (group.ranks() < 2) {
      if (writer) write_left_out(*writer, name, "one GPU alone");
      continue;
    }
    if (first) std::cerr << "measuring " << name << "\n";
    if (name == "pairs") {
      sweeps.pairs();
    } else {
      sweeps.sweep(name);
    }
  }
  if (writer) writer->finish();
  return 0;
}

}  // namespace moeplan::device

#endif
