// The version of the protocol between studio and agent (proto/lockstep/node/v1/node.proto).
#pragma once

namespace lockstep::specs {

// Compared in the handshake; a peer of another version is refused.
inline constexpr int kProtocol = 1;

}  // namespace lockstep::specs
