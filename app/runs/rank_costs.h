// RankCosts: how long each rank, and each node, made the others of a run wait, and in which phase,
// by the steps of a StepMatrix. A rank's own time is its step without waiting and transfer, but
// with the part of the transfer in which its process did not run; where several steps share a cell,
// the sum of its phases. What it costs is its excess over the usual (engine/analysis). No threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/history/history.h"
#include "app/history/run_store.h"
#include "app/runs/step_matrix.h"
#include "engine/plan/batch_shares.h"

namespace lockstep::app {

// A copy of what a StepMatrix has of steps `first` to `last`, without cells of those that warm up.
// Of more than kMostCells steps of ranks, the last ones.
class StepTimes {
 public:
  static constexpr std::size_t kMostCells = std::size_t{1} << 21;  // 64 MiB

  StepTimes(const StepMatrix& matrix, std::int64_t first, std::int64_t last);
  std::int64_t first() const { return first_; }  // beyond last(): there are none
  std::int64_t last() const { return last_; }
  std::int64_t stride() const { return stride_; }  // steps of a cell
  std::size_t ranks() const { return ranks_; }
  std::size_t cells() const { return cells_; }
  std::int64_t stepOf(std::size_t cell) const {
    return fromStep_ + static_cast<std::int64_t>(cell) * stride_;
  }
  // Seconds; NaN: not reported. Of the measures that are no sums. Of kStalled 0 instead.
  std::span<const float> of(StepMeasure measure, std::size_t rank) const;
  // The wall clock of rank 0's node when the first and the last step began; NaN: not known.
  double began() const { return began_; }
  double ended() const { return ended_; }

 private:
  std::int64_t first_, last_, stride_, fromStep_ = 1;  // fromStep_: of the first cell
  std::size_t ranks_, cells_ = 0;
  double began_ = 0, ended_ = 0;
  std::array<std::vector<float>, 8> values_;  // by measure: rank, cell
};

// The steps that the history has of a run, of its last `last` ones alone unless it is 0.
Result<StepMatrix> storedSteps(const RunStore& store, std::int64_t last = 0);

struct RankCost {
  int rank = -1;  // -1: of a node
  std::string node;
  double seconds = 0;              // that the others waited for it or for a slower one
  double share = 0;                // of the time of all steps
  std::array<double, 5> phases{};  // of `seconds`, by kCostPhases
  // Steps that it made longer by at least a quarter of the median step, and the first and the last
  // of them; 0: none.
  std::int64_t lateSteps = 0, firstLate = 0, lastLate = 0;
  double withoutSeconds = 0;  // the mean step, were it alone as fast as the others
  // The phase of most of it, one of kCostPhases. Of no cost: the first.
  std::size_t mainPhase() const;
};
inline constexpr std::array<StepMeasure, 5> kCostPhases{
    StepMeasure::kData, StepMeasure::kForward, StepMeasure::kBackward, StepMeasure::kStalled,
    StepMeasure::kOptimizer};

struct RankCosts {
  std::int64_t first = 0, last = 0, steps = 0;  // of which all ranks reported: so many
  double stepSeconds = 0;                       // the mean step
  // Several steps share a cell of the matrix, of which it has the greatest values: costs are those
  // of its costliest step, for each of them.
  bool atMost = false;
  std::vector<RankCost> ranks, nodes;  // by descending cost
};
// Ranks from `world` on have left the run: steps that they did not report count without them.
// `nodes`: of each rank; shorter if some are not known. `shares`: unknown: alike.
RankCosts rankCosts(const StepTimes& times, int world, std::span<const std::string> nodes,
                    const plan::BatchShares& shares);

// What a run's plan says of its ranks; nothing where there is no plan.
struct PlanFacts {
  plan::BatchShares shares;
  std::int64_t sharesFrom = 1;  // the first step that is divided so: the batch may be divided anew
  bool isAsynchronous = false;  // its ranks do not wait for each other
  Message evenShares = {};      // why they must be equal; empty: they need not
  int microBatches = 1;         // of a step, all divided alike
  std::int64_t unit = 1;        // samples of a micro-batch that one rank has together
  std::int64_t evaluateBatch = 0;  // of which each rank has a sample; 0: not known
};
PlanFacts planFactsOf(const plan::Plan& plan);
// The same, with what steps and spec of the run tell besides.
PlanFacts planFactsOf(const RunDocuments& documents, const RunStore& store);
// Takes note of a division that a generation begins with.
void divideAnew(PlanFacts& plan, std::vector<double> samples, std::int64_t afterStep);

// Whether other nodes have got ranks since the launch.
bool regrouped(const RunStore& store);

// A figure of a rank beside the median of the others, or of its node beside the median of the other
// nodes: "step", "data", … as StepMeasure, in seconds,
// and what its node samples, by the name of its series: "cpu" (cores), "memory" (bytes),
// "node/cpu", "node/disk_busy", "node/gpu/utilisation", "node/gpu/throttled" (0…1),
// "node/disk_read", "node/disk_write", "node/net_in", "node/net_out" (bytes/s), "node/gpu/sm_clock"
// (MHz), "node/gpu/temperature" (°C). Of GPUs: the mean over those of the node.
struct PeerFigure {
  std::string name;
  double own = 0, peers = 0;
};
// `meanOf` returns the mean of a series over the same time; nothing if there is none.
using MeanOf = std::function<std::optional<double>(const std::string& series)>;
std::vector<PeerFigure> peerFigures(const StepTimes& times, int rank,
                                    std::span<const std::string> nodes, const MeanOf& meanOf);
// Of what the history has; of more than 20,000 points, the mean of the middles of spans. The store
// is borrowed.
MeanOf storedMeans(const RunStore& store, const StepTimes& times);

}  // namespace lockstep::app
