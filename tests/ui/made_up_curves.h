// Curves and logs of a run, made up, that look like those of a training.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "app/history/history.h"
#include "app/runs/preview.h"
#include "engine/base/clock.h"
#include "engine/planner/planner.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::tests {

class MadeUpCurves {
 public:
  static constexpr int kRanks = 3;

  // The rank that the others wait for, and from which to which step.
  struct Slow {
    int rank = 1, first = 0, last = 0;
    int told = 0;  // a step whose events are stored since it was slow; 0: none
    bool in(int step) const { return step >= first && step <= last; }
    int steps() const { return last - first + 1; }
  };
  static Slow tenthOf(int steps) { return {1, steps / 2 + 1, steps / 2 + steps / 10, 0}; }
  static constexpr double kSlowShare = 0.54;  // of a usual step, by which a slow one is longer

  // `seed` varies the curves.
  MadeUpCurves(const app::Preview& predicted, unsigned seed, const Slow& slow)
      : predicted_(predicted), random_(seed), slow_(slow) {}

  const app::RunBatch& batch() const { return batch_; }

  // Every step, and the evaluation of every epoch. `stepSeconds`: of a usual step.
  void addTraining(int steps, double stepSeconds) {
    const int perEpoch = std::max(1, steps / 5);
    for (int step = 1; step <= steps; ++step) {
      const double t = static_cast<double>(step) / steps;
      const double loss =
          0.28 + 2.0 * std::exp(-9 * t) + 0.07 * std::abs(noise()) + (step == steps / 3 ? 0.9 : 0);
      add("loss", step, loss);
      add("accuracy", step, std::min(1.0, 0.905 - 0.65 * std::exp(-10 * t) + 0.03 * noise()));
      add("rank/0/step", step, stepSeconds * (longer(step) + 0.02 * noise()));
      add("samples_per_second", step, predicted_.samplesPerSecond * (0.93 + 0.02 * noise()));
      add("learning_rate", step, 1e-3 * std::min(1.0, 10 * t) * 0.5 * (1 + std::cos(3.14 * t)));
      if (step % 10 == 1)
        add("gradient_norm", step, (0.2 + 8 * std::exp(-12 * t)) * (1 + 0.2 * noise()));
      add("samples", step, 64.0 * step);
      if (step % perEpoch == 0) addEpoch(step / perEpoch, step, loss);
    }
  }

