#include "app/runs/node_records.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "app/core/rpc.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::app {

using namespace std::chrono_literals;

bool sleepFor(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  return !wake.wait_for(lock, stop, time, [&] { return stop.stop_requested(); });
}

Status readRecords(const std::string& run, const RunNode& node, std::uint64_t after,
                   const RecordSink& sink, const std::stop_token& stop) {
  auto pause = 200ms;
  while (!stop.stop_requested()) {
    auto supervisor = supervisorOf(run, node, stop);
    if (supervisor.ok()) {
      LOCKSTEP_TRY(supervisor->checkProtocol(node));
      const auto stub = node::v1::Supervisor::NewStub(supervisor->channel);
      grpc::ClientContext context;
      const CancelOnStop cancel(context, stop);
      node::v1::RecordsRequest request;
      request.set_after(after);
      request.set_follow(true);
      const auto reader = stub->Records(&context, request);
      run::v1::Record record;
      bool first = true, last = false;
      while (!last && reader->Read(&record)) {
        if (first) sink.reach(true, {});
        first = false;
        pause = 200ms;
        after = record.sequence();
        last = record.has_finished();
        last = !sink.record(std::move(record)) || last;
      }
      if (last) {
        context.TryCancel();
        return {};
      }
      const grpc::Status ended = reader->Finish();
      if (stop.stop_requested()) return {};
      if (ended.ok() && after == kOnlyNew) return {};  // nothing comes any more
      sink.reach(false,
                 ended.ok() ? Message("the supervisor ended") : Message(ended.error_message()));
    } else {
      if (stop.stop_requested()) return {};
      const Code code = supervisor.error().code;
      if (code == Code::kNotFound || code == Code::kDataLoss) return supervisor.error();
      sink.reach(false, supervisor.error().message());
    }
    if (!sleepFor(pause, stop)) return {};
    pause = std::min<std::chrono::milliseconds>(pause * 2, 5s);
  }
  return {};
}

}  // namespace lockstep::app
