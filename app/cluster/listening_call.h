// ListeningCall: a call to an agent that lasts as long as the node listens for others. Its first
// reply says where. The destructor ends it.
#pragma once

#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "app/cluster/node_access.h"
#include "app/core/rpc.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::app {

template <typename Reply>
class ListeningCall {
 public:
  using Reader = std::unique_ptr<grpc::ClientReader<Reply>>;
  using Call = std::function<Reader(node::v1::Agent::Stub&, grpc::ClientContext&)>;

  ListeningCall() = default;
  ListeningCall(const ListeningCall&) = delete;
  ListeningCall& operator=(const ListeningCall&) = delete;
  ~ListeningCall() {
    if (!reader_) return;
    context_.TryCancel();
    reader_->Finish();
  }

  // Waits for the first reply, at most 15 s. The node listens for at most `limit`. `what` says in
  // an error what failed.
  Status start(NodeAccess& node, std::chrono::seconds limit, const Message& what,
               std::stop_token stop, const Call& call) {
    LOCKSTEP_ASSIGN(const auto channel, node.agent());
    stub_ = node::v1::Agent::NewStub(channel);
    setLimit(context_, limit);
    const CancelOnStop cancel(context_, std::move(stop));
    reader_ = call(*stub_, context_);
    if (readFirst()) return {};
    const grpc::Status end = reader_->Finish();
    reader_.reset();
    if (!end.ok() && end.error_code() != grpc::StatusCode::CANCELLED)
      return rpcStatus(end, what, node.name());
    Error error;
    error.code = Code::kUnavailable;
    error.what = what;
    error.node = node.name();
    return error;
  }
  const Reply& reply() const { return reply_; }

 private:
  static constexpr std::chrono::seconds kAnswerLimit{15};

  bool readFirst() {
    std::mutex mutex;
    std::condition_variable_any over;
    // The call's own limit is that of listening.
    const std::jthread limit([&](const std::stop_token& done) {
      std::unique_lock lock(mutex);
      if (!over.wait_for(lock, done, kAnswerLimit, [&] { return done.stop_requested(); }))
        context_.TryCancel();
    });
    return reader_->Read(&reply_);
  }

  std::unique_ptr<node::v1::Agent::Stub> stub_;
  grpc::ClientContext context_;
  Reader reader_;
  Reply reply_;
};

}  // namespace lockstep::app
