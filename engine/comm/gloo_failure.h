// The failure of a Gloo group: its first error, which later calls return, and the search for the
// rank that caused it. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

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
  // Fails the group, or returns the earlier failure: sends the farewell and determines the culprit.
  // A rank that suspects another is alive itself, so suspicions are followed to a rank that says
  // nothing. Ranks that wait for each other time out together; kGrace covers the difference.
  Error fail(Error error, int suspect);
  // As fail(), on a sending thread: takes the peer for the culprit, since another thread may be
  // reading the sockets.
  Error failSending(Error error, int peer);

 private:
  Error accused(Error error, int suspect);
  int witnessFor(int suspect);
  int lastAccused(int suspect);
  Message silent(int peer) const;
  Message ended(int peer) const;

  GlooMesh& mesh_;
  const int rank_, size_;
  const Nanoseconds timeout_;
  std::atomic<bool> aborted_{false}, failed_{false};
  std::mutex failing_;
  Error first_;                            // failing_
  std::unique_ptr<std::mutex[]> reading_;  // by peer
};

}  // namespace lockstep::comm
