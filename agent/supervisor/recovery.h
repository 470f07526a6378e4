// Recovery: whether a run restarts after a failure. Counts failures; has neither processes nor
// timers.
//
// A run is a sequence of generations. A restart ends all workers of one generation and starts those
// of the next from the last checkpoint. Messages carry their generation; older ones are dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::agent {

// The error of nodes that do not answer any more.
Error lostError(const std::vector<std::string>& nodes);

// Whether a restart may help after such an error. Others come again: of the spec, of data and
// files, of training that diverges.
bool restartMayHelp(Code code);

class Recovery {
 public:
  explicit Recovery(const spec::v1::RecoverySpec& spec, int restarts = 0)
      : spec_(spec), restarts_(restarts) {}

  // The run has made progress since the last failure, whatever its steps say.
  void noteProgress() { steps_ = -1; }
  // Notes a failure after `steps` completed steps. Returns the error that ends the run: the failure
  // itself where a restart cannot help or is not wanted, else with the restarts that were tried;
  // nothing if the run restarts.
  std::optional<Error> ends(const Error& failure, std::int64_t steps);

  int restarts() const { return restarts_; }
  // The wait before the workers start: 0 at first, longer after each failure without progress.
  Nanoseconds pause() const;

 private:
  static constexpr int kMostWithoutProgress = 3;
  spec::v1::RecoverySpec spec_;
  int restarts_, withoutProgress_ = 0;
  std::int64_t steps_ = -1;  // at the last failure
};

}  // namespace lockstep::agent
