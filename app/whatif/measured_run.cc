#include "app/whatif/measured_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string_view>
#include <tuple>
#include <utility>

#include "app/runs/preview.h"
#include "app/runs/rank_costs.h"
#include "app/runs/step_events.h"
#include "app/runs/step_timeline.h"
#include "engine/analysis/analysis.h"
#include "engine/base/statistics.h"
#include "engine/specs/workload.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kMostSampled = 64;
constexpr std::size_t kMostSteps = 2000;           // replayed
constexpr std::size_t kMostPlanSteps = 3'000'000;  // of all ranks, in all steps of a replay
constexpr std::size_t kLeastSteps = 20;

struct Interval {
  std::int64_t begin = 0, end = 0;
  bool isKnown = false;
  double seconds() const { return static_cast<double>(end - begin) * 1e-9; }
};

Error notReplayed(const std::string& run, Message why, Message next = {}) {
  Error error = makeError(Code::kFailedPrecondition, "the steps of run {} cannot be replayed", run);
  error.why = std::move(why);
  error.next = std::move(next);
  return error;
}

// So many of them, evenly distributed.
template <typename T>
std::vector<T> thinned(const std::vector<T>& all, std::size_t most) {
  if (all.size() <= most) return all;
  std::vector<T> out;
  for (std::size_t i = 0; i < most; ++i) out.push_back(all[i * all.size() / most]);
  return out;
}

class Reader {
 public:
  Reader(const RunStore& store, std::stop_token stop, MeasuredRun& out)
      : store_(store), stop_(std::move(stop)), out_(out) {}

  Status read(const StepTimes& times) {
    makeScripts();
    findExchanges();
    LOCKSTEP_TRY(readSampled(times.first()));
    LOCKSTEP_TRY(unlessStopped(stop_));
    LOCKSTEP_TRY(readSteps(times));
    scaleExchanges(times);
    return {};
  }

 private:
  using Intervals = std::vector<std::vector<Interval>>;  // by rank and step of the plan
  struct Receive {
    int rank = 0;
    plan::StepId at = 0;
    std::vector<int> exchanges;  // that it receives
  };

  void makeScripts() {
    out_.ranks.resize(static_cast<std::size_t>(out_.plan.mesh.size()));
    for (std::size_t r = 0; r < out_.ranks.size(); ++r) {
      MeasuredRun::Rank& rank = out_.ranks[r];
      const auto& entries = out_.plan.entriesOf(static_cast<int>(r));
      for (std::size_t e = 0; e < entries.size(); ++e)
        for (const plan::Step& step :
             out_.plan.find(entries[e].program, static_cast<int>(r))->steps) {
          rank.script.push_back(&step);
          rank.entryOf.push_back(e);
        }
      rank.exchange.assign(rank.script.size(), -1);
      rank.seconds.assign(rank.script.size(), 0);
    }
  }

  const std::vector<int>& groupOf(int rank, const std::string& axis) {
    const auto [known, isNew] = groups_.try_emplace({rank, axis});
    if (isNew) known->second = out_.plan.mesh.group(rank, axis);
    return known->second;
  }
  std::vector<int> peersOf(int rank, std::size_t at) {
    const MeasuredRun::Rank& own = out_.ranks[static_cast<std::size_t>(rank)];
    const plan::Step& step = *own.script[at];
    const int copy = out_.plan.entriesOf(rank)[own.entryOf[at]].copy;
    const plan::Peers peers = plan::peersOf(step, copy);
    const std::vector<int>& group = groupOf(rank, step.axis);
    return {group.begin() + peers.first, group.begin() + peers.first + peers.count};
  }

