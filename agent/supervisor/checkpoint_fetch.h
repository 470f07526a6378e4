// Fetches the files of checkpoints from other nodes of a run, over mutual TLS.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include <grpcpp/channel.h>

#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// Called after each part of a file; the next is fetched when it returns.
using OnChunk = std::function<void(const node::v1::FetchChunk&)>;

// Fetches a file from the PeerServer of `node` to `target`, whose folder is created: complete, or
// not there. Returns its size in bytes. Errors: kUnavailable if the node is out of reach, or in
// another generation than the asked one, which may pass; kNotFound if it has no such file;
// kDataLoss if the file was damaged there or on its way; those of writing it, of which none is
// kNotFound.
Result<std::int64_t> fetchCheckpointFile(const std::shared_ptr<grpc::Channel>& channel,
                                         const std::string& node,
                                         const node::v1::FetchShardRequest& asked,
                                         const std::filesystem::path& target,
                                         const std::stop_token& stop, const OnChunk& onChunk = {});

// Fetches those files of the checkpoint that its weights need to `folder`, each from the first of
// its sources that sends it. `request` is this node's, which is in `generation`. Files that are
// there already are whole and are kept, unless they are of another checkpoint. Errors: as above;
// kNotFound if no source has a file.
Status fetchWeights(const node::v1::PrepareRequest& request, int generation,
                    const node::v1::Evaluate& checkpoint, const std::filesystem::path& folder,
                    const std::stop_token& stop);

}  // namespace lockstep::agent
