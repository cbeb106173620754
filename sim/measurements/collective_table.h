#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "measurements/nccl_log.h"
#include "topology/hardware.h"

// Rows of logs and tables, put together by (GPU, collective, ranks, nodes).
namespace moeplan::measurements {

struct CollectiveTable {
  std::string gpu, collective;
  std::int64_t ranks = 0, nodes = 0;
  std::vector<double> sizes_bytes, times_s;  // ascending sizes; the median of the times of one size
  std::vector<std::string> files;            // that its rows stand in
};

// In order of GPU, collective, ranks and nodes.
std::vector<CollectiveTable> collect(const std::vector<CollectiveRow>& rows);

// "collective,ranks,nodes,gpu,size_bytes,time_us,source", one row a size.
std::string tables_csv(const std::vector<CollectiveTable>& tables);

enum class EntryForm { table, law };  // sizes and times as they are; or the fitted three parameters

struct EntrySettings {
  EntryForm form = EntryForm::table;
  std::string fabric, source;                          // written where not empty; source: else the files
  const topology::HardwareProfile* profile = nullptr;  // of the part: gives the rate of the link that binds
};
// Entries of `collectives` of a hardware profile (docs/models.md). Tables that a profile cannot hold (other
// collectives, nodes not known, ranks uneven, too few sizes for a fit) are left out, each with a reason in `left_out`.
std::string tables_yaml(const std::vector<CollectiveTable>& tables, const EntrySettings& settings,
                        std::vector<std::string>& left_out);

// Bytes/s and direction of the link that binds between the table's ranks on a profile's part: the scale-up port, or a
// GPU's share of the network cards.
double link_rate(const CollectiveTable& table, const topology::HardwareProfile& profile);

// A table of measured collectives as CSV, with columns collective, ranks or n_gpus, nodes or n_nodes, size_bytes,
// time_us, and gpu where there are several parts; other columns are ignored. Rows without a time, and rows of anything
// but collectives, are passed over.
bool is_collective_csv(std::string_view text);
CollectiveLog read_collective_csv(std::string_view text, const std::string& file, const Stated& stated);

}  // namespace moeplan::measurements
