#include "measurements/nccl_log.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

namespace moeplan::measurements {
namespace {

// A row as nccl-tests prints it: algorithm bandwidth is size over time, bus bandwidth that times `share`
// (2 (n - 1) / n for all-reduce, (n - 1) / n for all-gather), twice: out of place, and in place 1 us later.
std::string row(std::int64_t size, double time_us, double share, const std::string& root = "    -1",
                const std::string& redop = "   sum", const std::string& wrong = "    0") {
  std::string text = fmt::format("{:>12}  {:>12}  {:>8}{}{}", size, size / 4, "float", redop, root);
  for (const double time : {time_us, time_us + 1}) {
    const double algbw = static_cast<double>(size) / time / 1e3;
    text += fmt::format("  {:>7}  {:6.2f}  {:6.2f}  {}",
                        time < 1000 ? fmt::format("{:.2f}", time) : fmt::format("{:.1f}", time), algbw, algbw * share,
                        wrong);
  }
  return text + "\n";
}

const std::string kHeader =
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n";
const std::string kTrailer = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 12.3\n#\n";

std::string ranks(int count, int per_host, const std::string& gpu = "NVIDIA H100 80GB HBM3") {
  std::string text = "# Using devices\n";
  for (int i = 0; i < count; ++i)
    text += fmt::format("#  Rank {:2} Group  0 Pid {} on host-{} device {:2} [0000:{:02x}:00] {}\n", i, 900 + i,
                        i / per_host, i % per_host, 16 + i, gpu);
  return text;
}

const std::string kNew =
    "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n"
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor)\n#\n";
const double kReduce8 = 1.75, kReduce16 = 1.875, kGather8 = 0.875;

CollectiveLog read(const std::string& text, const std::string& file = "run.log", const Stated& stated = {}) {
  return read_nccl_log(text, file, stated);
}

}  // namespace

TEST_CASE("a log of nccl-tests gives collective, ranks, nodes, part, sizes and out-of-place times") {
  const CollectiveLog log = read(kNew + ranks(16, 8) + "#\n" + kHeader + row(1048576, 100, kReduce16) +
                                 row(2097152, 150.5, kReduce16) + kTrailer);
  CHECK(log.set_aside.empty());
  REQUIRE(log.rows.size() == 2);
  const CollectiveRow& first = log.rows[0];
  CHECK(first.collective == "all_reduce");
  CHECK(first.ranks == 16);
  CHECK(first.nodes == 2);
  CHECK(first.gpu == "NVIDIA H100 80GB HBM3");
  CHECK(first.size_bytes == 1048576);
  CHECK(first.time_s == doctest::Approx(100e-6));
  CHECK(first.where.file == "run.log");
  CHECK(first.where.line ==
        26);  // after 4 lines of the head, "Using devices", 16 ranks, one "#", 3 of the table's head
  CHECK(log.rows[1].time_s == doctest::Approx(150.5e-6));
}

TEST_CASE("older logs name no collective: the launch line does, else the file's name, else the user") {
  const std::string body = "# nThread 1 nGpus 8 minBytes 8\n" + kHeader + row(1048576, 100, kGather8);
  CHECK(read("+ mpirun -np 1 ./build/all_gather_perf -b 8 -e 1G -g 8\n" + body).rows.at(0).collective == "all_gather");
  CHECK(read(body, "logs/h100-reduce-scatter.txt").rows.at(0).collective == "reduce_scatter");
  CHECK(read(body, "run.log", {"alltoall", "", 0, 0}).rows.at(0).collective == "alltoall");
  const CollectiveLog none = read(body);
  CHECK(none.rows.empty());
  REQUIRE(none.set_aside.size() == 1);
  CHECK(none.set_aside[0].where.line == 5);
  CHECK(none.set_aside[0].message.find("--collective") != std::string::npos);
}

TEST_CASE("logs before 2.11 have no root column and print error in place of #wrong") {
  const std::string header =
      "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n";
  const CollectiveLog log =
      read("# nThread 1 nGpus 8\n" + header + row(1048576, 100, kReduce8, "", "   sum", "2e-06"), "all_reduce.log");
  CHECK(log.set_aside.empty());
  REQUIRE(log.rows.size() == 1);
  CHECK(log.rows[0].ranks == 8);
  CHECK(log.rows[0].time_s == doctest::Approx(100e-6));
}

TEST_CASE("cells of redop and root may be blank under their heads") {
  const CollectiveLog log = read(kHeader + row(1048576, 100, kGather8, "", ""), "all_gather.log");
  REQUIRE(log.rows.size() == 1);
  CHECK(log.rows[0].ranks == 8);
}

