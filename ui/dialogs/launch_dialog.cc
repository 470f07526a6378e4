#include "ui/dialogs/launch_dialog.h"

#include <QComboBox>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QSpinBox>
#include <QTabWidget>
#include <algorithm>
#include <utility>

#include "app/runs/allocated_launch.h"
#include "app/runs/launch_summary.h"
#include "engine/cluster/strategies.h"
#include "ui/dialogs/advice_panel.h"
#include "ui/dialogs/launch_preview.h"
#include "ui/dialogs/prediction_view.h"
#include "ui/dialogs/preflight_dialog.h"
#include "ui/dialogs/rank_fields.h"
#include "ui/dialogs/strategy_fields.h"
#include "ui/dialogs/what_if_panel.h"
#include "ui/studio/background.h"
#include "ui/studio/run_document.h"
#include "ui/studio/run_launch.h"
#include "ui/studio/run_stop.h"
#include "ui/studio/workspace.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

LaunchDialog::~LaunchDialog() {
  search_.request_stop();
  dropMeasuring();
  if (stopJob_) workspace_.jobs().finish(stopJob_);
}

void LaunchDialog::dropMeasuring() {
  if (!measured_) return;
  measured_->end();
  destroyAsync(workspace_.teardownPool(), std::move(measured_), measuredOn_->sessionRef());
}

// Facts of the nodes are used as soon as they are connected.
void LaunchDialog::nodesChanged() {
  if (isStarting() || measured_ || !preview_ || preview_->measured || !cluster_) return;
  if (cluster_->session().allConnected()) schedule();
}

void LaunchDialog::schedule() {
  strategy_->setRanks(rankCount());
  command_->setText(command());
  command_->setCursorPosition(0);
  QStringList files;
  if (model().modified && model().modified()) files << formatPath(model().file);
  if (const LaunchTarget* chosen = target(); chosen && chosen->modified && chosen->modified())
    files << formatPath(chosen->file);
  unsaved_->setText(files.isEmpty()
                        ? QString()
                        : tr("Unsaved changes are saved at launch: %1").arg(files.join(", ")));
  unsaved_->setVisible(!files.isEmpty());
  preview_.reset();
  estimate_.reset();
  request_.reset();
  wanted_ = false;
  search_.request_stop();
  search_ = std::stop_source();
  dropMeasuring();
  setBusy(false, {});
  offerMeasuring(false);
  acceptButton()->setEnabled(false);
  ++generation_;
  delay_.start();
  prediction_->advice()->follow();
}

void LaunchDialog::makePreview() {
  const int generation = generation_;
  LaunchInputs in = inputs();
  in.stop = search_.get_token();
  if (!ofProgram_ && strategy_->kind() == cluster::kAutoStrategy)
    setBusy(true, tr("Searching for the fastest strategy"));
  // A scheduler will choose other nodes than those that the run before had.
  const std::shared_ptr<LiveCluster> live = isScheduled_ ? nullptr : connected();
  const int known = static_cast<int>(in.hosts.size());
  runInBackground(
      this, [in] { return makeCountedPreview(in); },
      // Not held: what is left of this call may be destroyed after the workspace.
      [this, generation, known, weak = std::weak_ptr(live)](LaunchPreview made) {
        if (generation != generation_ || isStarting()) return;
        if (const std::shared_ptr<LiveCluster> live = weak.lock();
            live && known < live->session().size() && live->session().allConnected()) {
          const bool wanted = wanted_;  // they came meanwhile: what they have may decide
          schedule();
          wanted_ = wanted;
          return;
        }
        setBusy(false, {});
        if (!made.preview) {
          showError(made.preview.error());
          return;
        }
        if (made.preview->misfit)
          message_->showError(*made.preview->misfit);
        else
          message_->clear();
        request_ = std::move(made.request);
        hosts_ = std::move(made.hosts);
        samples_ = made.samples;
        if (const std::shared_ptr<LiveCluster> live = weak.lock()) {
          cluster_ = live;
          clusterText_.clear();
          connect(live.get(), &LiveCluster::nodeChanged, this, &LaunchDialog::nodesChanged,
                  Qt::UniqueConnection);
        } else if (clusterText_ != request_->clusterYaml) {
          cluster_.reset();  // of other nodes
          clusterText_.clear();
        }
        preview_ = std::make_shared<const app::Preview>(std::move(*made.preview));
        estimate_ = preview_;
        QStringList settings = sets("multi-worker-mirrored") + ranks_->changes();
        const LaunchTarget* where = target();
        settings << model().file << (where ? where->file : nodes_->text())
                 << comm_->currentData().toString();
        if (settings != benchmarkedSettings_) {
          benchmarks_.clear();
          benchmarkedSettings_ = settings;
        }
        showPrediction();
        offerMeasuring(true);
        refreshAccept();
        compare();
        if (wanted_) {
          accept();
        } else if (ofProgram_) {
          return;
        } else if (asked_) {
          benchmark(app::Costs::kBenchmark);
        } else if (cluster_ && cluster_->session().allConnected()) {
          benchmark(app::Costs::kEarlier);
        }
      });
}

