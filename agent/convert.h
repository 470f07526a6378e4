// Errors between the engine, the messages and gRPC. A failed call carries the whole ErrorInfo,
// serialised, in the status's details; its message is Error::text().
#pragma once

#include <grpcpp/support/status.h>

#include "engine/base/status.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

run::v1::ErrorInfo toInfo(const Error& error);
Error fromInfo(const run::v1::ErrorInfo& info);
grpc::Status toGrpc(const Status& status);
Error fromGrpc(const grpc::Status& status, std::string what);

}  // namespace lockstep::agent
