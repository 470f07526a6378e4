// A plan played with all its ranks as threads of this process, over in-process communicators.
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

// The communicators of all ranks, one for every axis of the mesh that has several.
class LocalGroups {
 public:
  // Puts what a test wants between a rank and its group.
  using Wrap = std::function<std::unique_ptr<comm::Communicator>(
      int rank, std::unique_ptr<comm::Communicator>)>;
  // Errors: as makeInProcessGroup() has them.
  static Result<LocalGroups> make(const cluster::Mesh& mesh, Nanoseconds timeout,
                                  const Wrap& wrap = {});
  Groups of(int rank) const;
  void abort(int rank);  // threads: any
  Nanoseconds timeout() const { return timeout_; }

 private:
  LocalGroups() = default;
  Nanoseconds timeout_ = 0;
  std::vector<std::vector<std::pair<std::string, std::unique_ptr<comm::Communicator>>>> ranks_;
};

struct LocalRun {
  const plan::Plan& plan;
  const TrainerOptions& options;  // files and tensors are rank 0's
  const data::Dataset& train;
  const data::Dataset& evaluate;
  std::string_view backend;
  backends::BackendOptions backendOptions;
  // What opens a rank's; null: makeBackend() with these.
  std::function<Result<std::unique_ptr<backends::Backend>>(int rank)> openBackend = nullptr;
  // where ranks' devices meet, if they have some; null: the host plays collectives
  comm::Store* rendezvous = nullptr;
};

// What every rank made of it, by rank. A rank that fails ends the others. `observer` gives each
// rank's, which is called on its thread.
std::vector<Result<TrainerSummary>> trainLocally(
    const LocalRun& run, LocalGroups& groups, const std::atomic<bool>& stop,
    const std::function<TrainerObserver&(int rank)>& observer);

}  // namespace lockstep::runtime
