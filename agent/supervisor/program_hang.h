// ProgramHang: which ranks hold up a program of the user's own that stands still. Has neither
// processes nor timers.
//
// A rank is silent if its program has neither printed nor reported anything for
// workload.restart.hang_seconds. Many ranks never print, so the run stands still only when all are
// silent. The stacks of their main threads, and PyTorch's Flight Recorder, tell who holds the
// others up: ranks that are in no collective where others are, else those of the smallest group
// that are at the same place, else the one that has begun fewer collectives than the others.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// Where the main thread of a Python process is, by PythonHooks::takeStacks(): the collectives that
// it has begun and those of its Flight Recorder, then what faulthandler prints, a line for each
// thread, the main one last, and one for each frame, indented, innermost first. Paths of the
// program's code are relative.
struct PythonPlace {
  std::string function;     // the innermost: "all_reduce"
  std::string file;         // of the innermost frame of the person's own code: "data/load.py"
  std::string own;          // its function
  int line = 0;             // 0: no frame is known
  bool collective = false;  // it is in a call that waits for other ranks
  std::string last;     // the collective that it has begun last: "all_reduce #41"; "": not known
  bool inside = false;  // and is in
  // What the Flight Recorder has, in place of `last`: the first collective that has not completed,
  // else the last one: "all_reduce #41 of nccl/world (Float [1000])".
  std::string recorded, state;
  bool operator<(const PythonPlace& other) const;
};
PythonPlace placeOf(const std::vector<std::string>& stack);
// Whether the line is no stack's: of collectives, or of NCCL's RAS.
bool isEvidence(std::string_view line);

class ProgramHang {
 public:
  void clear() { *this = ProgramHang(); }
  // A rank that has ended stands still since 0 ns, and does not count: the others may wait for it.
  void note(const node::v1::Stalled& stalled);
  void forget(int rank);
  // Returns true once for each time that all of `world` ranks that have not ended are silent.
  bool begins(int world);
  std::vector<int> ranks() const;  // that are silent
  bool hangs() const { return told_; }

  // The error that ends this generation. `stacks` by rank; empty ones are not known.
  Error verdict(const std::map<int, std::vector<std::string>>& stacks) const;

 private:
  std::map<int, node::v1::Stalled> silent_;
  std::set<int> ended_;
  bool told_ = false;
};

}  // namespace lockstep::agent
