#include "agent/supervisor/program_hang.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "agent/workload/collective_counts.h"
#include "agent/workload/nccl_ras.h"
#include "agent/workload/recorded_collectives.h"

namespace lockstep::agent {
namespace {

struct Frame {
  std::string_view path, function;
  int line = 0;
};

// `  File "/a/train.py", line 88 in load_batch`
std::optional<Frame> frameOf(std::string_view text) {
  constexpr std::string_view kFile = "  File \"", kLine = "\", line ", kIn = " in ";
  if (!text.starts_with(kFile)) return std::nullopt;
  text.remove_prefix(kFile.size());
  const std::size_t at = text.rfind(kLine);
  if (at == std::string_view::npos) return std::nullopt;
  Frame out;
  out.path = text.substr(0, at);
  text.remove_prefix(at + kLine.size());
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out.line);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (failed != std::errc() || !text.starts_with(kIn)) return std::nullopt;
  out.function = text.substr(kIn.size());
  return out;
}

// Code of Python and of what is installed, rather than the person's own.
bool isInstalled(std::string_view path) {
  for (const std::string_view part :
       {"/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3", "<frozen "})
    if (path.find(part) != std::string_view::npos) return true;
  return false;
}

// A file in the folder of the program's code.
bool isOfProgram(std::string_view path) {
  return !path.starts_with('/') && !path.starts_with('<') && !isInstalled(path);
}

// Modules whose calls wait for other ranks.
bool isCollective(const Frame& frame) {
  const std::string path = "/" + std::string(frame.path);  // it may be relative
  for (const std::string_view part :
       {"/torch/distributed/", "/torch/nn/parallel/", "/horovod/", "/mpi4py/",
        "/tensorflow/python/distribute/", "/jax/_src/distributed", "/deepspeed/comm/"})
    if (path.find(part) != std::string::npos) return true;
  return false;
}

Message rankList(const std::vector<int>& ranks) {
  return ranks.size() == 1 ? message("rank {} is", ranks[0])
                           : message("ranks {} are", fmt::join(ranks, ", "));
}

// The first rank in no collective where others are, else the first of the smallest group, if it is
// smaller than all others; -1: nothing tells the ranks apart.
int suspect(const std::map<PythonPlace, std::vector<int>>& groups) {
  std::vector<const std::vector<int>*> known, elsewhere;
  for (const auto& [place, ranks] : groups) {
    if (place.line == 0) continue;
    known.push_back(&ranks);
    if (!place.collective) elsewhere.push_back(&ranks);
  }
  if (known.size() < 2 || elsewhere.empty()) return -1;
  std::sort(elsewhere.begin(), elsewhere.end(),
            [](const auto* a, const auto* b) { return a->size() < b->size(); });
  if (elsewhere.size() > 1 && elsewhere[0]->size() == elsewhere[1]->size()) return -1;
  return elsewhere[0]->front();
}

Message stackText(const PythonPlace& place) {
  if (place.line == 0 && place.inside && !place.last.empty()) return message("in {}", place.last);
  if (place.line == 0) return "at a place that is not known";
  const std::string own = fmt::format("{}:{}", place.file, place.line);
  const std::string& function = place.inside && !place.last.empty() ? place.last : place.function;
  return function == place.own ? message("in {}, {}", place.own, own)
                               : message("in {}, called by {}, {}", function, place.own, own);
}

Message placeText(const PythonPlace& place) {
  const Message out = stackText(place);
  if (place.state == "started") return message("{}, with {} started", out, place.recorded);
  if (place.state == "scheduled") return message("{}, with {} scheduled", out, place.recorded);
  const std::string& last = place.recorded.empty() ? place.last : place.recorded;
  return place.inside || last.empty() ? out : message("{}, after {}", out, last);
}

std::string recordedText(const RecordedCollective& recorded) {
  const bool sized = recorded.goesOn() && !recorded.sizes.empty();
  return fmt::format("{} #{} of {}{}", recorded.name, recorded.number, recorded.group,
                     sized ? fmt::format(" ({})", recorded.sizes) : "");
}

using Stacks = std::map<int, std::vector<std::string>>;

// The ranks that have begun the fewest collectives of a group.
struct Behind {
  std::vector<int> ranks;  // none: all have begun as many
  std::int64_t by = 0;     // than the first
  Message text() const {
    if (ranks.size() == 1)
      return by == 1 ? message("rank {} is one collective behind", ranks[0])
                     : message("rank {} is {} collectives behind", ranks[0], by);
    return by == 1 ? message("ranks {} are one collective behind", fmt::join(ranks, ", "))
                   : message("ranks {} are {} collectives behind", fmt::join(ranks, ", "), by);
  }
};

// Of the first group whose ranks differ, by its name. Those of the Flight Recorder are the first.
Behind behindOf(const Stacks& stacks, const std::vector<int>& ranks) {
  using Group = std::pair<bool, std::string>;  // counted rather than recorded
  // By rank. Of communicators of one rank with the same name, the least.
  std::map<Group, std::map<int, std::int64_t>> groups;
  const auto note = [&](const Group& group, int rank, std::int64_t begun) {
    std::int64_t& least = groups[group].try_emplace(rank, begun).first->second;
    least = std::min(least, begun);
  };
  for (const int rank : ranks) {
    const auto stack = stacks.find(rank);
    if (stack == stacks.end()) continue;
    for (const std::string& line : stack->second) {
      if (const auto count = countOf(line)) note({true, count->group}, rank, count->begun);
      if (const auto recorded = recordedOf(line); recorded && !recorded->betweenTwo)
        note({false, recorded->group}, rank, recorded->scheduled);
    }
  }
  for (const auto& [group, byRank] : groups) {
    std::map<std::int64_t, std::vector<int>> byCount;
    for (const auto& [rank, begun] : byRank) byCount[begun].push_back(rank);
    if (byCount.size() > 1)
      return {byCount.begin()->second, byCount.rbegin()->first - byCount.begin()->first};
  }
  return {};
}

// Of the first rank whose NCCL tells any: each knows of all.
std::string rasProblemsOf(const Stacks& stacks) {
  for (const auto& [rank, stack] : stacks)
    if (std::string problems = rasProblems(stack); !problems.empty()) return problems;
  return {};
}

}  // namespace

