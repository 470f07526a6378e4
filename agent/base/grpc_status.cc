#include "agent/base/grpc_status.h"

namespace lockstep::agent {

grpc::Status toGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  grpc::StatusCode code = grpc::StatusCode::INTERNAL;
  switch (status.code()) {
    case Code::kInvalidArgument:
      code = grpc::StatusCode::INVALID_ARGUMENT;
      break;
    case Code::kNotFound:
      code = grpc::StatusCode::NOT_FOUND;
      break;
    case Code::kAlreadyExists:
      code = grpc::StatusCode::ALREADY_EXISTS;
      break;
    case Code::kFailedPrecondition:
      code = grpc::StatusCode::FAILED_PRECONDITION;
      break;
    case Code::kPermissionDenied:
      code = grpc::StatusCode::PERMISSION_DENIED;
      break;
    case Code::kUnavailable:
      code = grpc::StatusCode::UNAVAILABLE;
      break;
    case Code::kDeadlineExceeded:
      code = grpc::StatusCode::DEADLINE_EXCEEDED;
      break;
    case Code::kResourceExhausted:
      code = grpc::StatusCode::RESOURCE_EXHAUSTED;
      break;
    case Code::kDataLoss:
      code = grpc::StatusCode::DATA_LOSS;
      break;
    case Code::kAborted:
      code = grpc::StatusCode::ABORTED;
      break;
    case Code::kCancelled:
      code = grpc::StatusCode::CANCELLED;
      break;
    case Code::kOk:
    case Code::kInternal:
      break;
  }
  return {code, status.error().text(), toInfo(status.error()).SerializeAsString()};
}

Error fromGrpc(const grpc::Status& status, Message what) {
  run::v1::ErrorInfo info;
  if (!status.error_details().empty() && info.ParseFromString(status.error_details()))
    return fromInfo(info);
  Error error;
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      error.code = Code::kUnavailable;
      break;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      error.code = Code::kDeadlineExceeded;
      break;
    case grpc::StatusCode::CANCELLED:
      error.code = Code::kCancelled;
      break;
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      error.code = Code::kPermissionDenied;
      break;
    case grpc::StatusCode::NOT_FOUND:
      error.code = Code::kNotFound;
      break;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      error.code = Code::kResourceExhausted;
      break;
    case grpc::StatusCode::UNIMPLEMENTED:
      error.code = Code::kFailedPrecondition;
      break;
    default:
      break;
  }
  error.what = std::move(what);
  error.why = status.error_message();
  return error;
}

}  // namespace lockstep::agent
