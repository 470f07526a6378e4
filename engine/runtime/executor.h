// Executor: binds one program of a Plan for one rank and runs it in real time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/plan/plan.h"
#include "engine/runtime/arena.h"
#include "engine/runtime/groups.h"

namespace lockstep::runtime {

// Reads or writes an element of an f32 or f64 operand; a write to an absent operand has no effect.
double readFloat(const backends::Operand& operand, std::size_t index);
void writeFloat(const backends::Operand& operand, std::size_t index, double value);

// Breakdown of one run's time, in seconds.
struct Breakdown {
  double forward = 0, backward = 0, optimizer = 0, communication = 0;
  // device idle time, waiting for the host to write inputs
  double awaitedHost = 0;
  Nanoseconds firstCollective = 0;  // when this rank arrived at its first collective; 0: none
  void add(const Breakdown& run) {  // adds a later run
    forward += run.forward;
    backward += run.backward;
    optimizer += run.optimizer;
    communication += run.communication;
    awaitedHost += run.awaitedHost;
    if (firstCollective == 0) firstCollective = run.firstCollective;
  }
};

// Index of a run in the training step's schedule (Plan::entriesOf() or uncompressedSchedule());
// what devices send depends on earlier entries. -1: none.
struct ScheduleIndex {
  int entry = -1;
  bool uncompressed = false;
};

// A non-finite tensor of a run.
struct NonFiniteTensor {
  std::int64_t order = 0;  // position in the plan: by stage, then by step
  std::string text;        // "parameter dense1.weight", "activation dense2.matmul"
};

class Executor {
 public:
  // All references, and the groups' communicators, are borrowed for the executor's lifetime. `copy`
  // selects the copy of states that have several, or the peer of a parameter-server session.
  // `arena` holds the body's operands (body's arenaBytes, see Arena); executors that never run at
  // the same time may share one, and results are then valid until another run. Null: allocates its
  // own. Errors: those of the backend, with the step's name; kFailedPrecondition where a collective
  // has no group or one of another size.
  static Result<std::unique_ptr<Executor>> bind(const plan::Plan& plan, std::string_view program,
                                                int rank, backends::Backend& backend,
                                                const Groups& groups, StateArena& state,
                                                int copy = 0, std::byte* arena = nullptr);
  ~Executor();

  // Inputs, written before a run, and results, read after one; in host memory. `data` is null for a
  // name the program does not have.
  backends::Operand input(std::string_view name);
  backends::Operand result(std::string_view name);
  // On a device, write samples for the next run between these two calls, as soon as the current run
  // has begun: they are copied while it is under way. No effect on other backends.
  void beginSamples();
  void endSamples();
  // Runs the program once; steps of phase watch only where Plan::isWatched(step). On a device these
  // are part of what was captured, and are always run, except collectives that the host runs.
  // Allocates nothing; waits only for its collectives and for the previous
  // run's sends. On a device, steps were captured at bind time and are enqueued together
  // (DeviceRun); `meanwhile`, if not null, is called while the device is at work. Subnormal numbers
  // are flushed to zero (base/subnormals.h). `events`, if not null, receives one more event per
  // plan step; its capacity must suffice.
  Status run(std::int64_t step, std::vector<plan::Event>* events, ScheduleIndex index = {},
             const std::function<Status()>& meanwhile = {});
  // Waits until the last run's sends are complete, so that another executor may write the memory.
  // run() begins with it.
  Status awaitSent(std::int64_t step);
  // Makes subsequent runs check the loss once it is computed. Costs one number per run; no effect
  // on a device.
  void watchLoss() { watches_ = true; }
  // If the last run's loss was not finite: its first non-finite tensor, among parameters and inputs
  // as read and results not yet overwritten when the loss was available. Else none.
  const std::optional<NonFiniteTensor>& nonFinite() const { return nonFinite_; }
  // The first non-finite tensor among those that a pipeline stage's forward runs have stashed for
  // backward runs.
  std::optional<NonFiniteTensor> firstNonFiniteKept() const;
  const Breakdown& last() const;    // of the last run
  std::int64_t boundBytes() const;  // its own arena and kernels' workspaces
  std::size_t steps() const;
  const plan::Body& body() const;

 private:
  struct Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
  bool watches_ = false;
  std::optional<NonFiniteTensor> nonFinite_;
};

}  // namespace lockstep::runtime
