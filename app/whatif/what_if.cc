#include "app/whatif/what_if.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "app/runs/preview.h"
#include "app/whatif/link_time.h"
#include "engine/planner/replay.h"

namespace lockstep::app {
namespace {

using Parts = std::array<std::vector<double>, kOwnParts>;

double mean(const std::vector<double>& values) {
  return values.empty() ? 0
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

// The mean of those values in which nothing was stopped: a process under a quota, or one that
// others push aside, runs as fast as ever until it does not run at all. These are at most twice the
// fastest tenth's.
double unhindered(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto tenth = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 10);
  std::nth_element(values.begin(), tenth, values.end());
  const double most = 2 * *tenth;
  std::erase_if(values, [&](double value) { return value > most; });
  return mean(values);
}

// What the plan predicts of a rank.
PartSeconds predictedOf(const MeasuredRun::Rank& rank) {
  PartSeconds out{};
  for (const plan::Step* step : rank.script)
    if (step->kind == plan::StepKind::kCompute)
      out[static_cast<std::size_t>(ownPartOf(step->phase))] += step->seconds;
  return out;
}

// The durations of a run with changes to it.
class Circumstances {
 public:
  explicit Circumstances(const MeasuredRun& run) : run_(run) {
    for (const MeasuredRun::Rank& rank : run.ranks) {
      parts_.push_back(rank.parts);
      stalledAfter_.push_back(rank.stalledAfter);
      computesAs_.push_back(&rank);
    }
    for (const auto& [bytes, sampled] : run.busy)
      busy_[bytes] = {mean(sampled.sending), mean(sampled.receiving)};
  }

  Status change(const WhatIfChanges& changes) {
    ideal_ = changes.idealNetwork;
    if (!ideal_) {
      LOCKSTEP_ASSIGN(links_, exchangeLinks(run_, changes.links));
    }
    std::set<int> heldUp;
    for (std::size_t i = 0; i < changes.without.size(); ++i) {
      const int rank = changes.without[i];
      const std::vector<std::size_t> peers = peersOf(rank, changes.without);
      if (peers.empty()) return invalidArgument("rank {} has no other rank to be as fast as", rank);
      beAsFastAs(static_cast<std::size_t>(rank), peers, i);
      if (wasHeldUp(static_cast<std::size_t>(rank))) heldUp.insert(rank);
      stalledAfter_[static_cast<std::size_t>(rank)].assign(run_.steps.size(), 0);
    }
    doNotHoldUp(heldUp);
    return {};
  }

  // Whether ranks are left out that were stopped within exchanges, too. What a replay does not know
  // of what did happen was their doing then.
  bool wereStopped() const { return wereStopped_; }

  planner::Replay replay(bool waitForStages, std::stop_token stop) const {
    planner::ReplayOptions options;
    options.steps = static_cast<int>(run_.steps.size());
    options.waitForStages = waitForStages;
    if (!ideal_ && !busy_.empty())
      options.busy = [this](int rank, int, plan::StepId id) { return busy(rank, id); };
    options.stop = std::move(stop);
    return planner::replay(
        run_.plan,
        [this](int rank, int step, plan::StepId id) {
          return seconds(static_cast<std::size_t>(rank), static_cast<std::size_t>(step), id);
        },
        options);
  }

 private:
  double seconds(std::size_t r, std::size_t step, plan::StepId id) const {
    if (id < 0) return parts_[r][0][step] + stalledAfter_[r][step];
    const MeasuredRun::Rank& rank = run_.ranks[r];
    const auto at = static_cast<std::size_t>(id);
    if (rank.script[at]->kind == plan::StepKind::kCollective)
      return rank.exchange[at] < 0 ? 0
                                   : exchange(static_cast<std::size_t>(rank.exchange[at]), step);
    const auto part = static_cast<std::size_t>(ownPartOf(rank.script[at]->phase));
    const MeasuredRun::Rank& as = *computesAs_[r];
    return as.usual[part] > 0 ? as.seconds[at] * parts_[r][part][step] / as.usual[part] : 0;
  }
  double exchange(std::size_t index, std::size_t step) const {
    if (ideal_) return 0;
    const MeasuredRun::Exchange& one = run_.exchanges[index];
    const auto known = unhindered_.find(index);
    const double seconds = known != unhindered_.end() ? known->second
                           : run_.scalesExchanges     ? one.seconds * run_.exchangeScale[step]
                                                      : one.inStep[run_.nearestSample[step]];
    if (links_.empty()) return seconds;
    const ExchangeLinks& link = links_[index];
    return std::max(seconds - link.part, 0.0) + link.changed;
  }

