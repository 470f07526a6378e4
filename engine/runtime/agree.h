// What all ranks of a run learn of each other in one exchange.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/base/status.h"
#include "engine/runtime/groups.h"

namespace lockstep::runtime {

// Collective. Joins the values of all ranks: join(a, b) puts b into a. It is associative, and
// neither the order nor the number of times that a rank's value comes matters.
template <typename T, typename Join>
Result<T> joined(const T& mine, const Groups& groups, Join join) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::int64_t) == 0);
  constexpr std::int64_t kWords = sizeof(T) / sizeof(std::int64_t);
  T out = mine;
  for (const auto& [axis, group] : groups.all()) {
    std::vector<T> all(static_cast<std::size_t>(group->size()));
    std::vector<std::int64_t> cuts;
    for (std::int64_t part = 0; part <= group->size(); ++part) cuts.push_back(part * kWords);
    LOCKSTEP_TRY(group->allGather(&out, all.data(), cuts, DType::kI64));
    for (const T& one : all) join(out, one);
  }
  return out;
}
// Likewise for texts.
using JoinTexts = std::function<std::string(const std::vector<std::string>& texts)>;
Result<std::string> joinedTexts(std::string mine, const Groups& groups, const JoinTexts& join);

// How far the ranks are with work that each of them does.
struct Standing {
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t pending = 0;         // 1: a rank is still at it
  std::int64_t asks = 0;            // 1: a rank asks for more
  std::int64_t failed = kNone;      // the first rank that failed
  std::int64_t code = 0, item = 0;  // its error, and which part of the work failed
  std::array<char, 472> text{};

  void fail(int rank, const Error& error, std::int64_t part = 0);
  // The error of the rank that failed, if any, as the other ranks have it: kAborted, or
  // kDeadlineExceeded of its disk.
  Status result() const;
};
// Collective.
Result<Standing> standingOf(const Standing& mine, const Groups& groups);

struct Together {
  Status own;    // this rank's result
  Standing all;  // none is pending
  // OK if no rank failed.
  Status result() const { return own.ok() ? all.result() : own; }
};
// Collective. Every rank does `work`, on a thread of its own, while the ranks tell each other once
// a second that they are alive: a slow disk is not a frozen rank. The run ends where the work of a
// rank takes longer than DiskWait::limit. `work` sets `part` to what it is at; `task` names it in
// errors. Errors: those of the exchange.
Result<Together> doTogether(const Groups& groups, int rank, const std::string& task,
                            const std::function<Status(std::int64_t& part)>& work);

}  // namespace lockstep::runtime
