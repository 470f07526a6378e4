#include "app/runs/rank_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/analysis/analysis.h"
#include "engine/base/statistics.h"
#include "engine/plan/plan.h"

namespace lockstep::app {
namespace {

constexpr double kLate = 0.25;  // of the median step
constexpr int kMostGpus = 64;   // of a node

constexpr std::array<StepMeasure, 8> kMeasures{
    StepMeasure::kStep,    StepMeasure::kData,     StepMeasure::kForward,   StepMeasure::kBackward,
    StepMeasure::kWaiting, StepMeasure::kTransfer, StepMeasure::kOptimizer, StepMeasure::kStalled};

// What a rank costs in one cell.
struct Excess {
  std::size_t rank = 0, phase = 0;
  double seconds = 0;
  std::int64_t step = 0;
};

void add(RankCost& cost, const Excess& excess, double lateFrom) {
  cost.seconds += excess.seconds;
  cost.phases[excess.phase] += excess.seconds;
  if (excess.seconds < lateFrom) return;
  ++cost.lateSteps;
  if (cost.firstLate == 0) cost.firstLate = excess.step;
  cost.lastLate = excess.step;
}

double ownSeconds(const StepTimes& times, std::size_t rank, std::size_t cell) {
  const auto at = [&](StepMeasure measure) {
    return static_cast<double>(times.of(measure, rank)[cell]);
  };
  return at(StepMeasure::kStep) - at(StepMeasure::kWaiting) - at(StepMeasure::kTransfer) +
         at(StepMeasure::kStalled);
}

// Whether the rank has reported the step.
bool isKnown(const StepTimes& times, std::size_t rank, std::size_t cell) {
  return std::all_of(kMeasures.begin(), kMeasures.end(), [&](StepMeasure measure) {
    return std::isfinite(times.of(measure, rank)[cell]);
  });
}

// The longest rank's step; NaN if a rank has not reported all.
double stepSeconds(const StepTimes& times, std::size_t cell) {
  double out = 0;
  for (std::size_t r = 0; r < times.ranks(); ++r) {
    if (!isKnown(times, r, cell)) return std::nan("");
    out = std::max(out, static_cast<double>(times.of(StepMeasure::kStep, r)[cell]));
  }
  return out;
}

// Returns the ranks that make the others wait.
std::vector<Excess> excessesOf(const StepTimes& times, std::size_t cell,
                               const std::vector<double>& samples) {
  std::vector<double> all;
  for (std::size_t r = 0; r < times.ranks(); ++r) all.push_back(ownSeconds(times, r, cell));
  const std::vector<double> seconds =
      analysis::excessSeconds(all, analysis::usualSeconds(all, samples));
  std::vector<Excess> out;
  for (std::size_t r = 0; r < times.ranks(); ++r)
    if (seconds[r] > 0)
      out.push_back({.rank = r, .seconds = seconds[r], .step = times.stepOf(cell)});
  if (out.empty()) return out;
  std::vector<double> most(out.size(), -1);
  for (std::size_t p = 0; p < kCostPhases.size(); ++p) {
    for (std::size_t r = 0; r < times.ranks(); ++r) all[r] = times.of(kCostPhases[p], r)[cell];
    const std::vector<double> usual = analysis::usualSeconds(all, samples);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double over = all[out[i].rank] - usual[out[i].rank];
      if (over <= most[i]) continue;
      most[i] = over;
      out[i].phase = p;
    }
  }
  return out;
}

std::string nodeOf(std::span<const std::string> nodes, std::size_t rank) {
  return rank < nodes.size() ? nodes[rank] : std::string();
}

std::optional<double> meanOfKnown(std::span<const float> values) {
  double sum = 0;
  int count = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

}  // namespace

std::size_t RankCost::mainPhase() const {
  return static_cast<std::size_t>(std::max_element(phases.begin(), phases.end()) - phases.begin());
}

StepTimes::StepTimes(const StepMatrix& matrix, std::int64_t first, std::int64_t last)
    : first_(std::max(first, analysis::kWarmUpSteps + 1)),
      last_(std::min(last, matrix.steps())),
      stride_(matrix.stride()),
      ranks_(static_cast<std::size_t>(matrix.ranks())) {
  if (first_ > last_ || ranks_ == 0) return;
  const std::int64_t most =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kMostCells / ranks_));
  fromCell_ = std::max(matrix.cellOf(first_), matrix.cellOf(last_) - most + 1);
  first_ = std::max(first_, fromCell_ * stride_ + 1);
  cells_ = static_cast<std::size_t>(matrix.cellOf(last_) - fromCell_ + 1);
  began_ = matrix.began(0, first_);
  ended_ = matrix.began(0, last_);
  for (std::size_t m = 0; m < kMeasures.size(); ++m) {
    values_[m].resize(ranks_ * cells_);
    for (std::size_t r = 0; r < ranks_; ++r)
      matrix.read(kMeasures[m], static_cast<int>(r), fromCell_, cells_,
                  values_[m].data() + r * cells_);
    if (kMeasures[m] == StepMeasure::kStalled)
      std::replace_if(
          values_[m].begin(), values_[m].end(), [](float value) { return std::isnan(value); },
          0.0F);
  }
}

std::span<const float> StepTimes::of(StepMeasure measure, std::size_t rank) const {
  const auto found = std::find(kMeasures.begin(), kMeasures.end(), measure);
  const auto& values = values_[static_cast<std::size_t>(found - kMeasures.begin())];
  return std::span(values).subspan(rank * cells_, cells_);
}