  double busy(int rank, plan::StepId id) const {
    const MeasuredRun::Rank& own = run_.ranks[static_cast<std::size_t>(rank)];
    const auto at = static_cast<std::size_t>(id);
    const auto known = busy_.find(run_.bytesOfMessage(rank, id));
    if (known == busy_.end()) return 0;
    return own.messages[at] *
           (plan::isSend(*own.script[at]) ? known->second.sending : known->second.receiving);
  }

  bool runSame(std::size_t a, std::size_t b) const {
    return run_.plan.stageOf(static_cast<int>(a)) == run_.plan.stageOf(static_cast<int>(b)) &&
           run_.ranks[a].script == run_.ranks[b].script;
  }
  std::vector<std::size_t> peersOf(int rank, const std::vector<int>& without) const {
    const auto own = static_cast<std::size_t>(rank);
    std::vector<std::size_t> same, alike;  // alike: servers, or workers
    for (std::size_t r = 0; r < run_.ranks.size(); ++r) {
      if (std::find(without.begin(), without.end(), static_cast<int>(r)) != without.end()) continue;
      if (runSame(own, r)) same.push_back(r);
      if (run_.plan.mesh.isServer(rank) == run_.plan.mesh.isServer(static_cast<int>(r)))
        alike.push_back(r);
    }
    return same.empty() ? alike : same;
  }

  void beAsFastAs(std::size_t rank, const std::vector<std::size_t>& peers, std::size_t shift) {
    if (runSame(rank, peers[0])) computesAs_[rank] = &run_.ranks[peers[0]];
    const PartSeconds own = predictedOf(run_.ranks[rank]);
    const std::size_t steps = run_.steps.size();
    std::vector<PartSeconds> theirs;
    for (const std::size_t peer : peers) theirs.push_back(predictedOf(run_.ranks[peer]));
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t turn = (step + shift) % peers.size();
      const Parts& peer = run_.ranks[peers[turn]].parts;
      const std::size_t other = (step + 1 + shift) % steps;
      double all = 0, allPredicted = 0;
      for (std::size_t p = 1; p < kOwnParts; ++p) {
        all += peer[p][other];
        allPredicted += theirs[turn][p];
      }
      for (std::size_t p = 0; p < kOwnParts; ++p) {
        double& seconds = parts_[rank][p][step];
        if (p == 0 || own[p] == theirs[turn][p])
          seconds = peer[p][other];
        else if (theirs[turn][p] > 0)
          seconds = peer[p][other] * own[p] / theirs[turn][p];
        else if (allPredicted > 0)
          seconds = all * own[p] / allPredicted;
      }
    }
    for (std::size_t p = 1; p < kOwnParts; ++p)
      if (std::any_of(theirs.begin(), theirs.end(),
                      [&](const PartSeconds& one) { return one[p] != own[p]; }))
        beUnhindered(rank, p);
  }

  // What peers take says little of another program. Where the rank itself was not stopped it is
  // told better, unless it is slow then, too.
  void beUnhindered(std::size_t rank, std::size_t part) {
    std::vector<double> values = run_.ranks[rank].parts[part];
    const double seconds = unhindered(values);
    if (seconds > 2 * mean(parts_[rank][part])) return;
    for (double& value : values)
      if (value > 2 * seconds) value = seconds;
    parts_[rank][part] = std::move(values);
  }

  // Whether a rank took a tenth longer by itself than it does now.
  bool wasHeldUp(std::size_t r) const {
    const MeasuredRun::Rank& rank = run_.ranks[r];
    double before = mean(rank.stalled) + mean(rank.stalledAfter), now = 0;
    for (std::size_t p = 0; p < kOwnParts; ++p) {
      before += mean(rank.parts[p]);
      now += mean(parts_[r][p]);
    }
    return before > 1.1 * now;
  }

  // A rank that is held up is so while it exchanges, too: what it takes part in takes as long as
  // those of the sampled exchanges alike in which nothing was stopped.
  void doNotHoldUp(const std::set<int>& ranks) {
    if (ranks.empty()) return;
    const auto isAmong = [&](const std::vector<int>& all) {
      return std::any_of(all.begin(), all.end(), [&](int rank) { return ranks.contains(rank); });
    };
    const auto takesPart = [&](const MeasuredRun::Exchange& one) {
      return isAmong(one.receivers) || isAmong(one.alongside) ||
             std::any_of(one.places.begin(), one.places.end(),
                         [&](const auto& place) { return ranks.contains(place.first); });
    };
    // By axis, bytes, and from whom to whom.
    std::map<std::tuple<std::string_view, std::int64_t, int, std::vector<int>>, std::vector<double>>
        alike;
    const auto kind = [&](const MeasuredRun::Exchange& one) {
      const auto& [rank, id] = one.places.front();
      const plan::Step& step =
          *run_.ranks[static_cast<std::size_t>(rank)].script[static_cast<std::size_t>(id)];
      return std::tuple(std::string_view(step.axis), step.bytes, rank, one.receivers);
    };
    for (const MeasuredRun::Exchange& one : run_.exchanges)
      if (takesPart(one)) {
        std::vector<double>& values = alike[kind(one)];
        values.insert(values.end(), one.inStep.begin(), one.inStep.end());
      }
    std::map<decltype(alike)::key_type, double> seconds;
    for (auto& [key, values] : alike) seconds[key] = unhindered(std::move(values));
    double before = 0, now = 0;
    for (std::size_t e = 0; e < run_.exchanges.size(); ++e)
      if (const MeasuredRun::Exchange& one = run_.exchanges[e]; takesPart(one)) {
        before += one.seconds;
        now += unhindered_[e] = seconds.at(kind(one));
      }
    wereStopped_ = before > 1.1 * now;
    for (auto& [bytes, busy] : busy_) {
      const MeasuredRun::Busy& sampled = run_.busy.at(bytes);
      busy = {unhindered(sampled.sending), unhindered(sampled.receiving)};
    }
  }

