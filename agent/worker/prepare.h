// Checks that a node can run its part of a run before it starts.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "agent/base/paths.h"
#include "engine/base/progress.h"
#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "engine/data/decoded.h"
#include "engine/plan/plan.h"
#include "engine/specs/specs.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/node/v1/worker.pb.h"

namespace lockstep::agent {

// Told what is done with data files. Returns false to cancel it, see engine/base/progress.h.
using DataObserver = std::function<bool(const node::v1::DataProgress&)>;
// Tells `observer`, which may be empty, of the progress of one activity.
Progress progressOf(node::v1::DataProgress::Activity activity, const std::string& file,
                    const DataObserver& observer);

// Facts about data files, and their decoded forms, cached below the workdir. Thread-safe.
class DataCache {
 public:
  explicit DataCache(const Workdir& workdir)
      : path_(workdir.path + "/data-files"), decoded_(workdir.path + "/decoded/" + hostName()) {}
  // Returns the facts about a file, cached by path, modification time and size.
  Result<data::FileFacts> inspect(const std::string& file, const std::string& kind,
                                  const std::function<Result<data::FileFacts>()>& read);
  // Decoded files of this host. On a shared file system each host has its own folder, so that no
  // host removes another's files.
  data::DecodedFolder& decoded() { return decoded_; }

 private:
  void load();  // mutex_ held
  std::string path_;
  std::mutex mutex_;
  bool loaded_ = false;
  std::map<std::string, data::FileFacts> known_;  // by "[kind ]mtime size path"
  data::DecodedFolder decoded_;
};

// Returns the data files of a run on this node: "train.images" → path, from `given` or the spec.
std::map<std::string, std::string> dataPaths(
    const spec::v1::RunSpec& spec, const google::protobuf::Map<std::string, std::string>& given);

// Returns the private memory of a worker in bytes: its part of the plan, data that is not mapped,
// threads and libraries. Excludes workspaces of kernels, which are known only once they are bound.
std::int64_t workerMemory(const plan::Plan& plan, int rank, std::int64_t dataBytes);

// Returns the nodes of the run in rank order, then spares, then the evaluator's node if the run has
// one. The first is the coordinator.
std::vector<std::string> nodesOf(const node::v1::PrepareRequest& request);
// Returns the plan in a run's folder, which may have been damaged since it was prepared: it is
// verified again.
Result<plan::Plan> readPlan(const std::string& path);

bool isSpare(const node::v1::PrepareRequest& request);  // whether the request's node is a spare

// Returns the devices of the ranks of the request's node, in rank order.
std::vector<specs::RankDevice> devicesOf(const node::v1::PrepareRequest& request);

// Checks that a node has the GPUs of its ranks, that these support `precision` (Plan::precision)
// and have enough memory: rank i needs bytes[i].
Status checkGpus(const node::v1::GpuSurvey& node, const std::vector<specs::RankDevice>& ranks,
                 const std::vector<std::int64_t>& bytes, std::string_view precision);

// Checks that no node of a cluster has more ranks than a run can have: messages may contain any
// number.
Status checkRankCounts(const spec::v1::ClusterSpec& cluster);

// Checks that the names of run and node are usable as folder names.
Status checkNames(const node::v1::PrepareRequest& request);

struct FoundData {
  std::map<std::string, std::string> hashes;   // "train.images" → SHA-256
  std::map<std::string, std::string> decoded;  // → path; none for text, or if the disk is full
  std::int64_t ownBytes = 0;                   // read into private memory by each worker
  std::int64_t mappedBytes = 0;                // mapped by all workers
};
// Checks the plan and its hash, ranks, data files, the checkpoint to resume from, GPUs and disk
// space. Decodes data files and reports them in `data`. `survey` is called if ranks compute on
// GPUs. Errors name the file, what was found and what to do; kCancelled: by `observer`.
using GpuSurveyor = std::function<Result<node::v1::GpuSurvey>()>;
Status checkPrepare(const node::v1::PrepareRequest& request, const Workdir& workdir,
                    DataCache& cache, FoundData& data, const GpuSurveyor& survey,
                    const DataObserver& observer = {});

}  // namespace lockstep::agent