RankCosts rankCosts(const StepTimes& times, std::span<const std::string> nodes,
                    const std::vector<double>& samples) {
  RankCosts out;
  out.first = times.first();
  out.last = times.last();
  out.atMost = times.stride() > 1;
  if (times.ranks() < 2) return out;
  std::vector<double> lengths;  // of the cells that all ranks have
  std::vector<std::vector<Excess>> excesses;
  double total = 0;
  for (std::size_t c = 0; c < times.cells(); ++c) {
    const double length = stepSeconds(times, c);
    if (std::isnan(length)) continue;
    lengths.push_back(length);
    total += length;
    excesses.push_back(excessesOf(times, c, samples));
  }
  std::map<std::string, RankCost> byNode;
  for (std::size_t r = 0; r < times.ranks(); ++r) {
    const std::string node = nodeOf(nodes, r);
    out.ranks.push_back({.rank = static_cast<int>(r), .node = node});
    if (!node.empty()) byNode[node].node = node;
  }
  const double lateFrom = lengths.empty() ? 0 : kLate * lowerMedian(lengths);
  for (const std::vector<Excess>& cell : excesses) {
    std::map<std::string, Excess> worst;  // of each node: the others wait for its last rank
    for (const Excess& one : cell) {
      add(out.ranks[one.rank], one, lateFrom);
      Excess& node = worst[out.ranks[one.rank].node];
      if (one.seconds > node.seconds) node = one;
    }
    for (const auto& [name, one] : worst)
      if (!name.empty()) add(byNode[name], one, lateFrom);
  }
  for (auto& [name, cost] : byNode) out.nodes.push_back(cost);
  const auto count = static_cast<double>(lengths.size());
  out.steps = static_cast<std::int64_t>(lengths.size()) * times.stride();
  out.stepSeconds = lengths.empty() ? 0 : total / count;
  for (std::vector<RankCost>* costs : {&out.ranks, &out.nodes}) {
    for (RankCost& cost : *costs) {
      cost.share = total > 0 ? cost.seconds / total : 0;
      cost.withoutSeconds = lengths.empty() ? 0 : out.stepSeconds - cost.seconds / count;
    }
    std::stable_sort(costs->begin(), costs->end(),
                     [](const RankCost& a, const RankCost& b) { return a.seconds > b.seconds; });
  }
  return out;
}

plan::BatchShares batchSharesOf(const RunDocuments& documents) {
  const auto plan = plan::parse(documents.plan);
  return plan.ok() ? plan::BatchShares(*plan) : plan::BatchShares();
}

MeanOf storedMeans(const RunStore& store, const StepTimes& times) {
  return [&store, from = times.began(),
          to = times.ended()](const std::string& series) -> std::optional<double> {
    constexpr int kMostPoints = 500;
    if (std::isnan(from) || std::isnan(to)) return std::nullopt;
    const auto spans = store.read(series, from, to, kMostPoints);
    if (!spans.ok()) return std::nullopt;
    std::vector<float> within, all;  // the spans reach beyond both ends
    for (const Span& span : *spans) {
      all.push_back(static_cast<float>((span.low + span.high) / 2));
      if (span.x >= from && span.x <= to) within.push_back(all.back());
    }
    return meanOfKnown(within.empty() ? all : within);
  };
}

std::vector<PeerFigure> peerFigures(const StepTimes& times, int rank,
                                    std::span<const std::string> nodes, const MeanOf& meanOf) {
  using Figure = std::optional<double>;
  std::vector<PeerFigure> out;
  // `of` returns a figure of a rank.
  const auto compare = [&](std::string name, const std::function<Figure(int)>& of) {
    const Figure own = of(rank);
    std::vector<double> others;
    for (int r = 0; r < static_cast<int>(times.ranks()); ++r) {
      if (r == rank) continue;
      if (const Figure one = of(r)) others.push_back(*one);
    }
    if (own && !others.empty()) out.push_back({std::move(name), *own, lowerMedian(others)});
  };
  static constexpr std::array<const char*, 7> kNames{"step",    "data",     "forward",  "backward",
                                                     "waiting", "transfer", "optimizer"};
  for (std::size_t m = 0; m < kNames.size(); ++m)
    compare(kNames[m], [&](int r) {
      return meanOfKnown(times.of(kMeasures[m], static_cast<std::size_t>(r)));
    });
  for (const char* name : {"cpu", "memory"})
    compare(name, [&](int r) { return meanOf(fmt::format("rank/{}/{}", r, name)); });
  if (std::set<std::string>(nodes.begin(), nodes.end()).size() < 2) return out;
  // `of` returns a figure of a node, on which there may be several ranks.
  const auto compareNodes = [&](const char* name,
                                const std::function<Figure(const std::string&)>& of) {
    std::map<std::string, Figure> known;
    for (const std::string& node : nodes)
      if (!node.empty() && !known.contains(node)) known[node] = of(node);
    compare(fmt::format("node/{}", name),
            [&](int r) { return known[nodeOf(nodes, static_cast<std::size_t>(r))]; });
  };
  for (const char* name : {"cpu", "disk_read", "disk_write", "net_in", "net_out"})
    compareNodes(name, [&](const std::string& node) {
      return meanOf(fmt::format("node/{}/{}", node, name));
    });
  for (const char* name : {"gpu/utilisation", "gpu/sm_clock", "gpu/temperature", "gpu/throttled"})
    compareNodes(name, [&](const std::string& node) {
      std::vector<float> gpus;
      for (int gpu = 0; gpu < kMostGpus; ++gpu) {
        const Figure one = meanOf(fmt::format("node/{}/gpu/{}/{}", node, gpu, name + 4));
        if (one) gpus.push_back(static_cast<float>(*one));
      }
      return meanOfKnown(gpus);
    });
  return out;
}

}  // namespace lockstep::app
