// The state of a lasting connection; see app/ssh/ssh_connection.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep::app {

enum class LinkState : std::uint8_t {
  kIdle,
  kConnecting,
  kConnected,
  kReconnecting,
  kFailed,
  kClosed,
};
std::string_view linkStateName(LinkState state);

struct LinkStatus {
  LinkState state = LinkState::kIdle;
  std::optional<Error> reason;           // why reconnecting or failed
  std::chrono::milliseconds retryIn{0};  // reconnecting: until the next attempt; 0: under way
  int attempt = 0;                       // since the last time it was connected
};

}  // namespace lockstep::app