TEST_CASE("N/A in the columns of wrong values is not a fault, and the in-place time stands in for a missing one") {
  // alltoall of 8: 1 MiB in 100 us is 10.49 GB/s, times 7/8 9.18
  const std::string half = "  1048576  32768  float  none  -1  ";
  const CollectiveLog log =
      read(kHeader + half + "100.0 10.49 9.18 0 N/A N/A N/A N/A\n" + half + "N/A N/A N/A N/A 200.0 5.24 4.59 N/A\n",
           "alltoall.log");
  CHECK(log.set_aside.empty());
  REQUIRE(log.rows.size() == 2);
  CHECK(log.rows[0].time_s == doctest::Approx(100e-6));
  CHECK(log.rows[1].time_s == doctest::Approx(200e-6));
}

TEST_CASE("a damaged out-of-place time is set aside with its line: the one in place does not stand in for it") {
  const std::string half = "  1048576  32768  float  none  -1  ", good = " 200.0 5.24 4.59 0\n";
  for (const char* damaged : {"1x0.0 10.49 9.18 0", "-100.0 10.49 9.18 0", "100.0 10.?9 9.18 0", "0 10.49 9.18 0"}) {
    CAPTURE(damaged);
    const CollectiveLog log =
        read(kHeader + half + "100.0 10.49 9.18 0" + good + half + damaged + good, "alltoall.log");
    REQUIRE(log.rows.size() == 1);
    CHECK(log.rows[0].time_s == doctest::Approx(100e-6));
    REQUIRE(log.set_aside.size() == 1);
    CHECK(log.set_aside[0].where.line == 5);
    CHECK(log.set_aside[0].message.find("cut or mixed") != std::string::npos);
  }
}

TEST_CASE("a statement that contradicts the log sets its rows aside") {
  const std::string text = kNew + ranks(16, 8) + kHeader + row(1024, 30, kReduce16) + kTrailer;
  CHECK(read(text, "run.log", {"", "", 16, 2}).rows.size() == 1);
  CHECK(read(text, "run.log", {"", "", 0, 0}).rows.size() == 1);
  const CollectiveLog other = read(text, "run.log", {"", "", 8, 0});
  CHECK(other.rows.empty());
  REQUIRE(other.set_aside.size() == 1);
  CHECK(other.set_aside[0].message == "the log ran on 16 ranks, not on 8 as --ranks says");
  const CollectiveLog nodes = read(text, "run.log", {"", "", 16, 4});
  CHECK(nodes.rows.empty());
  REQUIRE(nodes.set_aside.size() == 1);
  CHECK(nodes.set_aside[0].message == "the log ran on 2 nodes, not on 4 as --nodes says");
}

TEST_CASE("tags of mpirun and srun in front of lines are taken off") {
  for (const char* tag : {"[1,0]<stdout>:", " 0: "}) {
    std::string text;
    std::string rest = kNew + ranks(8, 8) + kHeader + row(1048576, 100, kReduce8);
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      text += tag + rest.substr(0, end + 1);
      rest.erase(0, end + 1);
    }
    const CollectiveLog log = read(text);
    CAPTURE(tag);
    CHECK(log.set_aside.empty());
    REQUIRE(log.rows.size() == 1);
    CHECK(log.rows[0].ranks == 8);
    CHECK(log.rows[0].collective == "all_reduce");
  }
}

TEST_CASE("lines of the library, of ssh and of schedulers between rows are passed over") {
  const CollectiveLog log =
      read(kNew + "host-0:991:991 [0] NCCL INFO Bootstrap: Using eth0\n" + ranks(8, 8) +
           "Warning: Permanently added 'host-1' (ED25519) to the list of known hosts.\n" + kHeader +
           row(1048576, 100, kReduce8) + "host-0:991:1002 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n" +
           "1024 bytes were received\n" + row(2097152, 150, kReduce8) + kTrailer);
  CHECK(log.set_aside.empty());
  CHECK(log.rows.size() == 2);
}

TEST_CASE("two tables printed row by row into one another are taken apart by their rising sizes") {
  // Two processes of 8 GPUs on two hosts without MPI: each is a job of 8 ranks on one node.
  const CollectiveLog log = read("all_reduce_perf -g 8\n# nThread 1 nGpus 8\n# nThread 1 nGpus 8\n" + ranks(8, 8) +
                                 "#  Rank  0 Group  0 Pid 77 on host-9 device  0 [0x10] NVIDIA H100 80GB HBM3\n" +
                                 kHeader + kHeader + row(1048576, 100, kReduce8) + row(1048576, 102, kReduce8) +
                                 row(2097152, 150, kReduce8) + row(2097152, 152, kReduce8) + kTrailer + kTrailer);
  CHECK(log.set_aside.empty());
  REQUIRE(log.rows.size() == 4);
  for (const CollectiveRow& one : log.rows) {
    CHECK(one.ranks == 8);
    CHECK(one.nodes == 1);
  }
}

