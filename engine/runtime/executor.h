// Executor: binds one program of a Plan for one rank and plays it in real time.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/comm/communicator.h"
#include "engine/plan/plan.h"

namespace lockstep::runtime {

// Memory of the state slots, shared by all programs of a rank. Zero-filled, 64-byte aligned.
class StateArena {
 public:
  explicit StateArena(const plan::Plan& plan);
  ~StateArena();
  StateArena(const StateArena&) = delete;
  StateArena& operator=(const StateArena&) = delete;
  std::byte* data() { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Seconds of one play by what they were spent on.
struct Breakdown {
  double forward = 0, backward = 0, optimizer = 0, communication = 0;
};

class Executor {
 public:
  // `group` may be null where the program has no collectives. Borrowed for the executor's life.
  static Result<std::unique_ptr<Executor>> bind(const plan::Plan& plan, std::string_view program,
                                                int rank, backends::Backend& backend,
                                                comm::Communicator* group, StateArena& state);
  virtual ~Executor() = default;

  virtual backends::Operand input(std::string_view name) = 0;   // where the trainer writes
  virtual backends::Operand result(std::string_view name) = 0;  // valid until the next play
  // Plays once. Allocates nothing, waits for nothing but its collectives. `events`, where not null,
  // receives one event a plan step (reserve it once: steps() entries).
  virtual Status play(std::int64_t step, std::vector<plan::Event>* events) = 0;
  virtual const Breakdown& last() const = 0;  // of the last play
  virtual std::int64_t boundBytes() const = 0;  // arena plus kernels' workspaces
  virtual std::size_t steps() const = 0;
};

}  // namespace lockstep::runtime
