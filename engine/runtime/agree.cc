#include "engine/runtime/agree.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/runtime/heartbeat.h"

namespace lockstep::runtime {
namespace {

constexpr std::int64_t kWord = sizeof(std::int64_t);

std::vector<std::int64_t> cutsOf(const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> cuts{0};
  for (const std::int64_t count : counts) cuts.push_back(cuts.back() + count);
  return cuts;
}

}  // namespace

Result<std::string> joinedTexts(std::string mine, const Groups& groups, const JoinTexts& join) {
  for (const auto& [axis, group] : groups.all()) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(group->size())), words;
    const std::int64_t size = std::ssize(mine);
    LOCKSTEP_TRY(group->allGather(&size, sizes.data(),
                                  cutsOf(std::vector<std::int64_t>(sizes.size(), 1)), DType::kI64));
    for (const std::int64_t one : sizes) words.push_back((one + kWord - 1) / kWord);
    const std::vector<std::int64_t> cuts = cutsOf(words);
    mine.resize(static_cast<std::size_t>((size + kWord - 1) / kWord * kWord));
    std::string all(static_cast<std::size_t>(cuts.back() * kWord), '\0');
    LOCKSTEP_TRY(group->allGather(mine.data(), all.data(), cuts, DType::kI64));
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      texts.push_back(all.substr(static_cast<std::size_t>(cuts[i] * kWord),
                                 static_cast<std::size_t>(sizes[i])));
    mine = join(texts);
  }
  return mine;
}

void Standing::fail(int rank, const Error& error, std::int64_t part) {
  failed = rank;
  code = static_cast<std::int64_t>(error.code);
  item = part;
  const std::string said = error.text();
  std::copy_n(said.begin(), std::min(said.size(), text.size() - 1), text.begin());
}

Status Standing::result() const {
  if (failed == kNone) return {};
  const auto theirs = static_cast<Code>(code);
  Error error = makeError(theirs == Code::kDeadlineExceeded ? theirs : Code::kAborted,
                          "rank {} failed: {}", failed, text.data());
  error.rank = static_cast<int>(failed);
  return error;
}

Result<Standing> standingOf(const Standing& mine, const Groups& groups) {
  return joined(mine, groups, [](Standing& out, const Standing& one) {
    const std::int64_t pending = out.pending | one.pending, asks = out.asks | one.asks;
    if (one.failed < out.failed) out = one;
    out.pending = pending;
    out.asks = asks;
  });
}

Result<Together> doTogether(const Groups& groups, int rank, const std::string& task,
                            const std::function<Status(std::int64_t& part)>& work) {
  constexpr std::chrono::seconds kInterval{1};
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::int64_t part = 0;
  Together out;
  std::thread thread = helperThread("disk", [&] {
    std::int64_t at = 0;
    Status status = withMemoryFor(message("{}", task), 0, [&] { return work(at); });
    const std::lock_guard lock(mutex);
    out.own = std::move(status);
    part = at;
    done = true;
    changed.notify_all();
  });
  const auto end = std::chrono::steady_clock::now() + diskWait().limit;
  const auto exchange = [&]() -> Status {
    for (;;) {
      Standing mine;
      bool isStuck = false;
      {
        std::unique_lock lock(mutex);
        mine.pending = changed.wait_for(lock, kInterval, [&] { return done; }) ? 0 : 1;
        isStuck = !done && std::chrono::steady_clock::now() > end;
        if (done && !out.own.ok()) mine.fail(rank, out.own.error(), part);
      }
      if (isStuck) {
        const Error error = diskStuck(task, rank);
        mine.pending = 0;
        mine.fail(rank, error);
        LOCKSTEP_TRY(standingOf(mine, groups).status());
        if (diskWait().onStuck) diskWait().onStuck(error);
        return error;
      }
      LOCKSTEP_ASSIGN(out.all, standingOf(mine, groups));
      const bool isOver = out.all.failed != Standing::kNone &&
                          out.all.code == static_cast<std::int64_t>(Code::kDeadlineExceeded);
      if (out.all.pending == 0 || isOver) return {};
    }
  };
  const Status exchanged = exchange();
  thread.join();
  LOCKSTEP_TRY(exchanged);
  return out;
}

}  // namespace lockstep::runtime
