// RunControl: heartbeats between nodes. Each node pings the coordinator, which answers.
#include "agent/supervisor/run_control.h"
#include "agent/worker/prepare.h"

namespace lockstep::agent {

bool RunControl::changed(const std::string& node, Heard& heard) {
  constexpr int kMissed = 4;
  const Nanoseconds since = monotonicNow() - heard.last;
  const bool silent = heard.last != 0 && since > kMissed * heartbeat_;
  if (silent == heard.silent) return false;
  heard.silent = silent;
  say(silent ? fmt::format("nothing has come from node {} for {:.1f} s", node,
                           static_cast<double>(since) * 1e-9)
             : fmt::format("node {} answers again", node));
  return true;
}

void RunControl::beat() {
  if (over_ || outcome_) return;
  for (auto& [name, peer] : peers_) {
    if (!changed(name, peer.heard) || !peer.heard.silent) continue;
    Error warning = makeError(Code::kUnavailable, "node {} does not answer", name);
    warning.why = "its heartbeats stay out";
    warning.next = message("check the node and its network; the run ends after {} s without it",
                           limits_.lostPeer / 1'000'000'000);
    warning.node = name;
    warn(std::move(warning));
  }
  if (!client_) return;
  const std::vector<std::string> nodes = nodesOf(request_);
  if (!nodes.empty()) (void)changed(nodes.front(), coordinatorHeard_);
  node::v1::FromPeer ping;
  ping.mutable_ping()->set_sent_ns(monotonicNow());
  client_->send(std::move(ping));
}

}  // namespace lockstep::agent
