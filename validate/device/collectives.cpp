#include "collectives.h"

#include "options.h"
#include "run.h"

namespace moeplan::device {

int collectives_command(const std::vector<std::string>& words) {
  const std::vector<std::string> known = {"all_reduce", "all_gather", "reduce_scatter", "alltoall",
                                          "alltoallv",  "sendrecv",   "pairs"};
  CollectiveSettings settings;
  settings.what = known;
  Process process;
  bool help = false;
  Options options;
  options.whole("--gpus", settings.gpus, 1, 64, "GPUs of this process (all)")
      .text("--output", settings.path, "write to this file")
      .choices("--collectives", settings.what, known, "what to run")
      .whole("--from", settings.first, 16, std::int64_t{1} << 36, "smallest size in bytes (1024)")
      .whole("--to", settings.last, 16, std::int64_t{1} << 36, "largest size in bytes (1 GiB)")
      .whole("--samples", settings.samples, 5, 1000, "timings of each size (20)")
      .whole("--seed", settings.seed, 0, 1 << 30, "of the byte matrices (1)")
      .text("--id-file", settings.id_file,
            "with mpirun or srun: a file that does not exist yet, on a file system that all processes see")
      .real("--wait", settings.wait, 1, 3600, "seconds that processes wait for the first one (120)")
      .flag("--help", help, "this text")
      .check({"--from", "--to"},
             [&]() -> std::vector<std::string> {
               if (settings.first <= settings.last) return {};
               return {"--from: expected at most the " + std::to_string(settings.last) + " of --to, got " +
                       std::to_string(settings.first)};
             })
      .check({"--id-file"}, [&]() -> std::vector<std::string> {
        if (help) return {};
        process = find_process(read_environment);
        if (process.size <= 1 || !settings.id_file.empty()) return {};
        return {"--id-file: needed, as " + process.launcher + " started " + std::to_string(process.size) +
                " processes"};
      });
  options.parse(words);
  if (help) {
    std::cout << "moeplan-device collectives\n" << options.help();
    return 0;
  }
  require_device();
  return run_collectives(settings, process);
}

}  // namespace moeplan::device
