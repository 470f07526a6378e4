// Cluster and Mesh: devices, links and named mesh axes. Data only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::cluster {

struct Device {
  std::string node;       // node name in the cluster spec
  std::string host;       // physical host (boot id, or the node's name where unknown): ranks on one
                          // host share its cores and memory bandwidth
  std::string kind;       // "cpu"; later "cuda"
  int index = 0;          // within the node
  int threads = 1;        // compute threads of the rank
};

struct Host {
  std::string name;       // as Device::host
  int cores = 1;
};

struct Axis {
  std::string name;       // "data", "model", "stage", …
  int size = 1;
};

// Ranks are row-major over the axes: the last axis varies fastest.
class Mesh {
 public:
  Mesh() = default;
  explicit Mesh(std::vector<Axis> axes) : axes_(std::move(axes)) {}
  const std::vector<Axis>& axes() const { return axes_; }
  int size() const;                                // product of the axes
  int axisSize(std::string_view axis) const;       // 1 for an axis not present
  int coordinate(int rank, std::string_view axis) const;
  std::vector<int> group(int rank, std::string_view axis) const;  // the ranks along the axis, in order
  std::string text() const;                        // "data 2, model 4"

 private:
  std::vector<Axis> axes_;
};

// How the ranks of one communicator group reach each other.
struct Link {
  std::string kind = "shm";            // communicator: "in-process", "shm", "gloo"
  double latency = 5e-6;               // seconds a collective costs at least
  double bytesPerSecond = 5e9;         // algorithm bandwidth of an all-reduce
};

struct Cluster {
  std::vector<Host> hosts;
  std::vector<Device> devices;         // one a rank, in rank order
  Mesh mesh;
  Link link;                           // of the data axis
};

}  // namespace lockstep::cluster
