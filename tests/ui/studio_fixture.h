// A studio with a home of its own and, where wanted, a history of runs in it.
#pragma once

#include <QApplication>
#include <QDialog>
#include <QFile>
#include <QFileDialog>
#include <QLineEdit>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <functional>
#include <memory>

#include "app/history/history.h"
#include "app/runs/preview.h"
#include "app/specs/spec_text.h"
#include "tests/support/paths.h"
#include "tests/ui/made_up_curves.h"
#include "ui/studio/background.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"
#include "ui/window/main_window.h"

namespace lockstep::tests {

inline bool wait(const std::function<bool()>& done, int limitMs = 120'000) {
  return QTest::qWaitFor(done, limitMs);
}

inline std::string examplePath(const char* name) {
  return lockstep::test::sourcePath("resources/examples/") + name;
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
    out.examples = QString::fromStdString(lockstep::test::sourcePath("resources/examples"));
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
    return addRun(index, phase, steps, gpus, MadeUpCurves::tenthOf(steps));
  }
  std::string addRun(int index, app::RunState phase, int steps, int gpus,
                     const MadeUpCurves::Slow& slow) {
    const char* example = index % 2 == 0 ? "fashion-cnn.yaml" : "fashion-mlp.yaml";
    const app::Preview predicted = preview(example, MadeUpCurves::kRanks);
    const double stepSeconds = 1.07 * predicted.stepSeconds;  // of a usual step
    app::RunRow row =
        rowOf(index, phase, steps, predicted,
              stepSeconds * (1 + MadeUpCurves::kSlowShare * slow.steps() / std::max(1, steps)));
    MadeUpCurves curves(predicted, static_cast<unsigned>(index) + 1, slow);
    if (phase == app::RunState::FAILED) {
      const Error error = killedAt(steps);
      row.error = error.message();
      curves.addError(error);
    }
    curves.addTraining(steps, stepSeconds);
    curves.addBreakdown(steps, row.startedNs, stepSeconds);
    curves.addEvents(steps);
    curves.addLoad(row.startedNs, gpus);
    curves.addLogs(row.startedNs);
    row.figures = figuresOf(curves.batch(), steps, predicted);
    if (index == 0) {  // of the others it is not known
      row.figures.joules = 6.2 * steps;
      row.figures.cost = row.figures.joules / 3.6e6 * 0.28;
      row.figures.carbonGrams = row.figures.joules / 3.6e6 * 350;
      row.figures.currency = "EUR";
    }
    store(row, documentsOf(example, row, predicted), curves.batch());
    return row.run;
  }

  // A run of a program of the user's own, with values that it reported.
  std::string addProgramRun() {
    const app::Preview predicted = preview("ddp.yaml", 3);
    app::RunRow row = rowOf(8, app::RunState::SUCCEEDED, 600, predicted, 0);
    row.name = "ddp";
    row.strategy = predicted.plan.strategy;
    row.comm.clear();
    row.modelFile.clear();
    row.finishedNs = row.startedNs + 95'000'000'000;
    row.figures.steps = 600;
    app::RunBatch batch;
    for (const char* name : {"loss", "accuracy", "scalar/grad/norm"}) {
      auto& series = batch.series.emplace_back();
      series.name = name;
      const bool falls = series.name != "accuracy";
      for (int step = 1; step <= 600; ++step) {
        const double rest = std::exp(-step / 150.0) + 0.02 * std::sin(step * 0.9);
        series.points.push_back(
            {static_cast<double>(step), falls ? 2.2 * rest : 0.93 - 0.8 * rest});
      }
    }
    row.figures.trainLoss = batch.series[0].points.back().y;
    for (int line = 0; line < 40; ++line)
      batch.logs.push_back({0, row.startedNs + line * 1'000'000'000LL, "local1", 0,
                            "step " + std::to_string(line * 15) + " loss 0.5 accuracy 0.8"});
    app::RunDocuments documents = documentsOf("ddp.yaml", row, predicted);
    documents.specResolved =
        "# code: 4 files, changed since commit 4f0c2b6e91d8\n" + documents.specResolved;
    documents.codePatch =
        "diff --git a/train.py b/train.py\n--- a/train.py\n+++ b/train.py\n"
        "@@ -38,3 +38,3 @@ def train(model, loader):\n"
        "     model.train()\n-    optimizer = SGD(model.parameters(), lr=0.1)\n"
        "+    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)\n     step = 0\n"
        "# not in the commit:\n#   notes.txt\n";
    store(row, documents, batch);
    return row.run;
  }

