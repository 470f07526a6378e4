// Collectives by which the ranks of a run agree on values and on the outcome of local work.
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

// Collective. Merges the values of all ranks. join(a, b) merges b into a; it must be associative,
// commutative and idempotent.
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

// Progress of work that every rank does locally.
struct Standing {
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t pending = 0;         // 1: a rank has not finished
  std::int64_t asks = 0;            // 1: a rank requests more work
  std::int64_t failed = kNone;      // the first rank that failed
  std::int64_t code = 0, item = 0;  // its error code, and the part of the work that failed
  std::array<char, 472> text{};

  void fail(int rank, const Error& error, std::int64_t part = 0);
  // The failed rank's error, if any, as the other ranks report it: kAborted, or kDeadlineExceeded
  // for its disk.
  Status result() const;
};
// Collective.
Result<Standing> standingOf(const Standing& mine, const Groups& groups);

struct Together {
  Status own;    // this rank's result
  Standing all;  // with no rank pending
  // OK if no rank failed.
  Status result() const { return own.ok() ? all.result() : own; }
};
// Collective. Every rank runs `work` on a separate thread while the ranks exchange a heartbeat
// every second, so that a slow disk is not mistaken for a frozen rank. The run ends if a rank's
// work takes longer than DiskWait::limit. `work` sets `part` to the part in progress; `task`
// describes the work in errors. Errors: those of the exchange.
Result<Together> doTogether(const Groups& groups, int rank, const std::string& task,
                            const std::function<Status(std::int64_t& part)>& work);

}  // namespace lockstep::runtime
