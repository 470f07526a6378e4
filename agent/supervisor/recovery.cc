#include "agent/supervisor/recovery.h"

#include <algorithm>
#include <set>

#include "engine/specs/error_info.h"

namespace lockstep::agent {
bool restartMayHelp(Code code) {
  return code == Code::kAborted || code == Code::kUnavailable || code == Code::kDeadlineExceeded ||
         code == Code::kInternal;
}

bool restartsAfter(FailureKind kind, const spec::v1::RecoverySpec& spec) {
  const char* name = kind == FailureKind::kExit   ? "exit"
                     : kind == FailureKind::kHang ? "hang"
                                                  : "node_lost";
  if (spec.policy() == "none") return false;
  return spec.on().empty() ||
         std::find(spec.on().begin(), spec.on().end(), name) != spec.on().end();
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

node::v1::PastFailures Recovery::past() const {
  node::v1::PastFailures out;
  out.set_restarts(restarts_);
  out.set_without_progress(withoutProgress_);
  out.set_step(steps_);
  for (const Failure& one : last_) {
    node::v1::PastFailures::Failure& failure = *out.add_last();
    for (const std::string& node : one.nodes) failure.add_nodes(node);
    *failure.mutable_what() = specs::toText(one.what);
    failure.set_age_ns(monotonicNow() - one.at);
  }
  return out;
}

void Recovery::continueFrom(const node::v1::PastFailures& past) {
  restarts_ = std::max(0, past.restarts());
  withoutProgress_ = std::clamp(past.without_progress(), 0, kMostWithoutProgress);
  steps_ = past.step();
  last_.clear();
  for (const auto& one : past.last())
    last_.push_back({{one.nodes().begin(), one.nodes().end()},
                     specs::fromText(one.what()),
                     monotonicNow() - std::clamp<Nanoseconds>(one.age_ns(), 0, kCounts)});
  while (last_.size() > kWindow) last_.pop_front();
}

std::optional<Error> Recovery::ends(const Error& failure, FailureKind kind, std::int64_t steps,
                                    const std::vector<std::string>& nodes) {
  if (!restartsAfter(kind, spec_) || !restartMayHelp(failure.code)) return failure;
  last_.push_back({nodes, failure.what, monotonicNow()});
  if (last_.size() > kWindow) last_.pop_front();
  withoutProgress_ = steps > steps_ ? 0 : withoutProgress_ + 1;
  steps_ = std::max(steps_, steps);
  Message tried;
  if (withoutProgress_ >= kMostWithoutProgress)
    tried = message("{} restarts led to no step after step {}", withoutProgress_, steps_);
  else if (restarts_ >= spec_.max_restarts())
    tried = message("the run was restarted {} times, which {} allows", restarts_, limit_);
  if (!tried.empty()) {
    if (const Message again = evidence(); !again.empty()) tried = message("{}\n{}", tried, again);
    Error error = failure;
    if (error.step < 0 && steps > 0) error.step = steps;
    error.why = error.why.empty() ? tried : message("{}\n{}", tried, error.why);
    return error;
  }
  ++restarts_;
  return std::nullopt;
}

bool Recovery::Failure::isOf(const std::string& node) const {
  return monotonicNow() - at < kCounts &&
         std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

int Recovery::failuresOf(const std::string& node) const {
  return static_cast<int>(std::count_if(last_.begin(), last_.end(),
                                        [&](const Failure& one) { return one.isOf(node); }));
}

Message Recovery::failuresText(const std::string& node) const {
  return message("node {} caused {} of the last {} failures", node, failuresOf(node), last_.size());
}

Message Recovery::lastFailureOf(const std::string& node) const {
  const auto found = std::find_if(last_.rbegin(), last_.rend(),
                                  [&](const Failure& one) { return one.isOf(node); });
  return found == last_.rend() ? Message() : found->what;
}

// Of the nodes that caused several of the last failures.
Message Recovery::evidence() const {
  std::set<std::string> nodes;
  for (const Failure& one : last_) nodes.insert(one.nodes.begin(), one.nodes.end());
  Message out;
  for (const std::string& node : nodes) {
    if (failuresOf(node) < 2) continue;
    out = out.empty() ? failuresText(node) : message("{}; {}", out, failuresText(node));
  }
  return out;
}

void Recovery::noteExcluded(const std::string& node) {
  for (Failure& one : last_)
    if (std::erase(one.nodes, node) > 0) withoutProgress_ = 0;
}

Nanoseconds Recovery::pause() const {
  constexpr Nanoseconds kFirst = 1'000'000'000;
  return withoutProgress_ == 0 ? 0 : kFirst << (withoutProgress_ - 1);
}

}  // namespace lockstep::agent