  // All ranks of a group run its collectives in one order; messages between two ranks arrive in
  // the order in which they are sent.
  void findExchanges() {
    std::map<std::tuple<std::string_view, int, int>, int> collectives;
    std::map<std::pair<int, int>, std::vector<int>> sent;  // exchanges, from and to
    out_.scalesExchanges = true;
    for (int r = 0; r < static_cast<int>(out_.ranks.size()); ++r) {
      MeasuredRun::Rank& rank = out_.ranks[static_cast<std::size_t>(r)];
      std::map<std::string_view, int> ordinals;  // by axis
      for (std::size_t i = 0; i < rank.script.size(); ++i) {
        const plan::Step& step = *rank.script[i];
        if (step.kind != plan::StepKind::kCollective) continue;
        const bool isMessage = plan::isMessage(step);
        if (isMessage || step.stream != plan::kComputeStream) out_.scalesExchanges = false;
        if (isMessage && !plan::isSend(step)) continue;
        int exchange = static_cast<int>(out_.exchanges.size());
        if (isMessage)
          for (const int peer : peersOf(r, i)) sent[{r, peer}].push_back(exchange);
        else
          exchange = collectives
                         .try_emplace({step.axis, groupOf(r, step.axis)[0], ordinals[step.axis]++},
                                      exchange)
                         .first->second;
        if (exchange == static_cast<int>(out_.exchanges.size())) out_.exchanges.emplace_back();
        if (isMessage) out_.exchanges.back().receivers = peersOf(r, i);
        out_.exchanges[static_cast<std::size_t>(exchange)].places.emplace_back(
            r, static_cast<plan::StepId>(i));
        rank.exchange[i] = exchange;
      }
    }
    if (out_.exchanges.empty()) out_.scalesExchanges = false;
    findReceives(std::move(sent));
  }

  void findReceives(std::map<std::pair<int, int>, std::vector<int>> sent) {
    std::map<std::pair<int, int>, std::size_t> received;
    for (int r = 0; r < static_cast<int>(out_.ranks.size()); ++r) {
      const MeasuredRun::Rank& rank = out_.ranks[static_cast<std::size_t>(r)];
      for (std::size_t i = 0; i < rank.script.size(); ++i) {
        if (!plan::isMessage(*rank.script[i]) || plan::isSend(*rank.script[i])) continue;
        Receive receive{r, static_cast<plan::StepId>(i), {}};
        for (const int peer : peersOf(r, i)) {
          const std::vector<int>& all = sent[{peer, r}];
          if (const std::size_t next = received[{peer, r}]++; next < all.size())
            receive.exchanges.push_back(all[next]);
        }
        receives_.push_back(std::move(receive));
      }
    }
  }

  // Of the steps that are replayed; where none of these was sampled, of the last one before them.
  Status readSampled(std::int64_t first) {
    std::vector<std::int64_t> before, usable;
    for (const auto& [step, slow, ranks] : store_.eventSteps())
      if (!slow && step > analysis::kWarmUpSteps && step > out_.plan.uncompressedWarmupSteps)
        (step < first ? before : usable).push_back(step);
    for (const std::int64_t step : thinned(usable, kMostSampled)) LOCKSTEP_TRY(addSampleOf(step));
    before.insert(before.end(), usable.begin(), usable.end());  // those that were left out
    for (; out_.sampled.empty() && !before.empty(); before.pop_back())
      LOCKSTEP_TRY(addSampleOf(before.back()));
    if (out_.sampled.empty())
      return notReplayed(
          out_.run, "the history has the events of none of its steps after the first five",
          "events are recorded of every 50th step, and on request: lockstep profile RUN");
    averageSamples();
    return {};
  }

  // Adds nothing where not all ranks have told their events.
  Status addSampleOf(std::int64_t step) {
    LOCKSTEP_TRY(unlessStopped(stop_));
    LOCKSTEP_ASSIGN(const StepEvents read, readEvents(store_, step));
    if (const auto intervals = intervalsOf(read.events)) addSample(step, *intervals);
    return {};
  }

