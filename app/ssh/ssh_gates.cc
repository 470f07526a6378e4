#include "app/ssh/ssh_gates.h"

#include <algorithm>

#include "app/ssh/ssh_session.h"

namespace lockstep::app {
namespace {

// What a host is called makes no difference, nor how its own jump hosts are: they are hops, too.
bool isSameHop(SshConfig one, const SshConfig& other) {
  one.alias = other.alias;
  one.proxyJump = other.proxyJump;
  return one == other;
}

}  // namespace

SshHop SshGates::join(std::span<const SshConfig> route, const Open& open) {
  // A session that loses its last user meanwhile is destroyed, which blocks, after the unlocking.
  std::vector<std::shared_ptr<SshSession>> held;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<SshSession> found;
  std::erase_if(gates_, [&](const Gate& gate) {
    const auto session = gate.session.lock();
    if (!session) return true;
    held.push_back(session);
    if (session->ended()) return true;
    if (std::equal(gate.route.begin(), gate.route.end(), route.begin(), route.end(), isSameHop))
      found = session;
    return false;
  });
  if (found) return {found, false, found->opened()};
  found = open();
  gates_.push_back({{route.begin(), route.end()}, found});
  return {found, true, false};
}

}  // namespace lockstep::app
