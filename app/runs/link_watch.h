// LinkWatch: the links between a run's nodes, as their kernels sample them, and which of them holds
// the run up. No threads, no I/O.
//
// A link is slow if the rate at which it delivers is below kSlow of the usual one, its round trip
// is longer than the usual one by the same factor and than 0.5 ms, and that costs kCost of the time
// in kSamples samples in a row. All this is of fading means over samples; a link is slow at once if
// kSamples samples in a row show a rate below kVerySlow of the usual one, each by itself, and a
// round trip of more than 2 ms. It is over when it costs less than half of kCost. Links that never
// have more to send than is under way have no rate, and are not slow. Usual is the better of the
// link's own best and the quartile of the other links.
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
  static constexpr double kSaturated = 0.9, kBusier = 0.15;  // shares of the time
  static constexpr int kSamples = 3;

  // `seconds`: when, by any clock that all nodes' samples share.
  void take(const std::string& node, double seconds, const run::v1::NodeSample& sample);
  void clear() {  // the ranks are started anew
    links_.clear();
    hosts_.clear();
  }
  // Returns the slow link that costs most.
  std::optional<SlowLink> slowest() const;

 private:
  // What a host's processor does, in shares of the time.
  struct Load {
    double cpu = 0;   // busy, of all cores
    double held = 0;  // of the rank that most waits for a core, is throttled or stopped
  };
  struct Host {
    double at = 0;  // of the last sample: a clock may be corrected
    Load now;
    double seen = 0, cpu = 0, held = 0;  // fading sums over samples
    void take(double seconds, const run::v1::NodeSample& sample);
    // The greater of the last sample and the fading mean: begins at once, ends slowly.
    Load load() const;
  };
  struct Link {
    // Fading sums over samples, and over those with a rate.
    double sending = 0, roundTrip = 0, resent = 0, seen = 0, rates = 0, rated = 0;
    double bestRate = 0, bestTrip = 0;  // so far; 0: none yet
    double at = 0, ratedAt = 0;         // of the last sample, and the last with a rate
    int slowInRow = 0, verySlowInRow = 0;
    bool slow = false;
    double calm = 0;        // fading number of samples in which it was not slow,
    Load fromCalm, toCalm;  // and sums of the loads of its ends over them
    bool hasRate() const { return rated > 0; }
    double rate() const { return rates / rated; }
    bool hasTrip() const;
    double trip() const { return roundTrip / seen; }
  };
  using Ends = std::pair<std::string, std::string>;
  SlowLink compared(const Ends& ends, const Link& link) const;
  static bool isVerySlow(const run::v1::LinkSample& sample, const SlowLink& link);
  void noteCalm(const Ends& ends, Link& link);
  bool hasBusyEnd(const Ends& ends, const Link& link) const;
  Load othersLoad(const std::string& node) const;

  std::map<Ends, Link> links_;
  std::map<std::string, Host> hosts_;
};

}  // namespace lockstep::app
