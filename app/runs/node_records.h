// Reads a run's records from one of its nodes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <stop_token>
#include <string>

#include "app/runs/run_nodes.h"
#include "engine/base/status.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app {

// Value of `after`: only live records, no stored ones.
inline constexpr std::uint64_t kOnlyNew = std::numeric_limits<std::uint64_t>::max();

struct RecordSink {
  // Returns whether to continue. May block, which applies back-pressure to the node.
  std::function<bool(run::v1::Record&& record)> record;
  // Reports whether the node answers, and `why` if it does not. Called on each change.
  std::function<void(bool answers, Message why)> reach;
};

// Reads records after number `after` until the run's last one, reconnecting as often as needed.
// kNotFound if the node does not know the run, kDataLoss if its records there are damaged,
// kFailedPrecondition if its supervisor is of a version that cannot be talked to.
Status readRecords(const std::string& run, const RunNode& node, std::uint64_t after,
                   const RecordSink& sink, const std::stop_token& stop);

// Sleeps. Returns false if `stop` is requested.
bool sleepFor(std::chrono::milliseconds time, const std::stop_token& stop);

}  // namespace lockstep::app
