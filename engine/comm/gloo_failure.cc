#include "engine/comm/gloo_failure.h"

#include <algorithm>
#include <utility>

#include "engine/comm/blame.h"

namespace lockstep::comm {
namespace {

// For peers to say farewell: a quarter of the timeout, within these.
constexpr Nanoseconds kLeastGrace = 100'000'000, kMostGrace = 1'500'000'000;

}  // namespace

GlooFailure::GlooFailure(GlooMesh& mesh, const GlooOptions& options)
    : mesh_(mesh),
      rank_(options.rank),
      size_(options.size),
      timeout_(options.timeout),
      names_(options.names),
      reading_(std::make_unique<std::mutex[]>(static_cast<std::size_t>(options.size))) {}

void GlooFailure::abort() {
  aborted_.store(true);
  mesh_.cut();
}

Error GlooFailure::refusal(Message call) {
  Error error = makeError(Code::kAborted, "{}", call);
  error.rank = names_(rank_);
  error.why = "this rank was aborted";
  if (!isAborted()) {
    const std::lock_guard lock(failing_);
    error.why = "an earlier call of this group failed";
    if (!first_.why.empty()) error.why = message("{}: {}", error.why, first_.why);
  }
  error.next = "check whether the nodes of all ranks are up, then resume the run";
  return error;
}

std::optional<int> GlooFailure::latePeer() {
  while (const std::optional<int> peer = mesh_.endedPeer())
    if (const auto said = farewellOf(*peer); said && said->late != 0) return peer;
  return std::nullopt;
}

Farewell GlooFailure::wordsAfter(int peer) {
  Farewell out;
  out.cause = peer;
  const auto pass = [&](const std::optional<Farewell>& said) {
    if (said) out.cause = said->cause, out.late = said->late;
    return said.has_value();
  };
  if (mesh_.isOpen(peer)) {
    pass(farewellOf(peer));
    return out;
  }
  // It may have ended because another one did. Who has ended a connection knows more.
  for (int step = 1; step < size_; ++step) {
    const int r = (rank_ + step) % size_;
    if (!mesh_.hasEnded(r)) continue;
    if (pass(farewellOf(r))) break;
    if (out.cause == peer) out.cause = r;
  }
  return out;
}

std::optional<Farewell> GlooFailure::farewellOf(int peer) {
  const std::lock_guard lock(reading(peer));
  return mesh_.farewellOf(peer);
}

Error GlooFailure::fail(Error error, const Farewell& words) {
  const std::lock_guard lock(failing_);
  if (failed_.exchange(true)) return first_;
  error.rank = names_(rank_);
  mesh_.sayFarewell(words);
  if (words.awaitsAny()) {
    error.next = "check whether the nodes of all ranks are up, then resume the run";
    if (words.differs == 0) explain(error, words);
  }
  first_ = std::move(error);
  return first_;
}

void GlooFailure::explain(Error& error, const Farewell& words) {
  const Nanoseconds deadline = monotonicNow() + std::clamp(timeout_ / 4, kLeastGrace, kMostGrace);
  // Those that are heard next, connected to while others are waited for.
  const auto requestAwaited = [&](const Farewell& said) {
    for (const int peer : said.awaited)
      if (peer >= 0 && peer != rank_) static_cast<void>(mesh_.requestNow(peer));
  };
  requestAwaited(words);
  Blame blame = findBlame(rank_, words, timeout_, [&](int peer) {
    const std::lock_guard lock(reading(peer));
    const Heard heard = mesh_.lastOf(peer, std::max(deadline - monotonicNow(), kLeastGrace));
    requestAwaited(heard.words);
    return heard;
  });
  error.code = blame.code();
  if (const int one = blame.ranks.front(); one != rank_ && !mesh_.isOpen(one))
    blame.place = mesh_.placeOf(one);
  blame.first = names_(blame.first);
  for (int& rank : blame.ranks) rank = names_(rank);
  error.why = blame.text(names_(rank_), timeout_);
}

}  // namespace lockstep::comm
