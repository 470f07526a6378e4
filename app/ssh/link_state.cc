#include "app/ssh/link_state.h"

namespace lockstep::app {

std::string_view linkStateName(LinkState state) {
  switch (state) {
    case LinkState::kIdle:
      return "idle";
    case LinkState::kConnecting:
      return "connecting";
    case LinkState::kConnected:
      return "connected";
    case LinkState::kReconnecting:
      return "reconnecting";
    case LinkState::kFailed:
      return "failed";
    case LinkState::kClosed:
      return "closed";
  }
  return "unknown";
}

}  // namespace lockstep::app
