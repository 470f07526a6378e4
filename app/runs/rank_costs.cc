#include "app/runs/rank_costs.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "app/specs/spec_text.h"
#include "engine/analysis/analysis.h"
#include "engine/base/statistics.h"
#include "engine/plan/plan.h"
#include "lockstep/run/v1/telemetry.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr double kLate = 0.25;  // of the median step
constexpr int kMostGpus = 64;   // of a node

constexpr std::array<StepMeasure, 8> kMeasures{
    StepMeasure::kStep,    StepMeasure::kData,     StepMeasure::kForward,   StepMeasure::kBackward,
    StepMeasure::kWaiting, StepMeasure::kTransfer, StepMeasure::kOptimizer, StepMeasure::kStalled};

// What a rank, or a node's slowest one, costs in one cell.
struct Excess {
  std::size_t group = 0, phase = 0;
  double seconds = 0;
  double gain = 0;  // by which the step would be shorter
};

void add(RankCost& cost, const Excess& excess, std::int64_t step, std::int64_t stride,
         double lateFrom) {
  const auto steps = static_cast<double>(stride);
  cost.seconds += excess.seconds * steps;
  cost.phases[excess.phase] += excess.seconds * steps;
  cost.withoutSeconds -= excess.gain;
  if (excess.seconds < lateFrom) return;
  cost.lateSteps += stride;
  if (cost.firstLate == 0) cost.firstLate = step;
  cost.lastLate = step + stride - 1;
}

// Where several steps share a cell, the greatest step and the greatest waiting are not of the same.
double ownSeconds(const StepTimes& times, std::size_t rank, std::size_t cell) {
  const auto at = [&](StepMeasure measure) {
    return static_cast<double>(times.of(measure, rank)[cell]);
  };
  if (times.stride() == 1)
    return at(StepMeasure::kStep) - at(StepMeasure::kWaiting) - at(StepMeasure::kTransfer) +
           at(StepMeasure::kStalled);
  double sum = 0;
  for (const StepMeasure phase : kCostPhases) sum += at(phase);
  return sum;
}

// Whether the rank has reported the step.
bool isKnown(const StepTimes& times, std::size_t rank, std::size_t cell) {
  return std::all_of(kMeasures.begin(), kMeasures.end(), [&](StepMeasure measure) {
    return std::isfinite(times.of(measure, rank)[cell]);
  });
}

// How many ranks took part in the step, the first ones; 0: not all have reported it.
std::size_t ranksIn(const StepTimes& times, std::size_t cell, std::size_t world) {
  std::size_t known = 0;
  while (known < times.ranks() && isKnown(times, known, cell)) ++known;
  return known >= world ? known : 0;
}

double stepSeconds(const StepTimes& times, std::size_t cell, std::size_t ranks) {
  double out = 0;
  for (std::size_t r = 0; r < ranks; ++r)
    out = std::max(out, static_cast<double>(times.of(StepMeasure::kStep, r)[cell]));
  return out;
}