  void averageSamples() {
    const auto count = static_cast<double>(out_.sampled.size());
    for (MeasuredRun::Rank& rank : out_.ranks)
      for (std::size_t i = 0; i < rank.script.size(); ++i) {
        rank.seconds[i] /= count;
        if (rank.script[i]->kind == plan::StepKind::kCompute)
          rank.usual[static_cast<std::size_t>(ownPartOf(rank.script[i]->phase))] += rank.seconds[i];
      }
    for (MeasuredRun::Exchange& exchange : out_.exchanges) {
      for (const double seconds : exchange.inStep) exchange.seconds += seconds / count;
    }
  }

  // None where they are not those of all ranks.
  std::optional<Intervals> intervalsOf(const std::vector<plan::Event>& events) const {
    Intervals out(out_.ranks.size());
    for (std::size_t r = 0; r < out.size(); ++r) out[r].resize(out_.ranks[r].script.size());
    for (const plan::Event& event : events) {
      if (event.rank < 0 || static_cast<std::size_t>(event.rank) >= out.size()) continue;
      std::vector<Interval>& ofRank = out[static_cast<std::size_t>(event.rank)];
      if (event.planStep < 0 || static_cast<std::size_t>(event.planStep) >= ofRank.size() ||
          event.end < event.begin)
        continue;
      Interval& one = ofRank[static_cast<std::size_t>(event.planStep)];
      one.begin = one.isKnown ? std::min(one.begin, event.begin) : event.begin;
      one.end = one.isKnown ? std::max(one.end, event.end) : event.end;
      one.isKnown = true;
    }
    for (const auto& ofRank : out)
      if (!std::all_of(ofRank.begin(), ofRank.end(), [](const Interval& i) { return i.isKnown; }))
        return std::nullopt;
    return out;
  }

  void addSample(std::int64_t step, const Intervals& intervals) {
    out_.sampled.push_back(step);
    const auto at = [&](int rank, plan::StepId id) {
      return intervals[static_cast<std::size_t>(rank)][static_cast<std::size_t>(id)];
    };
    for (std::size_t r = 0; r < out_.ranks.size(); ++r)
      for (std::size_t i = 0; i < intervals[r].size(); ++i)
        if (out_.ranks[r].script[i]->kind == plan::StepKind::kCompute)
          out_.ranks[r].seconds[i] += intervals[r][i].seconds();
    for (MeasuredRun::Exchange& exchange : out_.exchanges) {
      const auto& [rank, id] = exchange.places.front();
      const plan::Step& first =
          *out_.ranks[static_cast<std::size_t>(rank)].script[static_cast<std::size_t>(id)];
      double seconds = 0;  // of messages: their receivers tell
      if (!plan::isMessage(first)) {
        std::int64_t last = at(rank, id).begin;  // to arrive
        for (const auto& [member, place] : exchange.places)
          last = std::max(last, at(member, place).begin);
        for (const auto& [member, place] : exchange.places)
          seconds += static_cast<double>(at(member, place).end - last) * 1e-9 /
                     static_cast<double>(exchange.places.size());
      }
      exchange.inStep.push_back(std::max(seconds, 0.0));
    }
    addMessages(at);
  }