bool PythonPlace::operator<(const PythonPlace& other) const {
  const auto parts = [](const PythonPlace& of) {
    return std::tie(of.collective, of.function, of.file, of.own, of.line, of.last, of.inside,
                    of.recorded, of.state);
  };
  return parts(*this) < parts(other);
}

bool isEvidence(std::string_view line) {
  return countOf(line) || recordedOf(line) || isRasLine(line);
}

// The person's own frame is the innermost of the program's folder; where there is none, the
// innermost that is of no installed package.
PythonPlace placeOf(const std::vector<std::string>& stack) {
  PythonPlace out;
  std::optional<CollectiveCount> last;
  std::optional<RecordedCollective> recorded;
  bool found = false;
  for (const std::string& text : stack) {
    if (auto count = countOf(text)) {
      last = std::move(count);
    } else if (auto one = recordedOf(text)) {
      if (!recorded || !recorded->goesOn()) recorded = std::move(one);
    } else if (!text.starts_with("  ")) {  // another thread; the main one is the last
      out = {};
      found = false;
      continue;
    }
    const auto frame = frameOf(text);
    if (!frame) continue;
    if (out.function.empty()) out.function = frame->function;
    if (out.line == 0) out.collective |= isCollective(*frame);
    const bool isOwn = isOfProgram(frame->path);
    if (found || (!isOwn && (out.line > 0 || isInstalled(frame->path)))) continue;
    found = isOwn;
    out.file = isOwn ? frame->path : frame->path.substr(frame->path.rfind('/') + 1);
    out.own = frame->function;
    out.line = frame->line;
  }
  if (last) {
    out.inside = last->inside;
    out.collective |= last->inside;
    if (!recorded) out.last = fmt::format("{} #{}", last->last, last->begun);
  }
  if (recorded) {
    out.recorded = recordedText(*recorded);
    out.state = recorded->state;
    out.collective |= recorded->goesOn();
  }
  return out;
}

void ProgramHang::note(const node::v1::Stalled& stalled) {
  if (stalled.moves()) {
    forget(stalled.rank());
    told_ = false;
  } else if (stalled.for_ns() == 0) {
    silent_.erase(stalled.rank());
    ended_.insert(stalled.rank());
    told_ = false;  // it moved
  } else {
    silent_[stalled.rank()] = stalled;
  }
}

bool ProgramHang::begins(int world) {
  if (told_ || silent_.empty() || static_cast<int>(silent_.size() + ended_.size()) < world)
    return false;
  told_ = true;
  return true;
}

void ProgramHang::forget(int rank) {
  silent_.erase(rank);
  ended_.erase(rank);
}

std::vector<int> ProgramHang::ranks() const {
  std::vector<int> out;
  for (const auto& [rank, silent] : silent_) out.push_back(rank);
  return out;
}

Error ProgramHang::verdict(const std::map<int, std::vector<std::string>>& stacks) const {
  std::int64_t shortest = 0;
  for (const auto& [rank, silent] : silent_)
    if (shortest == 0 || silent.for_ns() < shortest) shortest = silent.for_ns();
  Error error = makeError(Code::kDeadlineExceeded,
                          "the program stands still: no rank has printed anything for {} s",
                          shortest / 1'000'000'000);
  std::map<PythonPlace, std::vector<int>> groups;
  for (const auto& [rank, silent] : silent_) {
    const auto stack = stacks.find(rank);
    groups[stack == stacks.end() ? PythonPlace() : placeOf(stack->second)].push_back(rank);
  }
  Message why;
  for (const auto& [place, ranks] : groups) {
    const Message one = message("{} {}", rankList(ranks), placeText(place));
    why = why.empty() ? one : message("{}; {}", why, one);
  }
  if (!ended_.empty())
    why = message("{}; {} ended", why,
                  ended_.size() == 1 ? message("rank {} has", *ended_.begin())
                                     : message("ranks {} have", fmt::join(ended_, ", ")));
  const Behind behind = behindOf(stacks, ranks());
  if (!behind.ranks.empty()) why = message("{}; {}", why, behind.text());
  if (const std::string problems = rasProblemsOf(stacks); !problems.empty())
    why = message("{}; NCCL's RAS tells: {}", why, problems);
  error.why = why;
  error.next = "see the stacks of all ranks in the run's log";
  error.rank = suspect(groups);
  if (error.rank < 0 && behind.ranks.size() == 1) error.rank = behind.ranks.front();
  return error;
}

}  // namespace lockstep::agent
