#include "agent/supervisor/hang_watch.h"

#include <algorithm>
#include <utility>

#include "engine/base/statistics.h"
#include "engine/specs/run_limits.h"

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

// The name of the function in a frame, "function (library or file)": without its arguments and,
// which templates have, its result.
std::string_view functionOf(std::string_view frame) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  frame = frame.substr(0, frame.rfind(" ("));
  int depth = 0;  // of template arguments
  std::size_t begin = 0, end = 0;
  for (; end < frame.size(); ++end) {
    const char c = frame[end];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (depth > 0) continue;
    if (c == ' ') begin = end + 1;
    if (c != '(') continue;
    if (!frame.substr(end).starts_with(kAnonymous)) break;
    end += kAnonymous.size() - 1;
  }
  return frame.substr(begin, end - begin);
}

bool isOf(std::string_view frame, std::string_view scope) {
  return functionOf(frame).starts_with(scope);
}

// Whether the frame is of code that carries out collectives.
bool isCommunication(std::string_view frame) {
  return isOf(frame, "lockstep::comm::") || isOf(frame, "gloo::");
}

bool isRuntime(std::string_view frame) { return isOf(frame, "lockstep::runtime::"); }

// Whether a thread in this frame waits for its device, as ranks do that wait for each other there.
bool isDevice(std::string_view frame) {
  return isOf(frame, "lockstep::device::") || frame.find("(libcuda.so") != std::string_view::npos ||
         frame.find("(libnccl.so") != std::string_view::npos;
}

// Whether a thread in this frame may wait in a collective.
bool isWait(std::string_view frame) {
  if (isCommunication(frame)) return true;
  if (isOf(frame, "std::") || isOf(frame, "lockstep::monotonicNow")) return true;
  if (isOf(frame, "__interceptor_")) return true;  // a sanitizer's, before the C library's
  for (const std::string_view library :
       {"(libc.so", "(libstdc++.so", "(libgloo.so", "(libuv.so", "[vdso]"})
    if (frame.find(library) != std::string_view::npos) return true;
  return false;
}

struct Place {
  std::string_view frame;  // the innermost one that is no wait; empty: none
  bool trains = false;     // the thread is in the runtime
  bool runsPlan = false;   // in a step of the plan, or carries a collective's messages
};

// Returns where each thread is.
std::vector<Place> placesOf(const std::vector<std::string>& lines) {
  std::vector<Place> out;
  for (const std::string_view line : lines) {
    if (!line.starts_with("  ")) {
      out.emplace_back();
      continue;
    }
    if (out.empty()) continue;
    const std::string_view frame = line.substr(2);
    Place& place = out.back();
    place.trains |= isRuntime(frame);
    place.runsPlan |= isOf(frame, "lockstep::runtime::Executor::") || isCommunication(frame);
    if (place.frame.empty() && !isWait(frame)) place.frame = frame;
  }
  return out;
}

// Returns where a thread is that runs a collective or carries its messages, and does not wait
// there: neither in the communicator, nor in the runtime, which calls it, nor for its device.
std::string frameElsewhere(const std::vector<std::string>& lines) {
  for (const Place& place : placesOf(lines))
    if (place.runsPlan && !place.frame.empty() && !isRuntime(place.frame) && !isDevice(place.frame))
      return std::string(place.frame);
  return {};
}

// Returns where the training thread is.
std::string trainingFrame(const std::vector<std::string>& lines) {
  for (const Place& place : placesOf(lines))
    if (place.trains) return std::string(place.frame);
  return {};
}

}  // namespace

void HangWatch::noteStep(Nanoseconds duration) {
  if (std::exchange(isFirst_, false)) return;
  constexpr Nanoseconds kLongest = 86400 * 1'000'000'000LL;
  recent_.push_back(static_cast<double>(std::clamp<Nanoseconds>(duration, 0, kLongest)));
  if (recent_.size() > kRecent) recent_.pop_front();
}

Nanoseconds HangWatch::usualStep() const {
  if (recent_.empty()) return 0;
  return static_cast<Nanoseconds>(median({recent_.begin(), recent_.end()}));
}

Nanoseconds HangWatch::limit() const {
  return recent_.empty() ? kFirst : specs::kHang.of(usualStep());
}

