// Sends a file to a gRPC client in chunks, with its SHA-256 in the last one.
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

}  // namespace lockstep::agent