TEST_CASE("times of any width, sizes that are no powers of two, and rows without bytes are read") {
  // 36953 us, printed without a point: 16 GiB / 36953 us = 464.9 GB/s, times 1.75 813.6
  const CollectiveLog log =
      read(kHeader + row(0, 5, kReduce8) + row(1000000, 12.9, kReduce8) +
               " 17179869184  4294967296  float  sum  -1  36953  464.91  813.59  0  36900  465.58 "
               "814.76  0\n",
           "all_reduce.log");
  CHECK(log.set_aside.empty());
  REQUIRE(log.rows.size() == 2);
  CHECK(log.rows[0].size_bytes == 1000000);
  CHECK(log.rows[0].time_s == doctest::Approx(12.9e-6));
  CHECK(log.rows[1].time_s == doctest::Approx(36953e-6));
}

TEST_CASE("without rank lines the ranks follow from bus over algorithm bandwidth") {
  // 1.875 = 2 (16 - 1) / 16; 1.96875 = 2 (64 - 1) / 64
  CHECK(read(kHeader + row(1 << 30, 5000, 1.875), "all_reduce.log").rows.at(0).ranks == 16);
  CHECK(read(kHeader + row(1 << 30, 5000, 1.96875), "all_reduce.log").rows.at(0).ranks == 64);
  CHECK(read(kHeader + row(1 << 30, 5000, 0.75), "all_gather.log").rows.at(0).ranks == 4);
  CHECK(read(kHeader + row(1 << 30, 5000, 0.75), "all_gather.log").rows.at(0).nodes == 0);
  CHECK(read(kHeader + row(1 << 30, 5000, 0.75), "all_gather.log", {"", "", 0, 2}).rows.at(0).nodes == 2);
}

TEST_CASE("rank lines that are cut leave the count to the bandwidths, and tell how many GPUs a host has") {
  const std::string cut = ranks(4, 4) + "...\n";
  const CollectiveLog log = read(kNew + cut + kHeader + row(1 << 30, 5000, kReduce16));
  REQUIRE(log.rows.size() == 1);
  CHECK(log.rows[0].ranks == 16);
  CHECK(log.rows[0].nodes == 4);
}

TEST_CASE("a ratio of one tells no count: sendrecv needs rank lines or a statement") {
  const std::string body = kHeader + row(1 << 30, 5000, 1.0, "    -1", "  none");
  const CollectiveLog silent = read(body, "sendrecv.log");
  CHECK(silent.rows.empty());
  REQUIRE(silent.set_aside.size() == 1);
  CHECK(silent.set_aside[0].message.find("--ranks") != std::string::npos);
  CHECK(read(body, "sendrecv.log", {"", "", 2, 2}).rows.at(0).ranks == 2);
  CHECK(read(ranks(2, 1) + body, "sendrecv.log").rows.at(0).nodes == 2);
}

TEST_CASE("a row that contradicts the others is set aside with its line: the log is mixed") {
  const CollectiveLog log = read(kNew + ranks(8, 8) + kHeader + row(1 << 20, 100, kReduce8) +
                                 row(1 << 21, 150, kGather8) + row(1 << 22, 250, kReduce8));
  CHECK(log.rows.size() == 2);
  REQUIRE(log.set_aside.size() == 1);
  CHECK(log.set_aside[0].where.line == 4 + 9 + 3 + 2);
  CHECK(log.set_aside[0].message.find("not to the 8 of this table") != std::string::npos);
}

TEST_CASE("a row that is cut, and one whose result was wrong, are set aside with their lines") {
  const std::string whole = row(1 << 21, 150, kReduce8);
  const CollectiveLog log = read(kHeader + row(1 << 20, 100, kReduce8) +
                                     row(1 << 22, 200, kReduce8, "    -1", "   sum", "    7") + whole.substr(0, 48),
                                 "all_reduce.log");
  CHECK(log.rows.size() == 1);
  REQUIRE(log.set_aside.size() == 2);
  CHECK(log.set_aside[0].where.line == 5);
  CHECK(log.set_aside[0].message.starts_with("7 values"));
  CHECK(log.set_aside[1].where.line == 6);
}

