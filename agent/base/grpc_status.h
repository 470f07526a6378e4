// Converts errors between the engine, messages and gRPC. A failed call carries the serialised
// ErrorInfo in the status's details; its message is Error::text().
#pragma once

#include <grpcpp/support/status.h>

#include "engine/base/status.h"
#include "engine/specs/error_info.h"

namespace lockstep::agent {

using specs::fromInfo;
using specs::toInfo;
grpc::Status toGrpc(const Status& status);
Error fromGrpc(const grpc::Status& status, Message what);

}  // namespace lockstep::agent
