// Pictures of every page and dialog, with made-up runs: ui_pictures FOLDER [LOOK…] [WIDTHxHEIGHT]
// [learn], LOOK one of light, dark, chinese, chinese-dark; learn: of the lessons alone.
// QT_SCALE_FACTOR=1.5 for a denser screen.
#include <QApplication>
#include <QTest>
#include <QtWidgets>
#include <cmath>

#include "app/report/html_report.h"
#include "app/runs/rank_costs.h"
#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/about_dialog.h"
#include "ui/dialogs/add_host_dialog.h"
#include "ui/dialogs/alert_rules_dialog.h"
#include "ui/dialogs/command_dialog.h"
#include "ui/dialogs/deploy_dialog.h"
#include "ui/dialogs/exclude_dialog.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/metric_dialog.h"
#include "ui/dialogs/name_dialog.h"
#include "ui/dialogs/new_model_dialog.h"
#include "ui/dialogs/rebalance_dialog.h"
#include "ui/dialogs/restart_dialog.h"
#include "ui/dialogs/ssh_questions.h"
#include "ui/dialogs/tags_dialog.h"
#include "ui/models/layer_table_model.h"
#include "ui/models/node_table_model.h"
#include "ui/models/run_table_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/dashboard_view.h"
#include "ui/pages/data_panel.h"
#include "ui/pages/graph_panel.h"
#include "ui/pages/history_page.h"
#include "ui/pages/layer_graph_view.h"
#include "ui/pages/learn_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/pages/welcome_page.h"
#include "ui/plots/heat_map_view.h"
#include "ui/plots/picture_file.h"
#include "ui/plots/plot_view.h"
#include "ui/plots/timeline_view.h"
#include "ui/studio/lesson_session.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/widgets.h"
#include "ui/window/command_palette.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::examplePath;
using lockstep::tests::StudioHome;

namespace {

QString folder;
QSize size(1400, 900);
bool lessonsAlone = false, withoutLessons = false;
// Of the made-up runs: from which step on a rank is slow, a slow step that is told, and from which
// step on a GPU is hot.
constexpr int kSlowFrom = 1501, kSlowStep = 1533, kHotFrom = 1240;

// Waits for background work and two frames, then takes the picture.
void shoot(QWidget* widget, const QString& name) {
  QThreadPool::globalInstance()->waitForDone(5000);
  QTest::qWait(250);
  widget->grab().save(folder + "/" + name + ".png");
}

QString copied(const char* example) {
  const QString path = QDir::homePath() + "/" + example;
  QFile::copy(QString::fromStdString(examplePath(example)), path);
  QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner);
  return path;
}

void fillNodes(ClusterPage* page) {
  QVector<NodeRow> rows = page->nodes()->rows();
  for (int i = 0; i < rows.size(); ++i) {
    NodeRow& row = rows[i];
    row.phase = i < 2 ? app::NodeState::CONNECTED : app::NodeState::DEPLOYING;
    row.version = "5f1c0a9be27d4410";
    row.cores = 8;
    row.cpuName = "Intel Xeon";
    row.detail = i < 2 ? QString() : messageText("uploading 12 of 40 MB");
    row.sampled = i < 2;
    row.cpu = 0.35 + 0.4 * i;
    row.memoryUsed = 5.2e9 + 4e9 * i;
    row.memoryTotal = 1.6e10;
    row.networkIn = 1.8e7;
    row.networkOut = 1.7e7;
    row.diskFree = 2.1e11;
  }
  page->nodes()->setRows(rows);
}

// Two minutes of load of the nodes that are connected.
void fillLoad(ClusterPage* page) {
  const struct {
    const char* plot;
    double base, wave;
  } plots[] = {{"clusterCpuPlot", 0.35, 0.06},
               {"clusterMemoryPlot", 5.2e9, 2e8},
               {"clusterNetworkPlot", 1.4e7, 3e6}};
  const double rise[] = {1.14, 0.77, 0.28};  // of the second node over the first
  for (int i = 0; i < 3; ++i) {
    auto* plot = page->findChild<PlotView*>(plots[i].plot);
    plot->clearSeries();
    for (int node = 0; node < 2; ++node) {
      auto series = std::make_shared<Series>(QString("local%1").arg(node + 1), node);
      for (int at = 0; at < 240; ++at) {
        const double wave = std::sin(at * (0.31 + 0.05 * node)) + 0.6 * std::sin(at * 0.87 + node);
        series->append(at * 0.5, plots[i].base * (1 + rise[i] * node) + plots[i].wave * wave);
      }
      plot->addSeries(std::move(series));
    }
    plot->markDirty();
  }
}

