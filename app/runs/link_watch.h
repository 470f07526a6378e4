// LinkWatch: the links between a run's nodes, as their kernels sample them, and which of them holds
// the run up. No threads, no I/O.
//
// A link's rate is what it delivers while there is more to send than is under way; its pace, what
// it delivers while anything is under way, which is less. Links that never have more to send than
// is under way have no rate, and are not slow.
//
// A link is slow if its rate is below kSlow of the usual one, its round trip is longer than the
// usual one by the same factor and than 0.5 ms, and that costs kCost of the time in kSamples
// samples in a row, each of them below kSlow by itself: its rate or, without one, its pace. All
// else is of fading means over samples; a link is slow at once if kSamples samples with a rate show
// one below kVerySlow of the usual one, each by itself, and a round trip of more than 2 ms. It is
// over when it costs less than half of kCost, or after kSamples samples in a row that are not slow
// by themselves. Usual is the better of the link's own best and the quartile of the other links.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "app/runs/straggler.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app {

class LinkWatch {
 public:
  static constexpr double kSlow = 0.3, kVerySlow = 0.1, kCost = 0.15;
  static constexpr int kSamples = 3;

  // `seconds`: when, by any clock that all nodes' samples share.
  void take(const std::string& node, double seconds, const run::v1::NodeSample& sample);
  void clear() {  // the ranks are started anew
    links_.clear();
    latest_.clear();
  }
  // Returns the slow link that costs most.
  std::optional<SlowLink> slowest() const;

 private:
  struct Link {
    // Fading sums over samples, and over those with a rate. A mean of the time that a byte takes is
    // not led astray by the few samples whose rate is that of a burst.
    double sending = 0, paces = 0, roundTrip = 0, resent = 0, seen = 0;
    double byteTimes = 0, rated = 0;
    double bestRate = 0, bestPace = 0, bestTrip = 0;  // so far; 0: none yet
    double at = 0, ratedAt = 0;  // of the last sample, and the last with a rate
    int slowInRow = 0, verySlowInRow = 0, wellInRow = 0;
    bool slow = false;
    bool hasRate() const { return rated > 0; }
    bool hasTrip() const;
    double rate() const;                                             // at least; 0: not known
    double pace() const { return hasTrip() ? paces / sending : 0; }  // 0: not known
    double trip() const { return roundTrip / seen; }
  };
  struct Usual {
    double rate = 0, pace = 0, trip = 0;  // 0: not known
  };
  using Ends = std::pair<std::string, std::string>;
  Usual usualOf(const Link& link) const;
  static SlowLink compared(const Ends& ends, const Link& link, const Usual& usual);
  static void judge(const run::v1::LinkSample& sample, const Usual& usual, double lostShare,
                    Link& link);

  std::map<Ends, Link> links_;
  std::map<std::string, double> latest_;  // sample of each node: a clock may be corrected
};

}  // namespace lockstep::app
