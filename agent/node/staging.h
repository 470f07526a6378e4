// Data files that clients bring to this node: <workdir>/data/<SHA-256>/<name>.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "agent/base/paths.h"
#include "agent/worker/prepare.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// A file has its name only once all of it is there and has its hash, and is replaced whole: who
// reads one is not disturbed. Threads: any.
class Staging {
 public:
  // Removes what an agent of this host that was killed left half-written.
  Staging(const Workdir& workdir, DataCache& cache);

  // Where the node has the file, at the path asked for or staged; an empty path: nowhere.
  Result<node::v1::FindFileReply> find(const node::v1::FindFileRequest& request);

  // the next piece; false: no more come
  using Read = std::function<bool(node::v1::StageFileRequest&)>;
  // Takes a file, unless it is there already. One at a time brings the same content, others wait.
  // Failure: nothing stays. kResourceExhausted: no space. kDataLoss: what came is not the file.
  Result<node::v1::StageFileReply> receive(const Read& read,
                                           const std::function<bool()>& cancelled);

 private:
  class KeyedLock;
  bool holds(const std::string& path, const std::string& sha256, std::int64_t bytes);
  std::string staged(const std::string& sha256, std::int64_t bytes);

  const std::string folder_;
  DataCache& cache_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> arriving_;  // mutex_; hashes
};

}  // namespace lockstep::agent
