// How fast the ranks of this host exchange, collective by collective, by size.
#include <algorithm>
#include <vector>

#include "agent/host/cores.h"
#include "agent/worker/rank_groups.h"
#include "agent/worker/worker_link.h"
#include "engine/base/statistics.h"
#include "engine/plan/all_reduce.h"
#include "engine/plan/wait_limit.h"
#include "engine/runtime/aligned_memory.h"
#include "engine/runtime/all_reduce.h"

namespace lockstep::agent {
namespace {

constexpr std::int64_t kWidth = 4;  // of f32, which all is
constexpr int kWarmUps = 2, kAtOnce = 5;

// Memory for the largest size, filled with zeros.
struct Memory {
  runtime::AlignedMemory in, out;
};

// One collective of one size; made once, run again and again.
class Timed {
 public:
  Timed(comm::Communicator& group, const Memory& memory, std::string kind, std::int64_t bytes,
        std::string_view algorithm)
      : group_(group), memory_(memory), kind_(std::move(kind)), count_(bytes / kWidth) {
    const int size = group.size();
    for (int r = 0; r <= size; ++r) cuts_.push_back(count_ * r / size);
    if (kind_ == "all-reduce")
      exchanges_ =
          plan::exchanges(*ir::algorithmFromName(algorithm), group.rank(), size, count_, {});
    staging_.resize(static_cast<std::size_t>(runtime::stagingBytes(exchanges_, DType::kF32)));
  }

  Status run() {
    constexpr auto kSum = comm::ReduceOp::kSum;
    std::byte* const in = memory_.in.get();
    std::byte* const out = memory_.out.get();
    const int size = group_.size(), rank = group_.rank();
    if (kind_ == "all-reduce" && !exchanges_.empty())
      return runtime::allReduce(group_, exchanges_, in, DType::kF32, kSum, staging_);
    if (kind_ == "all-reduce") return group_.allReduce(in, count_, DType::kF32, kSum);
    if (kind_ == "reduce-scatter") return group_.reduceScatter(in, out, cuts_, DType::kF32, kSum);
    if (kind_ == "all-gather")
      return group_.allGather(out + cuts_[static_cast<std::size_t>(rank)] * kWidth, out, cuts_,
                              DType::kF32);
    if (kind_ == "broadcast") return group_.broadcast(in, count_ * kWidth, 0);
    if (kind_ == "all-to-all") return group_.allToAll(in, out, count_ / size * kWidth);
    if (kind_ == "send-recv")
      return group_.exchange(in, count_ * kWidth, (rank + 1) % size, out, count_ * kWidth,
                             (rank + size - 1) % size, 0);
    return group_.barrier();
  }

 private:
  comm::Communicator& group_;
  const Memory& memory_;
  const std::string kind_;
  const std::int64_t count_;
  std::vector<std::int64_t> cuts_;
  std::vector<plan::Exchange> exchanges_;
  std::vector<std::byte> staging_;
};

// The median of as many runs as fit; all ranks run equally often: the first one's clock decides.
Result<double> timeOf(comm::Communicator& group, Timed& timed, double seconds) {
  for (int i = 0; i < kWarmUps; ++i) LOCKSTEP_TRY(timed.run());
  std::vector<double> times;
  const Nanoseconds end = monotonicNow() + static_cast<Nanoseconds>(seconds * 1e9);
  for (std::int64_t going = 1; going != 0;) {
    for (int i = 0; i < kAtOnce; ++i) {
      const Nanoseconds begin = monotonicNow();
      LOCKSTEP_TRY(timed.run());
      times.push_back(static_cast<double>(monotonicNow() - begin) * 1e-9);
    }
    going = monotonicNow() < end ? 1 : 0;
    LOCKSTEP_TRY(group.broadcast(&going, sizeof going, 0));
  }
  return median(std::move(times));
}

// Ranks end together: what a rank that has left still owed its peers may be lost with it.
Status awaitAll(const node::v1::WorkerStart& start, WorkerLink& link) {
  const auto keyOf = [&](int rank) { return fmt::format("{}/ended/{}", start.run(), rank); };
  LOCKSTEP_TRY(link.set(keyOf(start.rank()), "1"));
  for (int rank = 0; rank < start.world(); ++rank)
    LOCKSTEP_TRY(link.get(keyOf(rank), plan::kCollectiveLimit).status());
  return {};
}

}  // namespace

Status runCollectives(const node::v1::WorkerStart& start, WorkerLink& link) {
  const node::v1::CollectiveBench& asked = start.collectives();
  LOCKSTEP_ASSIGN(const RankGroups groups,
                  RankGroups::form(start, cluster::Mesh({{"data", start.world()}}), link));
  comm::Communicator& group = *groups.groups().along("data");
  const PinnedThread pinned(start);
  Memory memory;
  for (runtime::AlignedMemory* one : {&memory.in, &memory.out}) {
    LOCKSTEP_ASSIGN(*one, runtime::allocateAligned(std::max<std::int64_t>(asked.max_bytes(), 64),
                                                   "collectives"));
  }
  std::vector<std::pair<std::string, std::int64_t>> wanted;
  for (const std::string& kind : asked.kinds()) {
    if (kind == "barrier")
      wanted.emplace_back(kind, 0);
    else
      for (std::int64_t bytes = asked.min_bytes(); bytes <= asked.max_bytes(); bytes *= 4)
        wanted.emplace_back(kind, bytes);
  }
  node::v1::FromWorker message;
  for (const auto& [kind, bytes] : wanted) {
    Timed timed(group, memory, kind, bytes,
                asked.algorithm().empty() ? "direct" : asked.algorithm());
    LOCKSTEP_ASSIGN(const double seconds,
                    timeOf(group, timed, start.seconds() / static_cast<double>(wanted.size())));
    auto* cost = message.mutable_benched()->add_collectives();
    cost->set_kind(kind);
    cost->set_ranks(group.size());
    cost->set_bytes(bytes);
    cost->set_seconds(seconds);
  }
  LOCKSTEP_TRY(awaitAll(start, link));
  link.channel().send(message);
  return {};
}

}  // namespace lockstep::agent
