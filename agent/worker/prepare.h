// What is checked on a node before a run may begin there.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "agent/base/paths.h"
#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "engine/data/decoded.h"
#include "engine/plan/plan.h"
#include "engine/specs/specs.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/node/v1/worker.pb.h"

namespace lockstep::agent {

// What a node knows of data files below its workdir. Threads: any.
class DataCache {
 public:
  explicit DataCache(const Workdir& workdir)
      : path_(workdir.path + "/data-files"), decoded_(workdir.path + "/decoded/" + hostName()) {}
  // What a file is, remembered by path, modification time and size.
  Result<data::FileFacts> inspect(const std::string& file, const std::string& kind,
                                  const std::function<Result<data::FileFacts>()>& read);
  // What was decoded of files. Of this host: on a shared file system others have theirs beside
  // them, and remove them.
  data::DecodedFolder& decoded() { return decoded_; }

 private:
  void load();  // mutex_ held
  std::string path_;
  std::mutex mutex_;
  bool loaded_ = false;
  std::map<std::string, data::FileFacts> known_;  // by "[kind ]mtime size path"
  data::DecodedFolder decoded_;
};

// Before the name of a data file: where it is decoded, "decoded.train.images" → path.
inline constexpr std::string_view kDecoded = "decoded.";

// The data files of a run on this node: "train.images" → path, from `given` or the spec.
std::map<std::string, std::string> dataPaths(
    const spec::v1::RunSpec& spec, const google::protobuf::Map<std::string, std::string>& given);

// The table in which a run that trains on one has its data; `train`, or those to evaluate on.
data::TableFile tableOf(const spec::v1::RunSpec& spec, bool train, const std::string& path);

// What a worker has for itself, in bytes: its share of the plan, what data it does not map, and
// what its threads and libraries keep. Workspaces of large layers' kernels come on top, known only
// where they are bound.
std::int64_t workerMemory(const plan::Plan& plan, int rank, std::int64_t dataBytes);

// Returns the nodes of the run in rank order, then the evaluator's node if the run has one. The
// first is the coordinator.
std::vector<std::string> nodesOf(const node::v1::PrepareRequest& request);

// What the ranks of the request's node compute on, in their order.
std::vector<specs::RankDevice> devicesOf(const node::v1::PrepareRequest& request);

// Checks that a node has the GPUs that its ranks are to compute on, that they compute in
// `precision` (Plan::precision), and that they have the memory: rank i needs bytes[i].
Status checkGpus(const node::v1::GpuSurvey& node, const std::vector<specs::RankDevice>& ranks,
                 const std::vector<std::int64_t>& bytes, std::string_view precision);

// That run and node can be names of folders.
Status checkNames(const node::v1::PrepareRequest& request);

struct FoundData {
  std::map<std::string, std::string> hashes;   // "train.images" → SHA-256
  std::map<std::string, std::string> decoded;  // → path; of text, and where there is no room, none
  std::int64_t ownBytes = 0;                   // that each worker reads into memory of its own
  std::int64_t mappedBytes = 0;                // that all workers map
};
// The plan and its hash, ranks, data files that are whole, belong together and fit the plan,
// the checkpoint to go on from, GPUs, space. Decodes data files, and says what it found in `data`.
// `survey` is asked where ranks compute on GPUs. Errors name the file, what was found and what to
// do.
using GpuSurveyor = std::function<Result<node::v1::GpuSurvey>()>;
Status checkPrepare(const node::v1::PrepareRequest& request, const Workdir& workdir,
                    DataCache& cache, FoundData& data, const GpuSurveyor& survey);

}  // namespace lockstep::agent
