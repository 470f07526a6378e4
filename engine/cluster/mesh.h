// Cluster and Mesh: devices, links and named mesh axes. Data only.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::cluster {

// What is known of a device before it is measured. 0: as the data sheet of its model says.
struct DeviceFigures {
  std::string model{};                           // of data_sheets.h; "": assumed
  double peakFlops = 0, peakBytesPerSecond = 0;  // of matrix products; of memory
  std::int64_t memoryBytes = 0;                  // of a GPU
  std::int64_t reservedBytes = 0;  // of it, what a rank's context, workspaces and NCCL take
  auto operator<=>(const DeviceFigures&) const = default;
};

struct Device {
  std::string node;  // node name in the cluster spec
  std::string host;  // physical host (boot id, or the node's name if unknown): its ranks share
                     // cores and memory bandwidth
  std::string kind;  // "cpu"; "cuda", which uses no host cores
  int index = 0;     // among the node's devices of its kind
  int threads = 1;   // compute threads of the rank
  DeviceFigures figures{};
};

struct Host {
  std::string name;  // as Device::host
  int cores = 1;
};

struct Axis {
  std::string name;  // "data", "model", "stage", …
  int size = 1;
};

inline constexpr std::string_view kDataAxis = "data", kModelAxis = "model";
inline constexpr std::string_view kStageAxis = "stage", kServerAxis = "servers";

// Worker ranks are row-major over the axes: the last axis varies fastest. Parameter servers are the
// last ranks. Axis "servers" contains all ranks, workers and servers.
class Mesh {
 public:
  Mesh() = default;
  explicit Mesh(std::vector<Axis> axes, int servers = 0)
      : axes_(std::move(axes)), servers_(servers) {}
  const std::vector<Axis>& axes() const { return axes_; }
  int servers() const { return servers_; }
  int workers() const;  // product of the axes
  int size() const { return workers() + servers_; }
  bool isServer(int rank) const { return rank >= workers(); }
  std::vector<Axis> groupAxes() const;                    // axes that may have communicator groups
  int axisSize(std::string_view axis) const;              // 1 for an absent axis
  int coordinate(int rank, std::string_view axis) const;  // -1 for a server along a worker axis
  // the rank at a coordinate of the rank's group along the axis
  int member(int rank, std::string_view axis, int coordinate) const;
  // the ranks along the axis, in order
  std::vector<int> group(int rank, std::string_view axis) const;
  std::string text() const;  // "data 2, model 4", "data 3, servers 2"

  // Stages are groups of ranks that run different programs: pipeline stages, or the workers and
  // each server.
  int stages() const { return servers_ > 0 ? 1 + servers_ : axisSize(kStageAxis); }
  int stageOf(int rank) const;
  // The axis along which stages exchange messages, and the coordinate of a stage's representative
  // on it; of the workers the first.
  std::string_view messageAxis() const { return servers_ > 0 ? kServerAxis : kStageAxis; }
  int messageCoordinate(int stage) const {
    return servers_ > 0 && stage > 0 ? workers() + stage - 1 : stage;
  }

 private:
  std::vector<Axis> axes_;
  int servers_ = 0;
};

// The link between the ranks of a communicator group.
struct Link {
  // communicator: "in-process", "shm", "gloo"; "nccl": between devices
  std::string kind = "shm";
  double latency = 5e-6;        // seconds, there and back: the least time of an all-reduce
  double bytesPerSecond = 5e9;  // of a rank in one direction ("bus bandwidth")
};

struct Cluster {
  std::vector<Host> hosts;
  std::vector<Device> devices;  // by rank
  Mesh mesh;
  Link link;  // of the slowest axis: between hosts where there are several, else within the one
  // Of groups along an axis: those of NCCL, and where the cluster's spec says something of links.
  std::map<std::string, Link, std::less<>> links{};
};

}  // namespace lockstep::cluster