app::GpuLoad gpu(int index) {
  app::GpuLoad out;
  out.index = index;
  out.name = "NVIDIA H200";
  out.utilisation = 0.97 - 0.03 * index;
  out.memoryUtilisation = 0.41;
  out.memoryTotal = 1.508e11;
  out.memoryUsed = 9.4e10 + 2e9 * index;
  out.power = 640 - 12 * index;
  out.powerLimit = 700;
  out.temperature = 58 + 2 * index;
  out.smClock = 1830;
  out.smClockMax = 1980;
  out.memoryClock = out.memoryClockMax = 3201;
  out.performanceState = 0;
  out.throttle.emplace();
  out.pcieIn = 9.1e9;
  out.pcieOut = 6.8e9;
  out.pcieGeneration = out.pcieGenerationMax = 5;
  out.pcieWidth = out.pcieWidthMax = 16;
  out.nvlinks = out.nvlinksActive = 18;
  out.nvlinkIn = 4.1e10;
  out.nvlinkOut = 4.2e10;
  out.eccCorrected = 3;
  out.eccUncorrected = 0;
  out.xids = 0;
  return out;
}

void fillGpus(ClusterPage* page) {
  for (const char* plot : {"clusterCpuPlot", "clusterMemoryPlot", "clusterNetworkPlot"})
    page->findChild<PlotView*>(plot)->clearSeries();
  for (int at = 0; at < 240; ++at) {
    for (int node = 0; node < 2; ++node) {
      const NodeRow& row = page->nodes()->rows()[node];
      app::NodeLoad load;
      load.receivedNs = monotonicNow() + at * 500'000'000LL;
      load.cpu = row.cpu;
      load.memoryUsed = row.memoryUsed;
      load.memoryTotal = row.memoryTotal;
      load.networkIn = row.networkIn;
      load.networkOut = row.networkOut;
      load.diskFree = row.diskFree;
      for (int i = 0; i < (node == 0 ? 8 : 1); ++i) {
        load.gpus.push_back(gpu(i));
        load.gpus[i].utilisation = *load.gpus[i].utilisation + 0.02 * std::sin(at * 0.4 + i);
        load.gpus[i].power = *load.gpus[i].power + 15 * std::sin(at * 0.3 + 2 * i);
        load.gpus[i].temperature = *load.gpus[i].temperature + std::sin(at * 0.1 + i);
      }
      if (node == 1) load.gpus[0].pcieWidth = 8;
      if (node == 0 && at > 120) {
        load.gpus[4].temperature = 88;
        load.gpus[4].throttle = {"heat"};
        app::GpuLoad lost;
        lost.index = 6;
        lost.name = "NVIDIA H200";
        lost.problem = "GPU is lost";
        lost.xids = 1;
        lost.lastXid = 79;
        load.gpus[6] = lost;
      }
      page->showLoad(row.name, load);
    }
  }
}

void choose(LaunchDialog* launch, const char* box, const char* value) {
  auto* choices = launch->findChild<QComboBox*>(box);
  choices->setCurrentIndex(choices->findData(value));
  (void)QTest::qWaitFor([&] { return launch->ready(); }, 5000);
}

void shootMoreOptions(LaunchDialog* launch, const QString& prefix) {
  choose(launch, "launch.strategy.kind", "zero-3");
  launch->findChild<QToolButton*>("launchMore")->setChecked(true);
  choose(launch, "launch.strategy.compression", "top-k");
  choose(launch, "launch.training.schedule.kind", "step");
  launch->findChild<QLineEdit*>("launch.training.schedule.every")->setText("500");
  QTest::qWait(500);
  auto* bar = launch->findChild<QScrollArea*>("launchSettings")->verticalScrollBar();
  for (const int at : {0, bar->maximum()}) {
    bar->setValue(at);
    shoot(launch, prefix + "-launch-more" + (at > 0 ? "-below" : ""));
  }
  choose(launch, "launch.training.schedule.kind", "constant");
  choose(launch, "launch.strategy.compression", "none");
  launch->findChild<QToolButton*>("launchMore")->setChecked(false);
}

