// Assigns cores to the compute threads of a node's ranks.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/node/v1/worker.pb.h"

namespace lockstep::agent {

// Claims cores for ranks, so that no two ranks on this host, of any run and agent, are pinned to
// one. A core is claimed by an abstract socket name of the network namespace, which the kernel
// frees when the process ends.
class CoreClaims {
 public:
  static constexpr const char* kScope = "lockstep-core";

  explicit CoreClaims(std::string whyNot = {}) : whyNot_(std::move(whyNot)) {}
  ~CoreClaims();
  CoreClaims(CoreClaims&& other) noexcept;
  CoreClaims& operator=(CoreClaims&& other) noexcept;

  // Claims `threads` cores for each rank, or none and says why. Prefers idle cores, and one
  // hyper-thread per core before siblings; where there is a choice, observes for 30 ms which are
  // idle. `scope` is the namespace of the claims.
  static CoreClaims claim(const std::vector<int>& threads, const std::string& scope = kScope);
  // Claims `threads` idle cores.
  static CoreClaims claimAtRest(int threads, const std::string& scope = kScope);

  bool pinned() const { return !cores_.empty(); }
  // one core per thread; empty if not pinned
  const std::vector<int>& of(std::size_t rank) const;
  const std::string& whyNot() const { return whyNot_; }

 private:
  static CoreClaims claim(const std::vector<int>& threads, const std::string& scope,
                          bool onlyAtRest);
  void release();

  std::vector<std::vector<int>> cores_;  // by rank
  std::vector<int> names_;               // sockets bound to the cores' names
  std::string whyNot_;
};

// The cores of a worker.
void setCores(const CoreClaims& claims, std::size_t rank, node::v1::WorkerStart& out);

// Keeps the constructing thread, and those that it starts to compute, on its cores. If other
// processes use them and it waits for more than a quarter of two seconds, moves all of them to idle
// unclaimed cores, if there are any.
class PinnedThread {
 public:
  // logs moves
  explicit PinnedThread(const node::v1::WorkerStart& start, std::string scope = CoreClaims::kScope);
  ~PinnedThread();
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::agent
