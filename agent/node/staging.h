// Data files uploaded to this node, or fetched by it: <workdir>/data/<SHA-256>/<name>.
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

// A file gets its name by an atomic rename, once it is complete and its hash is right. Readers of
// an older file are not disturbed. Thread-safe.
class Staging {
 public:
  // Removes partial files of killed agents of this host.
  Staging(const Workdir& workdir, DataCache& cache);

  // Finds the file on the node, at the requested path or staged. The path is empty if there is
  // none. kCancelled: by `observer`, while files are hashed.
  Result<node::v1::FindFileReply> find(const node::v1::FindFileRequest& request,
                                       const DataObserver& observer = {});

  // Reads the next chunk; returns false at the end.
  using Read = std::function<bool(node::v1::StageFileRequest&)>;
  // Receives a file, unless it is there already. Uploads of the same content wait for the first.
  // Leaves nothing behind on failure. Errors: kResourceExhausted if the disk is full, kDataLoss if
  // the hash is wrong.
  Result<node::v1::StageFileReply> receive(const Read& read,
                                           const std::function<bool()>& cancelled);

  // Fetches a file from its URL. One of this hash that is here already is taken without asking the
  // server; without a hash the server is asked whether the ETag of the copy here is still the
  // file's. Errors: those of FileFetch; kFailedPrecondition if the hash is another one.
  Result<node::v1::FetchFileReply> fetch(const node::v1::FetchFileRequest& request,
                                         const DataObserver& observer = {});

 private:
  class KeyedLock;
  struct Fetched {
    std::string sha256, etag;
  };
  Fetched fetchedBefore(const std::string& url);
  void noteFetched(const std::string& url, const Fetched& fetched);
  Result<bool> holds(const std::string& path, const std::string& sha256, std::int64_t bytes,
                     const DataObserver& observer);
  Result<std::string> staged(const std::string& sha256, std::int64_t bytes,
                             const DataObserver& observer);

  const std::string folder_;
  const std::string urls_;  // the file of what was fetched; mutex_
  DataCache& cache_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> arriving_;  // mutex_; hashes
};

}  // namespace lockstep::agent
