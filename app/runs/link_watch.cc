#include "app/runs/link_watch.h"

#include <algorithm>
#include <vector>

namespace lockstep::app {
namespace {

constexpr double kFade = 0.6;           // of older samples, at each new one
constexpr double kLeastSending = 0.02;  // share of the time
constexpr double kLeastSeen = 1.9;      // three samples
constexpr double kNoticed = 0.5e-3;     // seconds
constexpr double kSilent = 3;           // seconds without a sample

}  // namespace

bool LinkWatch::Link::tells() const {
  return seen >= kLeastSeen && sending >= kLeastSending * seen;
}

SlowLink LinkWatch::compared(const Ends& ends, const Link& link) const {
  SlowLink out{ends.first, ends.second, {}, link.rate(), link.bestRate, link.trip(), link.bestTrip};
  std::vector<double> rates, trips;
  for (const auto& [otherEnds, other] : links_) {
    if (&other == &link || !other.tells()) continue;
    rates.push_back(other.rate());
    trips.push_back(other.trip());
  }
  if (!rates.empty()) {
    const auto quartile = static_cast<std::ptrdiff_t>(rates.size() / 4);
    std::nth_element(rates.begin(), rates.begin() + quartile, rates.end(), std::greater<>());
    std::nth_element(trips.begin(), trips.begin() + quartile, trips.end());
    out.usualRate = std::max(out.usualRate, rates[static_cast<std::size_t>(quartile)]);
    out.usualTrip = std::min(out.usualTrip, trips[static_cast<std::size_t>(quartile)]);
  }
  if (out.rate < kSlow * out.usualRate && out.roundTrip > out.usualTrip / kSlow &&
      out.roundTrip > kNoticed)
    out.lostShare = link.sending / link.seen * (1 - out.rate / out.usualRate);
  return out;
}

void LinkWatch::take(const std::string& node, double seconds, const run::v1::NodeSample& sample) {
  latest_ = std::max(latest_, seconds);
  for (const run::v1::LinkSample& one : sample.link()) {
    const Ends ends{node, one.node()};
    Link& link = links_[ends];
    link.sent = link.sent * kFade + one.sent();
    link.sending = link.sending * kFade + one.sending();
    link.roundTrip = link.roundTrip * kFade + one.round_trip();
    link.seen = link.seen * kFade + 1;
    link.at = seconds;
    if (!link.tells()) {
      link.slow = false;
      link.slowInRow = 0;
      continue;
    }
    link.bestRate = std::max(link.bestRate, link.rate());
    link.bestTrip = link.bestTrip > 0 ? std::min(link.bestTrip, link.trip()) : link.trip();
    const double cost = compared(ends, link).lostShare;
    link.slowInRow = cost >= kCost ? link.slowInRow + 1 : 0;
    link.slow = link.slowInRow >= kSamples || (link.slow && cost >= kCost / 2);
  }
}

std::optional<SlowLink> LinkWatch::slowest() const {
  std::vector<SlowLink> slow;
  for (const auto& [ends, link] : links_)
    if (link.slow && link.at >= latest_ - kSilent) slow.push_back(compared(ends, link));
  if (slow.empty()) return std::nullopt;
  SlowLink worst = *std::max_element(slow.begin(), slow.end(), [](const auto& a, const auto& b) {
    return a.lostShare < b.lostShare;
  });
  for (const std::string& node : {worst.from, worst.to}) {
    const auto isOf = [&](const SlowLink& one) { return one.from == node || one.to == node; };
    const auto isBetween = [&](const SlowLink& one) {
      return (one.from == worst.from || one.from == worst.to) &&
             (one.to == worst.from || one.to == worst.to);
    };
    if (std::all_of(slow.begin(), slow.end(), isOf) &&
        !std::all_of(slow.begin(), slow.end(), isBetween))
      worst.common = node;
  }
  return worst;
}

}  // namespace lockstep::app
