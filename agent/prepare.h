// What is checked on a node before a run may begin there.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "agent/paths.h"
#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "engine/plan/plan.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// What data files are, remembered by path, modification time and size. Threads: any.
class DataCache {
 public:
  explicit DataCache(std::string path) : path_(std::move(path)) {}
  Result<data::FileFacts> inspect(const std::string& file, const std::string& kind,
                                  const std::function<Result<data::FileFacts>()>& read);

 private:
  void load();  // mutex_ held
  std::string path_;
  std::mutex mutex_;
  bool loaded_ = false;
  std::map<std::string, data::FileFacts> known_;  // by "[kind ]mtime size path"
};

// The data files of a run on this node: "train.images" → path, from `given` or the spec.
std::map<std::string, std::string> dataPaths(
    const spec::v1::RunSpec& spec, const google::protobuf::Map<std::string, std::string>& given);

// The table in which a run that trains on one has its data; `train`, or those to evaluate on.
data::TableFile tableOf(const spec::v1::RunSpec& spec, bool train, const std::string& path);

// What a worker has for itself, in bytes: its share of the plan, all of the data, and what its threads and
// libraries keep. Workspaces of large layers' kernels come on top, known only where they are bound.
std::int64_t workerMemory(const plan::Plan& plan, int rank, std::int64_t dataBytes);

// That run and node can be names of folders.
Status checkNames(const node::v1::PrepareRequest& request);

// The plan and its hash, ranks, data files that are whole, belong together and fit the plan,
// the checkpoint to go on from, space. Fills `hashes` ("train.images" → SHA-256). Errors name the
// file, what was found and what to do.
Status checkPrepare(const node::v1::PrepareRequest& request, const Workdir& workdir,
                    DataCache& cache, std::map<std::string, std::string>& hashes);

}  // namespace lockstep::agent
