// A studio with a home of its own and, where wanted, a history of runs in it.
#pragma once

#include <QApplication>
#include <QDialog>
#include <QFile>
#include <QTemporaryDir>
#include <cmath>
#include <memory>
#include <random>

#include "app/history/history.h"
#include "app/runs/preview.h"
#include "app/specs/spec_text.h"
#include "engine/base/clock.h"
#include "ui/studio/background.h"
#include "ui/window/main_window.h"

namespace lockstep::tests {

inline std::string examplePath(const char* name) {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/resources/examples/" + name;
}

// Its dialogs first; then what worked for it ends, before the home it works in.
inline void closeWindow(std::unique_ptr<ui::MainWindow>& window) {
  for (QWidget* dialog : QApplication::topLevelWidgets()) {
    if (qobject_cast<QDialog*>(dialog)) dialog->close();
  }
  QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
  window.reset();
  ui::endBackground();
}

class StudioHome {
 public:
  StudioHome() {
    home_.root = folder_.filePath("home").toStdString();
    QDir().mkpath(folder_.filePath("home"));
  }

  app::Home home() const { return home_; }
  QString path(const QString& name) const { return folder_.filePath(name); }
  ui::StudioOptions options() const {
    ui::StudioOptions out;
    out.home = home_;
    out.examples = QString(LOCKSTEP_SOURCE_DIR) + "/resources/examples";
    return out;
  }

  // What the run of an example would be, planned for three local nodes.
  app::Preview preview(const char* example, int nodes) const {
    auto spec = app::loadRunSpec(examplePath(example));
    LOCKSTEP_CHECK(spec.ok(), "{}", spec.error().text());
    app::LaunchRequest request;
    request.spec = spec->spec;
    request.cluster = app::localCluster(nodes, home_.root + "/local", "").spec;
    auto preview = app::makePreview(request, {});
    LOCKSTEP_CHECK(preview.ok(), "{}", preview.error().text());
    return std::move(*preview);
  }

