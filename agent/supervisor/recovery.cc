#include "agent/supervisor/recovery.h"

#include <algorithm>

namespace lockstep::agent {
bool restartMayHelp(Code code) {
  return code == Code::kAborted || code == Code::kUnavailable || code == Code::kDeadlineExceeded ||
         code == Code::kInternal;
}

Error lostError(const std::vector<std::string>& nodes) {
  Error error = nodes.size() == 1
                    ? makeError(Code::kUnavailable, "node {} was lost", nodes.front())
                    : makeError(Code::kUnavailable, "nodes {} were lost", fmt::join(nodes, ", "));
  error.why = "heartbeats have stopped";
  error.next = "check the node and its network";
  error.node = nodes.front();
  return error;
}

std::optional<Error> Recovery::ends(const Error& failure, std::int64_t steps) {
  if (spec_.policy() == "none" || !restartMayHelp(failure.code)) return failure;
  withoutProgress_ = steps > steps_ ? 0 : withoutProgress_ + 1;
  steps_ = std::max(steps_, steps);
  Message tried;
  if (withoutProgress_ >= kMostWithoutProgress)
    tried = message("{} restarts led to no step after step {}", withoutProgress_, steps_);
  else if (restarts_ >= spec_.max_restarts())
    tried =
        message("the run was restarted {} times, which recovery.max_restarts allows", restarts_);
  if (!tried.empty()) {
    Error error = failure;
    error.why = error.why.empty() ? tried : message("{}\n{}", tried, error.why);
    return error;
  }
  ++restarts_;
  return std::nullopt;
}

Nanoseconds Recovery::pause() const {
  constexpr Nanoseconds kFirst = 1'000'000'000;
  return withoutProgress_ == 0 ? 0 : kFirst << (withoutProgress_ - 1);
}

}  // namespace lockstep::agent