  // A message that was sent after its receiver had begun to wait took until the end of the receive.
  // Of one that was sent before, that is the most, and the receive itself the least; between these
  // it took as long as others of its size. `at` returns when a step of a rank's plan ran.
  template <typename F>
  void addMessages(F at) {
    struct Bounds {
      double least = 0, most = 0;
      std::int64_t bytes = 0;
    };
    std::vector<Bounds> all;
    std::map<std::int64_t, std::vector<double>> exact;  // by size
    for (const Receive& receive : receives_) {
      const Interval own = at(receive.rank, receive.at);
      std::int64_t sent = std::numeric_limits<std::int64_t>::min();
      for (const int exchange : receive.exchanges) {
        const auto& [rank, id] = out_.exchanges[static_cast<std::size_t>(exchange)].places.front();
        sent = std::max(sent, at(rank, id).begin);
      }
      Bounds& bounds = all.emplace_back();
      if (receive.exchanges.empty()) continue;
      const auto until = [&](std::int64_t begin) {
        return std::max(0.0, static_cast<double>(own.end - begin) * 1e-9);
      };
      bounds = {until(std::max(own.begin, sent)), until(sent),
                out_.ranks[static_cast<std::size_t>(receive.rank)]
                        .script[static_cast<std::size_t>(receive.at)]
                        ->bytes /
                    static_cast<std::int64_t>(receive.exchanges.size())};
      if (sent >= own.begin) exact[bounds.bytes].push_back(bounds.least);
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto known = exact.find(all[i].bytes);
      const double seconds =
          known == exact.end() ? all[i].least
                               : std::clamp(lowerMedian(known->second), all[i].least, all[i].most);
      for (const int exchange : receives_[i].exchanges) {
        double& longest = out_.exchanges[static_cast<std::size_t>(exchange)].inStep.back();
        longest = std::max(longest, seconds);
      }
    }
  }

  // The cells of steps that all ranks have reported.
  std::vector<std::size_t> reportedCells(const StepTimes& times) const {
    constexpr std::array kNeeded{StepMeasure::kStep,     StepMeasure::kForward,
                                 StepMeasure::kBackward, StepMeasure::kOptimizer,
                                 StepMeasure::kWaiting,  StepMeasure::kTransfer};
    std::vector<std::size_t> out;
    if (times.ranks() < out_.ranks.size() || times.stride() > 1) return out;
    for (std::size_t cell = 0; cell < times.cells(); ++cell) {
      bool isKnown = times.stepOf(cell) > out_.plan.uncompressedWarmupSteps;
      for (std::size_t r = 0; isKnown && r < out_.ranks.size(); ++r)
        for (const StepMeasure measure : kNeeded)
          isKnown = isKnown && std::isfinite(times.of(measure, r)[cell]);
      if (isKnown) out.push_back(cell);
    }
    return out;
  }

  Status readSteps(const StepTimes& times) {
    std::size_t planSteps = 0;
    for (const MeasuredRun::Rank& rank : out_.ranks) planSteps += rank.script.size();
    const std::size_t most =
        std::clamp(kMostPlanSteps / std::max<std::size_t>(planSteps, 1), kLeastSteps, kMostSteps);
    cells_ = thinned(reportedCells(times), most);
    if (times.stride() > 1)
      return notReplayed(out_.run, "it has more steps than can be read at once",
                         "replay its last ones: --last 1000");
    if (cells_.empty())
      return notReplayed(out_.run, "no step after the first five has been reported by all ranks");
    for (const std::size_t cell : cells_) {
      const std::int64_t step = times.stepOf(cell);
      out_.steps.push_back(step);
      const std::int64_t sample = nearestSampled(out_.sampled, step);
      out_.nearestSample.push_back(static_cast<std::size_t>(
          std::lower_bound(out_.sampled.begin(), out_.sampled.end(), sample) -
          out_.sampled.begin()));
    }
    for (std::size_t r = 0; r < out_.ranks.size(); ++r)
      for (const std::size_t cell : cells_) addCell(times, r, cell);
    return {};
  }

  void addCell(const StepTimes& times, std::size_t r, std::size_t cell) {
    MeasuredRun::Rank& rank = out_.ranks[r];
    const auto seconds = [&](StepMeasure measure) {
      return static_cast<double>(times.of(measure, r)[cell]);
    };
    const double length = seconds(StepMeasure::kStep);
    PartSeconds parts{0, seconds(StepMeasure::kForward), seconds(StepMeasure::kBackward),
                      seconds(StepMeasure::kOptimizer)};
    double other = length - communication(times, r, cell);
    for (std::size_t p = 1; p < kOwnParts; ++p) {
      other -= parts[p];
      // Computed in a part of which the plan has no steps.
      if (rank.usual[p] <= 0) parts[0] += std::exchange(parts[p], 0);
    }
    const double stalled = seconds(StepMeasure::kStalled);
    parts[0] += std::max(other, 0.0) + (out_.scalesExchanges ? 0 : stalled);
    for (std::size_t p = 0; p < kOwnParts; ++p) rank.parts[p].push_back(parts[p]);
    rank.length.push_back(length);
    rank.stalled.push_back(out_.scalesExchanges ? stalled : 0);
    rank.stalledAfter.push_back(0);
  }

