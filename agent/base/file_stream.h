// Sends a file, or a part of one, to a gRPC client in chunks, with the SHA-256 in the last one.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// Errors: kNotFound if the file cannot be opened; kDataLoss if it becomes shorter meanwhile. A
// client that has gone is no error.
Status sendFile(const std::string& path, const grpc::ServerContext& context,
                grpc::ServerWriter<node::v1::FetchChunk>& writer);

// Sends at most `bytes` from `offset` on of an open file; the hash is of these. A file of no bytes,
// or an offset at its end, is one empty chunk.
Status sendPart(int fd, std::int64_t offset, std::int64_t bytes, const grpc::ServerContext& context,
                grpc::ServerWriter<node::v1::FetchChunk>& writer);

}  // namespace lockstep::agent
