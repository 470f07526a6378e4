// Calls to nodes: a limit on every one, and errors as values.
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
// The error an agent sent, or one made of gRPC's own status; `what` and `node` where it has none.
Error rpcError(const grpc::Status& status, const std::string& what, const std::string& node);
inline Status rpcStatus(const grpc::Status& status, const std::string& what,
                        const std::string& node) {
  return status.ok() ? Status() : Status(rpcError(status, what, node));
}

// Asks until the answer is another one than kUnavailable, for at most `limit` from the first on. A
// call made just after its connection was lost may still be sent on that one, and a server that has
// ended may be replaced; what is asked must be as good twice as once.
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