void shootLaunch(LaunchDialog* launch, const QString& prefix) {
  launch->chooseTarget(launch->findChild<QComboBox*>("launchCluster")->count() - 1);
  (void)QTest::qWaitFor([&] { return launch->ready(); }, 5000);
  shoot(launch, prefix + "-launch");
  launch->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(1);
  shoot(launch, prefix + "-launch-time");
  launch->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(2);
  (void)QTest::qWaitFor(
      [&] { return launch->findChild<TimelineView*>("planTimeline")->measured() != nullptr; },
      5000);
  shoot(launch, prefix + "-launch-timeline");
  launch->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(3);
  shoot(launch, prefix + "-launch-plan");
  // One that is searched, and what a strategy wants to know besides.
  launch->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(0);
  choose(launch, "launch.strategy.kind", "auto");
  (void)QTest::qWaitFor([&] { return launch->ready(); }, 60'000);
  shoot(launch, prefix + "-launch-auto");
  choose(launch, "launch.strategy.kind", "multi-worker-mirrored");
  launch->findChild<QSpinBox*>("launch.strategy.micro_batches")->setValue(4);
  for (const char* kind : {"pipeline", "parameter-server", "local-sgd", "tensor-parallel"}) {
    choose(launch, "launch.strategy.kind", kind);
    QTest::qWait(300);
    (void)QTest::qWaitFor([&] { return launch->ready(); }, 5000);
    shoot(launch, prefix + "-launch-" + kind);
  }
  shootMoreOptions(launch, prefix);
  launch->findChild<QSpinBox*>("launch.strategy.micro_batches")->setValue(1);
  choose(launch, "launch.strategy.kind", "multi-worker-mirrored");
  launch->chooseTarget(launch->findChild<QComboBox*>("launchCluster")->findText("local-3"));
  launch->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(0);
  (void)QTest::qWaitFor([&] { return launch->ready(); }, 5000);
  shoot(launch, prefix + "-launch-cluster");
  launch->findChild<QSpinBox*>("launchBatch")->setValue(2);
  QTest::qWait(500);
  shoot(launch, prefix + "-launch-refused");
  launch->reject();
}

// The graph, planned and with a mistake, and samples of the data.
void shootViews(MainWindow* window, ModelPage* model, const QString& prefix) {
  const auto waitForPlan = [](ModelPage* page) {
    (void)QTest::qWaitFor([&] { return page->layers()->plan() != nullptr; }, 10000);
  };
  model->showView(ModelPage::kGraphView);
  waitForPlan(model);
  shoot(window, prefix + "-model-graph");
  model->document()->type(QString(model->document()->text()).replace("size: 2", "size: 200"));
  shoot(window, prefix + "-model-graph-mistake");
  model->document()->undoStack()->undo();
  model->showView(ModelPage::kDataView);
  (void)QTest::qWaitFor([&] { return model->data()->isChecked(); }, 10000);
  shoot(window, prefix + "-model-data");
  model->showView(ModelPage::kTextView);
  auto* resnet = qobject_cast<ModelPage*>(window->openFile(copied("fashion-resnet.yaml")));
  resnet->showView(ModelPage::kGraphView);
  (void)resnet->document()->setField("strategy.kind", "pipeline", "change");
  resnet->findChild<QSpinBox*>("graphRanks")->setValue(4);
  (void)QTest::qWaitFor([&] { return resnet->layers()->stageOf(0) >= 0; }, 10000);
  resnet->selectLayer(17);
  QTest::keyClicks(resnet->findChild<QLineEdit*>("graphSearch"), "short");
  shoot(window, prefix + "-model-graph-stages");
  resnet->graph()->view()->fit();
  shoot(window, prefix + "-model-graph-fit");
  auto* gpt = qobject_cast<ModelPage*>(window->openFile(copied("gpt-tiny.yaml")));
  gpt->showView(ModelPage::kGraphView);
  waitForPlan(gpt);
  shoot(window, prefix + "-model-graph-tied");
  gpt->showView(ModelPage::kDataView);
  (void)QTest::qWaitFor([&] { return gpt->data()->error().has_value(); }, 5000);
  shoot(window, prefix + "-model-data-missing");
  QFile tokens(QFileInfo(gpt->document()->path()).dir().filePath("tokens.bin"));
  if (tokens.open(QIODevice::WriteOnly))
    for (int i = 0; i < 65 * 64; ++i)
      tokens.write(QByteArray(1, static_cast<char>(i * i % 251)) + '\0');
  tokens.close();
  gpt->document()->type(QString(gpt->document()->text())
                            .replace("format: text", "format: tokens")
                            .replace("{text: kjv.txt", "{tokens: tokens.bin"));
  (void)QTest::qWaitFor([&] { return !gpt->data()->error().has_value(); }, 5000);
  QTest::qWait(500);
  shoot(window, prefix + "-model-data-tokens");
  auto* ctr = qobject_cast<ModelPage*>(window->openFile(copied("ctr.yaml")));
  ctr->showView(ModelPage::kGraphView);
  waitForPlan(ctr);
  shoot(window, prefix + "-model-graph-ctr");
  for (ModelPage* page : {resnet, gpt, ctr}) {
    page->document()->undoStack()->setClean();
    (void)page->close();
  }
}

ModelPage* shootModel(MainWindow* window, const QString& prefix) {
  auto* model = qobject_cast<ModelPage*>(window->openFile(copied("fashion-cnn.yaml")));
  model->selectLayer(0);
  shoot(window, prefix + "-model");
  window->findChild<QAction*>("actionFind")->trigger();
  QTest::keyClicks(model->findChild<QLineEdit*>("yamlFindText"), "pool");
  shoot(window, prefix + "-model-find");
  QTest::keyClick(model->findChild<QLineEdit*>("yamlFindText"), Qt::Key_Escape);
  model->document()->type(QString(model->document()->text()).replace("filters: 32", "filtres: 32"));
  shoot(window, prefix + "-model-mistake");
  window->findChild<QAction*>("actionCloseTab")->trigger();
  shoot(window, prefix + "-model-unsaved");
  model->document()->undoStack()->undo();
  model->message()->clear();
  shootViews(window, model, prefix);
  return model;
}

void shootPlacement(MainWindow* window, ModelPage* made, const QString& prefix) {
  made->showField("strategy.kind");
  (void)made->document()->setField("strategy.kind", "placement", "change");
  made->layers()->setData(made->layers()->index(3, LayerTableModel::kStage), 1);
  shoot(window, prefix + "-model-placement");
  LaunchDialog* launch = window->openLaunch(made, nullptr);
  launch->findChild<QSpinBox*>("launchNodes")->setValue(2);
  (void)QTest::qWaitFor([&] { return launch->ready(); }, 5000);
  shoot(launch, prefix + "-launch-placement");
  launch->findChild<QToolButton*>("launchMore")->setChecked(true);
  launch->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(4);
  (void)QTest::qWaitFor(
      [&] { return launch->findChild<QTableView*>("candidateTable")->model()->rowCount() > 0; },
      20000);
  shoot(launch, prefix + "-launch-compare");
  launch->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(5);
  launch->findChild<QPushButton*>("adviceSearch")->click();
  (void)QTest::qWaitFor(
      [&] { return launch->findChild<QTableView*>("adviceTable")->model()->rowCount() > 0; },
      20000);
  shoot(launch, prefix + "-launch-fastest");
  launch->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(6);
  auto* link = launch->findChild<QComboBox*>("whatIfLink");
  (void)QTest::qWaitFor([&] { return link->count() > 1; }, 5000);
  link->setCurrentIndex(1);
  launch->findChild<QSlider*>("whatIfRate")->setValue(40);
  QTest::qWait(500);
  shoot(launch, prefix + "-launch-what-if");
  launch->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(7);
  shoot(launch, prefix + "-launch-summary");
  launch->reject();
  (void)QTest::qWaitFor([&] { return !window->findChild<LaunchDialog*>(); }, 5000);
}

// A program of the user's own: its page, its launch, and a run of it.
void shootProgram(MainWindow* window, const QString& run, const QString& prefix) {
  auto* page = qobject_cast<ModelPage*>(window->openFile(copied("ddp.yaml")));
  shoot(window, prefix + "-program");
  LaunchDialog* launch = window->openLaunch(page, nullptr);
  (void)QTest::qWaitFor([&] { return launch->ready(); }, 5000);
  shoot(launch, prefix + "-program-launch");
  launch->reject();
  (void)QTest::qWaitFor([&] { return !window->findChild<LaunchDialog*>(); }, 5000);
  RunPage* made = window->openRun(run);
  (void)QTest::qWaitFor(
      [&] { return made->document()->loaded() && made->lossPlot()->sampleCount() > 0; }, 5000);
  shoot(window, prefix + "-program-run");
  auto* tabs = made->findChild<QTabWidget*>("runTabs");
  tabs->setCurrentWidget(made->findChild<QWidget*>("runDocuments"));
  auto* kind = made->findChild<QComboBox*>("documentKind");
  shoot(window, prefix + "-program-run-documents");
  kind->setCurrentIndex(kind->count() - 1);
  shoot(window, prefix + "-program-run-code");
}

// A model from nothing, and one of a kind.
void shootNewModels(MainWindow* window, const QString& prefix) {
  for (const char* kind : {"empty", "gpt", "program"}) {
    NewModelDialog* ask = window->newModel();
    ask->chooseKind(kind);
    shoot(ask, prefix + "-dialog-new-model-" + kind);
    ask->accept();
    auto* made = qobject_cast<ModelPage*>(window->currentPage());
    shoot(window, prefix + "-model-" + kind);
    if (qstrcmp(kind, "gpt") == 0) shootPlacement(window, made, prefix);
  }
}

void shootCluster(MainWindow* window, const QString& prefix) {
  auto* cluster = qobject_cast<ClusterPage*>(window->openFile(copied("local-3.yaml")));
  shoot(window, prefix + "-cluster-idle");
  fillNodes(cluster);
  fillLoad(cluster);
  cluster->findChild<QTableView*>("nodeTable")->selectRow(1);
  shoot(window, prefix + "-cluster");
  cluster->editHost();
  shoot(window, prefix + "-cluster-host");
  cluster->findChild<QTabWidget*>("clusterViews")->setCurrentIndex(0);
  // With GPUs: eight on one node, one of which is hot and one lost; one on the other, whose link is
  // narrow.
  fillGpus(cluster);
  cluster->findChild<QTableView*>("nodeTable")->selectRow(0);
  shoot(window, prefix + "-cluster-gpus");
  cluster->findChild<QToolButton*>("clusterGpuButton")->setChecked(true);
  auto* measure = cluster->findChild<QComboBox*>("nodeLedMeasure");
  measure->setCurrentIndex(measure->findData(NodeTableModel::kGpuTemperature));
  Q_EMIT measure->activated(measure->currentIndex());
  auto* nodeTable = cluster->findChild<QTableView*>("nodeTable");
  nodeTable->selectRow(1);
  nodeTable->horizontalScrollBar()->setValue(400);
  shoot(window, prefix + "-cluster-gpu-load");
  window->newCluster();
  shoot(window, prefix + "-cluster-empty");
}

void shootDialogs(MainWindow* window, const QString& prefix) {
  AddHostDialog add({"n1", "n2", "n3"}, {}, "lab.yaml", window);
  add.show();
  shoot(&add, prefix + "-dialog-add-host");
  add.close();
  DeployDialog deploy("lab.yaml", window);
  deploy.show();
  shoot(&deploy, prefix + "-dialog-deploy");
  deploy.close();
  app::HostKeyQuestion question{"[n1.lab]:2201", "ssh-ed25519",
                                "SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDOcBz9F7Yl5cFJ3b4",
                                "/home/anna/.ssh/known_hosts"};
  HostKeyDialog key(question, window);
  key.show();
  shoot(&key, prefix + "-dialog-host-key");
  key.close();
  app::SecretQuestion secret;
  secret.account = "anna@n1.lab";
  secret.keyFile = "/home/anna/.ssh/id_ed25519";
  secret.attempt = 2;
  SecretDialog passphrase(secret, window);
  passphrase.show();
  shoot(&passphrase, prefix + "-dialog-passphrase");
  passphrase.close();
  AlertRulesDialog alerts(window->workspace(), window);
  alerts.show();
  shoot(&alerts, prefix + "-dialog-alert-rules");
  alerts.findChild<QLineEdit*>("alertCommand")->setText("notify-me --title 'Lockstep");
  shoot(&alerts, prefix + "-dialog-alert-rules-refused");
  alerts.close();
  AboutDialog about(window);
  about.show();
  shoot(&about, prefix + "-dialog-about");
  about.close();
  ExcludeDialog exclude("20261126-093012-51ab", {"gpu-01", "gpu-02", "gpu-03"}, "gpu-03",
                        "Rank 2 (gpu-03) is slow: 1.8 times the others' time in backward.\nSince "
                        "step 1,240, mostly in backward. A CPU quota throttled it 41 % of the "
                        "time. Without this rank a step would take 84 ms instead of 142 ms.",
                        false, window);
  exclude.show();
  shoot(&exclude, prefix + "-dialog-exclude");
  exclude.close();
  RestartDialog restart("20261126-093012-51ab", false, window);
  restart.show();
  shoot(&restart, prefix + "-dialog-restart");
  restart.close();
  CommandDialog command(
      [] {
        return CommandDialog::Texts{"Check this machine",
                                    "Looks at what Lockstep needs here, and tries it."};
      },
      "lockstep doctor", {}, {}, window);
  command.show();
  command.accept();
  while (command.running()) QTest::qWait(20);
  shoot(&command, prefix + "-dialog-command");
  command.close();
}

// The rank as its run's steps from `since` on have it.
app::Straggler slowIn(const StudioHome& home, const RunPage* run, int rank, std::int64_t since) {
  app::Straggler out;
  out.rank = rank;
  out.node = "local" + std::to_string(rank + 1);
  out.sinceStep = since;
  out.phase = "backward";
  const auto history = app::History::open(home.home().historyFolder());
  const auto store =
      history.ok() ? (*history)->openRun(run->document()->run().toStdString()) : history.error();
  const auto matrix = store.ok() ? app::storedSteps(**store) : store.error();
  if (!matrix.ok()) return out;
  const app::StepTimes times(*matrix, since, matrix->steps());
  const app::RankCosts costs = app::rankCosts(times, 3, {}, {});
  out.stepSeconds = costs.stepSeconds;
  for (const app::RankCost& cost : costs.ranks)
    if (cost.rank == rank) out.withoutSeconds = cost.withoutSeconds;
  double own = 0, peers = 0;
  const auto none = [](const std::string&) { return std::optional<double>(); };
  for (const app::PeerFigure& figure : app::peerFigures(times, rank, {}, none)) {
    if (figure.name == "step" || figure.name == "waiting" || figure.name == "transfer") continue;
    own += figure.own;
    peers += figure.peers;
  }
  out.factor = peers > 0 ? own / peers : 1;
  return out;
}

void showStraggler(RunPage* page, const app::Straggler& slow) {
  app::RunUpdate update;
  update.slowChanged = true;
  update.slow = slow;
  page->document()->take(update);
}

// Every cause that is told with figures of its own.
void shootCauses(MainWindow* window, RunPage* run, app::Straggler slow, const QString& prefix) {
  const std::pair<const char*, app::SlowEvidence> causes[] = {
      {"disk",
       {.cause = app::SlowCause::kDisk, .reading = {0.085, 0.002}, .diskBusy = {{0.97, 0.04}}}},
      {"more-data", {.cause = app::SlowCause::kMoreData, .elements = {131072, 62000}}},
      {"gpu-clock", {.cause = app::SlowCause::kGpuClock, .gpu = 1, .clock = {900, 1980}}}};
  for (const auto& [name, evidence] : causes) {
    slow.phase = evidence.cause == app::SlowCause::kDisk ? "data" : "backward";
    slow.evidence = evidence;
    showStraggler(run, slow);
    shoot(window, prefix + "-run-straggler-" + name);
  }
}

// The default dashboard, an arranged one, and what chooses its plots.
void shootDashboard(MainWindow* window, RunPage* run, const QString& prefix) {
  auto* view = run->findChild<DashboardView*>("dashboardView");
  shoot(window, prefix + "-run-dashboard");
  Dashboard arranged = view->dashboard();
  arranged.name = "Nodes";
  arranged.columns = 3;
  arranged.plots = {{{}, {"rank/*/waiting", "rank/*/transfer"}, 2, 1},
                    {{}, {"gradient_norm"}, 1, 1, true},
                    {{}, {"node/*/cpu"}},
                    {"A title that is longer than there is room for it", {"loss"}},
                    {{}, {"node/*/gpu/*/power"}}};
  view->apply(arranged);
  shoot(window, prefix + "-run-dashboard-arranged");
  view->findChild<QPushButton*>("dashboardAdd")->click();
  auto* dialog = view->findChild<MetricDialog*>();
  shoot(dialog, prefix + "-metric-dialog");
  dialog->close();
  arranged.plots.clear();
  view->apply(arranged);
  shoot(window, prefix + "-run-dashboard-empty");
}

void shootRun(MainWindow* window, const StudioHome& home, const QString& id,
              const QString& prefix) {
  RunPage* run = window->openRun(id);
  (void)QTest::qWaitFor([&] { return run->lossPlot()->sampleCount() > 0; }, 5000);
  shoot(window, prefix + "-run");
  app::Straggler slow = slowIn(home, run, 1, kSlowFrom);
  slow.evidence = {app::SlowCause::kStopped, 0.4, 0.6};
  showStraggler(run, slow);
  shoot(window, prefix + "-run-straggler");
  RebalanceDialog rebalance(*run->document(), window);
  rebalance.show();
  const auto* speeds = rebalance.findChild<QTableView*>("rebalanceTable")->model();
  (void)QTest::qWaitFor([&] { return speeds->rowCount() > 0; }, 5000);
  shoot(&rebalance, prefix + "-dialog-rebalance");
  rebalance.close();
  run->findChild<QTabWidget*>("runTabs")->setCurrentIndex(1);
  shoot(window, prefix + "-run-nodes");
  run->findChild<QTabWidget*>("runTabs")->setCurrentIndex(2);
  shoot(window, prefix + "-run-logs");
  run->findChild<QTabWidget*>("runTabs")->setCurrentIndex(3);
  auto* timeline = run->findChild<TimelineView*>("timeline");
  (void)QTest::qWaitFor([&] { return timeline->measured() != nullptr; }, 5000);
  auto* map = run->findChild<HeatMapView*>("heatMap");
  map->chooseCell(1, 213);
  shoot(window, prefix + "-run-steps");
  map->chooseCell(1, kSlowStep);
  (void)QTest::qWaitFor([&] { return timeline->measured()->step == kSlowStep; }, 5000);
  shoot(window, prefix + "-run-slow-step");
  run->findChild<QToolButton*>("timelineAsTable")->setChecked(true);
  shoot(window, prefix + "-run-slow-step-table");
  run->findChild<QToolButton*>("timelineAsTable")->setChecked(false);
  run->findChild<QTabWidget*>("runTabs")->setCurrentIndex(4);
  const auto* peers = run->findChild<QTableView*>("peerTable")->model();
  (void)QTest::qWaitFor([&] { return peers->rowCount() > 0; }, 5000);
  shoot(window, prefix + "-run-stragglers");
  run->findChild<QTabWidget*>("runTabs")->setCurrentIndex(5);
  shoot(window, prefix + "-run-traffic");
  run->findChild<QTabWidget*>("runTabs")->setCurrentIndex(6);
  shootDashboard(window, run, prefix);
  run->findChild<QTabWidget*>("runTabs")->setCurrentIndex(4);
  const auto* ranks = run->findChild<QComboBox*>("whatIfRank");
  (void)QTest::qWaitFor([&] { return ranks->count() > 1; }, 5000);
  run->findChild<QComboBox*>("whatIfRank")->setCurrentIndex(2);
  run->findChild<QComboBox*>("whatIfLink")->setCurrentIndex(1);
  auto* below = run->findChild<QScrollArea*>("runWaitsScroll")->verticalScrollBar();
  below->setValue(below->maximum());
  shoot(window, prefix + "-run-what-if");
  run->findChild<QTabWidget*>("runTabs")->setCurrentIndex(0);
  run->findChild<QToolButton*>("breakdownAsTable")->setChecked(true);
  shoot(window, prefix + "-run-table");
}

RunPage* shootGpuRun(MainWindow* window, const StudioHome& home, const QString& id,
                     const QString& prefix) {
  RunPage* run = window->openRun(id);
  (void)QTest::qWaitFor([&] { return run->document()->loaded(); }, 5000);
  app::Straggler slow = slowIn(home, run, 2, kHotFrom);
  slow.evidence = {.cause = app::SlowCause::kGpuHeat, .share = 0.62, .cores = 0.6, .gpu = 1};
  showStraggler(run, slow);
  shoot(window, prefix + "-run-gpu-straggler");
  shootCauses(window, run, slow, prefix);
  run->findChild<QTabWidget*>("runTabs")->setCurrentIndex(1);
  shoot(window, prefix + "-run-gpus");
  auto* nodesScroll = run->findChild<QScrollArea*>("runNodesScroll");
  nodesScroll->verticalScrollBar()->setValue(nodesScroll->verticalScrollBar()->maximum());
  shoot(window, prefix + "-run-gpus-below");
  return run;
}

// More GPUs than there are lines that can be told apart: their spread, one kept, one pointed at.
void shootManyGpus(MainWindow* window, const QString& id, const QString& prefix) {
  RunPage* run = window->openRun(id);
  (void)QTest::qWaitFor([&] { return run->document()->loaded(); }, 5000);
  run->findChild<QTabWidget*>("runTabs")->setCurrentIndex(1);
  shoot(window, prefix + "-run-many-gpus");
  auto* plot = run->findChild<PlotView*>("temperaturePlot");
  auto* scroll = run->findChild<QScrollArea*>("runNodesScroll");
  scroll->ensureWidgetVisible(plot);
  shoot(window, prefix + "-run-many-gpus-below");
  auto* canvas = plot->findChild<QWidget*>("plotCanvas");
  const auto at = [&](double x, double y) {
    return QPoint(static_cast<int>(x * canvas->width()), static_cast<int>(y * canvas->height()));
  };
  QTest::mouseClick(canvas, Qt::LeftButton, Qt::NoModifier, at(0.9, 0.15));
  QTest::mouseMove(canvas, at(0.6, 0.5));
  QTest::qWait(100);
  QTest::mouseMove(canvas, at(0.6, 0.7));
  shoot(window, prefix + "-run-many-gpus-pointed");
}

// One whose coordinating node does not answer.
void shootUnreachable(MainWindow* window, RunPage* run, const QString& prefix) {
  app::RunUpdate away;
  away.row = run->document()->row();
  away.row->phase = app::RunState::RUNNING;
  away.row->unreachableNs = away.row->startedNs + 2'000'000'000;
  run->document()->take(away);
  window->openRun(run->document()->run());
  shoot(window, prefix + "-run-unreachable");
}

// Tags, a saved filter and notes, as a person keeps them.
void keepHistory(const StudioHome& home) {
  const auto history = app::History::open(home.home().historyFolder());
  if (!history.ok()) return;
  const auto rows = (*history)->list();
  if (!rows.ok() || rows->size() < 3) return;
  (void)(*history)->changeTags({(*rows)[0].run, (*rows)[2].run}, {{"baseline", "lr:3e-4"}, {}});
  (void)(*history)->changeTags({(*rows)[0].run}, {{"paper"}, {}});
  (void)(*history)->saveFilter({"Last week's failures", "state:failed since:7d"});
}

void shootHistory(MainWindow* window, const StudioHome& home, const QString& prefix) {
  keepHistory(home);
  HistoryPage* history = window->openHistory();
  (void)QTest::qWaitFor([&] { return history->runs()->rowCount() == 5; }, 5000);
  QItemSelection chosen;
  for (int row : {0, 1, 3})
    chosen.select(history->runs()->index(row, 0), history->runs()->index(row, 0));
  history->findChild<QTableView*>("runTable")
      ->selectionModel()
      ->select(chosen, QItemSelectionModel::ClearAndSelect | QItemSelectionModel::Rows);
  history->findChild<QComboBox*>("overlayAxis")->setCurrentIndex(1);
  (void)QTest::qWaitFor([&] { return history->overlay()->sampleCount() > 0; }, 5000);
  shoot(window, prefix + "-history");
  for (const bool light : {false, true})
    (void)writePicture(folder + "/" + prefix + (light ? "-plot-print.png" : "-plot.png"),
                       history->overlay()->picture(),
                       light ? PictureLook::kLight : PictureLook::kCurrent);
  if (const auto opened = app::History::open(home.home().historyFolder()); opened.ok()) {
    const std::string run = history->selectedRuns().value(0).toStdString();
    if (const auto report = app::htmlReport(**opened, run); report.ok()) {
      QFile page(folder + "/" + prefix + "-report.html");
      if (page.open(QIODevice::WriteOnly)) page.write(QByteArray::fromStdString(*report));
    }
    if (const auto chart = app::chartOf(**opened, run, "loss"); chart.ok())
      QImage::fromData(QByteArray::fromStdString(app::svgOf(*chart)), "SVG")
          .save(folder + "/" + prefix + "-report-loss.png");
  }
  history->findChild<QPushButton*>("tagsButton")->click();
  (void)QTest::qWaitFor([&] { return history->findChild<TagsDialog*>() != nullptr; }, 5000);
  if (auto* dialog = history->findChild<TagsDialog*>()) {
    shoot(dialog, prefix + "-tags");
    dialog->reject();
  }
  auto* search = history->findChild<QLineEdit*>("historySearch");
  search->setText("stat:failed");
  shoot(window, prefix + "-history-wrong");
  auto* menu = history->findChild<QToolButton*>("filtersButton")->menu();
  menu->popup(window->mapToGlobal(QPoint(20, 30)));
  shoot(menu, prefix + "-filters");
  menu->close();
  search->setText("state:failed since:7d");
  (void)QTest::qWaitFor([&] { return history->findChild<QAction*>("saveFilter") != nullptr; });
  history->findChild<QAction*>("saveFilter")->trigger();
  if (auto* dialog = history->findChild<NameDialog*>()) {
    dialog->findChild<QLineEdit*>("nameField")->setText("last week's failures");
    shoot(dialog, prefix + "-dialog-save-filter");
    dialog->reject();
  }
  search->setText("tag:none");
  shoot(window, prefix + "-history-none");
  search->clear();
}

void shootMenus(MainWindow* window, const QString& prefix) {
  for (const char* name : {"menuFile", "menuView", "menuRun"}) {
    auto* menu = window->findChild<QMenu*>(name);
    menu->popup(window->mapToGlobal(QPoint(20, 30)));
    shoot(menu, prefix + "-" + name);
    menu->close();
  }
}

void awaitScene(LearnPage* page) {
  (void)QTest::qWaitFor([&] { return !page->session()->isMaking(); }, 60'000);
}

// The list, each lesson with each of its pictures, and a projector.
void shootLearn(MainWindow* window, const QString& prefix) {
  LearnPage* page = window->openLearn();
  shoot(window, prefix + "-learn");
  const int lessons = page->findChild<QListView*>("lessons")->model()->rowCount();
  for (int i = 0; i < lessons; ++i) {
    page->openLesson({});
    auto* list = page->findChild<QListView*>("lessons");
    QTest::mouseClick(list->viewport(), Qt::LeftButton, {},
                      list->visualRect(list->model()->index(i, 0)).center());
    if (!page->session()) continue;
    awaitScene(page);
    auto* tabs = page->findChild<QTabWidget*>("lessonTabs");
    for (int tab = 0; tab < tabs->count(); ++tab) {
      tabs->setCurrentIndex(tab);
      if (auto* forward = tabs->currentWidget()->findChild<QToolButton*>("messagesPlayerForward"))
        forward->click();
      shoot(window, QString("%1-learn-%2-%3").arg(prefix).arg(i + 1).arg(tab + 1));
    }
  }
  if (!page->session()) return;
  page->findChild<QToolButton*>("lessonProjector")->click();
  shoot(window, prefix + "-learn-projector");
  page->findChild<QToolButton*>("lessonProjector")->click();
}

void shootAll(const QString& prefix, bool dark, const QString& language) {
  StudioHome home;
  qputenv("HOME", home.path("anna").toLocal8Bit());  // whose files are shown as ~/…
  QDir().mkpath(QDir::homePath());
  const auto addRun = [&](int index, app::RunState phase, int steps, int gpus = 0) {
    return QString::fromStdString(home.addRun(index, phase, steps, gpus));
  };
  const auto addSlowRun = [&](int index, int steps, int gpus,
                              const tests::MadeUpCurves::Slow& slow) {
    return QString::fromStdString(home.addRun(index, app::RunState::SUCCEEDED, steps, gpus, slow));
  };
  const QString done = addSlowRun(0, 3000, 0, {1, kSlowFrom, 3000, kSlowStep});
  addRun(1, app::RunState::SUCCEEDED, 2500);
  const QString withGpus = addSlowRun(4, 2600, 2, {2, kHotFrom, 2600});
  const QString failed = addRun(2, app::RunState::FAILED, 900);
  addRun(3, app::RunState::STOPPED, 1800);
  const QString program = QString::fromStdString(home.addProgramRun());
  MainWindow window(home.options());
  window.setDark(dark);
  window.setLanguage(language);
  window.resize(size);
  window.show();
  window.restoreDefaultLayout();
  shoot(&window, prefix + "-welcome");
  if (!withoutLessons) shootLearn(&window, prefix);
  if (lessonsAlone) return;
  ModelPage* model = shootModel(&window, prefix);
  shootProgram(&window, program, prefix);
  shootNewModels(&window, prefix);
  shootCluster(&window, prefix);
  shootDialogs(&window, prefix);
  shootLaunch(window.openLaunch(model, nullptr), prefix);
  shootRun(&window, home, done, prefix);
  shootManyGpus(&window, addRun(6, app::RunState::SUCCEEDED, 600, 40), prefix);
  RunPage* gpuRun = shootGpuRun(&window, home, withGpus, prefix);
  window.openRun(failed);
  shoot(&window, prefix + "-run-failed");
  shootUnreachable(&window, gpuRun, prefix);
  shootHistory(&window, home, prefix);
  window.openFile(home.path("absent.yaml"));
  shoot(&window, prefix + "-error");
  window.findChild<QAction*>("actionPalette")->trigger();
  shoot(&window, prefix + "-palette");
  shootMenus(&window, prefix);
}

}  // namespace

int main(int argc, char** argv) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication app(argc, argv);
  QApplication::setApplicationVersion("0.1.0");
  if (argc < 2) {
    fprintf(stderr,
            "usage: ui_pictures FOLDER [light|dark|chinese|chinese-dark]... [WIDTHxHEIGHT] "
            "[learn|pages]\n");
    return 2;
  }
  folder = argv[1];
  QDir().mkpath(folder);
  QStringList looks;
  for (int i = 2; i < argc; ++i) {
    const QString word = argv[i];
    if (word[0].isDigit()) {
      size = QSize(word.section('x', 0, 0).toInt(), word.section('x', 1, 1).toInt());
    } else if (word == "learn") {
      lessonsAlone = true;
    } else if (word == "pages") {
      withoutLessons = true;
    } else {
      looks << word;
    }
  }
  if (looks.isEmpty()) looks = QStringList{"light", "dark", "chinese", "chinese-dark"};
  for (const QString& look : looks)
    shootAll(look, look.endsWith("dark"), look.startsWith("chinese") ? "zh_CN" : "en");
  return 0;
}
