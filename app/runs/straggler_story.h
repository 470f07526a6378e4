// StragglerStory: when ranks and links become slow, why, and what that has cost when it is over.
// No threads, no I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/history/run_data.h"
#include "app/runs/straggler.h"

namespace lockstep::app {

struct StragglerChange {
  enum class Kind : std::uint8_t { kBegins, kCauseKnown, kOver };
  Kind kind = Kind::kBegins;
  Straggler slow;
  // Of one that is over: the last step, and the seconds that it cost in all.
  std::int64_t untilStep = 0;
  double lostSeconds = 0;
};

class StragglerStory {
 public:
  // Returns what has changed. `step` is the last one completed; at the end of a run all is over.
  std::vector<StragglerChange> take(const std::optional<Straggler>& now, std::int64_t step,
                                    bool ended);

 private:
  StragglerChange close(std::int64_t step);

  std::optional<Straggler> slow_;
  bool over_ = false;         // the run
  std::int64_t counted_ = 0;  // steps up to this one are in lostToLink_
  double lostToLink_ = 0;     // seconds
};

// As the history keeps it; `wallNs`: when it changed.
StragglerRow rowOf(const StragglerChange& change, std::int64_t wallNs);
// "rank 2 (n3) was slow in steps 40 to 88: it cost 3.2 s".
std::string changeText(const StragglerChange& change);

}  // namespace lockstep::app
