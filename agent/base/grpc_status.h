// Errors as gRPC statuses: the serialised ErrorInfo is in the status's details, its message is
// Error::text(). The caller reads it by rpcError() (app/core/rpc.h).
#pragma once

#include <grpcpp/support/status.h>

#include "engine/base/status.h"
#include "engine/specs/error_info.h"

namespace lockstep::agent {

using specs::fromInfo;
using specs::toInfo;
grpc::Status toGrpc(const Status& status);

}  // namespace lockstep::agent
