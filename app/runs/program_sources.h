// Where the values and the waiting of a program of the user's own are read from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/history/run_data.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app {

struct ProgramSource {
  std::string name;     // "stdout", "tensorboard", "log", or a library: "wandb"
  std::string version;  // of the library; "": unknown
  std::string problem;  // of the library's own: why it is not read; "": it is
  std::vector<int> ranks;
};

// The sources of a run, by name; ranks whose versions or problems differ are apart.
class ProgramSources {
 public:
  void add(const run::v1::ProgramSource& source);
  const std::vector<ProgramSource>& all() const { return all_; }

 private:
  std::vector<ProgramSource> all_;
};

// Which source of a value counts, if several have it: the one with the lower number.
int sourceOrder(std::string_view source);

// Keeps them in the history as facts of a run.
std::string sourceKey(const run::v1::ProgramSource& source);
ProgramSources programSources(const std::vector<RunBatch::Fact>& facts);

}  // namespace lockstep::app
