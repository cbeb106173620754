#include "options.h"
#include "run.h"

#if !defined(MOEPLAN_HAVE_NCCL)

namespace moeplan::device {

int collectives_command(const std::vector<std::string>&) {
  throw std::runtime_error("this program was built without NCCL (docs/calibration.md says how to build with it)");
}

}  // namespace moeplan::device

#else

#include <algorithm>
#include <memory>

#include "nccl_group.h"
#include "processes.h"
#include "shapes.h"

namespace moeplan::device {
namespace {

constexpr std::int64_t kPairBytes = std::int64_t{64} << 20;
const std::vector<std::string> kKnown = {"all_reduce", "all_gather", "reduce_scatter", "alltoall",
                                         "alltoallv",  "sendrecv",   "pairs"};

struct Settings {
  std::int64_t gpus = 0, first = 1024, last = std::int64_t{1} << 30, samples = 20, seed = 1;
  std::string path, id_file;
  std::vector<std::string> what = kKnown;
  double wait = 120;
};

class Session {
 public:
  Session(NcclGroup& group, LineWriter* writer, const Settings& settings)
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
  const Settings& settings_;
};

}  // namespace

int collectives_command(const std::vector<std::string>& words) {
  Settings settings;
  bool help = false;
  Options options;
  options.whole("--gpus", settings.gpus, 1, 64, "GPUs of this process (all)")
      .text("--output", settings.path, "write to this file")
      .choices("--collectives", settings.what, kKnown, "what to run")
      .whole("--from", settings.first, 16, std::int64_t{1} << 36, "smallest size in bytes (1024)")
      .whole("--to", settings.last, 16, std::int64_t{1} << 36, "largest size in bytes (1 GiB)")
      .whole("--samples", settings.samples, 5, 1000, "timings of each size (20)")
      .whole("--seed", settings.seed, 0, 1 << 30, "of the byte matrices (1)")
      .text("--id-file", settings.id_file,
            "with mpirun or srun: a file that does not exist yet, on a file system that all processes see")
      .real("--wait", settings.wait, 1, 3600, "seconds that processes wait for the first one (120)")
      .flag("--help", help, "this text");
  options.parse(words);
  if (help) {
    std::cout << "moeplan-device collectives\n" << options.help();
    return 0;
  }
  if (settings.first > settings.last) throw UsageError("--from: larger than --to");
  const Process process = find_process(read_environment);
  if (process.size > 1 && settings.id_file.empty())
    throw UsageError("--id-file: needed, as " + process.launcher + " started " + std::to_string(process.size) +
                     " processes");
  require_device();
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
  Session session(group, writer.get(), settings);
  for (const std::string& name : settings.what) {
    if (group.ranks() < 2) {
      if (writer) write_left_out(*writer, name, "one GPU alone");
      continue;
    }
    if (first) std::cerr << "measuring " << name << "\n";
    if (name == "pairs") {
      session.pairs();
    } else {
      session.sweep(name);
    }
  }
  if (writer) writer->finish();
  return 0;
}

}  // namespace moeplan::device

#endif
