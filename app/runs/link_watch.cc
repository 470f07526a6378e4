#include "app/runs/link_watch.h"

#include <algorithm>
#include <vector>

namespace lockstep::app {
namespace {

constexpr double kFade = 0.6;                          // of older samples, at each new one
constexpr double kLeastSending = 0.02;                 // share of the time
constexpr double kLeastSeen = 1.9;                     // three samples
constexpr double kNoticed = 0.5e-3, kLongTrip = 2e-3;  // seconds
constexpr double kSilent = 3;                          // seconds without a sample
constexpr double kUnrated = 10;                        // seconds after which a rate is forgotten

}  // namespace

bool LinkWatch::Link::hasTrip() const {
  return seen >= kLeastSeen && sending >= kLeastSending * seen;
}

double LinkWatch::Link::rate() const {
  return std::max(hasRate() ? rated / byteTimes : 0, hasTrip() ? delivered / sending : 0);
}

SlowLink LinkWatch::compared(const Ends& ends, const Link& link) const {
  SlowLink out{ends.first, ends.second, {}, link.rate(), link.bestRate, link.trip(), link.bestTrip};
  std::vector<double> rates, trips;
  for (const auto& [otherEnds, other] : links_) {
    if (&other == &link) continue;
    if (other.rate() > 0) rates.push_back(other.rate());
    if (other.hasTrip()) trips.push_back(other.trip());
  }
  if (!rates.empty()) {
    const auto quartile = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 4);
    std::nth_element(rates.begin(), quartile, rates.end(), std::greater<>());
    out.usualRate = std::max(out.usualRate, *quartile);
  }
  if (!trips.empty()) {
    const auto quartile = trips.begin() + static_cast<std::ptrdiff_t>(trips.size() / 4);
    std::nth_element(trips.begin(), quartile, trips.end());
    out.usualTrip = std::min(out.usualTrip, *quartile);
  }
  out.resent = link.resent / link.seen;
  if (out.rate < kSlow * out.usualRate && out.roundTrip > out.usualTrip / kSlow &&
      out.roundTrip > kNoticed)
    out.lostShare = link.sending / link.seen * (1 - out.rate / out.usualRate);
  return out;
}

bool LinkWatch::isVerySlow(const run::v1::LinkSample& sample, const SlowLink& link) {
  const double rate = std::max(sample.rate(), sample.pace());
  return rate < kVerySlow * link.usualRate &&
         sample.round_trip() > std::max(link.usualTrip / kSlow, kLongTrip) &&
         sample.sending() * (1 - rate / link.usualRate) >= kCost;
}

void LinkWatch::take(const std::string& node, double seconds, const run::v1::NodeSample& sample) {
  latest_[node] = seconds;
  for (const run::v1::LinkSample& one : sample.link()) {
    const Ends ends{node, one.node()};
    Link& link = links_[ends];
    link.sending = link.sending * kFade + one.sending();
    link.delivered = link.delivered * kFade + one.pace() * one.sending();
    link.roundTrip = link.roundTrip * kFade + one.round_trip();
    link.resent = link.resent * kFade + one.resent();
    link.seen = link.seen * kFade + 1;
    link.at = seconds;
    if (one.rate() > 0) {
      link.byteTimes = link.byteTimes * kFade + 1 / one.rate();
      link.rated = link.rated * kFade + 1;
      link.ratedAt = seconds;
    } else if (seconds > link.ratedAt + kUnrated) {
      link.byteTimes = link.rated = 0;
    }
    if (link.rated >= kLeastSeen) link.bestRate = std::max(link.bestRate, link.rate());
    if (one.sending() >= kLeastSending) {
      link.bestPace = std::max(link.bestPace, one.pace());
      link.bestRate = std::max(link.bestRate, one.pace());
      if (link.bestTrip == 0 || one.round_trip() < link.bestTrip) link.bestTrip = one.round_trip();
    }
    if (!link.hasTrip() || !link.hasRate()) {
      link.slow = false;
      link.slowInRow = link.verySlowInRow = link.wellInRow = 0;
      continue;
    }
    const SlowLink now = compared(ends, link);
    // What a link delivers is less than its rate, usually too.
    const bool isSlow =
        one.sending() >= kLeastSending &&
        (one.rate() > 0 ? one.rate() < kSlow * now.usualRate : one.pace() < kSlow * link.bestPace);
    link.wellInRow = isSlow ? 0 : link.wellInRow + 1;
    link.slowInRow = isSlow && now.lostShare >= kCost ? link.slowInRow + 1 : 0;
    // While it sends as much as before, a sample without a rate says nothing.
    if (one.rate() > 0 || one.sending() < kCost)
      link.verySlowInRow = isVerySlow(one, now) ? link.verySlowInRow + 1 : 0;
    link.slow = std::max(link.slowInRow, link.verySlowInRow) >= kSamples ||
                (link.slow && now.lostShare >= kCost / 2 && link.wellInRow < kSamples);
  }
}

std::optional<SlowLink> LinkWatch::slowest() const {
  std::vector<SlowLink> slow;
  double latest = 0;
  for (const auto& [node, at] : latest_) latest = std::max(latest, at);
  for (const auto& [ends, link] : links_)
    if (link.slow && link.at >= latest - kSilent) slow.push_back(compared(ends, link));
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
