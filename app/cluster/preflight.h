// Preflight: measures a cluster before a run, and grades it. Every node: matrix products and memory
// of its cores, writing to its disk, free disk, clock. Every GPU of the cluster: matrix products
// and memory, PCIe lanes. Every pair: bandwidth and round trip of one TCP connection, each way. All
// nodes together: all-reduce. Beside these, the versions of what the nodes run.
//
// A value is graded against the median of its own earlier results on this cluster or, the first
// time, against the median of the other nodes or pairs (of at least two).
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/cluster/cluster_session.h"
#include "app/cluster/node_versions.h"
#include "app/cluster/peer_addresses.h"
#include "app/core/home.h"
#include "engine/base/status.h"

namespace lockstep::node::v1 {
class BenchReply;
class MeasurePeerReply;
}  // namespace lockstep::node::v1

namespace lockstep::app {

struct PreflightValue {
  enum class Kind : std::uint8_t {
    kMatmul,     // FLOP/s, fp32, all cores
    kMemory,     // bytes/s read, all cores
    kDiskWrite,  // bytes/s that reach the disk of the work folder
    kDiskFree,   // bytes
    kClockSkew,  // seconds to this machine's clock, absolute
    kGpuMatmul,  // FLOP/s, fp32 or, where the GPU has it, TF32
    kGpuMemory,  // bytes/s read
    kGpuLanes,   // PCIe lanes in use, of those that the GPU and its slot have
    kBandwidth,  // bytes/s
    kRoundTrip,  // seconds
    kAllReduce,  // bytes/s: bus bandwidth, of one rank on each node, through the host's memory
  };
  enum class Grade : std::uint8_t { kUngraded, kGood, kWeak };
  Kind kind = Kind::kMatmul;
  std::string node, peer;  // peer: of a pair, the receiver. Of all-reduce: the nodes, "n1,n2"
  double value = 0;
  double usual = 0;      // what it was compared with; 0: nothing
  bool earlier = false;  // usual is of earlier results, not of the other nodes or pairs
  Grade grade = Grade::kUngraded;
  int gpu = -1;  // of the node
};
std::string_view kindName(PreflightValue::Kind kind);  // "matmul", "round-trip", …
bool isPair(PreflightValue::Kind kind);

struct PreflightResult {
  std::vector<PreflightValue> values;
  std::size_t earlier = 0;         // number of earlier results that it was compared with
  std::vector<Error> errors;       // of what could not be measured or kept
  std::vector<std::string> nodes;  // in the order of tables
  // By kind, then node. Of a node with GPUs its driver, of one with ranks on them CUDA and NCCL.
  std::vector<NodeVersion> versions;
  int weak() const;
};

// What nodes tell of a speed, of their own or of their link to another node. A value that cannot be
// is an error.
PreflightResult speedsOf(const node::v1::BenchReply& reply, PreflightValue::Kind kind,
                         const std::string& node);
PreflightResult linkOf(const node::v1::MeasurePeerReply& reply, const std::string& from,
                       const std::string& to);

struct PreflightNode {
  PeerNode peer;  // connected
  NodeLoad load;
  const std::string& name() const;
};
// Returns the connected nodes. The session must outlive them.
std::vector<PreflightNode> preflightNodes(const ClusterSession& session);

struct PreflightOptions {
  double seconds = 0.5;  // of each measurement
  // Called on any thread, one at a time.
  std::function<void(int done, int total, const std::string& what)> progress;
};

// Measures the nodes, grades the values by the earlier results on the cluster of this name, and
// keeps them. Finds out at which addresses the nodes reach each other. Blocks for about 2·n + 4
// measurements, n being the number of nodes, and 2 of GPUs; for longer where nodes share a host,
// since they are then measured one after another. Errors: kCancelled. What fails otherwise, at a
// node or with the file of results, is in the result.
Result<PreflightResult> runPreflight(const std::vector<PreflightNode>& nodes, const Home& home,
                                     const std::string& cluster, const PreflightOptions& options,
                                     const std::stop_token& stop);

// Measures matrix products, memory and disk writes of the nodes alone, and grades each node by the
// others, if there is one. For nodes that train: results of idle nodes are no measure for them.
// Keeps nothing, and leaves versions out. Blocks for three measurements, and where nodes share a
// host for three of each of them. Fails like runPreflight().
Result<PreflightResult> measureNodes(const std::vector<PreflightNode>& nodes,
                                     const PreflightOptions& options, const std::stop_token& stop);

// Grades the result by earlier ones, oldest first, or else by the median of at least `leastPeers`
// others.
void grade(PreflightResult& result, const std::vector<PreflightResult>& earlier,
           std::size_t leastPeers = 2);

// Earlier results on the cluster of this name, at most 20. A damaged file is an error that names
// it.
Result<std::vector<PreflightResult>> readPreflights(const Home& home, const std::string& cluster);
Status addPreflight(const Home& home, const std::string& cluster, const PreflightResult& result);

// "link n1 → n3 sends 2.4 MB/s, usually 1100 MB/s".
Message weakText(const PreflightValue& value);

}  // namespace lockstep::app