// Nodes that are not allocated yet cannot be measured.
void LaunchDialog::offerMeasuring(bool offered) {
  for (QPushButton* button : {prediction_->benchmarkButton(), prediction_->preflightButton()})
    button->setEnabled(offered && !isScheduled_);
}

// The session to launch on: that of the cluster's page, or one made for what is asked for.
std::shared_ptr<LiveCluster> LaunchDialog::session() {
  const LaunchTarget* chosen = target();
  if (chosen && chosen->live) {
    if (auto live = chosen->live()) return live;
  }
  if (!cluster_ || clusterText_ != request_->clusterYaml) {
    cluster_ = workspace_.makeCluster(request_->cluster);
    clusterText_ = request_->clusterYaml;
  }
  return cluster_;
}

void LaunchDialog::preflight() {
  if (!request_ || isStarting()) return;
  auto live = session();
  if (!live) return;
  dropMeasuring();
  asked_ = false;
  setBusy(false, {});
  prediction_->benchmarkButton()->setEnabled(true);
  QStringList words;  // of a run's cluster there is no file that a command could name
  if (const LaunchTarget* chosen = target(); chosen && !again_)
    words = {chosen->file};
  else if (!chosen)
    words = {"--local", QString::number(nodes_->value())};
  auto* dialog =
      new PreflightDialog(workspace_, live, app::clusterNameOf(*request_), std::move(words), this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->open();
}

void LaunchDialog::benchmark(app::Costs costs) {
  const bool earlier = costs == app::Costs::kEarlier;
  const int generation = generation_;
  dropMeasuring();
  measuredOn_ = earlier ? cluster_ : session();
  if (!measuredOn_) return;
  cluster_ = measuredOn_;
  if (!earlier) {
    prediction_->advice()->stop();  // it would take the cores of nodes on this machine
    setBusy(true, tr("Benchmarking the nodes"));
    prediction_->benchmarkButton()->setEnabled(false);
  }
  app::LaunchRequest request = *request_;
  request.measure = true;
  measured_ = std::make_unique<app::MeasuredPreview>(
      std::move(request), measuredOn_->session(), workspace_.home(), workspace_.inbox(),
      [this, generation, earlier](Result<app::Preview> measured) {
        if (isStarting() || generation != generation_) return;
        setBusy(false, {});
        prediction_->benchmarkButton()->setEnabled(true);
        // The object is in the middle of this call: it goes with the next turn of the loop.
        QTimer::singleShot(0, this, [this, generation] {
          if (generation == generation_) dropMeasuring();
        });
        if (!measured || !measured->measured) {
          if (earlier) return;  // the estimate stays
          asked_ = false;
          const Error unknown = makeError(Code::kUnavailable, "the costs could not be measured");
          message_->showError(measured ? measured->unmeasured.value_or(unknown) : measured.error());
          return;
        }
        measuredShown_ = true;
        preview_ = std::make_shared<const app::Preview>(std::move(*measured));
        // What a search found has other settings than the row of its kind.
        if (strategy_->kind() != cluster::kAutoStrategy)
          benchmarks_[strategy_->kind()] = preview_->stepSeconds;
        prediction_->setChosen(chosenKind(), benchmarks_);
        showPrediction();
      },
      costs);
}

std::string LaunchDialog::chosenKind() const {
  const std::string kind = strategy_->kind();
  return preview_ && kind == cluster::kAutoStrategy ? preview_->plan.strategy : kind;
}

void LaunchDialog::compare() {
  prediction_->setChosen(chosenKind(), benchmarks_);
  if (!prediction_->comparing() || !preview_) return;
  std::vector<std::pair<std::string, LaunchInputs>> all;
  for (const cluster::Strategy& one : cluster::strategies()) {
    LaunchInputs in = inputs();
    in.stop = search_.get_token();
    in.sets.clear();
    for (const QString& set : sets(std::string(one.name))) in.sets.push_back(set.toStdString());
    all.emplace_back(one.name, std::move(in));
  }
  runInBackground(
      this, [all] { return compareStrategies(all); },
      [this, generation = generation_](std::vector<Candidate> candidates) {
        if (generation == generation_) prediction_->setCandidates(std::move(candidates));
      });
}

void LaunchDialog::showError(const Error& error) {
  wanted_ = false;
  message_->showError(error);
  prediction_->clear();
}

// Beside a benchmark, an estimate would look like a gain or a loss: it stands in the comparison
// alone.
void LaunchDialog::showPrediction() {
  const bool told = preview_->measured || !measuredShown_;
  prediction_->show(preview_, told);
  prediction_->setSummary(app::launchSummary(*request_, *preview_, samples_));
  prediction_->advice()->follow();
  prediction_->whatIf()->setSource(told ? predictedStep() : WhatIfSource());
}

WhatIfSource LaunchDialog::predictedStep() const {
  WhatIfSource out;
  out.read = [preview = preview_, launched = app::Launched{*request_, hosts_}](
                 const std::stop_token& stop) { return app::subjectOf(*preview, launched, stop); };
  out.command = [this, isMeasured = preview_->measured](const QStringList& change) {
    return command("whatif", (isMeasured ? QStringList{"--measure"} : QStringList()) + change);
  };
  return out;
}

void LaunchDialog::setBusy(bool busy, const QString& text) {
  busy_->setVisible(busy);
  busyText_->setText(text);
}

Status LaunchDialog::saveAll() {
  if (model().modified && model().modified()) LOCKSTEP_TRY(model().save());
  const LaunchTarget* chosen = target();
  if (chosen && chosen->modified && chosen->modified()) LOCKSTEP_TRY(chosen->save());
  return {};
}

// Enter launches from every field; where the prediction is not there yet, as soon as it is.
void LaunchDialog::keyPressEvent(QKeyEvent* event) {
  const bool enter = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter;
  if (enter && prediction_->choosing()) return;  // it has chosen a strategy
  if (enter && !preview_ && !isStarting() && (delay_.isActive() || !message_->isVisible())) {
    wanted_ = true;
    setBusy(true, tr("Launching when the prediction is ready"));
    return;
  }
  Dialog::keyPressEvent(event);
}

bool LaunchDialog::mayStopFirst() const {
  return !stopsFirst_ || (underWay_ && underWay_->canAdvise());
}

bool LaunchDialog::canLaunch() const {
  return request_ && mayStopFirst() && (!unchanged_ || settingWords() != *unchanged_);
}

void LaunchDialog::refreshAccept() {
  acceptButton()->setEnabled(canLaunch());
  acceptButton()->setToolTip(
      mayStopFirst() ? QString()
                     : tr("The run cannot be stopped for another strategy now: it is not training, "
                          "is asynchronous, or its nodes or shares of the batch are others than at "
                          "its launch."));
}

bool LaunchDialog::isStarting() const { return stop_ != nullptr || launch_ != nullptr; }

void LaunchDialog::accept() {
  wanted_ = false;
  if (!canLaunch() || isStarting()) return;
  dropMeasuring();
  message_->clear();
  if (const Status saved = saveAll(); !saved.ok()) {
    message_->showError(saved.error());
    return;
  }
  unsaved_->hide();
  if (stopsFirst_)
    stopFirst();
  else
    start();
}

void LaunchDialog::start() {
  std::shared_ptr<LiveCluster> cluster;
  if (!app::awaitsAllocation(*request_)) {
    cluster = session();
    if (!cluster) return;
    cluster_ = cluster;
  }
  launch(std::move(cluster));
}

QWidgetList LaunchDialog::holdFields() {
  acceptButton()->setEnabled(false);
  QWidgetList held;
  for (QWidget* field : findChildren<QWidget*>()) {
    if (field->objectName().startsWith("launch") && field->focusPolicy() != Qt::NoFocus &&
        field->isEnabled() && field != rejectButton() && field != acceptButton() &&
        field != prediction_->tabs()) {
      field->setEnabled(false);
      held << field;
    }
  }
  prediction_->advice()->stop();
  prediction_->advice()->setEnabled(false);
  held << prediction_->advice();
  setBusy(true, tr("Starting"));
  return held;
}

void LaunchDialog::release(const QWidgetList& held) {
  setBusy(false, {});
  for (QWidget* field : held) field->setEnabled(true);
  refreshAccept();
}

void LaunchDialog::stopFirst() {
  const QWidgetList held = holdFields();
  const QString text = tr("Stopping the run: it finishes its step and saves a checkpoint");
  setBusy(true, text);
  stopJob_ = workspace_.jobs().start(tr("Launching"), [this] { reject(); });
  workspace_.jobs().progress(stopJob_, -1, text);
  // The object is in the middle of its signal: it goes with the next turn of the loop.
  const auto end = [this, held] {
    workspace_.jobs().finish(std::exchange(stopJob_, 0));
    std::exchange(stop_, nullptr)->deleteLater();
    release(held);
  };
  stop_ = new RunStop(*underWay_, this);
  connect(stop_, &RunStop::stopped, this, [this, end] {
    end();
    start();
  });
  connect(stop_, &RunStop::failed, this, [this, end](const Error& error) {
    end();
    message_->showError(error);
  });
  stop_->begin();
}

void LaunchDialog::launch(std::shared_ptr<LiveCluster> cluster) {
  const QWidgetList held = holdFields();
  launch_ = new RunLaunch(*request_, std::move(cluster), workspace_, this);
  connect(launch_, &RunLaunch::progressed, busyText_, &QLabel::setText);
  connect(launch_, &RunLaunch::launched, this, [this](const QString& run) {
    setBusy(false, {});
    Q_EMIT launched(run);
    QDialog::accept();
  });
  connect(launch_, &RunLaunch::failed, this, [this, held](const Error& error) {
    std::exchange(launch_, nullptr)->deleteLater();
    release(held);
    message_->showError(error);
  });
}

void LaunchDialog::reject() {
  if (stop_)
    stop_->cancel();
  else if (launch_)
    launch_->cancel();
  else
    QDialog::reject();
}

}  // namespace lockstep::ui
