// A page in Prometheus' text format (https://prometheus.io/docs/instrumenting/exposition_formats,
// version 0.0.4), and the metrics of nodes, which studio and agent name alike.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::metrics {

inline constexpr std::string_view kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

struct Metric {
  std::string_view name, help;
  bool counter = false;
};
// Those of a series: which figure they are, and what a value is multiplied by.
struct Figure {
  std::string_view figure;
  Metric metric;
  double scale = 1;
};

inline constexpr Metric kRunState{"lockstep_run_state", "1 for the state that a run is in."};
inline constexpr Figure kOfNode[] = {
    {"cpu", {"lockstep_node_cpu_ratio", "The part of a node's processors in use."}},
    {"memory", {"lockstep_node_memory_bytes", "Memory in use on a node."}},
    {"memory_total", {"lockstep_node_memory_size_bytes", "The memory that a node has."}},
    {"disk_free", {"lockstep_node_disk_free_bytes", "Free space on the disk of runs."}},
    {"net_in", {"lockstep_node_network_receive_bytes_per_second", "Received by a node."}},
    {"net_out", {"lockstep_node_network_transmit_bytes_per_second", "Sent by a node."}},
    {"loopback", {"lockstep_node_loopback_bytes_per_second", "Sent within a node."}},
    {"disk_read", {"lockstep_node_disk_read_bytes_per_second", "Read from a node's disks."}},
    {"disk_write", {"lockstep_node_disk_write_bytes_per_second", "Written to a node's disks."}},
    {"disk_busy", {"lockstep_node_disk_busy_ratio", "The part of the time a node's disk is busy."}},
};
inline constexpr Figure kOfGpu[] = {
    {"utilisation", {"lockstep_gpu_utilisation_ratio", "The part of the time a GPU computes."}},
    {"memory_utilisation",
     {"lockstep_gpu_memory_utilisation_ratio", "The part of the time a GPU's memory is accessed."}},
    {"memory", {"lockstep_gpu_memory_bytes", "Memory in use on a GPU."}},
    {"temperature", {"lockstep_gpu_temperature_celsius", "The temperature of a GPU."}},
    {"power", {"lockstep_gpu_power_watts", "The power that a GPU draws."}},
    {"sm_clock", {"lockstep_gpu_sm_clock_hertz", "The clock of a GPU's multiprocessors."}, 1e6},
    {"memory_clock", {"lockstep_gpu_memory_clock_hertz", "The clock of a GPU's memory."}, 1e6},
    {"pcie_in", {"lockstep_gpu_pcie_receive_bytes_per_second", "Received by a GPU over PCIe."}},
    {"pcie_out", {"lockstep_gpu_pcie_transmit_bytes_per_second", "Sent by a GPU over PCIe."}},
    {"nvlink_in",
     {"lockstep_gpu_nvlink_receive_bytes_per_second", "Received by a GPU over NVLink."}},
    {"nvlink_out", {"lockstep_gpu_nvlink_transmit_bytes_per_second", "Sent by a GPU over NVLink."}},
    {"throttled", {"lockstep_gpu_throttled", "1 if a GPU was throttled or at its limit of power."}},
    {"slowed",
     {"lockstep_gpu_slowed", "1 if a GPU was throttled other than by its limit of power."}},
    {"ecc_corrected",
     {"lockstep_gpu_ecc_corrected_errors_total", "Memory errors that were corrected.", true}},
    {"ecc_uncorrected",
     {"lockstep_gpu_ecc_uncorrected_errors_total", "Memory errors that were not corrected.", true}},
    {"xids", {"lockstep_gpu_xid_errors_total", "Critical errors that the driver told of.", true}},
};

// Returns null if there is no such figure.
const Figure* figureOf(std::span<const Figure> all, std::string_view figure);

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// The samples by metric, and of each by its labels: a page with two of the same is refused.
class PrometheusPage {
 public:
  void add(const Metric& metric, const Labels& labels, double value);
  std::string text() const;

 private:
  struct Samples {
    Metric metric;
    std::map<std::string, double> values;  // by labels
  };
  std::map<std::string_view, Samples> all_;
};

}  // namespace lockstep::metrics
