#include "engine/comm/gloo_failure.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::comm {
namespace {

constexpr Nanoseconds kGrace = 100'000'000;  // for peers to name their suspects

// Whether the error is of a peer, rather than of this rank, as when it is out of descriptors.
bool isOfPeer(const Error& error) {
  return error.code == Code::kAborted || error.code == Code::kDeadlineExceeded ||
         error.code == Code::kInvalidArgument || error.code == Code::kUnavailable;
}

}  // namespace

GlooFailure::GlooFailure(GlooMesh& mesh, const GlooOptions& options)
    : mesh_(mesh),
      rank_(options.rank),
      size_(options.size),
      timeout_(options.timeout),
      reading_(std::make_unique<std::mutex[]>(static_cast<std::size_t>(options.size))) {}

void GlooFailure::abort() {
  aborted_.store(true);
  mesh_.cut();
}

Error GlooFailure::refusal(Message call) {
  Error error = makeError(Code::kAborted, "{}", call);
  error.rank = rank_;
  error.why = "this rank was aborted";
  if (!isAborted()) {
    const std::lock_guard lock(failing_);
    error.why = "an earlier call of this group failed";
    if (!first_.why.empty()) error.why = message("{}: {}", error.why, first_.why);
  }
  error.next = "check whether the nodes of all ranks are up, then resume the run";
  return error;
}

Error GlooFailure::fail(Error error, int suspect) {
  const std::lock_guard lock(failing_);
  if (failed_.exchange(true)) return first_;
  first_ = accused(std::move(error), suspect);
  return first_;
}

Error GlooFailure::failSending(Error error, int peer) {
  const std::lock_guard lock(failing_);
  if (failed_.exchange(true)) return first_;
  error.rank = rank_;
  if (isOfPeer(error)) {
    if (error.code == Code::kUnavailable) error.code = Code::kAborted;
    error.next = "check whether the nodes of all ranks are up, then resume the run";
    error.why =
        message("rank {} takes no messages: {}", peer, error.why.empty() ? error.what : error.why);
  }
  first_ = std::move(error);
  mesh_.sayFarewell(isOfPeer(first_) ? peer : rank_, first_.code);
  return first_;
}

Error GlooFailure::accused(Error error, int suspect) {
  error.rank = rank_;
  if (!isOfPeer(error)) {
    mesh_.sayFarewell(rank_, error.code);
    return error;
  }
  error.next = "check whether the nodes of all ranks are up, then resume the run";
  suspect = witnessFor(suspect);
  mesh_.sayFarewell(lastAccused(suspect), error.code);
  if (error.code == Code::kInvalidArgument) return error;
  int culprit = suspect, witness = -1;
  auto last = GlooMesh::Last::kSilence;
  for (int hop = 0; hop < size_ && culprit != rank_; ++hop) {
    const std::lock_guard lock(reading(culprit));
    last = mesh_.lastOf(culprit, std::clamp<Nanoseconds>(timeout_ / 4, kGrace, 10 * kGrace));
    if (last != GlooMesh::Last::kFarewell) break;
    const std::optional<int> accused = mesh_.accusedBy(culprit);
    if (!accused) break;
    witness = std::exchange(culprit, *accused);
  }
  if (culprit == rank_) {
    error.why = message("rank {} timed out waiting for this rank, or saw it fail", witness);
  } else if (last == GlooMesh::Last::kSilence) {
    error.code = Code::kDeadlineExceeded;
    error.why = silent(culprit);
  } else {
    error.code = Code::kAborted;
    error.why = last == GlooMesh::Last::kEnd ? ended(culprit) : message("rank {} failed", culprit);
  }
  return error;
}

// A peer that cannot be connected to may have ended because another one did. Who has ended a
// connection knows more.
int GlooFailure::witnessFor(int suspect) {
  if (mesh_.isOpen(suspect)) return suspect;
  for (int step = 1; step < size_; ++step) {
    const int r = (rank_ + step) % size_;
    if (!mesh_.hasEnded(r)) continue;
    const std::unique_lock lock(reading(r), std::try_to_lock);
    if (!lock) continue;  // another thread finds it
    mesh_.lastOf(r, kGrace);
    return r;
  }
  return suspect;
}

// Follows the farewells that were read, so that ranks without a connection to a rank that has
// ended learn of it by a rank that was told.
int GlooFailure::lastAccused(int suspect) {
  for (int hop = 0; hop < size_; ++hop) {
    const std::unique_lock lock(reading(suspect), std::try_to_lock);
    const std::optional<int> accused = lock ? mesh_.accusedBy(suspect) : std::nullopt;
    if (!accused || *accused == rank_) break;
    suspect = *accused;
  }
  return suspect;
}

// For a peer without a connection: where it was sought.
Message GlooFailure::silent(int peer) const {
  const double seconds = static_cast<double>(timeout_) * 1e-9;
  const std::string place = mesh_.isOpen(peer) ? "" : mesh_.placeOf(peer);
  return place.empty() ? message("rank {} did not answer for {:.3g} s", peer, seconds)
                       : message("rank {} did not answer for {:.3g} s at {}", peer, seconds, place);
}
Message GlooFailure::ended(int peer) const {
  if (mesh_.isOpen(peer)) return message("rank {} has ended: it closed its connection", peer);
  const std::string place = mesh_.placeOf(peer);
  return place.empty() ? message("rank {} has ended, or cannot be connected to", peer)
                       : message("rank {} has ended, or cannot be connected to at {}", peer, place);
}

}  // namespace lockstep::comm
