#include "engine/plan/all_reduce.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "engine/base/status.h"

namespace lockstep::plan {
namespace {

using Range = Exchange::Range;

class ExchangeBuilder {
 public:
  // Builds for member number `me` of `members`.
  ExchangeBuilder(std::vector<int> members, int me, std::int64_t count)
      : members_(std::move(members)), me_(me), count_(count) {}

  void ring() {
    const int n = size();
    const auto slice = [&](int k) { return slices((k + 2 * n) % n, (k + 2 * n) % n + 1, n); };
    for (int s = 0; s + 1 < n; ++s)
      exchange((me_ + 1) % n, slice(me_ - s), (me_ + n - 1) % n, slice(me_ - s - 1), true);
    for (int s = 0; s + 1 < n; ++s)
      exchange((me_ + 1) % n, slice(me_ + 1 - s), (me_ + n - 1) % n, slice(me_ - s), false);
  }

  void halvingDoubling() {
    const int n = size(), power = static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
    const int lent =
        n - power;  // of the first 2·lent members, each even one is folded into the next
    const Range all{0, count_};
    if (me_ < 2 * lent && me_ % 2 == 1) {
      send(me_ - 1, all);
      return receive(me_ - 1, all, false);
    }
    if (me_ < 2 * lent) receive(me_ + 1, all, true);
    const int mine = me_ < 2 * lent ? me_ / 2 : me_ - lent;
    const auto member = [&](int v) { return v < lent ? 2 * v : v + lent; };
    int begin = 0, end = power;
    for (int mask = power / 2; mask > 0; mask /= 2) {
      const int middle = (begin + end) / 2;
      const Range low = slices(begin, middle, power), high = slices(middle, end, power);
      const bool keepsLow = (mine & mask) == 0;
      exchange(member(mine ^ mask), keepsLow ? high : low, member(mine ^ mask),
               keepsLow ? low : high, true);
      (keepsLow ? end : begin) = middle;
    }
    for (int mask = 1; mask < power; mask *= 2) {
      const int width = end - begin;
      const int other = (mine & mask) == 0 ? end : begin - width;
      exchange(member(mine ^ mask), slices(begin, end, power), member(mine ^ mask),
               slices(other, other + width, power), false);
      begin = std::min(begin, other);
      end = begin + 2 * width;
    }
    if (me_ < 2 * lent) send(me_ + 1, all);
  }

  void treeToFirst() {
    for (int mask = 1; mask < size(); mask *= 2) {
      if ((me_ & mask) != 0) return send(me_ - mask, {0, count_});
      if (me_ + mask < size()) receive(me_ + mask, {0, count_}, true);
    }
  }
  void treeFromFirst() {
    int mask = 1;
    while (mask < size() && (me_ & mask) == 0) mask *= 2;
    if (me_ != 0) receive(me_ - mask, {0, count_}, false);
    while ((mask /= 2) > 0)
      if (me_ + mask < size()) send(me_ + mask, {0, count_});
  }

  std::vector<Exchange> take() { return std::move(made_); }

 private:
  int size() const { return static_cast<int>(members_.size()); }
  Range slices(int from, int to, int parts) const {
    return {count_ * from / parts, count_ * to / parts};
  }
  int rankOf(int member) const { return members_[static_cast<std::size_t>(member)]; }
  void exchange(int to, Range sent, int from, Range received, bool reduces) {
    made_.push_back({rankOf(to), rankOf(from), sent, received, reduces});
  }
  void send(int to, Range sent) { made_.push_back({rankOf(to), -1, sent, {}, false}); }
  void receive(int from, Range received, bool reduces) {
    made_.push_back({-1, rankOf(from), {}, received, reduces});
  }

  const std::vector<int> members_;
  const int me_;
  const std::int64_t count_;
  std::vector<Exchange> made_;
};

std::vector<int> range(int begin, int end) {
  std::vector<int> out(static_cast<std::size_t>(end - begin));
  std::iota(out.begin(), out.end(), begin);
  return out;
}

}  // namespace

std::vector<Exchange> exchanges(ir::Algorithm how, int rank, int size, std::int64_t count,
                                std::span<const std::int64_t> hosts) {
  ExchangeBuilder all(range(0, size), rank, count);
  switch (how) {
    case ir::Algorithm::kDirect:
      break;
    case ir::Algorithm::kRing:
      all.ring();
      break;
    case ir::Algorithm::kHalvingDoubling:
      all.halvingDoubling();
      break;
    case ir::Algorithm::kTree:
      all.treeToFirst();
      all.treeFromFirst();
      break;
    case ir::Algorithm::kHierarchical: {
      LOCKSTEP_CHECK(hosts.size() >= 2 && hosts.front() == 0 && hosts.back() == size);
      std::vector<int> firsts(hosts.begin(), hosts.end() - 1);
      const auto next = std::upper_bound(firsts.begin(), firsts.end(), rank);
      const int host = static_cast<int>(next - firsts.begin()) - 1;
      const int first = firsts[static_cast<std::size_t>(host)];
      const auto inside = range(first, static_cast<int>(hosts[static_cast<std::size_t>(host) + 1]));
      ExchangeBuilder in(inside, rank - first, count), between(std::move(firsts), host, count),
          out(inside, rank - first, count);
      in.treeToFirst();
      if (rank == first) between.ring();
      out.treeFromFirst();
      std::vector<Exchange> made = in.take();
      for (std::vector<Exchange> part : {between.take(), out.take()})
        made.insert(made.end(), part.begin(), part.end());
      return made;
    }
  }
  return all.take();
}

}  // namespace lockstep::plan
