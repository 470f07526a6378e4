// Measures the links between nodes before a run: one node listens, another sends to it over one TCP
// connection.
//
// Protocol: a connection begins with the listener's key. Then, any number of times: a length (8
// bytes, big endian, at most kMostMeasuredBytes), as many bytes, and one byte back.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

inline constexpr std::uint64_t kMostMeasuredBytes = 1U << 28U;

// Listens on a free port until `cancelled`, at most 10 minutes. Calls `ready` once with the port
// and a new random key; returns if it returns false. Serves 16 connections at a time; closes those
// that have not sent the key after 2 s, or are silent for 2 s later, and the oldest one without the
// key when one more comes. Errors: those of listening.
Status listenForMeasurements(
    const node::v1::ListenForMeasurementsRequest& request,
    const std::function<bool(const node::v1::ListenForMeasurementsReply&)>& ready,
    const std::function<bool()>& cancelled);

// Blocks for about the request's seconds; on a slow link for at most 5 s more than twice as long.
// Errors: kUnavailable; kCancelled, within 2 s.
Result<node::v1::MeasurePeerReply> measurePeer(const node::v1::MeasurePeerRequest& request,
                                               const std::function<bool()>& cancelled);

}  // namespace lockstep::agent
