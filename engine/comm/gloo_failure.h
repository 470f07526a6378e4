// The failure of a Gloo group: its first error, which later calls return, and what is said and
// heard to find who holds the ranks up (blame.h). Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/comm/gloo_mesh.h"

namespace lockstep::comm {

class GlooFailure {
 public:
  // `mesh` must outlive the failure.
  GlooFailure(GlooMesh& mesh, const GlooOptions& options);

  bool isAborted() const { return aborted_.load(); }
  bool hasFailed() const { return failed_.load(); }
  bool isOver() const { return isAborted() || hasFailed(); }

  // Guards reading the socket of a peer, which the search for a culprit does too.
  std::mutex& reading(int peer) { return reading_[static_cast<std::size_t>(peer)]; }

  // Has this rank's calls refused, and closes its connections.
  void abort();
  // The error of a call after abort() or a failure.
  Error refusal(Message call);

  // Returns a peer that has failed because a rank timed out, each once. Others that have ended may
  // have done their part in the current call.
  std::optional<int> latePeer();
  // Returns a farewell with the cause, as far as it is known, where `peer` has ended the connection
  // or cannot be connected to.
  Farewell wordsAfter(int peer);

  // Fails the group, or returns the earlier failure: says farewell and, unless this rank fails for
  // a reason of its own, determines who is to blame.
  Error fail(Error error, const Farewell& words);

 private:
  std::optional<Farewell> farewellOf(int peer);
  void explain(Error& error, const Farewell& words);

  GlooMesh& mesh_;
  const int rank_, size_;
  const Nanoseconds timeout_;
  const RankNames names_;
  std::atomic<bool> aborted_{false}, failed_{false};
  std::mutex failing_;
  Error first_;                            // failing_
  std::unique_ptr<std::mutex[]> reading_;  // by peer
};

}  // namespace lockstep::comm