  static double communication(const StepTimes& times, std::size_t rank, std::size_t cell) {
    return static_cast<double>(times.of(StepMeasure::kWaiting, rank)[cell]) +
           static_cast<double>(times.of(StepMeasure::kTransfer, rank)[cell]);
  }

  // A rank communicates at least as long as its exchanges take. `inStep` returns those seconds of
  // an exchange.
  template <typename F>
  double leastShare(const StepTimes& times, std::size_t cell, F inStep) const {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r < out_.ranks.size(); ++r) {
      double all = 0;
      for (const int exchange : out_.ranks[r].exchange)
        if (exchange >= 0) all += inStep(out_.exchanges[static_cast<std::size_t>(exchange)]);
      if (all > 0) least = std::min(least, communication(times, r, cell) / all);
    }
    return std::isfinite(least) ? least : 1;
  }

  // The least communication of the ranks, beside that of sampled steps in which the exchanges are
  // known.
  void scaleExchanges(const StepTimes& times) {
    out_.exchangeScale.assign(cells_.size(), 1);
    if (!out_.scalesExchanges) return;
    std::vector<double> shares;
    for (std::size_t k = 0; k < out_.sampled.size(); ++k) {
      const std::int64_t cell = out_.sampled[k] - times.stepOf(0);
      if (cell < 0 || static_cast<std::size_t>(cell) >= times.cells()) continue;
      const double share =
          leastShare(times, static_cast<std::size_t>(cell),
                     [&](const MeasuredRun::Exchange& one) { return one.inStep[k]; });
      if (std::isfinite(share) && share > 0) shares.push_back(share);
    }
    const double usual = shares.empty() ? 1 : lowerMedian(shares);
    for (std::size_t s = 0; s < cells_.size(); ++s)
      out_.exchangeScale[s] =
          leastShare(times, cells_[s],
                     [](const MeasuredRun::Exchange& one) { return one.seconds; }) /
          usual;
    separateStalls(times);
  }

  // Exchanges take the least communication of the ranks. A stall that is longer than what a step's
  // exchanges took beyond the usual went on after the others had left them: they waited for the
  // rank at the next exchange, as long as its transfer took more. Process samples tell less
  // exactly.
  void separateStalls(const StepTimes& times) {
    const double usual = median(out_.exchangeScale);
    for (std::size_t r = 0; r < out_.ranks.size(); ++r) {
      MeasuredRun::Rank& rank = out_.ranks[r];
      const double all = out_.exchangeSeconds(rank);
      for (std::size_t s = 0; s < cells_.size(); ++s) {
        const double scale = out_.exchangeScale[s], within = std::max(scale - usual, 0.0) * all;
        if (rank.stalled[s] <= within) continue;
        const double transfer = times.of(StepMeasure::kTransfer, r)[cells_[s]];
        rank.stalledAfter[s] = std::max(transfer - scale * all, 0.0);
        rank.stalled[s] = within;
      }
    }
  }

  const RunStore& store_;
  std::stop_token stop_;
  MeasuredRun& out_;
  std::map<std::pair<int, std::string>, std::vector<int>> groups_;
  std::vector<Receive> receives_;
  std::vector<std::size_t> cells_;  // of the replayed steps
};