  // A run with curves that look like training; `index` varies them. Its nodes have so many GPUs.
  std::string addRun(int index, app::RunState phase, int steps, int gpus = 0) {
    const char* example = index % 2 == 0 ? "fashion-cnn.yaml" : "fashion-mlp.yaml";
    constexpr int kRanks = 3;
    const app::Preview predicted = preview(example, kRanks);
    auto history = app::History::open(home_.historyFolder());
    LOCKSTEP_CHECK(history.ok(), "{}", history.error().text());
    app::RunRow row;
    row.run = "20240501-1200" + std::to_string(10 + index) + "-a1b2c" + std::to_string(index);
    row.name = index % 2 == 0 ? "fashion-cnn" : "fashion-mlp";
    row.phase = phase;
    const std::int64_t start = 1'714'560'000'000'000'000 + index * 3'600'000'000'000;
    row.createdNs = start;
    row.startedNs = start + 1'200'000'000;
    row.world = kRanks;
    row.strategy = "multi-worker-mirrored";
    row.comm = index % 3 == 0 ? "shm" : "gloo";
    row.clusterName = "local-3";
    row.planHash = predicted.planHash;
    row.version = "5f1c0a9be27d";
    row.predictedStepSeconds = predicted.stepSeconds;
    row.measuredStepSeconds = predicted.stepSeconds * 1.07;
    if (index == 1) row.notes = "baseline";
    const double stepSeconds = row.measuredStepSeconds;
    if (app::isFinal(phase))
      row.finishedNs = row.startedNs + static_cast<std::int64_t>(steps * stepSeconds * 1e9);
    std::optional<Error> error;
    if (phase == app::RunState::FAILED) {
      error = makeError(Code::kAborted, "the worker of rank 1 was killed by signal 9 (SIGKILL)");
      error->next =
          "see the run's log; resume the run from its last checkpoint, or launch it again where it "
          "has none";
      error->node = "local2";
      error->rank = 1;
      error->step = steps;
      row.error = error->text();
    }
    app::RunDocuments documents;
    QFile file(QString::fromStdString(examplePath(example)));
    LOCKSTEP_CHECK(file.open(QIODevice::ReadOnly), "example");
    documents.specYaml = file.readAll().toStdString();
    if (app::isFinal(phase)) {  // one under way would be looked for on its nodes
      row.modelFile = home_.root + "/models/" + row.run + ".safetensors";
      documents.clusterYaml = app::localCluster(kRanks, home_.root + "/local", "").yaml;
      documents.nodes = R"([{"node": "local1", "folder": "/nowhere/runs/)" + row.run + R"("}])";
    }
    documents.specResolved = app::toYaml(*app::loadRunSpec(examplePath(example))->spec);
    documents.plan = predicted.planText;
    documents.prediction = app::predictionJson(predicted);

    std::mt19937 random(static_cast<unsigned>(index) + 1);
    std::normal_distribution<double> noise;
    const int perEpoch = std::max(1, steps / 5);
    app::RunBatch batch;
    if (error) batch.errors.push_back(*error);
    const auto add = [&](const std::string& name) -> std::vector<app::Point>& {
      for (auto& series : batch.series)
        if (series.name == name) return series.points;
      batch.series.push_back({name, {}});
      return batch.series.back().points;
    };
    for (int step = 1; step <= steps; ++step) {
      const double t = static_cast<double>(step) / steps;
      const double loss = 0.28 + 2.0 * std::exp(-9 * t) + 0.07 * std::abs(noise(random)) +
                          (step == steps / 3 ? 0.9 : 0);
      add("loss").push_back({static_cast<double>(step), loss});
      add("accuracy")
          .push_back({static_cast<double>(step),
                      std::min(1.0, 0.905 - 0.65 * std::exp(-10 * t) + 0.03 * noise(random))});
      add("rank/0/step")
          .push_back({static_cast<double>(step), stepSeconds * (1 + 0.02 * noise(random))});
      add("samples_per_second")
          .push_back({static_cast<double>(step),
                      predicted.samplesPerSecond * (0.93 + 0.02 * noise(random))});
      if (step % perEpoch == 0) {
        const double epoch = step / perEpoch;
        app::EpochRow done{static_cast<std::int64_t>(epoch), step, loss, 0.3 + 0.25 / epoch,
                           0.91 - 0.06 / epoch};
        batch.epochs.push_back(done);
        add("epoch/eval_loss").push_back({epoch, done.evalLoss});
        add("epoch/eval_accuracy").push_back({epoch, done.evalMetric});
      }
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto& p = predicted.ranks[static_cast<std::size_t>(rank)];
      const std::pair<const char*, double> parts[] = {
          {"data", p.data + 2e-6},
          {"forward", p.forward * 1.05},
          {"backward", p.backward * (1.04 + 0.03 * rank)},
          {"waiting", p.waiting + 3e-5 * (2 - rank)},
          {"transfer", p.transfer * 1.1},
          {"optimizer", p.optimizer * 1.02}};
      for (const auto& [name, seconds] : parts) {
        for (int step = 1; step <= steps; step += 10) {
          add("rank/" + std::to_string(rank) + "/" + name)
              .push_back({static_cast<double>(step), seconds * (1 + 0.03 * noise(random))});
        }
      }
    }
    const double begin = static_cast<double>(row.startedNs) * 1e-9;
    for (int node = 1; node <= kRanks; ++node) {
      const std::string prefix = "node/local" + std::to_string(node) + "/";
      for (int i = 0; i < 240; ++i) {
        const double x = begin + i * 0.5;
        add(prefix + "cpu")
            .push_back({x, std::min(1.0, 0.78 + 0.05 * node + 0.04 * noise(random))});
        add(prefix + "memory").push_back({x, 3.1e9 + 2e8 * node + 4e5 * i});
        add(prefix + "net_in").push_back({x, 1.8e7 + 1.5e6 * noise(random)});
        add(prefix + "net_out").push_back({x, 1.7e7 + 1.5e6 * noise(random)});
        add(prefix + "disk_read").push_back({x, std::max(0.0, 2e6 * noise(random))});
        add(prefix + "disk_write").push_back({x, i % 40 == 0 ? 2.4e7 : 1e5});
        for (int gpu = 0; gpu < gpus; ++gpu) {
          const std::string of = prefix + "gpu/" + std::to_string(gpu) + "/";
          // the last one grows hot
          const double hot = node == 3 && gpu == 1 ? 1 - std::exp(-i / 60.0) : 0;
          add(of + "utilisation")
              .push_back({x, std::min(1.0, 0.93 - 0.02 * gpu + 0.03 * noise(random))});
          add(of + "memory").push_back({x, 9.1e10 + 3e9 * gpu + 1e9 * node});
          add(of + "temperature")
              .push_back({x, 58 + 3 * gpu + 2 * node + 24 * hot + 0.5 * noise(random)});
          add(of + "power").push_back({x, 610 - 15 * gpu - 160 * hot + 12 * noise(random)});
          add(of + "sm_clock").push_back({x, 1830 - 500 * (hot > 0.7 ? hot : 0)});
          add(of + "pcie_in").push_back({x, 9e9 + 4e8 * noise(random)});
          add(of + "pcie_out").push_back({x, 7e9 + 4e8 * noise(random)});
          add(of + "throttled").push_back({x, hot > 0.7 ? 1.0 : 0.0});
        }
      }
      for (int i = 0; i < 30; ++i) {
        app::LogRow line;
        line.wallNs = row.startedNs + (i * 3 + node) * 250'000'000LL;
        line.node = "local" + std::to_string(node);
        line.rank = node - 1;
        line.text = isoTime(line.wallNs - 40'000'000) + ' ' +
                    (i == 0                 ? "I bound the plan: 12.4 MB"
                     : i == 17 && node == 2 ? "W the step waited 4.1 ms for rank 2"
                                            : "I step " + std::to_string(i * 100) + " done");
        batch.logs.push_back(line);
      }
    }
    std::sort(batch.logs.begin(), batch.logs.end(),
              [](const auto& a, const auto& b) { return a.wallNs < b.wallNs; });
    row.figures.metric = "accuracy";
    row.figures.steps = steps;
    row.figures.epochs = static_cast<std::int64_t>(batch.epochs.size());
    row.figures.trainLoss = batch.series[0].points.back().y;
    if (!batch.epochs.empty()) {
      row.figures.evalLoss = batch.epochs.back().evalLoss;
      row.figures.evalMetric = batch.epochs.back().evalMetric;
    }
    row.figures.samplesPerSecond = predicted.samplesPerSecond * 0.93;
    row.figures.weightsSha256 = "9b74c9897bac770ffc029102a200c5de41ad3f1e2b1f0e6c3a54d2d7f1e0aa11";
    LOCKSTEP_CHECK((*history)->add(row, documents).ok());
    auto store = (*history)->openRun(row.run);
    LOCKSTEP_CHECK(store.ok(), "{}", store.error().text());
    LOCKSTEP_CHECK((*store)->lockForRecording().ok());
    const Status appended = (*store)->append(batch);
    LOCKSTEP_CHECK(appended.ok(), "{}", appended.ok() ? "" : appended.error().text());
    return row.run;
  }

 private:
  QTemporaryDir folder_;
  app::Home home_;
};

}  // namespace lockstep::tests