  // The parts of each rank's step time.
  void addBreakdown(int steps, std::int64_t startedNs, double stepSeconds) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string prefix = "rank/" + std::to_string(rank) + "/";
      double began = static_cast<double>(startedNs) * 1e-9;
      for (int step = 1; step <= steps; ++step) {
        add(prefix + "began", step, began);
        began += stepSeconds * longer(step);
        if (rank > 0) add(prefix + "step", step, stepSeconds * (longer(step) + 0.02 * noise()));
      }
      const auto& p = predicted_.ranks[static_cast<std::size_t>(rank)];
      const std::pair<const char*, double> parts[] = {
          {"data", p.data + 2e-6},
          {"forward", p.forward * 1.05},
          {"backward", p.backward * (1.04 + 0.03 * rank)},
          {"waiting", p.waiting + 3e-5 * (2 - rank)},
          {"transfer", p.transfer * 1.1},
          {"optimizer", p.optimizer * 1.02}};
      for (const auto& [name, seconds] : parts) {
        for (int step = 1; step <= steps; ++step) {
          const bool waits = std::string_view(name) == "waiting";
          const double more =
              slow_.in(step) && (rank == slow_.rank) != waits ? kSlowShare * stepSeconds : 0;
          const bool computes = std::string_view(name) == "backward";
          add(prefix + name, step, seconds * (1 + 0.03 * noise()) + (waits || computes ? more : 0));
        }
      }
    }
  }

  // The events of every 50th step and a slow one, as they are stored: as simulated with a slow
  // rank, with the waits as parts of the transfers.
  void addEvents(int steps) {
    planner::SimulateOptions options;
    options.slowdown = {1, 1.1, 1.1};
    options.slowdown[static_cast<std::size_t>(slow_.rank)] = 1.6;
    const auto simulated =
        planner::simulate(predicted_.plan, predicted_.cluster, predicted_.cost, options);
    std::vector<int> told;
    for (int step = 50; step <= steps; step += 50) told.push_back(step);
    if (slow_.told > 0) told.push_back(slow_.told);
    for (const int step : told) {
      std::map<int, run::v1::EventChunk> chunks;
      for (const plan::Event& event : simulated.events) {
        if (event.step != 2 + step / 50 % 2) continue;
        run::v1::EventChunk& chunk = chunks[event.rank];
        const int last = chunk.plan_step_size() - 1;
        if (last >= 0 && chunk.plan_step(last) == event.planStep) {
          chunk.set_kind(last, static_cast<int>(event.kind));
          chunk.set_end_ns(last, event.end);
          continue;
        }
        chunk.set_rank(event.rank);
        chunk.set_step(step);
        chunk.add_plan_step(event.planStep);
        chunk.add_kind(static_cast<int>(event.kind));
        chunk.add_phase(static_cast<int>(event.phase));
        chunk.add_begin_ns(event.begin);
        chunk.add_end_ns(event.end);
        chunk.add_bytes(event.bytes);
      }
      for (const auto& [rank, chunk] : chunks)
        batch_.events.push_back({rank, step, chunk.SerializeAsString(), step == slow_.told});
    }
  }

  // Two minutes of load of each node and its GPUs.
  void addLoad(std::int64_t startedNs, int gpus) {
    const double begin = static_cast<double>(startedNs) * 1e-9;
    for (int node = 1; node <= kRanks; ++node) {
      const std::string prefix = "node/local" + std::to_string(node) + "/";
      for (int i = 0; i < 240; ++i) {
        const double x = begin + i * 0.5;
        add(prefix + "cpu", x, std::min(1.0, 0.78 + 0.05 * node + 0.04 * noise()));
        add(prefix + "memory", x, 3.1e9 + 2e8 * node + 4e5 * i);
        add(prefix + "net_in", x, 1.8e7 + 1.5e6 * noise());
        add(prefix + "net_out", x, 1.7e7 + 1.5e6 * noise());
        add(prefix + "disk_read", x, std::max(0.0, 2e6 * noise()));
        add(prefix + "disk_write", x, i % 40 == 0 ? 2.4e7 : 1e5);
        for (int gpu = 0; gpu < gpus; ++gpu) {
          // the last one grows hot
          const double hot = node == 3 && gpu == 1 ? 1 - std::exp(-i / 60.0) : 0;
          addGpu(node, gpu, x, hot);
        }
      }
    }
  }

  void addLogs(std::int64_t startedNs) {
    for (int node = 1; node <= kRanks; ++node) {
      for (int i = 0; i < 30; ++i) {
        app::LogRow line;
        line.wallNs = startedNs + (i * 3 + node) * 250'000'000LL;
        line.node = "local" + std::to_string(node);
        line.rank = node - 1;
        line.text = isoTime(line.wallNs - 40'000'000) + ' ' +
                    (i == 0                 ? "I bound the plan: 12.4 MB"
                     : i == 17 && node == 2 ? "W the step waited 4.1 ms for rank 2"
                                            : "I step " + std::to_string(i * 100) + " done");
        batch_.logs.push_back(line);
      }
    }
    std::sort(batch_.logs.begin(), batch_.logs.end(),
              [](const auto& a, const auto& b) { return a.wallNs < b.wallNs; });
  }

  void addError(const Error& error) { batch_.errors.push_back(error); }

 private:
  double noise() { return normal_(random_); }
  // How long a step is, of a usual one.
  double longer(int step) const { return slow_.in(step) ? 1 + kSlowShare : 1; }

  void add(const std::string& name, double x, double y) {
    auto& all = batch_.series;
    auto series =
        std::find_if(all.begin(), all.end(), [&](const auto& known) { return known.name == name; });
    if (series == all.end()) series = all.insert(all.end(), app::RunBatch::Series{name, {}});
    series->points.push_back({x, y});
  }

  void addEpoch(double epoch, int step, double loss) {
    app::EpochRow done{static_cast<std::int64_t>(epoch), step, loss, 0.3 + 0.25 / epoch,
                       0.91 - 0.06 / epoch};
    batch_.epochs.push_back(done);
    add("epoch/eval_loss", epoch, done.evalLoss);
    add("epoch/eval_accuracy", epoch, done.evalMetric);
  }

  void addGpu(int node, int gpu, double x, double hot) {
    const std::string of =
        "node/local" + std::to_string(node) + "/gpu/" + std::to_string(gpu) + "/";
    add(of + "utilisation", x, std::min(1.0, 0.93 - 0.02 * gpu + 0.03 * noise()));
    add(of + "memory", x, 9.1e10 + 3e9 * gpu + 1e9 * node);
    add(of + "temperature", x, 58 + 3 * gpu + 2 * node + 24 * hot + 0.5 * noise());
    add(of + "power", x, 610 - 15 * gpu - 160 * hot + 12 * noise());
    add(of + "sm_clock", x, 1830 - 500 * (hot > 0.7 ? hot : 0));
    add(of + "pcie_in", x, 9e9 + 4e8 * noise());
    add(of + "pcie_out", x, 7e9 + 4e8 * noise());
    add(of + "throttled", x, hot > 0.7 ? 1.0 : 0.0);
  }

  const app::Preview& predicted_;
  std::mt19937 random_;
  Slow slow_;
  std::normal_distribution<double> normal_;
  app::RunBatch batch_;
};

}  // namespace lockstep::tests