Result<plan::Plan> planOf(const RunRow& row, const RunDocuments& documents) {
  auto plan = plan::parse(documents.plan);
  if (documents.plan.empty() || !plan.ok())
    return notReplayed(row.run, "the history has no plan of it");
  if (plan->strategy == specs::kProgramStrategy)
    return notReplayed(row.run, "it is a program of the user's own, of which there is no plan");
  if (plan->isAsynchronous())
    return notReplayed(row.run,
                       "its training is asynchronous: its ranks do not wait for each other");
  if (plan->mesh.size() != row.world)
    return notReplayed(row.run, message("it was planned for {} ranks and went on with {}",
                                        plan->mesh.size(), row.world));
  if (const Status verified = plan::verify(*plan); !verified.ok())
    return notReplayed(row.run, message("the plan that the history has of it is damaged: {}",
                                        verified.error().text()));
  return plan;
}

std::map<std::pair<std::string, std::string>, double> linkRatesOf(
    const RunStore& store, const std::vector<std::string>& nodes) {
  constexpr int kMostPoints = 500;
  std::map<std::pair<std::string, std::string>, double> out;
  for (const SeriesInfo& info : store.series()) {
    if (!info.name.starts_with("node/") || !info.name.ends_with("/rate")) continue;
    for (const std::string& from : nodes)
      for (const std::string& to : nodes) {
        if (info.name != fmt::format("node/{}/to/{}/rate", from, to)) continue;
        const auto spans = store.read(info.name, info.firstX, info.lastX, kMostPoints);
        std::vector<double> rates;
        if (spans.ok())
          for (const Span& span : *spans) rates.push_back(span.last);
        if (!rates.empty()) out[{from, to}] = lowerMedian(rates);
      }
  }
  return out;
}

}  // namespace

OwnPart ownPartOf(ir::Phase phase) {
  switch (phase) {
    case ir::Phase::kBackward:
      return OwnPart::kBackward;
    case ir::Phase::kOptimizer:
    case ir::Phase::kWatch:
      return OwnPart::kOptimizer;
    default:
      return OwnPart::kForward;
  }
}

double MeasuredRun::length(std::size_t step) const {
  double sum = 0;
  for (const Rank& rank : ranks) sum += rank.length[step];
  return sum / static_cast<double>(ranks.size());
}

double MeasuredRun::exchangeSeconds(const Rank& rank) const {
  double sum = 0;
  for (const int exchange : rank.exchange)
    if (exchange >= 0) sum += exchanges[static_cast<std::size_t>(exchange)].seconds;
  return sum;
}

Status unlessStopped(const std::stop_token& stop) {
  if (stop.stop_requested()) return makeError(Code::kCancelled, "the replay was cancelled");
  return {};
}

Result<MeasuredRun> readMeasuredRun(const History& history, const RunRow& row, std::int64_t last,
                                    std::stop_token stop) {
  MeasuredRun out;
  out.run = row.run;
  LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(row.run));
  LOCKSTEP_ASSIGN(out.plan, planOf(row, documents));
  LOCKSTEP_ASSIGN(const auto store, history.openRun(row.run));
  if (const PlanFacts facts = planFactsOf(documents, *store); facts.sharesFrom > 1)
    return notReplayed(row.run,
                       message("its batch was divided anew after step {}", facts.sharesFrom - 1));
  if (const auto prediction = parsePrediction(documents.prediction);
      prediction.ok() && !regrouped(*store) &&
      prediction->ranks.size() == static_cast<std::size_t>(row.world))
    for (const RankPreview& rank : prediction->ranks) out.nodes.push_back(rank.node);
  const std::set<std::string> nodes(out.nodes.begin(), out.nodes.end());
  out.linkRates = linkRatesOf(*store, {nodes.begin(), nodes.end()});
  LOCKSTEP_TRY(unlessStopped(stop));
  LOCKSTEP_ASSIGN(const StepMatrix matrix, storedSteps(*store, last));
  const StepTimes times(matrix, last > 0 ? matrix.steps() - last + 1 : 1, matrix.steps());
  LOCKSTEP_TRY(Reader(*store, std::move(stop), out).read(times));
  return out;
}

}  // namespace lockstep::app