TEST_CASE("rank lines of several kinds of GPU set the whole table aside") {
  const CollectiveLog log =
      read(kNew + ranks(7, 8) + "#  Rank  7 Group  0 Pid 9 on host-0 device  7 [0x10] NVIDIA A100-SXM4-80GB\n" +
           kHeader + row(1 << 20, 100, kReduce8));
  CHECK(log.rows.empty());
  REQUIRE(log.set_aside.size() == 1);
  CHECK(log.set_aside[0].message.find("several kinds") != std::string::npos);
}

TEST_CASE("a log with several tests one after the other keeps them apart") {
  const std::string gather = "# Collective test starting: all_gather_perf\n# nThread 1 nGpus 8\n";
  const CollectiveLog log = read(kNew + ranks(8, 8) + kHeader + row(1 << 20, 100, kReduce8) + kTrailer + gather +
                                 ranks(4, 4) + kHeader + row(1 << 20, 60, 0.75) + kTrailer);
  CHECK(log.set_aside.empty());
  REQUIRE(log.rows.size() == 2);
  CHECK(log.rows[0].collective == "all_reduce");
  CHECK(log.rows[0].ranks == 8);
  CHECK(log.rows[1].collective == "all_gather");
  CHECK(log.rows[1].ranks == 4);
}

TEST_CASE("rccl-tests add a version line, and columns of algorithm, protocol and channels") {
  const std::string header =
      "# rccl-tests: Version develop:abc\n"
      "#   size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong  algo  proto  "
      "nchannels\n";
  const std::string line = row(1 << 20, 100, kReduce8);
  const CollectiveLog log =
      read("# Collective test starting: all_reduce_perf\n# nThread 1\n" + ranks(8, 8, "AMD Instinct MI300X") + header +
           line.substr(0, line.size() - 1) + "  RING  SIMPLE  64\n");
  CHECK(log.set_aside.empty());
  REQUIRE(log.rows.size() == 1);
  CHECK(log.rows[0].gpu == "AMD Instinct MI300X");
  CHECK(log.rows[0].time_s == doctest::Approx(100e-6));
}

TEST_CASE("tables of torch's all_reduce_bench give the time as payload over algorithm bandwidth") {
  // 1 GiB at 100.00 GB/s of algorithm bandwidth: 10737.4 us; 175.00 over 100.00 is 8 ranks
  const CollectiveLog log = read(
      "The average bandwidth of all_reduce over 8 ranks (5 warmups / 20 trials):\n\n"
      "| payload |    busbw   |    algbw   |\n| ------: | ---------: | ---------: |\n"
      "|  32KiB  |   1.75GBps |   1.00GBps |\n|   1GiB  | 175.00GBps | 100.00GBps |\n|   2GiB |  0GBps | 0GBps |\n");
  REQUIRE(log.rows.size() == 2);
  CHECK(log.rows[0].size_bytes == 32768);
  CHECK(log.rows[0].collective == "all_reduce");
  CHECK(log.rows[1].ranks == 8);
  CHECK(log.rows[1].time_s == doctest::Approx(1073741824 / 100e9));
  REQUIRE(log.set_aside.size() == 1);
  CHECK(log.set_aside[0].where.line == 7);
}

TEST_CASE("HCCL's performance test names program, ranks and nodes in its launch line") {
  // 1 MiB in 100 us is 10.48576 GB/s
  const CollectiveLog log = read(
      "mpirun -n 16 ./bin/all_reduce_test -b 8K -e 64M -f 2 -d fp32 -o sum -p 8\n"
      "data_size(Bytes):    aveg_time(us):    alg_bandwidth(GB/s):    check_result:\n"
      "1048576              100.00            10.48576                success\n"
      "2097152              150.00            13.98101                failed\n"
      "4194304              200.00\n");
  REQUIRE(log.rows.size() == 1);
  CHECK(log.rows[0].collective == "all_reduce");
  CHECK(log.rows[0].ranks == 16);
  CHECK(log.rows[0].nodes == 2);
  CHECK(log.rows[0].time_s == doctest::Approx(100e-6));
  REQUIRE(log.set_aside.size() == 2);
  CHECK(log.set_aside[0].where.line == 4);
  CHECK(log.set_aside[1].where.line == 5);
}

TEST_CASE("a text without any row gives none") {
  CHECK(read("").rows.empty());
  CHECK(read("hello\n# size\n12 apples\n").rows.empty());
  CHECK(read("hello\n# size\n12 apples\n").set_aside.empty());
}

}  // namespace moeplan::measurements
