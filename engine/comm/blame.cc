#include "engine/comm/blame.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::comm {
namespace {

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

Blame blameOf(Blame::Kind kind, std::vector<int> ranks, int first) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return {kind, std::move(ranks), first, {}};
}

// Of a rank that has said no farewell.
Blame::Kind kindOf(Last last) {
  return last == Last::kEnd           ? Blame::Kind::kEnded
         : last == Last::kUnreachable ? Blame::Kind::kUnreachable
                                      : Blame::Kind::kSilent;
}

class Search {
 public:
  Search(int rank, const Farewell& own, Nanoseconds timeout, const std::function<Heard(int)>& hear)
      : first_(rank), timeout_(timeout), hear_(hear), heard_{{rank, {Last::kFarewell, own}}} {}

  Blame run() {
    std::vector<int> failed{first_};
    for (int cause = wordsOf(first_).cause; cause != first_; cause = wordsOf(first_).cause) {
      if (contains(failed, cause)) return blameOf(Blame::Kind::kUndecided, failed, first_);
      const Last last = heard(cause).last;
      if (last != Last::kFarewell) return blameOf(kindOf(last), {cause}, first_);
      failed.push_back(first_ = cause);
    }
    return follow();
  }

 private:
  const Heard& heard(int rank) {
    const auto found = heard_.find(rank);
    return found != heard_.end() ? found->second : heard_.emplace(rank, hear_(rank)).first->second;
  }
  const Farewell& wordsOf(int rank) { return heard(rank).words; }

  // From the first rank that failed along who waits for whom.
  Blame follow() {
    if (!wordsOf(first_).awaitsAny()) return blameOf(Blame::Kind::kFailed, {first_}, first_);
    std::vector<int> alive{first_}, late;
    std::map<int, std::vector<int>> silent;  // with the late ones that wait for it
    std::vector<int> certain;                // silent ranks for which others have waited
    for (std::size_t i = 0; i < alive.size(); ++i) {
      const int rank = alive[i];
      const Farewell words = wordsOf(rank);
      const bool isLate = rank != first_ && words.waited < timeout_ / 2;
      if (isLate) late.push_back(rank);
      for (const int peer : words.awaited) {
        if (peer < 0) break;
        if (words.differs != 0) return blameOf(Blame::Kind::kDisagree, {rank, peer}, first_);
        if (contains(alive, peer)) continue;
        const Last last = heard(peer).last;
        if (last == Last::kEnd || last == Last::kUnreachable)
          return blameOf(kindOf(last), {peer}, first_);
        if (last == Last::kFarewell) {
          alive.push_back(peer);
        } else if (isLate) {
          silent[peer].push_back(rank);
        } else {
          silent[peer], certain.push_back(peer);
        }
      }
    }
    if (silent.empty()) return suspects(late.empty() ? alive : late);
    std::vector<int> ranks;
    for (const auto& [peer, waiting] : silent) {
      ranks.push_back(peer);
      if (!contains(certain, peer)) ranks.insert(ranks.end(), waiting.begin(), waiting.end());
    }
    return suspects(ranks);
  }

  Blame suspects(const std::vector<int>& ranks) const {
    Blame out = blameOf(Blame::Kind::kUndecided, ranks, first_);
    if (out.ranks.size() == 1) out.kind = Blame::Kind::kSilent;
    return out;
  }

  int first_;
  Nanoseconds timeout_;
  const std::function<Heard(int)>& hear_;
  std::map<int, Heard> heard_;
};

}  // namespace

Code Blame::code() const {
  const bool isLate = kind == Kind::kSilent || kind == Kind::kUndecided;
  return isLate ? Code::kDeadlineExceeded : Code::kAborted;
}

Message Blame::text(int rank, Nanoseconds timeout) const {
  const int one = ranks.front();
  if (kind == Kind::kUndecided)
    return message("one of ranks {} holds the others up",
                   fmt::format("{}", fmt::join(ranks, ", ")));
  if (kind == Kind::kDisagree)
    return message("ranks {} and {} issued different calls", one, ranks.back());
  if (kind == Kind::kEnded) return message("rank {} has ended: it closed its connection", one);
  if (kind == Kind::kFailed) return message("rank {} failed", one);
  if (kind == Kind::kUnreachable)
    return place.empty()
               ? message("rank {} has ended, or cannot be connected to", one)
               : message("rank {} has ended, or cannot be connected to at {}", one, place);
  if (one == rank) return message("rank {} timed out waiting for this rank", first);
  const double seconds = static_cast<double>(timeout) * 1e-9;
  return place.empty() ? message("rank {} did not answer for {:.3g} s", one, seconds)
                       : message("rank {} did not answer for {:.3g} s at {}", one, seconds, place);
}

Blame findBlame(int rank, const Farewell& own, Nanoseconds timeout,
                const std::function<Heard(int peer)>& hear) {
  return Search(rank, own, timeout, hear).run();
}

}  // namespace lockstep::comm
