// Executor: binds one program of a Plan for one rank and plays it in real time.
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

// A number in a float operand of f32 or f64; writing one that is not there does nothing.
double readFloat(const backends::Operand& operand, std::size_t index);
void writeFloat(const backends::Operand& operand, std::size_t index, double value);

// Seconds of one play by what they were spent on.
struct Breakdown {
  double forward = 0, backward = 0, optimizer = 0, communication = 0;
  // of a device, that was done before the host had written what comes next
  double awaitedHost = 0;
  Nanoseconds firstCollective = 0;   // when this rank arrived at its first collective; 0: none
  void add(const Breakdown& play) {  // of a later play
    forward += play.forward;
    backward += play.backward;
    optimizer += play.optimizer;
    communication += play.communication;
    awaitedHost += play.awaitedHost;
    if (firstCollective == 0) firstCollective = play.firstCollective;
  }
};

// Which of a training step's plays a play is, of Plan::plays() or wholeSchedule(): what devices
// send in it depends on those before it. -1: none of them.
struct Turn {
  int play = -1;
  bool whole = false;
};

// A tensor that is not finite, of a play.
struct NonFiniteTensor {
  std::int64_t order = 0;  // where the plan comes to it: by stage, then by step
  std::string text;        // "parameter dense1.weight", "activation dense2.matmul"
};

class Executor {
 public:
  // All references, and the groups' communicators, are borrowed for the executor's life. `copy`
  // says which it works on of the states that have several, or whom a conversation is with. `arena`
  // is memory of the body's arenaBytes where the backend's operands lie (Arena); executors that are
  // not played at once may have the same, results are then good until another play. Null: memory of
  // its own. Errors: what the backend says of a step, with the step's name; kFailedPrecondition
  // where a collective meets no group or one of another size.
  static Result<std::unique_ptr<Executor>> bind(const plan::Plan& plan, std::string_view program,
                                                int rank, backends::Backend& backend,
                                                const Groups& groups, StateArena& state,
                                                int copy = 0, std::byte* arena = nullptr);
  ~Executor();

  // Where the trainer writes before a play, and reads after one: the host's memory. `data` is null
  // for a name the program does not have.
  backends::Operand input(std::string_view name);
  backends::Operand result(std::string_view name);
  // On a device samples are written between these two, for the next play, as soon as the play
  // before has begun: they are copied while it is under way. Else these do nothing.
  void beginSamples();
  void endSamples();
  // Plays once. Allocates nothing; waits for nothing but its collectives, and for what its last
  // play sent. On a device steps are captured when they are bound, and given together (DevicePlay);
  // `meanwhile`, where not null, is called then while the device is at work. Subnormal numbers are
  // zero in it (base/subnormals.h). `events`, where not null, receives one event a plan step more;
  // its capacity is enough for them.
  Status play(std::int64_t step, std::vector<plan::Event>* events, Turn turn = {},
              const std::function<Status()>& meanwhile = {});
  // Until what the last play sent has been sent, and its memory may be written to by another
  // executor. play() begins so.
  Status awaitSent(std::int64_t step);
  // From here on plays look at the loss where they have computed it. Costs one number a play; not
  // on a device.
  void watchLoss() { watches_ = true; }
  // Of the last play: where its loss was not finite, the first tensor that was not, of parameters
  // and inputs as they are read and of results that nothing had taken the place of when the loss
  // was there. Else none.
  const std::optional<NonFiniteTensor>& nonFinite() const { return nonFinite_; }
  // The first that is not finite of what forward plays, of a pipeline's stage, have left for
  // backward ones.
  std::optional<NonFiniteTensor> firstNonFiniteKept() const;
  const Breakdown& last() const;    // of the last play
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