 private:
  app::RunRow rowOf(int index, app::RunState phase, int steps, const app::Preview& predicted,
                    double stepSeconds) const {
    app::RunRow row;
    row.run = "20240501-1200" + std::to_string(10 + index) + "-a1b2c" + std::to_string(index);
    row.name = index % 2 == 0 ? "fashion-cnn" : "fashion-mlp";
    row.phase = phase;
    const std::int64_t start = 1'714'560'000'000'000'000 + index * 3'600'000'000'000;
    row.createdNs = start;
    row.startedNs = start + 1'200'000'000;
    row.world = MadeUpCurves::kRanks;
    row.strategy = "multi-worker-mirrored";
    row.comm = index % 3 == 2 ? "shm" : "gloo";
    row.clusterName = "local-3";
    row.planHash = predicted.planHash;
    row.version = "5f1c0a9be27d";
    row.predictedStepSeconds = predicted.stepSeconds;
    row.measuredStepSeconds = stepSeconds;
    if (index == 1) row.notes = "baseline";
    if (app::isFinal(phase)) {
      row.finishedNs =
          row.startedNs + static_cast<std::int64_t>(steps * row.measuredStepSeconds * 1e9);
      row.modelFile = home_.root + "/models/" + row.run + ".safetensors";
    }
    return row;
  }

  static Error killedAt(int step) {
    Error error = makeError(Code::kAborted, "the worker of rank {} {}", 1,
                            message("was killed by signal {} ({})", 9, "SIGKILL"));
    error.next =
        "see the run's log; resume the run from its last checkpoint, or launch it again where it "
        "has none";
    error.node = "local2";
    error.rank = 1;
    error.step = step;
    return error;
  }

  app::RunDocuments documentsOf(const char* example, const app::RunRow& row,
                                const app::Preview& predicted) const {
    app::RunDocuments documents;
    QFile file(QString::fromStdString(examplePath(example)));
    LOCKSTEP_CHECK(file.open(QIODevice::ReadOnly), "example");
    documents.specYaml = file.readAll().toStdString();
    if (app::isFinal(row.phase)) {  // one under way would be looked for on its nodes
      documents.clusterYaml = app::localCluster(row.world, home_.root + "/local", "").yaml;
      documents.nodes = R"([{"node": "local1", "folder": "/nowhere/runs/)" + row.run + R"("}])";
    }
    documents.specResolved = app::toYaml(*app::loadRunSpec(examplePath(example))->spec);
    documents.plan = predicted.planText;
    documents.prediction = app::predictionJson(predicted);
    return documents;
  }

  static app::RunFigures figuresOf(const app::RunBatch& batch, int steps,
                                   const app::Preview& predicted) {
    app::RunFigures figures;
    figures.metric = "accuracy";
    figures.steps = steps;
    figures.epochs = static_cast<std::int64_t>(batch.epochs.size());
    figures.trainLoss = batch.series[0].points.back().y;
    if (!batch.epochs.empty()) {
      figures.evalLoss = batch.epochs.back().evalLoss;
      figures.evalMetric = batch.epochs.back().evalMetric;
    }
    figures.samplesPerSecond = predicted.samplesPerSecond * 0.93;
    figures.weightsSha256 = "9b74c9897bac770ffc029102a200c5de41ad3f1e2b1f0e6c3a54d2d7f1e0aa11";
    return figures;
  }

  void store(const app::RunRow& row, const app::RunDocuments& documents,
             const app::RunBatch& batch) const {
    auto history = app::History::open(home_.historyFolder());
    LOCKSTEP_CHECK(history.ok(), "{}", history.error().text());
    LOCKSTEP_CHECK((*history)->add(row, documents).ok());
    auto store = (*history)->openRun(row.run);
    LOCKSTEP_CHECK(store.ok(), "{}", store.error().text());
    LOCKSTEP_CHECK((*store)->lockForRecording().ok());
    const Status appended = (*store)->append(batch);
    LOCKSTEP_CHECK(appended.ok(), "{}", appended.ok() ? "" : appended.error().text());
  }

  QTemporaryDir folder_;
  app::Home home_;
};

// Shows a window of a studio with this home. It is active.
inline void openWindow(std::unique_ptr<ui::MainWindow>& window, const StudioHome& home,
                       QSize size = {}) {
  window = std::make_unique<ui::MainWindow>(home.options());
  if (size.isValid()) window->resize(size);
  window->show();
  QVERIFY(QTest::qWaitForWindowActive(window.get()));
}

// Enters a path into a dialog that asks for a file.
inline bool saveAs(QFileDialog* dialog, const QString& path) {
  if (!dialog || !wait([&] { return dialog->isVisible(); })) return false;
  dialog->findChild<QLineEdit*>()->setText(path);
  QTest::keyClick(dialog->findChild<QLineEdit*>(), Qt::Key_Return);
  return true;
}

// Ends the studio. The next test begins in English and on light ground.
inline void closeStudio(std::unique_ptr<ui::MainWindow>& window,
                        std::unique_ptr<StudioHome>& home) {
  closeWindow(window);
  home.reset();
  ui::Language::instance().set("en");
  ui::Theme::instance().apply(ui::Theme::Mode::kLight);
}

}  // namespace lockstep::tests
