#include "app/cli/local_agent.h"

#include <optional>
#include <thread>

#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {

Status onLocalAgent(const Globals& globals, std::shared_ptr<const spec::v1::ClusterSpec> cluster,
                    std::string_view what,
                    const std::function<Status(NodeAccess&, std::stop_token)>& ask,
                    const std::function<void()>& idle) {
  Inbox inbox;
  ClusterSession session(std::move(cluster), sessionOptions(globals, 0), inbox);
  session.connect();
  std::optional<Status> done;
  {
    std::jthread thread([&, &access = session.access(0)](std::stop_token stop) {
      Status result = [&]() -> Status {
        LOCKSTEP_TRY(access.waitConnected(stop).status());
        return ask(access, stop);
      }();
      inbox.post([&done, result = std::move(result)] { done = result; });
    });
    if (!drainUntil(
            inbox, [&] { return done.has_value(); }, idle)) {
      thread.request_stop();
      return makeError(Code::kCancelled, "{} was cancelled", what);
    }
  }
  return *done;
}

int conclude(const Status& status, bool json) {
  if (status.ok()) return kSucceeded;
  report(status.error(), json);
  return exitCodeOf(status.error());
}

}  // namespace lockstep::app::cli
