#include "app/runs/link_watch.h"

#include <algorithm>
#include <vector>

namespace lockstep::app {
namespace {

constexpr double kFade = 0.6;                          // of older samples, at each new one
constexpr double kLeastSending = 0.02;                 // share of the time
constexpr double kEnoughSending = 0.1;                 // the kernel counts it in steps of 4 ms
constexpr double kLeastSeen = 1.9;                     // three samples
constexpr double kNoticed = 0.5e-3, kLongTrip = 2e-3;  // seconds
constexpr double kSilent = 3;                          // seconds without a sample
constexpr double kUnrated = 10;                        // seconds after which a rate is forgotten

}  // namespace

bool LinkWatch::Link::hasTrip() const {
  return seen >= kLeastSeen && sending >= kLeastSending * seen;
}

double LinkWatch::Link::rate() const { return std::max(hasRate() ? rated / byteTimes : 0, pace()); }

LinkWatch::Usual LinkWatch::usualOf(const Link& link) const {
  // Of the other links' figures, those above 0; a quartile of them is as good or better.
  const auto quartile = [&](double (*of)(const Link&), auto better) {
    std::vector<double> figures;
    for (const auto& [ends, other] : links_)
      if (const double one = of(other); &other != &link && one > 0) figures.push_back(one);
    if (figures.empty()) return 0.0;
    const auto at = figures.begin() + static_cast<std::ptrdiff_t>(figures.size() / 4);
    std::nth_element(figures.begin(), at, figures.end(), better);
    return *at;
  };
  const std::greater<> more;
  const double trip =
      quartile([](const Link& one) { return one.hasTrip() ? one.trip() : 0; }, std::less<>());
  return {std::max(link.bestRate, quartile([](const Link& one) { return one.rate(); }, more)),
          std::max(link.bestPace, quartile([](const Link& one) { return one.pace(); }, more)),
          link.bestTrip == 0 || trip == 0 ? std::max(link.bestTrip, trip)
                                          : std::min(link.bestTrip, trip)};
}

SlowLink LinkWatch::compared(const Ends& ends, const Link& link, const Usual& usual) {
  SlowLink out{ends.first, ends.second, {}, link.rate(), usual.rate, link.trip(), usual.trip};
  out.resent = link.resent / link.seen;
  if (out.rate < kSlow * usual.rate && out.roundTrip > usual.trip / kSlow &&
      out.roundTrip > kNoticed)
    out.lostShare = link.sending / link.seen * (1 - out.rate / usual.rate);
  return out;
}

void LinkWatch::judge(const run::v1::LinkSample& sample, const Usual& usual, double lostShare,
                      Link& link) {
  const bool hasRate = sample.rate() > 0, sends = sample.sending() >= kLeastSending;
  // Agents of earlier versions tell no pace.
  if (hasRate || sample.pace() > 0 || !sends) {
    const bool isSlow = sends && (hasRate ? sample.rate() < kSlow * usual.rate
                                          : sample.pace() < kSlow * usual.pace);
    link.slowInRow = isSlow && lostShare >= kCost ? link.slowInRow + 1 : 0;
    link.wellInRow = isSlow ? 0 : link.wellInRow + 1;
  }
  if (hasRate) {
    const double rate = std::max(sample.rate(), sample.pace());
    const bool isVerySlow = rate < kVerySlow * usual.rate &&
                            sample.round_trip() > std::max(usual.trip / kSlow, kLongTrip) &&
                            sample.sending() * (1 - rate / usual.rate) >= kCost;
    link.verySlowInRow = isVerySlow ? link.verySlowInRow + 1 : 0;
  } else if (sample.sending() < kCost || link.wellInRow >= kSamples) {
    link.verySlowInRow = 0;
  }
  link.slow = std::max(link.slowInRow, link.verySlowInRow) >= kSamples ||
              (link.slow && lostShare >= kCost / 2 && link.wellInRow < kSamples);
}

void LinkWatch::take(const std::string& node, double seconds, const run::v1::NodeSample& sample) {
  latest_[node] = seconds;
  for (const run::v1::LinkSample& one : sample.link()) {
    const Ends ends{node, one.node()};
    Link& link = links_[ends];
    link.sending = link.sending * kFade + one.sending();
    link.paces = link.paces * kFade + one.pace() * one.sending();
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
    if (one.sending() >= kEnoughSending) link.bestPace = std::max(link.bestPace, one.pace());
    link.bestRate = std::max(link.bestRate, link.bestPace);
    if (link.rated >= kLeastSeen) link.bestRate = std::max(link.bestRate, link.rate());
    if (one.sending() >= kLeastSending && (link.bestTrip == 0 || one.round_trip() < link.bestTrip))
      link.bestTrip = one.round_trip();
    if (link.hasTrip() && link.hasRate()) {
      const Usual usual = usualOf(link);
      judge(one, usual, compared(ends, link, usual).lostShare, link);
    } else {
      link.slow = false;
      link.slowInRow = link.verySlowInRow = link.wellInRow = 0;
    }
  }
}

std::optional<SlowLink> LinkWatch::slowest() const {
  std::vector<SlowLink> slow;
  double latest = 0;
  for (const auto& [node, at] : latest_) latest = std::max(latest, at);
  for (const auto& [ends, link] : links_)
    if (link.slow && link.at >= latest - kSilent)
      slow.push_back(compared(ends, link, usualOf(link)));
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
