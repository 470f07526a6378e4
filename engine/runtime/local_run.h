// Runs a plan with all its ranks as threads of this process, over in-process communicators.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/runtime/trainer.h"

namespace lockstep::runtime {

// The communicators of all ranks, one per axis of the mesh with several ranks.
class LocalGroups {
 public:
  // Wraps a rank's communicator, for tests.
  using Wrap = std::function<std::unique_ptr<comm::Communicator>(
      int rank, std::unique_ptr<comm::Communicator>)>;
  // Errors: those of makeInProcessGroup().
  static Result<LocalGroups> make(const cluster::Mesh& mesh, Nanoseconds timeout,
                                  const Wrap& wrap = {});
  Groups of(int rank) const;
  void abort(int rank);  // thread-safe
  Nanoseconds timeout() const { return timeout_; }

 private:
  LocalGroups() = default;
  Nanoseconds timeout_ = 0;
  std::vector<std::vector<std::pair<std::string, std::unique_ptr<comm::Communicator>>>> ranks_;
};

struct LocalRun {
  const plan::Plan& plan;
  const TrainerOptions& options;  // files and tensors: rank 0 only
  const data::Dataset& train;
  const data::Dataset& evaluate;
  std::string_view backend;
  backends::BackendOptions backendOptions;
  // Opens a rank's backend; null: makeBackend() with these options.
  std::function<Result<std::unique_ptr<backends::Backend>>(int rank)> openBackend = nullptr;
  // rendezvous of the ranks' devices, if any; null: the host runs collectives
  comm::Store* rendezvous = nullptr;
  // Changes the options of a rank on another node; null: no changes.
  std::function<void(int rank, TrainerOptions& options)> adapt = nullptr;
};

// Returns every rank's result, by rank. A rank that fails aborts the others. `observer` returns
// each rank's observer, which is called on the rank's thread.
std::vector<Result<TrainerSummary>> trainLocally(
    const LocalRun& run, LocalGroups& groups, const std::atomic<bool>& stop,
    const std::function<TrainerObserver&(int rank)>& observer);

}  // namespace lockstep::runtime
