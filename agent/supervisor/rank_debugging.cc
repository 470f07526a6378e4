#include "agent/supervisor/rank_debugging.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <optional>

#include "agent/host/debugger.h"
#include "agent/supervisor/run_control.h"
#include "agent/worker/prepare.h"
#include "agent/worker/rank_groups.h"
#include "engine/base/hex.h"
#include "engine/plan/plan.h"

namespace lockstep::agent {
namespace {

using node::v1::DebugRankReply;

constexpr std::chrono::seconds kStacksLimit{12};  // longer than that of the reader
constexpr double kUsualWait = 600, kMostWait = 3600;

std::string newSocket(const RunFolder& folder) {
  std::array<char, 8> random{};
  [[maybe_unused]] const ssize_t got = getrandom(random.data(), random.size(), 0);
  return folder.runtime + "/debug-" + toHex({random.data(), random.size()}) + ".sock";
}

DebugRankReply::State stateOf(DebuggerState state) {
  switch (state) {
    case DebuggerState::kWaiting:
      return DebugRankReply::WAITING;
    case DebuggerState::kAttached:
      return DebugRankReply::ATTACHED;
    case DebuggerState::kLeft:
      break;
  }
  return DebugRankReply::LEFT;
}

// What a reader on the loop's thread hands over. Outlives whoever gives up first.
struct Handover {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<node::v1::ReadRankStacksReply>> stacks;
};

}  // namespace

Result<int> RankDebugging::processOf(int rank) {
  if (rank < 0) return invalidArgument("there is no rank {}", rank);
  Result<int> out = makeError(Code::kNotFound, "the run has ended: its ranks are not running");
  if (control_ == nullptr) return out;
  if (!loop_.call([&] { out = control_->processOf(rank); }))
    return makeError(Code::kUnavailable, "the supervisor is leaving");
  return out;
}

Result<node::v1::ReadRankStacksReply> RankDebugging::readStacks(
    int rank, const std::function<bool()>& cancelled) {
  LOCKSTEP_ASSIGN(const int pid, processOf(rank));
  const auto handover = std::make_shared<Handover>();
  loop_.post([this, pid, handover] {
    control_->readStacks(pid, [handover](Result<node::v1::ReadRankStacksReply> stacks) {
      const std::lock_guard lock(handover->mutex);
      handover->stacks = std::move(stacks);
      handover->changed.notify_all();
    });
  });
  const auto end = std::chrono::steady_clock::now() + kStacksLimit;
  std::unique_lock lock(handover->mutex);
  while (!handover->changed.wait_for(lock, std::chrono::milliseconds(50),
                                     [&] { return handover->stacks.has_value(); })) {
    if (cancelled()) return makeError(Code::kCancelled, "reading stacks was cancelled");
    if (std::chrono::steady_clock::now() > end)
      return makeError(Code::kDeadlineExceeded, "cannot read the stacks of process {}", pid);
  }
  Result<node::v1::ReadRankStacksReply> out = std::move(*handover->stacks);
  if (!out.ok()) out.error().rank = rank;
  return out;
}

double RankDebugging::patience() const {
  const auto plan = readPlan(folder_.plan());
  if (!plan.ok() || plan->mesh.size() < 2) return 0;
  return static_cast<double>(collectiveLimit(*plan)) * 1e-9;
}

Status RankDebugging::debug(const node::v1::DebugRankRequest& request,
                            const std::function<bool(const DebugRankReply&)>& tell,
                            const std::function<bool()>& cancelled) {
  const double seconds = request.seconds() == 0 ? kUsualWait : request.seconds();
  if (!(seconds >= 1 && seconds <= kMostWait))
    return invalidArgument("the wait for a debugger is {} s, expected 1 to {} s", seconds,
                           kMostWait);
  LOCKSTEP_ASSIGN(const int pid, processOf(request.rank()));
  {
    const std::lock_guard lock(mutex_);
    if (!debugged_.insert(request.rank()).second) {
      Error error = makeError(Code::kAlreadyExists, "rank {} is being debugged by another client",
                              request.rank());
      error.next = "end that session first";
      return error;
    }
  }
  DebuggerOptions options;
  options.pid = pid;
  options.socket = newSocket(folder_);
  options.wait = static_cast<Nanoseconds>(seconds * 1e9);
  DebugRankReply reply;
  reply.set_socket(options.socket);
  reply.set_pid(pid);
  std::error_code failed;
  reply.set_program(
      std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), failed).string());
  reply.set_patience_seconds(patience());
  Status status = serveDebugger(
      options,
      [&](DebuggerState state) {
        if (state != DebuggerState::kWaiting)
          loop_.post([this, rank = request.rank(), state] {
            control_->say(state == DebuggerState::kAttached
                              ? fmt::format("a debugger has stopped rank {}", rank)
                              : fmt::format("the debugger has left rank {}", rank));
          });
        reply.set_state(stateOf(state));
        return tell(reply);
      },
      cancelled);
  const std::lock_guard lock(mutex_);
  debugged_.erase(request.rank());
  if (!status.ok()) status.error().rank = request.rank();
  return status;
}

}  // namespace lockstep::agent
