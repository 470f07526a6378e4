// Which cores the compute threads of a node's ranks are pinned to.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/node/v1/worker.pb.h"

namespace lockstep::agent {

// Cores held for ranks, so that no two ranks on this host, of whatever run and agent, are pinned to
// one. A core is held by a bound name of the network namespace, which the kernel frees when the
// process ends.
class CoreClaims {
 public:
  static constexpr const char* kScope = "lockstep-core";

  explicit CoreClaims(std::string whyNot = {}) : whyNot_(std::move(whyNot)) {}
  ~CoreClaims();
  CoreClaims(CoreClaims&& other) noexcept;
  CoreClaims& operator=(CoreClaims&& other) noexcept;

  // Cores for all ranks, `threads` of each, or for none, and why. Cores at rest come first, and of
  // hyper-threads one a core before their siblings: which are at rest it looks at for 30 ms where
  // there is a choice. `scope` says among whom cores are held.
  static CoreClaims claim(const std::vector<int>& threads, const std::string& scope = kScope);
  // As many cores as `threads`, only such as are at rest.
  static CoreClaims claimAtRest(int threads, const std::string& scope = kScope);

  bool pinned() const { return !cores_.empty(); }
  // its cores, one a thread; none where not pinned
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

// What a worker is told of its cores.
void setCores(const CoreClaims& claims, std::size_t rank, node::v1::WorkerStart& out);

// Keeps the thread that makes it on the cores it was given. Where others run on them and it has to
// wait for more than a quarter of two seconds it moves to cores that are at rest and nobody holds,
// if there are any.
class PinnedThread {
 public:
  // logs what it does
  explicit PinnedThread(const node::v1::WorkerStart& start, std::string scope = CoreClaims::kScope);
  ~PinnedThread();
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::agent
