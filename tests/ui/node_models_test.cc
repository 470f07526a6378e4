// The table of nodes, the grid beside it, and what is told of their GPUs.
#include <QAbstractItemModelTester>
#include <QComboBox>
#include <QElapsedTimer>
#include <QScopeGuard>
#include <QSignalSpy>
#include <QTableView>
#include <QTest>
#include <algorithm>
#include <cmath>
#include <random>

#include "ui/models/gpu_text.h"
#include "ui/models/node_table_model.h"
#include "ui/pages/node_leds.h"
#include "ui/plots/color_map.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"

using namespace lockstep::ui;
namespace app = lockstep::app;

namespace {

app::GpuLoad wellGpu() {
  app::GpuLoad well;
  well.name = "NVIDIA H200";
  well.utilisation = 0.9;
  well.memoryUsed = 9e10;
  well.memoryTotal = 1.5e11;
  well.temperature = 61;
  well.power = 612;
  well.powerLimit = 700;
  well.throttle.emplace();
  return well;
}

app::GpuLoad hotGpu() {
  app::GpuLoad hot = wellGpu();
  hot.index = 1;
  hot.utilisation = 0.5;
  hot.temperature = 88;
  hot.throttle->push_back("heat");
  return hot;
}

// One that tells its name alone.
app::GpuLoad bareGpu(int index) {
  app::GpuLoad bare;
  bare.index = index;
  bare.name = "NVIDIA H200";
  return bare;
}

// Two of them have been heard.
void setThreeNodes(NodeTableModel& model) {
  QVector<NodeRow> rows(3);
  for (int i = 0; i < rows.size(); ++i) rows[i].name = QString("n%1").arg(i);
  rows[0].sampled = rows[1].sampled = true;
  model.setRows(rows);
}

QVector<NodeRow> manyNodes(int count) {
  std::mt19937 random(7);
  const auto share = [&] { return static_cast<double>(random() % 1000) / 1000; };
  QVector<NodeRow> rows(count);
  for (int i = 0; i < count; ++i) {
    rows[i].name = QString("n%1").arg(i);
    rows[i].sampled = i % 10 != 9;
    rows[i].phase = i == 9 ? app::NodeState::UNAVAILABLE : app::NodeState::CONNECTED;
    rows[i].cpu = share();
    rows[i].memoryTotal = 1e11;
    rows[i].memoryUsed = 1e11 * share();
    for (int gpu = 0; gpu < 8; ++gpu) {
      rows[i].gpus.push_back(wellGpu());
      rows[i].gpus.back().index = gpu;
      rows[i].gpus.back().temperature = 40 + 50 * share();
    }
  }
  return rows;
}

QString textAt(const NodeTableModel& model, int row, int column) {
  return model.index(row, column).data().toString();
}

}  // namespace

class NodeModelsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { Theme::instance().apply(Theme::Mode::kLight); }

  void nodes() {
    NodeTableModel model;
    QAbstractItemModelTester tester(&model);
    QVector<NodeRow> rows(100);
    for (int i = 0; i < rows.size(); ++i) rows[i].name = QString("n%1").arg(i);
    model.setRows(rows);
    QSignalSpy changed(&model, &QAbstractItemModel::dataChanged);
    model.row("n7")->cpu = 0.5;
    model.row("n7")->sampled = true;
    model.touched("n7");
    model.touched("n9");
    QCOMPARE(changed.size(), 0);
    model.flush();
    QCOMPARE(changed.size(), 1);  // once a frame
    QCOMPARE(model.index(7, NodeTableModel::kCpu).data(NodeTableModel::kFractionRole).toDouble(),
             0.5);
    QVERIFY(!model.index(8, NodeTableModel::kCpu).data(NodeTableModel::kFractionRole).isValid());
    model.retranslate();
  }

  void gpusOfNodes() {
    NodeTableModel model;
    QAbstractItemModelTester tester(&model);
    setThreeNodes(model);
    QVERIFY(!model.anyGpu());
    model.row("n0")->gpus = {wellGpu(), hotGpu(), bareGpu(2)};
    model.touched("n0");
    model.flush();
    QVERIFY(model.anyGpu());
    QCOMPARE(textAt(model, 0, NodeTableModel::kGpu), QString("GPU 1 slowed down for heat"));
    // of those that tell it
    QCOMPARE(textAt(model, 0, NodeTableModel::kGpuUse), QString("70 %"));
    QCOMPARE(textAt(model, 0, NodeTableModel::kGpuMemory), QString("180 of 300 GB"));
    QCOMPARE(textAt(model, 0, NodeTableModel::kGpuTemperature), QString::fromUtf8("88 °C"));
    QCOMPARE(textAt(model, 0, NodeTableModel::kGpuPower), QString("1,224 W"));
    const QVariantList use =
        model.index(0, NodeTableModel::kGpuUse).data(NodeTableModel::kFractionsRole).toList();
    QCOMPARE(use.size(), 3);
    QCOMPARE(use[1].toDouble(), 0.5);
    QVERIFY(!use[2].isValid());
    QVERIFY(model.index(0, NodeTableModel::kGpuTemperature)
                .data(NodeTableModel::kFractionsRole)
                .toList()
                .isEmpty());
    QCOMPARE(model.index(0, NodeTableModel::kGpu).data(NodeTableModel::kTonesRole).toList(),
             (QVariantList{int(Tone::kGood), int(Tone::kWarning), int(Tone::kGood)}));
    const QString tip = model.index(0, NodeTableModel::kGpu).data(Qt::ToolTipRole).toString();
    QVERIFY2(tip.contains(QString::fromUtf8("GPU 1: NVIDIA H200 · 50 % · 90.0 of 150 GB · 88 °C · "
                                            "612 of 700 W · slowed down for heat")),
             qPrintable(tip));
    QVERIFY2(tip.contains("GPU 2: NVIDIA H200"), qPrintable(tip));
    // The worst is named, and how many others there are.
    app::GpuLoad lost = bareGpu(3);
    lost.problem = "GPU is lost";
    model.row("n0")->gpus.push_back(lost);
    QCOMPARE(textAt(model, 0, NodeTableModel::kGpu),
             QString("GPU 3 does not answer: GPU is lost +1"));
  }

  // A grid and a table of the same nodes, of which every tenth has not been heard.
  void ledsShowNodesAndSelectTheirRows() {
    NodeTableModel model;
    QTableView table;
    table.setModel(&model);
    table.setSelectionBehavior(QAbstractItemView::SelectRows);
    NodeLeds leds(&model, table.selectionModel());
    leds.resize(900, 120);
    leds.show();
    QVERIFY(QTest::qWaitForWindowExposed(&leds));
    model.setRows(manyNodes(100));
    QTest::qWait(50);  // laid out
    auto* grid = leds.findChild<NodeLedGrid*>();
    auto* measure = leds.findChild<QComboBox*>();
    QVERIFY(grid->perLine() > 1 && grid->ledOf(99).bottom() < grid->height());
    const ColorMap colors(ColorMap::Kind::kSequential);
    const auto colorAt = [&](const QPoint& at) {
      const QImage image = grid->grab().toImage();
      return image.pixel(at * image.devicePixelRatio());
    };
    const auto isAt = [&](const QPoint& at, double share) {
      return colorAt(at) == colors.at(static_cast<float>(share));
    };
    for (const int row : {0, 37, 98})
      QVERIFY(isAt(grid->ledOf(row).center(), model.rows()[row].cpu));
    QCOMPARE(colorAt(grid->ledOf(19).center()), colorAt({grid->ledOf(0).right() + 2, 1}));
    // A stripe for each GPU.
    measure->setCurrentIndex(measure->findData(NodeTableModel::kGpuTemperature));
    Q_EMIT measure->activated(measure->currentIndex());
    QCOMPARE(grid->measure(), int(NodeTableModel::kGpuTemperature));
    const QRect led = grid->ledOf(37);
    QVERIFY(isAt({led.x() + led.width() * 3 / 8, led.center().y()},
                 *model.rows()[37].gpus[3].temperature / 100));
    // Of one selection with the table.
    QTest::mouseClick(grid, Qt::LeftButton, {}, led.center());
    QCOMPARE(table.currentIndex().row(), 37);
    QVERIFY(grid->accessibleDescription().startsWith(QString::fromUtf8("n37 · connected\n")));
    QTest::keyClick(grid, Qt::Key_Right);
    QTest::keyClick(grid, Qt::Key_Up);
    QCOMPARE(table.currentIndex().row(), 38 < grid->perLine() ? 38 : 38 - grid->perLine());
    QTest::keyClick(grid, Qt::Key_End);
    QTest::keyClick(grid, Qt::Key_Right);
    QCOMPARE(table.currentIndex().row(), 99);
    table.selectRow(5);
    QTest::keyClick(grid, Qt::Key_Left);
    QCOMPARE(table.currentIndex().row(), 4);
    // A few milliseconds each, and more on a busy machine.
    QElapsedTimer timer;
    timer.start();
    for (int i = 0; i < 20; ++i) grid->repaint();
    QVERIFY2(timer.elapsed() < 4000, qPrintable(QString::number(timer.elapsed())));
    // What is not a number is not shown.
    NodeRow odd = model.rows()[0];
    odd.cpu = std::nan("");
    model.setRows({odd});
    measure->setCurrentIndex(measure->findData(NodeTableModel::kCpu));
    Q_EMIT measure->activated(measure->currentIndex());
    QCOMPARE(colorAt(grid->ledOf(0).center()), colorAt({grid->ledOf(0).right() + 2, 1}));
    measure->setCurrentIndex(measure->findData(NodeTableModel::kGpuTemperature));
    Q_EMIT measure->activated(measure->currentIndex());
    // However many there are, all have a cell.
    model.setRows(manyNodes(4096));
    QTest::qWait(50);
    QVERIFY(grid->height() <= 60 && grid->ledOf(4095).bottom() < grid->height());
    // A stripe of several GPUs shows the hottest.
    const QRect small = grid->ledOf(4000);
    double hottest = 0;
    for (int gpu = 0; gpu < 8 / std::min(8, small.width()); ++gpu)
      hottest =
          std::max(hottest, *model.rows()[4000].gpus[static_cast<std::size_t>(gpu)].temperature);
    QVERIFY(small.width() < 8 && isAt(small.topLeft(), hottest / 100));
    // Without GPUs there are none to show.
    model.setRows(QVector<NodeRow>(3));
    QCOMPARE(measure->count(), 4);
    QCOMPARE(grid->measure(), int(NodeTableModel::kCpu));
    // The measure comes back with them.
    model.setRows(manyNodes(3));
    QCOMPARE(grid->measure(), int(NodeTableModel::kGpuTemperature));
    QCOMPARE(measure->currentData().toInt(), grid->measure());
  }

  // Network, disk and clock are measures too; a GPU that is slowed down is marked in all of GPUs.
  void ledsShowTrafficDiskAndClock() {
    NodeTableModel model;
    QTableView table;
    table.setModel(&model);
    NodeLeds leds(&model, table.selectionModel());
    leds.resize(900, 120);
    leds.show();
    QVERIFY(QTest::qWaitForWindowExposed(&leds));
    QVector<NodeRow> rows = manyNodes(3);
    rows[0].networkIn = 1.5e8;
    rows[0].networkOut = 0.9e8;
    rows[1].loopback = 4e8;  // of ranks on one host
    rows[0].diskBusy = 0.75;
    rows[0].gpus = {wellGpu(), hotGpu()};
    for (app::GpuLoad& gpu : rows[0].gpus) gpu.smClockMax = 1980;
    rows[0].gpus[0].smClock = 1980;
    rows[0].gpus[1].smClock = 990;
    model.setRows(rows);
    QTest::qWait(50);  // laid out
    auto* grid = leds.findChild<NodeLedGrid*>();
    auto* measure = leds.findChild<QComboBox*>("nodeLedMeasure");
    const ColorMap colors(ColorMap::Kind::kSequential);
    const auto colorAt = [&](const QPoint& at) {
      const QImage image = grid->grab().toImage();
      return image.pixel(at * image.devicePixelRatio());
    };
    const auto choose = [&](int column) {
      measure->setCurrentIndex(measure->findData(column));
      Q_EMIT measure->activated(measure->currentIndex());
      return grid->measure() == column;
    };
    QVERIFY(choose(NodeTableModel::kNetwork));
    QCOMPARE(model.mostTraffic(), 5e8);
    QCOMPARE(colorAt(grid->ledOf(0).center()), colors.at(2.4e8F / 5e8F));
    QCOMPARE(colorAt(grid->ledOf(1).center()), colors.at(4e8F / 5e8F));
    model.row("n2")->networkIn = 9e8;
    model.touched("n2");
    model.flush();
    QCOMPARE(model.mostTraffic(), 1e9);
    QCOMPARE(colorAt(grid->ledOf(1).center()), colors.at(4e8F / 1e9F));
    QVERIFY(choose(NodeTableModel::kDisk));
    QCOMPARE(colorAt(grid->ledOf(0).center()), colors.at(0.75F));
    table.selectRow(0);
    QVERIFY2(grid->accessibleDescription().contains("busy 75 %"),
             qPrintable(grid->accessibleDescription()));
    QVERIFY(choose(NodeTableModel::kGpuClock));
    QVERIFY(grid->accessibleDescription().contains("GPU clock: 990 of 1,980 MHz"));
    table.selectRow(1);  // its frame lies over the edge
    const QRect led = grid->ledOf(0);
    const int left = led.x() + led.width() / 4, right = led.x() + led.width() * 3 / 4;
    QCOMPARE(colorAt({left, led.center().y()}), colors.at(1));
    QCOMPARE(colorAt({right, led.center().y()}), colors.at(0.5F));
    for (const int column : {NodeTableModel::kGpuClock, NodeTableModel::kGpuUse}) {
      QVERIFY(choose(column));
      QCOMPARE(colorAt({right, led.bottom() - 1}), QColor(Qt::white).rgb());
      QVERIFY(colorAt({left, led.bottom() - 1}) != QColor(Qt::white).rgb());
    }
    QVERIFY(choose(NodeTableModel::kCpu));
    QVERIFY(colorAt({right, led.bottom() - 1}) != QColor(Qt::white).rgb());
  }

  // One that says nothing, a node without any, one that is not connected.
  void gpusUnknown() {
    NodeTableModel model;
    QAbstractItemModelTester tester(&model);
    setThreeNodes(model);
    model.row("n0")->gpus = {wellGpu(), hotGpu()};
    model.row("n1")->gpus = {bareGpu(2)};
    const QString dash(QChar(0x2014));
    for (int column : {NodeTableModel::kGpuUse, NodeTableModel::kGpuMemory,
                       NodeTableModel::kGpuTemperature, NodeTableModel::kGpuPower}) {
      QCOMPARE(textAt(model, 1, column), dash);
      QVERIFY(model.index(1, column).data(NodeTableModel::kFractionsRole).toList().isEmpty());
      QCOMPARE(textAt(model, 2, column), dash);
    }
    QCOMPARE(textAt(model, 1, NodeTableModel::kGpu), QString("NVIDIA H200"));
    QCOMPARE(textAt(model, 2, NodeTableModel::kGpu), dash);
    QVERIFY(!model.index(2, NodeTableModel::kGpu).data(NodeTableModel::kTonesRole).isValid());
    model.row("n0")->sampled = false;
    QCOMPARE(textAt(model, 0, NodeTableModel::kGpuPower), dash);
  }

  void gpuTroublesAreNamed() {
    const auto restore = qScopeGuard([] { Language::instance().set("en"); });
    const app::GpuLoad hot = hotGpu();
    Language::instance().set("zh_CN");
    QCOMPARE(gpuTroubleText(hot, app::GpuTrouble::kHeat), QString::fromUtf8("因过热而降速"));
    for (const auto trouble :
         {app::GpuTrouble::kSilent, app::GpuTrouble::kXid, app::GpuTrouble::kUncorrected,
          app::GpuTrouble::kHeat, app::GpuTrouble::kPowerBrake, app::GpuTrouble::kSlowdown,
          app::GpuTrouble::kPower, app::GpuTrouble::kNarrowLink, app::GpuTrouble::kLinksDown}) {
      Language::instance().set("en");
      const QString english = gpuTroubleText(hot, trouble);
      Language::instance().set("zh_CN");
      QVERIFY2(gpuTroubleText(hot, trouble) != english, qPrintable(english));
    }
  }

  void gpuDetailsAreWhatIsTold() {
    app::GpuLoad gpu;
    QVERIFY(gpuDetails(gpu).isEmpty());
    QVERIFY(gpuNotes(gpu).isEmpty());
    QCOMPARE(gpuTone(gpu), Tone::kGood);
    gpu.pcieWidth = 8;
    gpu.pcieWidthMax = 16;
    gpu.pcieGeneration = 1;
    gpu.pcieGenerationMax = 5;  // lower while idle: no trouble
    gpu.nvlinks = 18;
    gpu.nvlinksActive = 0;  // not connected by them: none either
    gpu.eccCorrected = 12;
    gpu.eccUncorrected = 0;
    gpu.xids = 0;
    QCOMPARE(gpuNotes(gpu), QString("8 of 16 PCIe lanes"));
    QCOMPARE(gpuTone(gpu), Tone::kWarning);
    QStringList told;
    for (const GpuDetail& detail : gpuDetails(gpu)) told << detail.name + ": " + detail.value;
    QCOMPARE(told, (QStringList{"PCIe link: 8 of 16 lanes, generation 1 of 5", "NVLinks: 0 of 18",
                                "Memory errors: 12 corrected, 0 not"}));
    gpu.nvlinksActive = 17;
    gpu.eccUncorrected = 2;
    gpu.xids = 1;
    gpu.lastXid = 48;
    QCOMPARE(
        gpuNotes(gpu),
        QString(
            "error Xid 48, uncorrected memory errors: 2, 8 of 16 PCIe lanes, 17 of 18 NVLinks"));
    QCOMPARE(gpuTone(gpu), Tone::kBad);
  }
};

QTEST_MAIN(NodeModelsTest)
#include "node_models_test.moc"