void HangWatch::note(const node::v1::Stalled& stalled, Nanoseconds now) {
  if (!stalled.moves()) {
    positions_[stalled.rank()] = {stalled, now - std::clamp<Nanoseconds>(stalled.for_ns(), 0, now)};
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

// Follows who waits for whom, from a rank that waits, breadth-first: messages that are exchanged
// together make a rank wait in several directions.
int HangWatch::culprit(int waiting) const {
  std::vector<int> reached{waiting};
  int absent = -1;  // the nearest that reports no stall
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const Position& here = positions_.at(reached[i]);
    for (const int rank : here.stalled.awaits()) {
      if (isSame(rank, here)) continue;
      const auto found = positions_.find(rank);
      if (found == positions_.end()) {
        if (absent < 0) absent = rank;
      } else if (found->second.stalled.awaits_size() == 0) {
        return rank;
      } else if (std::find(reached.begin(), reached.end(), rank) == reached.end()) {
        reached.push_back(rank);
      }
    }
  }
  return absent;
}

std::optional<HangWatch::Verdict> HangWatch::judge(Nanoseconds now) {
  if (hangs()) return std::nullopt;
  int waiting = -1;  // the one that has waited longest
  for (const auto& [rank, position] : positions_) {
    if (position.stalled.awaits_size() == 0 || now - position.since < limit()) continue;
    if (waiting < 0 || position.since < positions_.at(waiting).since) waiting = rank;
  }
  if (waiting < 0) return std::nullopt;
  const Position& waits = positions_.at(waiting);
  Verdict out;
  out.waiting = waiting;
  out.warning.code = Code::kUnavailable;
  out.warning.step = waits.stalled.step();
  out.warning.next = "look at the stacks in the run's log";
  const int rank = culprit(waiting);
  if (rank < 0) {
    out.certain = false;
    for (const auto& [other, position] : positions_)
      if (position.stalled.awaits_size() > 0) out.ranks.push_back(other);
    out.warning.what = message("{} wait for each other", rankList(out.ranks));
    out.warning.why = message("rank {} has waited for {:.1f} s in {}", waiting,
                              seconds(now - waits.since), collectiveText(waits.stalled));
  } else {
    out.ranks = {rank};
    out.warning.rank = rank;
    out.warning.what = message("rank {} holds up the other ranks", rank);
    out.warning.why = message("{}; rank {} has waited for {:.1f} s in {}", placeText(rank, now),
                              waiting, seconds(now - waits.since), collectiveText(waits.stalled));
  }
  judged_ = out.ranks;
  judged_.push_back(waiting);
  return out;
}

Message HangWatch::placeText(int rank, Nanoseconds now) const {
  const auto found = positions_.find(rank);
  if (found == positions_.end())
    return "it reports no stall: it computes, or its process is stopped";
  const double since = seconds(now - found->second.since);
  const node::v1::Stalled& at = found->second.stalled;
  if (!at.last().empty())
    return message("it has been in one of the steps {} {} to {} of step {} for {:.1f} s", at.op(),
                   at.name(), at.last(), at.step(), since);
  if (!at.name().empty())
    return message("it has been in {} {} of step {} for {:.1f} s", at.op(), at.name(), at.step(),
                   since);
  return message("it has run no plan step for {:.1f} s, as when it reads data", since);
}

HangWatch::Verdict HangWatch::refine(Verdict verdict,
                                     const std::map<int, std::vector<std::string>>& stacks) const {
  if (verdict.certain) {
    const auto found = stacks.find(verdict.warning.rank);
    const std::string frame = found == stacks.end() ? "" : trainingFrame(found->second);
    if (!frame.empty())
      verdict.warning.why =
          message("{}; rank {} is in {}", verdict.warning.why, verdict.warning.rank, frame);
    return verdict;
  }
  std::vector<std::pair<int, std::string>> elsewhere;
  std::size_t read = 0;  // the others could not be
  for (const auto& [rank, lines] : stacks) {
    if (lines.size() > 1) ++read;
    if (std::string frame = frameElsewhere(lines); !frame.empty())
      elsewhere.emplace_back(rank, std::move(frame));
  }
  // Where most are elsewhere it is how this communicator waits.
  if (elsewhere.empty() || 2 * elsewhere.size() > read) return verdict;
  const auto& [rank, frame] = elsewhere.front();
  const auto found = positions_.find(rank);
  if (found == positions_.end()) return verdict;
  verdict.ranks = {rank};
  verdict.certain = true;
  verdict.warning.rank = rank;
  verdict.warning.what = message("rank {} holds up the other ranks", rank);
  const Message where = message("it does not wait in {}, as the others do, but is in {}",
                                collectiveText(found->second.stalled), frame);
  verdict.warning.why =
      rank == verdict.waiting ? where : message("{}; {}", where, verdict.warning.why);
  return verdict;
}

}  // namespace lockstep::agent
