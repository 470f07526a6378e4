#include "engine/comm/shared_group.h"

#include <unistd.h>

#include <utility>

namespace lockstep::comm {
namespace {

constexpr int kSpins = 4000;  // about 40 µs
constexpr int kSpinsOversubscribed = 50;

}  // namespace

SharedGroup::SharedGroup(std::shared_ptr<Segment> segment, int rank, int size, bool oversubscribed,
                         Nanoseconds timeout, RankNames names)
    : segment_(std::move(segment)),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      names_(std::move(names)),
      spins_(oversubscribed ? kSpinsOversubscribed : kSpins),
      watches_(std::make_unique<ProcessWatch[]>(static_cast<std::size_t>(size))) {}

SharedGroup::~SharedGroup() {
  if (!joined_) return;
  segment_->rank(rank_).presence.store(Presence::kLeft);
  wakeEverybody();
}

Status SharedGroup::join() {
  std::uint64_t layout = 0;
  const std::uint64_t ours = kLayout + static_cast<std::uint64_t>(size_);
  if (!segment_->header().layout.compare_exchange_strong(layout, ours) && layout != ours) {
    Error error =
        makeError(Code::kFailedPrecondition, "the shared segment of a group of {} ranks", size_);
    error.why = "it was opened by another version or for another number of ranks";
    return error;
  }
  RankBlock& block = segment_->rank(rank_);
  Presence absent = Presence::kAbsent;
  if (!block.presence.compare_exchange_strong(absent, Presence::kJoined))
    return makeError(Code::kAlreadyExists, "rank {} has already joined the shared segment",
                     names_(rank_));
  block.pid.store(getpid());
  joined_ = true;
  return {};
}

std::optional<Message> SharedGroup::whyGone(int peer) {
  RankBlock& block = segment_->rank(peer);
  const int pid = block.pid.load();
  if (block.presence.load() == Presence::kLeft)
    return message("rank {} left the group", names_(peer));
  if (watches_[static_cast<std::size_t>(peer)].ended(pid))
    return message("rank {} (process {}) has ended", names_(peer), pid);
  return std::nullopt;
}

Message SharedGroup::silence(int peer) {
  const double seconds = static_cast<double>(timeout_) * 1e-9;
  if (segment_->rank(peer).presence.load() == Presence::kAbsent)
    return message("rank {} did not join the group within {:.3g} s", names_(peer), seconds);
  return message("rank {} (process {}) did not answer for {:.3g} s", names_(peer),
                 segment_->rank(peer).pid.load(), seconds);
}

void SharedGroup::recordFailure(Code code, int culprit) {
  std::uint64_t none = 0;
  segment_->header().failure.compare_exchange_strong(
      none, static_cast<std::uint64_t>(code) << 32 | static_cast<std::uint64_t>(culprit + 1));
}

Error SharedGroup::failure(Message what) {
  const std::uint64_t recorded = segment_->header().failure.load();
  const int culprit = static_cast<int>(recorded & 0xffffffffu) - 1;
  const auto code = static_cast<Code>(recorded >> 32);
  Error error = makeError(code == Code::kInvalidArgument ? Code::kAborted : code, "{}", what);
  error.rank = names_(rank_);
  if (culprit == rank_) {
    error.why = code == Code::kDeadlineExceeded ? "the others timed out waiting for this rank"
                                                : "this rank was aborted";
  } else if (const auto gone = whyGone(culprit)) {
    error.why = *gone;
  } else {
    error.why = code == Code::kDeadlineExceeded
                    ? message("rank {} does not answer", names_(culprit))
                    : message("rank {} failed", names_(culprit));
  }
  error.next = "check whether the nodes of all ranks are up, then resume the run";
  return error;
}

Error SharedGroup::peerError(Code code, Message why, int peer) {
  Error error = makeError(code, "communication");
  error.why = std::move(why);
  error.next = "check whether the nodes of all ranks are up, then resume the run";
  return fail(std::move(error), peer);
}

Error SharedGroup::fail(Error error, int culprit) {
  error.rank = names_(rank_);
  recordFailure(error.code, culprit);
  wakeEverybody();
  return error;
}

void SharedGroup::abort() {
  recordFailure(Code::kAborted, rank_);
  wakeEverybody();
}

void SharedGroup::wakeEverybody() {
  for (int r = 0; r < size_; ++r) {
    wakeAll(segment_->rank(r).round);
    if (r == rank_) continue;
    for (Mailbox* box : {&segment_->mailbox(r, rank_), &segment_->mailbox(rank_, r)}) {
      wakeAll(box->written);
      wakeAll(box->read);
    }
  }
}

}  // namespace lockstep::comm
