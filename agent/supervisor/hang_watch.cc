#include "agent/supervisor/hang_watch.h"

#include <algorithm>
#include <set>

namespace lockstep::agent {
namespace {

Message rankList(const std::vector<int>& ranks) {
  return ranks.size() == 1 ? message("rank {}", ranks[0])
                           : message("ranks {}", fmt::join(ranks, ", "));
}

double seconds(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

Message collectiveText(const node::v1::Stalled& at) {
  return message("{} {} of step {} (number {} of this rank)", at.op(), at.name(), at.step(),
                 at.collective());
}

}  // namespace

void HangWatch::note(const node::v1::Stalled& stalled, Nanoseconds now) {
  if (!stalled.moves()) {
    positions_[stalled.rank()] = {stalled, now - stalled.for_ns()};
    return;
  }
  positions_.erase(stalled.rank());
  if (std::find(judged_.begin(), judged_.end(), stalled.rank()) != judged_.end()) judged_.clear();
}

bool HangWatch::isSame(int rank, const Position& other) const {
  const auto found = positions_.find(rank);
  if (found == positions_.end()) return false;
  const node::v1::Stalled& mine = found->second.stalled;
  return mine.awaits_size() > 0 && mine.step() == other.stalled.step() &&
         mine.name() == other.stalled.name();
}

// Follows who waits for whom, from a rank that waits.
std::vector<int> HangWatch::culprits(int waiting) const {
  std::vector<int> path{waiting};
  for (;;) {
    const Position& here = positions_.at(path.back());
    int next = -1;
    for (const int rank : here.stalled.awaits()) {
      if (isSame(rank, here)) continue;
      const auto found = positions_.find(rank);
      const bool waitsToo = found != positions_.end() && found->second.stalled.awaits_size() > 0;
      if (next < 0 || !waitsToo) next = rank;
      if (!waitsToo) return {rank};
    }
    if (next < 0) {  // all are there
      std::vector<int> all(here.stalled.awaits().begin(), here.stalled.awaits().end());
      all.push_back(path.back());
      std::sort(all.begin(), all.end());
      return all;
    }
    const auto before = std::find(path.begin(), path.end(), next);
    if (before != path.end()) {
      std::vector<int> circle(before, path.end());
      std::sort(circle.begin(), circle.end());
      return circle;
    }
    path.push_back(next);
  }
}

HangWatch::Verdict HangWatch::verdict(std::vector<int> ranks, int waiting, Nanoseconds now) const {
  const Position& waits = positions_.at(waiting);
  Verdict out;
  Error& error = out.warning;
  error.code = Code::kUnavailable;
  error.step = waits.stalled.step();
  error.next = "look at the stacks of its threads in the log";
  if (ranks.size() > 1) {
    error.what = message("{} wait for each other", rankList(ranks));
    error.why = message("nothing has moved for {:.1f} s in {}", seconds(now - waits.since),
                        collectiveText(waits.stalled));
  } else {
    error.rank = ranks[0];
    error.what = message("rank {} holds up the other ranks", ranks[0]);
    const auto found = positions_.find(ranks[0]);
    Message where = "it reports no stall: it computes, or its process is stopped";
    if (found != positions_.end()) {
      const double since = seconds(now - found->second.since);
      const node::v1::Stalled& at = found->second.stalled;
      where = at.name().empty()
                  ? message(
                        "it has been outside of the plan for {:.1f} s: it reads data, writes a "
                        "checkpoint, or evaluates",
                        since)
                  : message("it has been in {} {} of step {} for {:.1f} s", at.op(), at.name(),
                            at.step(), since);
    }
    error.why = message("{}; rank {} has waited for it for {:.1f} s in {}", where, waiting,
                        seconds(now - waits.since), collectiveText(waits.stalled));
  }
  out.ranks = std::move(ranks);
  return out;
}

std::optional<HangWatch::Verdict> HangWatch::judge(Nanoseconds now) {
  if (hangs()) return std::nullopt;
  int waiting = -1;  // the one that has waited longest
  for (const auto& [rank, position] : positions_) {
    if (position.stalled.awaits_size() == 0 || now - position.since < limit()) continue;
    if (waiting < 0 || position.since < positions_.at(waiting).since) waiting = rank;
  }
  if (waiting < 0) return std::nullopt;
  judged_ = culprits(waiting);
  return verdict(judged_, waiting, now);
}

}  // namespace lockstep::agent
