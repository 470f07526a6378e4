// RunSinks: hands the curves of a run on to the sinks of its spec while the run is recorded.
//
// Each sink reads the history as the recorder writes it, on a thread of its own, so that recording
// waits for none of them, and what a sink could not take yet is kept nowhere else. How much it has
// taken is noted in the run's file: a later recorder goes on from there. Where that note is missing
// or older (the program was killed), files of CSV and JSON are cut back to it, and up to ten
// seconds of points go to TensorBoard and to a collector again.
//
// Files get points every second, collectors every 5 s; a sink that fails or takes long, up to a
// minute later.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {

class RunSinks {
 public:
  // Requires the run's recorder lock, held until this is destroyed.
  RunSinks(const std::string& historyFolder, const std::string& run,
           const spec::v1::SinksSpec& sinks);
  ~RunSinks();  // ends at once; a call to a collector is cancelled
  RunSinks(const RunSinks&) = delete;
  RunSinks& operator=(const RunSinks&) = delete;

  // What failed since the last call: of each sink the first failure and, after finish(), what it
  // lacks.
  std::vector<Error> warnings();
  // To be called when all of the run is in the history. Waits at most 30 s for sinks that take
  // points; one that failed gets one more try.
  void finish(const std::stop_token& stop);

 private:
  class Feed;
  std::vector<std::unique_ptr<Feed>> feeds_;
};

}  // namespace lockstep::app