  const MeasuredRun& run_;
  std::vector<Parts> parts_;                       // by rank
  std::vector<std::vector<double>> stalledAfter_;  // by rank
  // By rank: the rank whose sampled steps tell how a part's time is divided among the compute steps
  // of the plan. A rank that was stopped cannot tell it of itself: its time is where the stops
  // were.
  std::vector<const MeasuredRun::Rank*> computesAs_;
  std::vector<ExchangeLinks> links_;          // empty: as they were
  std::map<std::size_t, double> unhindered_;  // seconds of exchanges, in all steps
  struct Busy {
    double sending = 0, receiving = 0;
  };
  std::map<std::int64_t, Busy> busy_;  // by a message's bytes
  bool ideal_ = false, wereStopped_ = false;
};

Status check(const MeasuredRun& run, const WhatIfChanges& changes) {
  const int ranks = run.plan.mesh.size();
  for (const int rank : changes.without)
    if (rank < 0 || rank >= ranks)
      return invalidArgument("there is no rank {}: the run has ranks 0 to {}", rank, ranks - 1);
  if (changes.noBubble && (run.plan.mesh.servers() > 0 || run.plan.mesh.stages() < 2))
    return invalidArgument("the run has no bubble: its plan is not a pipeline");
  if ((changes.idealNetwork || !changes.links.empty()) && run.exchanges.empty())
    return invalidArgument("the ranks of the run exchange nothing");
  if (!changes.links.empty() && ranks > kMostLinkedRanks)
    return invalidArgument("links are told apart of at most {} ranks, and the run has {}",
                           kMostLinkedRanks, ranks);
  return {};
}

}  // namespace

double Replayed::measuredSeconds() const { return mean(measured); }

double Replayed::error() const {
  const double seconds = mean(measured);
  return seconds > 0 ? mean(replayed) / seconds - 1 : 0;
}

double Replayed::spread() const {
  double sum = 0;
  for (std::size_t s = 0; s < measured.size(); ++s)
    if (measured[s] > 0) sum += std::abs(replayed[s] / measured[s] - 1);
  return measured.empty() ? 0 : sum / static_cast<double>(measured.size());
}

Replayed replayOf(const MeasuredRun& run, std::stop_token stop) {
  Replayed out;
  planner::Replay replay = Circumstances(run).replay(true, stop);
  if (stop.stop_requested()) return out;
  out.stepSeconds = mean(replay.stepSeconds);
  out.replayed = std::move(replay.stepSeconds);
  out.ranks = std::move(replay.ranks);
  for (std::size_t s = 0; s < run.steps.size(); ++s) out.measured.push_back(run.length(s));
  return out;
}

Result<WhatIfAnswer> whatIf(const MeasuredRun& run, const Replayed& replayed,
                            const WhatIfChanges& changes, std::stop_token stop) {
  LOCKSTEP_TRY(check(run, changes));
  Circumstances circumstances(run);
  LOCKSTEP_TRY(circumstances.change(changes));
  planner::Replay replay = circumstances.replay(!changes.noBubble, stop);
  LOCKSTEP_TRY(unlessStopped(stop));
  WhatIfAnswer out;
  const double seconds = changes.noBubble ? replay.slowestSeconds : mean(replay.stepSeconds);
  const double share = replayed.stepSeconds > 0 ? seconds / replayed.stepSeconds : 1;
  out.stepSeconds = circumstances.wereStopped() ? seconds : replayed.measuredSeconds() * share;
  out.ranks = std::move(replay.ranks);
  if (out.stepSeconds > 0)
    out.samplesPerSecond = static_cast<double>(run.plan.globalBatch) / out.stepSeconds;
  return out;
}

}  // namespace lockstep::app
