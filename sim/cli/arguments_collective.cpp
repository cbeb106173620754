#include <CLI/CLI.hpp>

#include "cli/arguments_options.h"

namespace moeplan::cli {

void add_collective(CLI::App& app, Arguments& arguments) {
  CLI::App& command =
      add_command(app, "collective", "How long does one collective take, and which link binds?",
                  "Examples:\n"
                  "  moeplan collective all_to_all --uniform '1 MB' --ranks 64 --hardware h100-sxm\n"
                  "  moeplan collective all_to_all --bytes-matrix bytes.csv --gpus-per-node 8 --scale-up '360 GB/s'\n"
                  "    --scale-up-latency '1 us' --nic '45 GB/s' --nic-latency '5 us' --oversubscription 4\n"
                  "  moeplan collective all_gather --size '2 GiB' --ranks 16 --hardware h100-sxm --degrade rail:2=0\n"
                  "L0 is the time of the fullest link, L1 that of max-min fair sharing of all links.");
  command.add_option("COLLECTIVE", arguments.topic, "all_to_all, all_reduce, all_gather, reduce_scatter or send_recv")
      ->required();
  command
      .add_option("--bytes-matrix", arguments.bytes_matrix, "all_to_all: bytes from each rank (line) to each, as CSV")
      ->type_name("FILE");
  command.add_option("--uniform", arguments.uniform, "all_to_all: bytes from each rank to each other one")
      ->type_name("SIZE");
  command
      .add_option("--size", arguments.size,
                  "The others: the whole buffer (all_gather, reduce_scatter: the total over ranks)")
      ->type_name("SIZE");
  command.add_option("--ranks", arguments.ranks, "Ranks, filling nodes in order")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kMostRanks));
  command.add_option("--hardware", arguments.hardware_filter, "Profile of GPU and network")->type_name("ID");
  command.add_option("--gpus-per-node", arguments.gpus_per_node, "In place of a profile: GPUs of a node, a NIC each")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kMostRanks));
  command.add_option("--scale-up", arguments.scale_up, "Rate of a GPU inside a node, one direction")->type_name("RATE");
  command.add_option("--scale-up-latency", arguments.scale_up_latency, "Of a transfer inside a node (default 0 us)")
      ->type_name("TIME");
  command.add_option("--nic", arguments.nic, "Rate of a NIC, one direction")->type_name("RATE");
  command.add_option("--nic-latency", arguments.nic_latency, "Of a transfer between nodes (default 0 us)")
      ->type_name("TIME");
  command
      .add_option("--oversubscription", arguments.oversubscription,
                  "A node's uplinks carry its NICs' rate over this (default 1)")
      ->type_name("X");
  command
      .add_option("--degrade", arguments.degrade,
                  "What is left of a link: nic:RANK=SHARE, rail:NIC=SHARE (of every node; 0: missing), pod:POD=SHARE "
                  "(repeatable)")
      ->type_name("LINK=SHARE")
      ->allow_extra_args(false);
  add_data_option(command, arguments);
  add_output_options(command, arguments);
}

}  // namespace moeplan::cli