// Returns the groups of ranks that make the others wait, each with its slowest rank.
std::vector<Excess> excessesOf(const StepTimes& times, std::size_t cell,
                               const std::vector<double>& samples,
                               const std::vector<std::size_t>& groupOf) {
  const std::size_t ranks = samples.size();
  std::vector<double> own;
  for (std::size_t r = 0; r < ranks; ++r) own.push_back(ownSeconds(times, r, cell));
  const std::vector<double> seconds =
      analysis::excessSeconds(own, analysis::usualSeconds(own, samples));
  // Of each group that has an excess, the rank with the greatest; and the longest times of groups.
  std::map<std::size_t, std::size_t> slowest;
  std::map<std::size_t, double> longest;
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::size_t group = groupOf[r];
    longest[group] = std::max(longest[group], own[r]);
    if (seconds[r] <= 0) continue;
    const auto [found, isNew] = slowest.try_emplace(group, r);
    if (seconds[r] > seconds[found->second]) found->second = r;
  }
  std::vector<Excess> out;
  for (const auto& [group, rank] : slowest) {
    double others = 0;
    for (const auto& [other, time] : longest)
      if (other != group) others = std::max(others, time);
    Excess one{.group = group, .seconds = seconds[rank]};
    one.gain = std::clamp(longest[group] - others, 0.0, one.seconds);
    double most = -1;
    for (std::size_t p = 0; p < kCostPhases.size(); ++p) {
      std::vector<double> all;
      for (std::size_t r = 0; r < ranks; ++r) all.push_back(times.of(kCostPhases[p], r)[cell]);
      const double over = all[rank] - analysis::usualSeconds(all, samples)[rank];
      if (over <= most) continue;
      most = over;
      one.phase = p;
    }
    out.push_back(one);
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
  const std::int64_t from =
      std::max({std::int64_t{0}, matrix.cellOf(first_), matrix.cellOf(analysis::kWarmUpSteps) + 1,
                matrix.cellOf(last_) - most + 1});
  if (from > matrix.cellOf(last_)) return;
  fromStep_ = matrix.firstOf(from);
  first_ = std::max(first_, fromStep_);
  cells_ = static_cast<std::size_t>(matrix.cellOf(last_) - from + 1);
  began_ = matrix.began(0, first_);
  ended_ = matrix.began(0, last_);
  for (std::size_t m = 0; m < kMeasures.size(); ++m) {
    values_[m].resize(ranks_ * cells_);
    for (std::size_t r = 0; r < ranks_; ++r)
      matrix.read(kMeasures[m], static_cast<int>(r), from, cells_, values_[m].data() + r * cells_);
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

RankCosts rankCosts(const StepTimes& times, int world, std::span<const std::string> nodes,
                    const plan::BatchShares& shares) {
  RankCosts out;
  out.first = times.first();
  out.last = times.last();
  out.atMost = times.stride() > 1;
  if (times.ranks() < 2) return out;
  std::vector<std::size_t> rankOf(times.ranks()), nodeOfRank(times.ranks());
  for (std::size_t r = 0; r < times.ranks(); ++r) {
    const std::string node = nodeOf(nodes, r);
    rankOf[r] = r;
    out.ranks.push_back({.rank = static_cast<int>(r), .node = node});
    auto found = std::find_if(out.nodes.begin(), out.nodes.end(),
                              [&](const RankCost& one) { return one.node == node; });
    if (found == out.nodes.end()) found = out.nodes.insert(found, {.node = node});
    nodeOfRank[r] = static_cast<std::size_t>(found - out.nodes.begin());
  }
  const auto members = static_cast<std::size_t>(std::max(world, 2));
  std::map<std::size_t, std::vector<double>> samples;        // by the number of ranks
  std::vector<std::pair<std::size_t, std::size_t>> counted;  // cells, with their ranks
  std::vector<double> lengths;
  for (std::size_t c = 0; c < times.cells(); ++c) {
    const std::size_t ranks = ranksIn(times, c, std::min(members, times.ranks()));
    if (ranks == 0) continue;
    counted.emplace_back(c, ranks);
    lengths.push_back(stepSeconds(times, c, ranks));
    if (samples.contains(ranks)) continue;
    samples[ranks] = shares.of(static_cast<int>(ranks));
    samples[ranks].resize(ranks, 1);  // not known: alike
  }
  double total = 0;
  for (const double length : lengths) total += length;
  const double lateFrom = lengths.empty() ? 0 : kLate * lowerMedian(lengths);
  for (const auto& [cell, ranks] : counted) {
    const std::int64_t step = times.stepOf(cell);
    for (const Excess& one : excessesOf(times, cell, samples[ranks], rankOf))
      add(out.ranks[one.group], one, step, times.stride(), lateFrom);
    for (const Excess& one : excessesOf(times, cell, samples[ranks], nodeOfRank))
      add(out.nodes[one.group], one, step, times.stride(), lateFrom);
  }
  const auto count = static_cast<double>(std::max<std::size_t>(1, lengths.size()));
  out.steps = static_cast<std::int64_t>(lengths.size()) * times.stride();
  out.stepSeconds = total / count;
  std::erase_if(out.nodes, [](const RankCost& one) { return one.node.empty(); });  // not known
  for (std::vector<RankCost>* costs : {&out.ranks, &out.nodes}) {
    for (RankCost& cost : *costs) {
      cost.share = total > 0 ? cost.seconds / (total * static_cast<double>(times.stride())) : 0;
      cost.withoutSeconds = out.stepSeconds + cost.withoutSeconds / count;
    }
    std::stable_sort(costs->begin(), costs->end(),
                     [](const RankCost& a, const RankCost& b) { return a.seconds > b.seconds; });
  }
  return out;
}

Result<StepMatrix> storedSteps(const RunStore& store, std::int64_t last) {
  constexpr double kMost = 1e15;
  const std::vector<SeriesInfo> all = store.series();
  double end = 0;
  for (const SeriesInfo& info : all)
    if (StepMatrix::takes(info.name)) end = std::max(end, std::min(info.lastX, kMost));
  const double before = last > 0 ? std::max(0.0, end - static_cast<double>(last)) : 0;
  StepMatrix out(StepMatrix::kMostCells, static_cast<std::int64_t>(before));
  for (const SeriesInfo& info : all) {
    if (!StepMatrix::takes(info.name)) continue;
    LOCKSTEP_ASSIGN(std::vector<Point> points, store.readAfter(info.name, before));
    out.add({info.name, std::move(points)});
  }
  return out;
}

namespace {

// Samples of a micro-batch that are in one statistics group of every batch norm layer.
std::int64_t samplesTogether(const spec::v1::RunSpec& spec, const plan::Plan& plan) {
  std::int64_t out = 1;
  for (const spec::v1::LayerSpec& layer : spec.model().layers()) {
    const std::int64_t groups = layer.batch_norm().groups() / plan.microBatches;
    if (groups > 1) out = std::lcm(out, plan.batchCuts.back() / groups);
  }
  return out;
}

}  // namespace

PlanFacts planFactsOf(const plan::Plan& plan) {
  PlanFacts out{plan::BatchShares(plan), 1, plan.isAsynchronous()};
  out.microBatches = plan.microBatches;
  if (plan.mesh.axisSize(cluster::kStageAxis) > 1)
    out.evenShares = message("the ranks of a pipeline's stage have equal shares");
  if (!plan.evaluateCuts.empty()) out.evaluateBatch = plan.evaluateCuts.back();
  return out;
}

PlanFacts planFactsOf(const RunDocuments& documents, const RunStore& store) {
  const auto plan = plan::parse(documents.plan);
  if (!plan.ok()) return {};
  PlanFacts out = planFactsOf(*plan);
  if (const auto spec = completeRunSpec(documents.specResolved, {}); spec.ok()) {
    if (spec->spec->strategy().deterministic_parts() > 0)
      out.evenShares =
          message("its gradients are summed in equal parts (strategy.deterministic_parts)");
    out.unit = samplesTogether(*spec->spec, *plan);
  }
  std::map<int, run::v1::Recovering> divisions;  // by generation
  for (const RunBatch::Fact& fact : store.facts()) {
    if (!fact.key.starts_with("recovering") && !fact.key.starts_with("divided")) continue;
    run::v1::Record record;
    const std::size_t node = fact.text.find('\n');
    if (node != std::string::npos &&
        google::protobuf::util::JsonStringToMessage(fact.text.substr(node + 1), &record).ok())
      divisions[record.recovering().generation()] = record.recovering();
  }
  for (const auto& [generation, recovering] : divisions)
    divideAnew(out, {recovering.samples().begin(), recovering.samples().end()},
               recovering.cause().step());
  return out;
}

void divideAnew(PlanFacts& plan, std::vector<double> samples, std::int64_t afterStep) {
  if (samples.empty() || samples == plan.shares.of(static_cast<int>(samples.size()))) return;
  plan.shares.divideAnew(std::move(samples));
  plan.sharesFrom = std::max<std::int64_t>(plan.sharesFrom, afterStep + 1);
}

bool regrouped(const RunStore& store) {
  const std::vector<RunBatch::Fact> facts = store.facts();
  return std::any_of(facts.begin(), facts.end(),
                     [](const RunBatch::Fact& fact) { return fact.key.starts_with("recovering"); });
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
  // `of` returns a figure of a node.
  const std::string ownNode = nodeOf(nodes, static_cast<std::size_t>(rank));
  const auto compareNodes = [&](const char* name,
                                const std::function<Figure(const std::string&)>& of) {
    std::map<std::string, Figure> known;
    for (const std::string& node : nodes)
      if (!node.empty() && !known.contains(node)) known[node] = of(node);
    std::vector<double> others;
    for (const auto& [node, figure] : known)
      if (node != ownNode && figure) others.push_back(*figure);
    if (const Figure own = known[ownNode]; own && !others.empty())
      out.push_back({fmt::format("node/{}", name), *own, lowerMedian(others)});
  };
  for (const char* name : {"cpu", "disk_read", "disk_write", "disk_busy", "net_in", "net_out"})
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
