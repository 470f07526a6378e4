// HookMessages: what the hooks in a program's Python processes tell through their pipe, line by
// line. A line is a JSON object, or one of the stacks that were asked for. The program may write
// there what it likes: lines, texts, names and stacks have a size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/workload/recorded_collectives.h"
#include "engine/base/clock.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

// A training step, as a process of the program has measured it.
struct ProgramStep {
  int process = 0;                      // its number, as the process itself knows it
  std::int64_t number = 0;              // from 1, at each start of the process
  Nanoseconds begin = 0, duration = 0;  // monotonicNow()
  // Seconds; waiting includes the transfer, as far as nothing was computed beside it.
  double waiting = 0, forward = 0, backward = 0, optimizer = 0;
  double elements = 0;  // of the tensors that its data loaders gave it; 0: not known
};

class HookMessages {
 public:
  // In the order in which they came.
  struct Told {
    std::vector<run::v1::Scalars> values;  // without ranks
    std::vector<ProgramStep> steps;
    std::vector<run::v1::ProgramSource> sources;  // each once
    std::vector<std::string> lines;               // that the program has printed, of messageOf()
    bool empty() const {
      return values.empty() && steps.empty() && sources.empty() && lines.empty();
    }
  };

  // The message that tells a line of the program's output, which another process has read.
  static std::string messageOf(std::string_view line);

  // Adds what these bytes, which follow those before, complete. A value without a step belongs to
  // the step after the previous one of its tag.
  void take(std::string_view bytes, Told& told);
  // The lines of stacks that have come since the last call.
  std::vector<std::string> takeStacks();
  // What its Flight Recorder has, likewise: those that go on are the last.
  std::vector<RecordedCollective> takeRecorded() { return std::exchange(recorded_, {}); }
  // The processes that print their stacks when they are asked to, as they say.
  const std::set<int>& processes() const { return pids_; }
  // Those that torchrun has started as this rank, in the order of their starts. The caller removes
  // what has ended.
  std::vector<int>& launched() { return launched_; }

 private:
  void takeLine(const std::string& line, Told& told);
  void takeHello(const nlohmann::json& json);
  void takeValue(const nlohmann::json& json, Told& told);
  void takeSource(const nlohmann::json& json, Told& told);

  std::string rest_;  // of a line whose end has not come
  std::set<int> pids_;
  std::vector<int> launched_;
  std::set<std::string> sources_;              // that have been told
  std::map<std::string, std::int64_t> steps_;  // the last, by tag
  std::vector<std::string> stacks_;
  std::size_t stackBytes_ = 0;
  std::vector<RecordedCollective> recorded_;
};

}  // namespace lockstep::agent
