// Hangs: what the coordinator knows of ranks that stand still. Once some hold up the others, it
// asks for the stacks of those that may be the cause, and tells what it has found when they have
// come, or after a while without the missing ones. That is a warning; where the run has a program
// of the user's own, it is the error that ends this generation. Runs on the loop's thread, and
// lives as long as the loop runs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/event_loop.h"
#include "agent/supervisor/hang_watch.h"
#include "agent/supervisor/program_hang.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

class Hangs {
 public:
  struct Handlers {
    std::function<std::map<std::string, std::vector<int>>()> ranksByNode;  // of this generation
    // Whether the ranks are ending: then nothing is asked or told any more.
    std::function<bool()> ending;
    std::function<void(int rank)> readStacks;  // on whichever node it is; onStacks() has the answer
    std::function<void(std::string line)> say;
    std::function<void(Error)> warn;
    std::function<void(Error)> fail;  // by a program that stands still
  };
  Hangs(EventLoop& loop, bool ofProgram, Handlers handlers)
      : loop_(loop), ofProgram_(ofProgram), handlers_(std::move(handlers)) {}
  Hangs(const Hangs&) = delete;
  Hangs& operator=(const Hangs&) = delete;

  void clear();           // a new generation begins
  void forget(int rank);  // what is known of it no longer holds
  // How long a step of one of the ranks took, and the median of the last ones (HangWatch).
  void noteStep(Nanoseconds duration) { watch_.noteStep(duration); }
  Nanoseconds usualStep() const { return watch_.usualStep(); }

  void onStalled(const node::v1::Stalled& stalled, Nanoseconds now);  // or moves again
  void onStacks(const node::v1::Stacks& stacks);
  // Looks whether ranks have waited too long. To be called again and again.
  void judge(Nanoseconds now);
  // What holds the ranks up, until they go on: a certain verdict, or the last one told. Always
  // empty where the run has a program of the user's own.
  const std::optional<Error>& found() const { return found_; }

 private:
  struct Pending {  // until the stacks have come
    HangWatch::Verdict verdict;
    std::map<int, std::vector<std::string>> stacks;
    int id = 0;
  };
  void onProgramStalled(const node::v1::Stalled& stalled);
  void askStacks(HangWatch::Verdict verdict);
  void tell();
  std::string nodeOf(int rank) const;  // "": none

  EventLoop& loop_;
  const bool ofProgram_;
  const Handlers handlers_;
  HangWatch watch_;
  ProgramHang program_;
  std::optional<Pending> pending_;
  int count_ = 0;  // of all that were pending
  std::optional<Error> found_;
};

}  // namespace lockstep::agent
