#include "app/core/rpc.h"

#include "engine/specs/error_info.h"

namespace lockstep::app {

Error rpcError(const grpc::Status& status, const std::string& what, const std::string& node) {
  run::v1::ErrorInfo info;
  Error error;
  if (!status.error_details().empty() && info.ParseFromString(status.error_details())) {
    error = specs::fromInfo(info);
  } else {
    switch (status.error_code()) {
      case grpc::StatusCode::UNAVAILABLE: error.code = Code::kUnavailable; break;
      case grpc::StatusCode::DEADLINE_EXCEEDED: error.code = Code::kDeadlineExceeded; break;
      case grpc::StatusCode::CANCELLED: error.code = Code::kCancelled; break;
      case grpc::StatusCode::PERMISSION_DENIED:
      case grpc::StatusCode::UNAUTHENTICATED: error.code = Code::kPermissionDenied; break;
      case grpc::StatusCode::NOT_FOUND: error.code = Code::kNotFound; break;
      case grpc::StatusCode::RESOURCE_EXHAUSTED: error.code = Code::kResourceExhausted; break;
      case grpc::StatusCode::UNIMPLEMENTED: error.code = Code::kFailedPrecondition; break;
      default: break;
    }
    error.what = what;
    error.why = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ? "no answer in time"
                                                                          : status.error_message();
    if (error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded)
      error.next = "see whether the node and its agent answer: lockstep cluster check FILE";
  }
  if (error.node.empty()) error.node = node;
  return error;
}

}  // namespace lockstep::app
