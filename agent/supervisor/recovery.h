// Recovery: whether a run restarts after a failure, and whether with the node that caused it.
// Counts failures; has neither processes nor timers. Each generation begins with the count, so that
// a node that takes over from the coordinator continues it.
//
// A run is a sequence of generations. A restart ends all workers of one generation and starts those
// of the next from the last checkpoint. Messages carry their generation; older ones are dropped.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// The error of nodes that do not answer any more.
Error lostError(const std::vector<std::string>& nodes);

// Whether a restart may help after such an error. It does not help where the same error would come
// again: of the spec, of data and files, of training that diverges.
bool restartMayHelp(Code code);

enum class FailureKind { kExit, kHang, kNodeLost };

// Whether the spec wants a restart after such a failure.
bool restartsAfter(FailureKind kind, const spec::v1::RecoverySpec& spec);

class Recovery {
 public:
  // `limit`: the option of the run's spec that spec.max_restarts comes from.
  explicit Recovery(const spec::v1::RecoverySpec& spec, std::string limit = "recovery.max_restarts")
      : spec_(spec), limit_(std::move(limit)) {}

  // What another Recovery continues from. Its own count is replaced.
  node::v1::PastFailures past() const;
  void continueFrom(const node::v1::PastFailures& past);

  // The run has made progress since the last failure, whatever its steps say.
  void noteProgress() { steps_ = -1; }
  // Notes a failure after `steps` completed steps. `nodes` caused it: a worker of theirs ended by
  // itself, or they fell silent; empty: not known. Returns the error that ends the run: the failure
  // itself where a restart cannot help or is not wanted, else with the restarts that were tried and
  // the nodes that failed again and again; nothing if the run restarts.
  std::optional<Error> ends(const Error& failure, FailureKind kind, std::int64_t steps,
                            const std::vector<std::string>& nodes = {});

  // Whether the node caused three of the last five failures, within a day: the run continues
  // without it if it can.
  bool failsRepeatedly(const std::string& node) const { return failuresOf(node) >= kRepeated; }
  Message failuresText(const std::string& node) const;  // how many
  Message lastFailureOf(const std::string& node) const;
  // The run continues without the node: its failures do not count any more.
  void noteExcluded(const std::string& node);

  // The wait before the workers start: 0 at first, longer after each failure without progress.
  Nanoseconds pause() const;

 private:
  static constexpr int kMostWithoutProgress = 3, kRepeated = 3;
  static constexpr std::size_t kWindow = 5;  // failures
  static constexpr Nanoseconds kCounts = 86400 * 1'000'000'000LL;
  struct Failure {
    std::vector<std::string> nodes;
    Message what;
    Nanoseconds at = 0;
    bool isOf(const std::string& node) const;
  };
  int failuresOf(const std::string& node) const;
  Message evidence() const;

  spec::v1::RecoverySpec spec_;
  std::string limit_;
  int restarts_ = 0, withoutProgress_ = 0;
  std::int64_t steps_ = -1;   // at the last failure
  std::deque<Failure> last_;  // oldest first
};

}  // namespace lockstep::agent
