// gRPC calls to nodes, each with a deadline, and errors as values.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>

#include "engine/base/status.h"

namespace lockstep::app {

inline void setLimit(grpc::ClientContext& context, std::chrono::milliseconds limit) {
  context.set_deadline(std::chrono::system_clock::now() + limit);
}
// Returns the error that an agent sent, else one made from the gRPC status with `what` and `node`.
Error rpcError(const grpc::Status& status, const Message& what, const std::string& node);
inline Status rpcStatus(const grpc::Status& status, const Message& what, const std::string& node) {
  return status.ok() ? Status() : Status(rpcError(status, what, node));
}

// Returns whether an agent has sent this error, which then was reached.
inline bool isAnswer(const grpc::Status& status) { return !status.error_details().empty(); }

// Returns the error of a reply that no agent gives: a node may tell anything.
Error replyError(const Message& what, const std::string& node);

// Retries a call while it fails with kUnavailable, for at most `limit`: a call made right after a
// connection loss may still use that connection, and a server may be restarting. The call must be
// idempotent.
Status retryWhileUnavailable(std::chrono::milliseconds limit, const std::stop_token& stop,
                             const std::function<Status()>& ask);

// Cancels the call when `stop` is requested.
class CancelOnStop {
 public:
  CancelOnStop(grpc::ClientContext& context, std::stop_token stop)
      : callback_(std::move(stop), Cancel{&context}) {}

 private:
  struct Cancel {
    grpc::ClientContext* context;
    void operator()() const { context->TryCancel(); }
  };
  std::stop_callback<Cancel> callback_;
};

}  // namespace lockstep::app
