#include "app/runs/data_calls.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "app/core/idle_timeout.h"
#include "app/core/rpc.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::seconds kSilence{20};

template <typename Request, typename Reply>
Result<Reply> call(NodeAccess& node,
                   std::unique_ptr<grpc::ClientReader<Reply>> (node::v1::Agent::Stub::*method)(
                       grpc::ClientContext*, const Request&),
                   const Request& request, const Message& what, const TellData& tell,
                   const std::stop_token& stop) {
  LOCKSTEP_ASSIGN(const auto channel, node.agent());
  const auto stub = node::v1::Agent::NewStub(channel);
  IdleTimeout silence(stop, kSilence);
  grpc::ClientContext context;
  const CancelOnStop cancel(context, silence.stop());
  const auto reader = ((*stub).*method)(&context, request);
  std::optional<Reply> result;
  for (Reply reply; reader->Read(&reply);) {
    silence.moved();
    if (reply.has_progress())
      tell(activityOf(reply.progress(), node.name()));
    else
      result = std::move(reply);
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok() && silence.ended() && !stop.stop_requested()) {
    Error error = rpcError({grpc::StatusCode::DEADLINE_EXCEEDED, {}}, what, node.name());
    error.why = message("the node has been silent for {} s", kSilence.count());
    return error;
  }
  LOCKSTEP_TRY(rpcStatus(status, what, node.name()));
  if (!result) return rpcError({grpc::StatusCode::UNAVAILABLE, {}}, what, node.name());
  return std::move(*result);
}

}  // namespace

DataActivity activityOf(const node::v1::DataProgress& progress, const std::string& node) {
  DataActivity out;
  if (progress.activity() == node::v1::DataProgress::HASHING)
    out.kind = DataActivity::Kind::kHashing;
  if (progress.activity() == node::v1::DataProgress::DECODING)
    out.kind = DataActivity::Kind::kDecoding;
  if (progress.activity() == node::v1::DataProgress::FETCHING)
    out.kind = DataActivity::Kind::kFetching;
  out.node = node;
  out.file = progress.file();
  out.bytesDone = std::max<std::int64_t>(0, progress.bytes_done());
  out.bytesTotal = std::max<std::int64_t>(0, progress.bytes_total());
  return out;
}

Message DataActivity::text() const {
  const std::string name = file.substr(file.rfind('/') + 1);
  const std::int64_t done = bytesDone / 1000000, total = bytesTotal / 1000000;
  if (kind == Kind::kNone) return {};
  if (node.empty()) return message("hashing {} on this machine: {} of {} MB", name, done, total);
  if (kind == Kind::kHashing)
    return message("hashing {} on {}: {} of {} MB", name, node, done, total);
  if (kind == Kind::kFetching && bytesTotal == 0)
    return message("fetching {} on {}: {} MB", name, node, done);
  if (kind == Kind::kFetching)
    return message("fetching {} on {}: {} of {} MB", name, node, done, total);
  return message("decoding {} on {}: {} of {} MB", name, node, done, total);
}

Result<node::v1::PrepareReply> callPrepare(NodeAccess& node,
                                           const node::v1::PrepareRequest& request,
                                           const Message& what, const TellData& tell,
                                           const std::stop_token& stop) {
  return call(node, &node::v1::Agent::Stub::Prepare, request, what, tell, stop);
}

Result<node::v1::FindFileReply> callFindFile(NodeAccess& node,
                                             const node::v1::FindFileRequest& request,
                                             const Message& what, const TellData& tell,
                                             const std::stop_token& stop) {
  return call(node, &node::v1::Agent::Stub::FindFile, request, what, tell, stop);
}

Result<node::v1::FetchFileReply> callFetchFile(NodeAccess& node,
                                               const node::v1::FetchFileRequest& request,
                                               const Message& what, const TellData& tell,
                                               const std::stop_token& stop) {
  return call(node, &node::v1::Agent::Stub::FetchFile, request, what, tell, stop);
}

}  // namespace lockstep::app
