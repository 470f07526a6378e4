#include "app/core/rpc.h"

#include <condition_variable>
#include <mutex>

#include "engine/specs/error_info.h"

namespace lockstep::app {

Error rpcError(const grpc::Status& status, const Message& what, const std::string& node) {
  run::v1::ErrorInfo info;
  Error error;
  if (!status.error_details().empty() && info.ParseFromString(status.error_details())) {
    error = specs::fromInfo(info);
  } else {
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
    error.what = what;
    error.why = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ? "no answer in time"
                                                                           : status.error_message();
    if (error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded)
      error.next = "check whether the node and its agent answer: lockstep cluster check FILE";
  }
  if (error.node.empty()) error.node = node;
  return error;
}

Error replyError(const Message& what, const std::string& node) {
  Error error;
  error.code = Code::kDataLoss;
  error.what = what;
  error.why = "the answer of the node has values that are impossible";
  error.next = "deploy this version to the node: lockstep cluster deploy";
  error.node = node;
  return error;
}

Status retryWhileUnavailable(std::chrono::milliseconds limit, const std::stop_token& stop,
                             const std::function<Status()>& ask) {
  constexpr std::chrono::milliseconds kPause{200};
  const auto end = std::chrono::steady_clock::now() + limit;
  std::mutex mutex;
  std::condition_variable_any wake;
  for (;;) {
    Status answer = ask();
    if (answer.code() != Code::kUnavailable || std::chrono::steady_clock::now() > end)
      return answer;
    std::unique_lock lock(mutex);
    if (wake.wait_for(lock, stop, kPause, [&] { return stop.stop_requested(); })) return answer;
  }
}

}  // namespace lockstep::app
