#include "app/whatif/measured_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <stop_token>
#include <utility>

#include "app/runs/preview.h"
#include "app/runs/rank_costs.h"
#include "app/runs/step_events.h"
#include "app/runs/step_timeline.h"
#include "app/whatif/sampled_steps.h"
#include "engine/analysis/analysis.h"
#include "engine/base/statistics.h"
#include "engine/specs/workload.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kMostSampled = 64;
constexpr std::size_t kMostSteps = 2000;           // replayed
constexpr std::size_t kMostPlanSteps = 3'000'000;  // of all ranks, in all steps of a replay
constexpr std::size_t kLeastSteps = 20;

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

// Returns how many steps each sampled one stands for: those that are nearer to it than to another.
// Else steps that are recorded close together, as at a straggler, would weigh more than others.
std::vector<double> weightsOf(const std::vector<std::int64_t>& sampled) {
  std::vector<double> out(sampled.size(), 1);
  for (std::size_t i = 0; i < sampled.size() && sampled.size() > 1; ++i) {
    const std::size_t left = std::max<std::size_t>(i, 1) - 1,
                      right = std::min(i + 1, sampled.size() - 1);
    out[i] =
        static_cast<double>(sampled[right] - sampled[left]) / static_cast<double>(right - left);
  }
  return out;
}

class Reader {
 public:
  Reader(const RunStore& store, std::stop_token stop, MeasuredRun& out)
      : store_(store), stop_(std::move(stop)), out_(out), samples_(out) {}

  Status read(const StepTimes& times) {
    LOCKSTEP_TRY(readSampled(times.first()));
    LOCKSTEP_TRY(unlessStopped(stop_));
    LOCKSTEP_TRY(readSteps(times));
    scaleExchanges(times);
    return {};
  }

 private:
  // Of the steps that are replayed; where none of these was sampled, of the last one before them.
  Status readSampled(std::int64_t first) {
    std::vector<std::int64_t> before, usable;
    for (const auto& [step, slow, ranks] : store_.eventSteps())
      if (!slow && step > analysis::kWarmUpSteps && step > out_.plan.uncompressedWarmupSteps)
        (step < first ? before : usable).push_back(step);
    const std::vector<std::int64_t> chosen = thinned(usable, kMostSampled);
    const std::vector<double> weights = weightsOf(chosen);
    for (std::size_t i = 0; i < chosen.size(); ++i)
      LOCKSTEP_TRY(addSampleOf(chosen[i], weights[i]));
    before.insert(before.end(), usable.begin(), usable.end());  // those that were left out
    for (; out_.sampled.empty() && !before.empty(); before.pop_back())
      LOCKSTEP_TRY(addSampleOf(before.back(), 1));
    if (out_.sampled.empty())
      return notReplayed(
          out_.run, "the history has the events of none of its steps after the first five",
          "events are recorded of every 50th step, and on request: lockstep profile RUN");
    samples_.average();
    return {};
  }

  // Adds nothing where not all ranks have told their events.
  Status addSampleOf(std::int64_t step, double weight) {
    LOCKSTEP_TRY(unlessStopped(stop_));
    LOCKSTEP_ASSIGN(const StepEvents read, readEvents(store_, step));
    samples_.add(step, weight, read.events);
    return {};
  }

  // The cells of steps that all ranks have reported.
  std::vector<std::size_t> reportedCells(const StepTimes& times) const {
    constexpr std::array kNeeded{StepMeasure::kStep,     StepMeasure::kForward,
                                 StepMeasure::kBackward, StepMeasure::kOptimizer,
                                 StepMeasure::kWaiting,  StepMeasure::kTransfer};
    std::vector<std::size_t> out;
    if (times.ranks() < out_.ranks.size()) return out;
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
  SampledSteps samples_;
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
  std::map<std::string, SeriesInfo> known;
  for (const SeriesInfo& info : store.series())
    if (info.name.starts_with("node/") && info.name.ends_with("/rate")) known[info.name] = info;
  std::map<std::pair<std::string, std::string>, double> out;
  for (const std::string& from : nodes)
    for (const std::string& to : nodes) {
      const auto found = known.find(fmt::format("node/{}/to/{}/rate", from, to));
      if (found == known.end()) continue;
      const auto& [name, info] = *found;
      const auto spans = store.read(name, info.firstX, info.lastX, kMostPoints);
      std::vector<double> rates;
      if (spans.ok())
        for (const Span& span : *spans) rates.push_back(span.last);
      if (!rates.empty()) out[{from, to}] = lowerMedian(rates);
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

std::int64_t MeasuredRun::bytesOfMessage(int rank, plan::StepId id) const {
  const Rank& own = ranks[static_cast<std::size_t>(rank)];
  const auto at = static_cast<std::size_t>(id);
  return own.script[at]->bytes / std::max(own.messages[at], 1);
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
  // Ranks that have left the run have steps too; of more, steps would share cells.
  const int ranks = std::max({1, row.world, out.plan.mesh.size()});
  const auto most = static_cast<std::int64_t>(StepTimes::kMostCells) / ranks;
  last = last > 0 ? std::min(last, most) : most;
  LOCKSTEP_ASSIGN(const StepMatrix matrix, storedSteps(*store, last));
  const StepTimes times(matrix, matrix.steps() - last + 1, matrix.steps());
  LOCKSTEP_TRY(Reader(*store, std::move(stop), out).read(times));
  return out;
}

}  // namespace lockstep::app
