// Calls to agents that read data files, for as long as that takes: the agent tells what it does
// with them.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "app/cluster/node_access.h"
#include "engine/base/status.h"

namespace lockstep::node::v1 {
class DataProgress;
class FetchFileReply;
class FetchFileRequest;
class FindFileReply;
class FindFileRequest;
class PrepareReply;
class PrepareRequest;
}  // namespace lockstep::node::v1

namespace lockstep::app {

// What a node does with a data file.
struct DataActivity {
  enum class Kind : std::uint8_t { kNone, kHashing, kDecoding, kFetching };
  Kind kind = Kind::kNone;
  std::string node;                            // "": this machine
  std::string file;                            // its path there
  std::int64_t bytesDone = 0, bytesTotal = 0;  // kFetching: a total of 0 is not known
  Message text() const;                        // "hashing images.gz on n1: 12 of 40 MB"
};
// Of a node; bytes below 0 are 0.
DataActivity activityOf(const node::v1::DataProgress& progress, const std::string& node);
using TellData = std::function<void(const DataActivity&)>;

// Returns the last reply. Errors: the agent's; kDeadlineExceeded after 20 s without a sign of life;
// kCancelled by `stop`, which ends the work on the node. `what` failed if there is no reply.
Result<node::v1::PrepareReply> callPrepare(NodeAccess& node,
                                           const node::v1::PrepareRequest& request,
                                           const Message& what, const TellData& tell,
                                           const std::stop_token& stop);
Result<node::v1::FindFileReply> callFindFile(NodeAccess& node,
                                             const node::v1::FindFileRequest& request,
                                             const Message& what, const TellData& tell,
                                             const std::stop_token& stop);
Result<node::v1::FetchFileReply> callFetchFile(NodeAccess& node,
                                               const node::v1::FetchFileRequest& request,
                                               const Message& what, const TellData& tell,
                                               const std::stop_token& stop);

}  // namespace lockstep::app
