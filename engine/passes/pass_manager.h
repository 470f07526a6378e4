// The pass manager: runs lists of named passes and verifies every graph they make.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/ir/model_graph.h"

namespace lockstep::passes {

// A named pure function. `T` is ir::Graph or ir::ModelGraph. A disabled pass is not run.
template <typename T>
struct BasicPass {
  std::string_view name;
  std::function<Result<T>(const T&)> run;
  bool enabled = true;
};
using Pass = BasicPass<ir::Graph>;
using ModelPass = BasicPass<ir::ModelGraph>;

// Record of one pass on one program of a plan.
struct PassRecord {
  std::string program;      // "train", "init", "step", …
  std::string pass;         // "autodiff"
  int runs = 0;             // one for each distinct graph: ranks with equal graphs share one
  Nanoseconds elapsed = 0;  // of all runs, without verification
  std::size_t nodesBefore = 0, nodesAfter = 0;  // of the first run
};

// Collects what passes did, in the order of their first runs, and the graphs after one of them.
class PassTrace {
 public:
  // Keeps the text of every graph that pass `dumpAfter` makes; "" keeps none.
  explicit PassTrace(std::string dumpAfter = {}) : dumpAfter_(std::move(dumpAfter)) {}

  void add(std::string_view program, std::string_view pass, Nanoseconds elapsed,
           std::size_t nodesBefore, const std::vector<const ir::Graph*>& made);

  const std::vector<PassRecord>& records() const { return records_; }
  const std::string& dump() const { return dump_; }

 private:
  std::string dumpAfter_, dump_;
  std::vector<PassRecord> records_;
};

// The graphs that the input or output of a pass holds. Types with several add an overload.
inline std::vector<const ir::Graph*> graphsIn(const ir::Graph& graph) { return {&graph}; }
inline std::vector<const ir::Graph*> graphsIn(const ir::ModelGraph& model) {
  return {&model.graph};
}
std::vector<const ir::Graph*> graphsIn(const std::vector<ir::Graph>& graphs);

class PassManager {
 public:
  // Reports to `trace`, which may be null and outlives the manager.
  explicit PassManager(PassTrace* trace) : trace_(trace) {}

  // Runs the enabled passes of `list` in order.
  // Errors: what a pass returns; kInternal where a pass made a graph that ir::verify refuses,
  // naming the pass, the program and the graph.
  template <typename T>
  Result<T> run(std::string_view program, const std::vector<BasicPass<T>>& list, T value) const {
    for (const BasicPass<T>& pass : list) {
      if (!pass.enabled) continue;
      LOCKSTEP_ASSIGN(value, apply(program, pass.name, value, pass.run));
    }
    return value;
  }

  // Runs one pass whose output type may differ from its input's: model to training graph, graph to
  // one graph per stage. Errors as run().
  template <typename In, typename Function>
  auto apply(std::string_view program, std::string_view pass, const In& in,
             const Function& function) const -> decltype(function(in)) {
    const Nanoseconds begin = monotonicNow();
    auto out = function(in);
    const Nanoseconds elapsed = monotonicNow() - begin;
    if (!out.ok()) return out;
    const std::vector<const ir::Graph*> made = graphsIn(*out);
    LOCKSTEP_TRY(verify(program, pass, made));
    if (trace_ != nullptr) trace_->add(program, pass, elapsed, nodes(graphsIn(in)), made);
    return out;
  }

 private:
  static Status verify(std::string_view program, std::string_view pass,
                       const std::vector<const ir::Graph*>& made);
  static std::size_t nodes(const std::vector<const ir::Graph*>& graphs);

  PassTrace* trace_;
};

}  // namespace lockstep::passes
