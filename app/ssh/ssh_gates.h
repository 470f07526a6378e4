// The sessions to gates (jump hosts). The connections of a cluster share one session to each gate,
// so that it asks a person once, however many hosts are behind it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "app/ssh/answer_store.h"
#include "app/ssh/ssh_config.h"

namespace lockstep::app {

class SshSession;

// A session on the way of a connection.
struct SshHop {
  std::shared_ptr<SshSession> session;
  bool own = false;      // this connection opens it
  bool wasOpen = false;  // it was open when this connection came
};

// Thread-safe.
class SshGates {
 public:
  using Open = std::function<std::shared_ptr<SshSession>()>;

  // Returns the session to the last host of `route`: that of another connection which goes the same
  // way with the same settings, else what `open` returns. It lasts until its last user drops it.
  SshHop join(std::span<const SshConfig> route, const Open& open);

 private:
  struct Gate {
    std::vector<SshConfig> route;
    std::weak_ptr<SshSession> session;
  };
  std::mutex mutex_;
  std::vector<Gate> gates_;
};

// Shared by the connections of a cluster.
struct SshShared {
  AnswerStore answers;
  SshGates gates;
};

}  // namespace lockstep::app
