// Stragglers planted on hosts of their own, while the window follows the run: its panel names each
// with its cause within so many steps, and nobody in healthy runs.
//
// Victims are chosen by a seed: LOCKSTEP_STRAGGLERS_SEED. The short form has a healthy run, a link
// and a clock; with LOCKSTEP_STRAGGLERS_ROUNDS there are as many rounds of all, and ten healthy
// runs.
#include <QRegularExpression>
#include <filesystem>
#include <random>
#include <vector>

#include "app/cluster/preflight.h"
#include "tests/cluster/control_group.h"
#include "tests/cluster/runs_on_hosts.h"
#include "tests/cluster/straggler_runs.h"
#include "tests/support/pytorch.h"
#include "tests/ui/studio_road.h"
#include "ui/dialogs/preflight_dialog.h"
#include "ui/models/preflight_model.h"
#include "ui/plots/heat_map_view.h"

using namespace lockstep;
using tests::wait;

namespace {

constexpr int kHosts = 3, kHealthyRuns = 10;
constexpr int kStepsTab = 3;
constexpr std::int64_t kWithinSteps = 20, kHealthySteps = 100;
constexpr const char* kGpus = "/run/gpus";  // each host's own

// Steps of some 60 ms, in which what the window is behind is few of the 20. The gradients are more
// than a link has under way at a time.
const std::vector<std::pair<QString, QString>> kLongSteps = {
    {"units: 128", "units: 512"},
    {"batch: 32 ", "batch: 6000 "},
    {"epochs: 5", "epochs: 1000"},
    {"strategy:", "recovery: {policy: none}\nstrategy:"}};

// Follows the imports: a GPU whose driver says that this program computes on it.
constexpr const char* kOnGpu = R"(
GPUS = "PATH"
with open(GPUS, "w") as file:
    file.write(f"count 1\nutilization 90 50\nreasons 0\nprocesses {os.getpid()}\nclock1 1980\n")
def clock():
    with open(GPUS) as file: return int(file.read().split()[-1])
)";

}  // namespace

class StudioStragglersTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    QString why = on_.prepare();
    if (why.isEmpty())
      if (const char* no = tests::whyNoRuns()) why = no;
    if (!why.isEmpty()) QSKIP(qPrintable(why));
    home_ = std::make_unique<tests::StudioHome>();
    road_ = std::make_unique<tests::StudioRoad>(home_->home());
    road_->open(on_.sshConfig());
    cluster_ = qobject_cast<ui::ClusterPage*>(road_->window()->openFile(on_.all()));
    QVERIFY(cluster_);
    QTest::mouseClick(cluster_->findChild<QPushButton*>("connectButton"), Qt::LeftButton);
    QVERIFY2(wait([&] { return cluster_->connectedCount() == kHosts; }),
             qPrintable(cluster_->message()->details()));
  }

  // Links that sent 100 MB/s before are measured while one host is behind a thin line.
  void thePreflightNamesTheWeakLinks() {
    const QStringList thin{"n1>n2", "n2>n1", "n2>n3", "n3>n2"}, usual{"n1>n3", "n3>n1"};
    app::PreflightResult before;
    for (const QString& link : thin + usual)
      before.values.push_back({app::PreflightValue::Kind::kBandwidth,
                               link.section('>', 0, 0).toStdString(),
                               link.section('>', 1).toStdString(), 1e8});
    const std::string name = cluster_->document()->spec().value("name").value_or("");
    QVERIFY(app::addPreflight(home_->home(), name, before).ok());
    QVERIFY(on_.hosts().limitRate(2, 60));
    QTest::mouseClick(cluster_->findChild<QToolButton*>("preflightButton"), Qt::LeftButton);
    QPointer<ui::PreflightDialog> dialog = cluster_->findChild<ui::PreflightDialog*>();
    const auto closed = qScopeGuard([&] { delete dialog; });
    const bool measured = dialog && wait([&] { return !dialog->measuring(); });
    QVERIFY(on_.hosts().unlimitRate(2));
    QVERIFY(measured);
    const auto* table = dialog->findChild<QTableView*>("preflightTable")->model();
    const auto at = [&](int row, int column) {
      return table->index(row, column).data().toString();
    };
    QMap<QString, QString> grades;  // of links
    for (int row = 0; row < table->rowCount(); ++row)
      if (at(row, ui::PreflightModel::kWhat) == "Bandwidth")
        grades[at(row, ui::PreflightModel::kNode) + ">" + at(row, ui::PreflightModel::kPeer)] =
            at(row, ui::PreflightModel::kGrade);
    for (const QString& link : thin + usual)
      QVERIFY2(grades[link] == (thin.contains(link) ? "weak" : "good"),
               qPrintable(link + " is " + grades[link]));
    QVERIFY(dialog->findChild<QLabel*>("preflightOutcome")->text().contains("Weak values: "));
    QTest::mouseClick(dialog->findChild<QPushButton*>("preflightDialogReject"), Qt::LeftButton);
    QVERIFY(wait([&] { return dialog.isNull(); }));
  }

  void stragglers_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<unsigned>("seed");
    const unsigned first = qEnvironmentVariable("LOCKSTEP_STRAGGLERS_SEED", "1").toUInt();
    const unsigned rounds = qEnvironmentVariable("LOCKSTEP_STRAGGLERS_ROUNDS", "1").toUInt();
    const bool isLong = qEnvironmentVariableIsSet("LOCKSTEP_STRAGGLERS_ROUNDS");
    std::vector<const char*> kinds{"healthy", "link", "clock"};
    if (isLong) kinds.insert(kinds.end(), {"quota", "disk", "data"});
    for (unsigned seed = first; seed < first + rounds; ++seed)
      for (const char* kind : kinds) QTest::addRow("%s, seed %u", kind, seed) << kind << seed;
    if (!isLong) return;
    for (unsigned more = rounds; more < kHealthyRuns; ++more)
      QTest::addRow("healthy, run %u", more + 1) << "healthy" << first;
  }
  void stragglers() {
    QFETCH(QString, kind);
    QFETCH(unsigned, seed);
    random_.seed(seed * 2654435761u + 1);
    const bool ofProgram = kind == "data" || kind == "clock";
    if (ofProgram && !test::hasPyTorch()) QSKIP("python3-torch is not installed");
    if (kind == "healthy") endRun();
    trainOn(ofProgram ? "program" : kind == "disk" ? "reads" : "long steps");
    if (QTest::currentTestFailed()) return;
    const int victim = 1 + static_cast<int>(random_() % kHosts);
    if (kind == "healthy") {
      nobodyIsNamed();
    } else if (kind == "link") {
      hasASlowLink(victim);
    } else if (kind == "quota") {
      hasAQuota(victim);
    } else if (kind == "disk") {
      isNamed(victim, " a step for its data files, the others ", [&](bool on) {
        on_.slowReads(victim, on ? 1 : 0);
        return true;
      });
    } else if (kind == "data") {
      isNamed(victim, "Its batches had ", [&](bool on) {
        on_.cli().write("large", on ? QByteArray::number(victim - 1) : QByteArray());
        return true;
      });
    } else {
      hasALowClock(victim);
    }
  }

  void cleanup() {
    on_.restore();
    if (QTest::currentTestFailed()) endRun();
  }
  void cleanupTestCase() {
    endRun();
    if (road_) road_->close();
    road_.reset();
    home_.reset();
    on_.close();
  }

 private:
  ui::RunDocument* run() { return road_->page()->document(); }
  QString who() { return road_->page()->findChild<QLabel*>("stragglerWho")->text(); }
  QString evidence() { return road_->page()->findChild<QLabel*>("stragglerEvidence")->text(); }
  QString shown() {
    return QString("step %1: %2 %3; %4")
        .arg(run()->lastStep())
        .arg(who(), evidence(), road_->page()->message()->details());
  }

  // A run of this kind is under way, and in its stride.
  void trainOn(const QString& kind) {
    if (kind != running_) {
      endRun();
      if (kind == "program") {
        road_->launchFile(writeProgram(), cluster_, kHosts);
      } else if (kind == "reads") {
        // 640 samples a step and rank.
        road_->launchFile(test::writeTokensRun(on_.cli(), 4'000'000, 1920, 60, random_), cluster_,
                          kHosts);
      } else {
        road_->launch("fashion-mlp.yaml", kLongSteps, cluster_, kHosts);
      }
      if (QTest::currentTestFailed()) return;
      running_ = kind;
    }
    const std::int64_t first = run()->lastStep();
    QVERIFY2(wait([&] { return run()->lastStep() >= first + 20; }), qPrintable(shown()));
  }
  void endRun() {
    if (running_.isEmpty()) return;
    running_.clear();
    if (run()->canKill()) run()->ask(app::RunRequest::kKill);
    QVERIFY(wait([&] { return app::isFinal(run()->row().phase); }));
    on_.endsEverywhere(road_->run());
  }

  void nobodyIsNamed() {
    QStringList named;
    const auto watching = connect(run(), &ui::RunDocument::slowChanged, this, [&] {
      if (run()->slow()) named << shown();
    });
    const std::int64_t first = run()->lastStep();
    const bool went = wait([&] { return run()->lastStep() >= first + kHealthySteps; });
    disconnect(watching);
    QVERIFY2(went, qPrintable(shown()));
    QVERIFY2(named.isEmpty(), qPrintable(named.join('\n')));
    QVERIFY2(who().startsWith("No straggler"), qPrintable(who()));
  }

  // What `plant` puts there, and takes away, is in the panel in time, and leaves it.
  void isShown(const std::function<bool(bool)>& plant, const std::function<bool()>& named) {
    const std::int64_t before = run()->lastStep();
    QVERIFY(plant(true));
    // The hosts share this machine's cores: another one may be named first.
    (void)wait([&] { return named() || run()->lastStep() > before + kWithinSteps; });
    qInfo("after %lld steps, %s", static_cast<long long>(run()->lastStep() - before),
          qPrintable(shown()));
    const bool inTime = named() && run()->lastStep() <= before + kWithinSteps;
    QVERIFY(plant(false));
    QVERIFY(inTime);
    QVERIFY2(wait([&] { return !named(); }), qPrintable(shown()));
  }
  void isNamed(int victim, const QString& cause, const std::function<bool(bool)>& plant) {
    const QString rank = QString("Rank %1 on n%2 ").arg(victim - 1).arg(victim);
    isShown(plant, [&] { return who().contains(rank) && evidence().contains(cause); });
  }
  void hasASlowLink(int victim) {
    const QRegularExpression link(QString("\\bn%1\\b").arg(victim)),
        cause("[MkG]?B/s instead of .*B/s, round trip .* instead of ");
    isShown(
        [&](bool on) {
          return on ? on_.hosts().limitRate(victim, 60) : on_.hosts().unlimitRate(victim);
        },
        [&] {
          return run()->slow() && run()->slow()->link && who().contains(link) &&
                 evidence().contains(cause);
        });
  }
  void hasAQuota(int victim) {
    const auto group = test::ControlGroup::make();
    if (!group) QSKIP("no control group can be made here");
    const pid_t worker = on_.workerOn(victim, road_->run());
    QVERIFY(worker > 0);
    isNamed(victim, "A CPU quota throttled it ", [&](bool on) {
      return group->limitCpu(on ? 0.05 : 100) && (!on || group->add(worker));
    });
  }
  void hasALowClock(int victim) {
    const std::int64_t before = run()->lastStep();
    isNamed(victim, "Its GPU 0 ran at ",
            [&](bool on) { return setClock(victim, on ? 600 : 1980); });
    if (!QTest::currentTestFailed()) isInTheHeatMap(victim - 1, before);
  }
  // The map of GPU clocks has a step after `before` in which the rank's is below the others'.
  void isInTheHeatMap(int rank, std::int64_t before) {
    const app::StepMatrix& steps = run()->steps();
    const auto clockOf = [&](int one, std::int64_t step) {
      return steps.value(app::StepMeasure::kGpuClock, one, step);
    };
    std::int64_t low = 0;
    QVERIFY2(wait([&] {
               for (std::int64_t step = before + 1; low == 0 && step <= steps.steps(); ++step)
                 if (clockOf(rank, step) == 600 && clockOf((rank + 1) % kHosts, step) == 1980)
                   low = step;
               return low > 0;
             }),
             qPrintable(shown()));
    auto* tabs = road_->page()->findChild<QTabWidget*>("runTabs");
    const int tab = tabs->currentIndex();
    tabs->setCurrentIndex(kStepsTab);
    auto* measure = road_->page()->findChild<QComboBox*>("heatMapMeasure");
    QVERIFY(wait([&] { return measure->findText("GPU clock") == measure->count() - 1; }));
    QTest::keyClick(measure, Qt::Key_End);
    auto* map = road_->page()->findChild<ui::HeatMapView*>("heatMap");
    map->chooseCell(rank, low);
    const auto says = [&](const char* text) { return map->accessibleDescription().contains(text); };
    QVERIFY2(
        wait([&] { return says("GPU clock 600 MHz") && says("69.7 % below the median rank"); }),
        qPrintable(map->accessibleDescription()));
    tabs->setCurrentIndex(tab);
  }
  // As the driver of a host tells it, and its program feels it. Readers see either content.
  bool setClock(int host, int megahertz) {
    const std::string file =
        "/proc/" + std::to_string(on_.hosts().sshd(host).listener()) + "/root" + kGpus;
    QString text = QString::fromStdString(test::readText(file));
    text.replace(QRegularExpression("clock1 [0-9]+"), "clock1 " + QString::number(megahertz));
    test::writeText(file + ".new", text.toStdString());
    std::error_code error;
    std::filesystem::rename(file + ".new", file, error);
    return text.contains("clock1") && !error;
  }

  // Steps of 60 ms. The rank that the file names has five times the rows; one whose GPU's clock is
  // low takes as long.
  QString writeProgram() {
    const QByteArray imports = "import os, time\n", works = "time.sleep(0.001 * len(x))";
    QByteArray script = test::largeBatches(on_.cli());
    script.replace(imports, imports + QByteArray(kOnGpu).replace("PATH", kGpus));
    script.replace(works, "time.sleep(0.003 * len(x) * 1980 / clock())");
    return test::writeScriptRun(on_.cli(), "program", script);
  }

  test::RunsOnHosts on_{
      kHosts, 1800,
      std::string("LOCKSTEP_NVML=" LOCKSTEP_FAKE_NVML_FILE " LOCKSTEP_NVML_SCRIPT=") + kGpus};
  std::unique_ptr<tests::StudioHome> home_;
  std::unique_ptr<tests::StudioRoad> road_;
  QPointer<ui::ClusterPage> cluster_;
  QString running_;  // the kind of the run under way; "": none
  std::minstd_rand random_;
};

// The hosts are made before there are threads.
int main(int argc, char** argv) {
  StudioStragglersTest test;
  QApplication app(argc, argv);
  return QTest::qExec(&test, argc, argv);
}
#include "studio_stragglers_test.moc"
