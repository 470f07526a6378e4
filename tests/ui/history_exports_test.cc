// What leaves the history page as a file: reports, OpenTelemetry, TensorBoard, and pictures of
// plots.
#include <QSignalSpy>
#include <QTest>
#include <QXmlStreamReader>
#include <QtWidgets>
#include <optional>
#include <random>

#include "engine/storage/database.h"
#include "tests/support/run_file.h"
#include "tests/ui/history_fixture.h"
#include "ui/dialogs/export_runs.h"
#include "ui/pages/run_page.h"
#include "ui/plots/frame_clock.h"
#include "ui/plots/heat_map_view.h"
#include "ui/plots/picture_file.h"
#include "ui/plots/plot_view.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::saveAs;
using lockstep::tests::wait;

namespace {

QByteArray readAll(const QString& path) {
  QFile file(path);
  return file.open(QFile::ReadOnly) ? file.readAll() : QByteArray();
}

// Text and error of a document of XML.
QString xmlText(const QByteArray& bytes, QString& error) {
  QXmlStreamReader reader(bytes);
  QString out;
  while (!reader.atEnd())
    if (reader.readNext() == QXmlStreamReader::Characters) out += reader.text();
  error = reader.hasError() ? reader.errorString() : QString();
  return out;
}

}  // namespace

class HistoryExportsTest : public QObject, tests::HistoryWindow {
  Q_OBJECT

 private Q_SLOTS:
  void init() { openHistory(); }
  void cleanup() { closeHistory(); }

  void aReportIsExported() {
    page_->selectRun(runs_[1]);
    menuOf("exportButton", "historyExportReport");
    const QString path = home_->path("run.html");
    QVERIFY(saveAs(page_->findChild<QFileDialog*>("exportReportDialog"), path));
    QVERIFY(wait([&] { return QFileInfo(path).size() > 10'000; }));
    QString error;
    const QString text = xmlText(readAll(path), error);
    QVERIFY2(error.isEmpty(), qPrintable(error));
    QVERIFY(text.contains(runs_[1]) && text.contains("was killed by signal 9") &&
            text.contains("Step time of each rank"));
    // The same from a run's own page.
    window_->openRun(runs_[0]);
    auto* action = window_->findChild<QAction*>("actionReport");
    QVERIFY(action->isEnabled());
    action->trigger();
    const QString other = home_->path("other.html");
    QVERIFY(saveAs(window_->findChild<QFileDialog*>("exportReportDialog"), other));
    QVERIFY(wait([&] { return readAll(other).contains(runs_[0].toUtf8()); }));
    QVERIFY(wait([&] { return window_->currentPage()->message()->what().contains(other); }));
  }

  void theCurvesOfARunAreExported() {
    page_->selectRun(runs_[1]);
    menuOf("exportButton", "historyExportCsv");
    const QString path = home_->path("run.csv");
    QVERIFY(saveAs(page_->findChild<QFileDialog*>("exportCsvDialog"), path));
    QVERIFY(wait([&] { return page_->message()->what().contains(path); }));
    const auto history = app::History::open(home_->home().historyFolder());
    const auto store = (*history)->openRun(runs_[1].toStdString());
    const auto losses = (*store)->readAll("loss");
    QVERIFY(losses.ok() && losses->size() == 120);
    const QByteArrayList lines = readAll(path).split('\n');
    const qsizetype column = lines[0].split(',').indexOf("loss");
    QVERIFY2(lines[0].startsWith("step,") && column > 0, lines[0].constData());
    for (int step = 1; step <= 120; ++step) {
      const QByteArrayList cells = lines[step].split(',');
      QCOMPARE(cells[0].toInt(), step);
      QCOMPARE(cells[column].toDouble(), (*losses)[static_cast<std::size_t>(step - 1)].y);
    }
  }

  // By the menu of the window too; those that were selected when it was asked for; and though the
  // page is closed meanwhile the job comes to its end.
  void severalReportsAreExported() {
    table_->selectAll();
    auto* action = window_->findChild<QAction*>("actionReport");
    QVERIFY(wait([&] { return action->isEnabled(); }));
    action->trigger();
    auto* dialog = window_->findChild<QFileDialog*>("exportReportDialog");
    QVERIFY(dialog && wait([&] { return dialog->isVisible(); }));
    QCOMPARE(dialog->fileMode(), QFileDialog::Directory);
    page_->selectRun(runs_[0]);
    const QString folder = home_->path("reports");
    QVERIFY(QDir().mkpath(folder));
    Q_EMIT dialog->fileSelected(folder);
    dialog->reject();
    window_->openRun(runs_[0]);
    JobTracker& jobs = window_->workspace().jobs();
    QVERIFY(jobs.rowCount() == 1 && jobs.cancellable(0));
    QObject during;
    QList<double> fractions;
    connect(&jobs, &JobTracker::dataChanged, &during, [&](const QModelIndex& job) {
      fractions << job.data(JobTracker::kProgressRole).toDouble();
    });
    auto* tabs = qobject_cast<QTabWidget*>(page_->parentWidget()->parentWidget());
    QVERIFY(tabs);
    Q_EMIT tabs->tabCloseRequested(tabs->indexOf(page_));
    QVERIFY(wait([&] { return jobs.rowCount() == 0; }));
    QCOMPARE(fractions.size(), runs_.size());
    QCOMPARE(fractions.last(), 1.0);
    for (const QString& run : runs_)
      QVERIFY2(QFileInfo(folder + "/" + run + ".html").size() > 10'000, qPrintable(run));
    // Cancelled, it says so.
    page_ = window_->openHistory();
    QVERIFY(wait([&] { return page_->runs()->rowCount() == 4; }));
    page_->selectRun(runs_[0]);
    page_->exportTo(home_->path("never.csv"));
    jobs.cancel(jobs.jobAt(0));
    QVERIFY(wait([&] { return jobs.rowCount() == 0; }));
    QVERIFY(!page_->message()->what().isEmpty());
  }

  // What is damaged of one run is told, and leaves out none of the others.
  void allAreExportedThoughOneIsDamaged() {
    {
      auto database =
          openRunFile(home_->home().historyFolder() + "/runs/" + runs_[1].toStdString() + ".db");
      QVERIFY(database.ok());
      storage::Statement damage(**database, "INSERT INTO batch(data) VALUES(x'00ff00')");
      QVERIFY(damage.run().ok());
    }
    const QString folder = home_->path("csv");
    QVERIFY(QDir().mkpath(folder));
    std::optional<Status> told;
    exportRuns(window_->workspace(), runs_, folder, ExportKind::kCsv,
               [&](const QString&, const Status& status) { told = status; });
    QVERIFY(wait([&] { return told.has_value(); }));
    QCOMPARE(told->code(), Code::kDataLoss);
    QVERIFY2(told->error().text().find(runs_[1].toStdString()) != std::string::npos,
             told->error().text().c_str());
    for (const QString& run : runs_)
      QVERIFY2(QFileInfo::exists(folder + "/" + run + ".csv"), qPrintable(run));
  }

  // Each line is a request of OTLP of one of the run's metrics.
  void aRunIsExportedForOpenTelemetry() {
    page_->selectRun(runs_[0]);
    menuOf("exportButton", "historyExportOtlp");
    const QString path = home_->path("run.otlp");
    QVERIFY(saveAs(page_->findChild<QFileDialog*>("exportOtlpDialog"), path));
    QVERIFY(wait([&] { return page_->message()->what().contains(path); }));
    QStringList metrics;
    for (const QByteArray& line : readAll(path).trimmed().split('\n')) {
      const QJsonDocument request = QJsonDocument::fromJson(line);
      const QJsonObject resource = request["resourceMetrics"][0].toObject();
      QVERIFY2(!resource.isEmpty(), line.constData());
      metrics << resource["scopeMetrics"][0]["metrics"][0]["name"].toString();
    }
    QVERIFY2(metrics.contains("lockstep.run.loss"), qPrintable(metrics.join(' ')));
  }

  // Event files in a folder for each run, as a job; what is there already is not overwritten.
  void runsAreExportedToTensorBoard() {
    table_->selectAll();
    menuOf("exportButton", "historyExportTensorBoard");
    const QString folder = home_->path("board");
    QVERIFY(QDir().mkpath(folder));
    const auto choose = [&] {
      auto* dialog = page_->findChild<QFileDialog*>("exportTensorBoardDialog");
      QVERIFY(dialog && wait([&] { return dialog->isVisible(); }));
      QCOMPARE(dialog->fileMode(), QFileDialog::Directory);
      Q_EMIT dialog->fileSelected(folder);
      dialog->reject();
    };
    choose();
    JobTracker& jobs = window_->workspace().jobs();
    QVERIFY(jobs.rowCount() == 1 && jobs.cancellable(0));
    QVERIFY(wait([&] { return jobs.rowCount() == 0; }));
    QVERIFY2(page_->message()->what().contains(folder), qPrintable(page_->message()->what()));
    const auto events = [&](const QString& run) {
      const QDir of(folder + "/" + run);
      const QStringList files = of.entryList({"events.out.tfevents.*"}, QDir::Files);
      return files.size() == 1 ? readAll(of.filePath(files.front())) : QByteArray();
    };
    for (const QString& run : runs_)
      QVERIFY2(events(run).contains("brain.Event:2") && events(run).contains("loss"),
               qPrintable(run));
    // One run goes to a folder of its own too.
    page_->selectRun(runs_[0]);
    QVERIFY(
        wait([&] { return page_->findChild<QFileDialog*>("exportTensorBoardDialog") == nullptr; }));
    const QByteArray before = events(runs_[0]);
    menuOf("exportButton", "historyExportTensorBoard");
    choose();
    QVERIFY(wait([&] { return page_->message()->what().contains("is there already"); }));
    QCOMPARE(events(runs_[0]), before);
  }

  void aPlotIsSavedAsAPicture_data() {
    QTest::addColumn<QByteArray>("action");
    QTest::addColumn<bool>("light");
    QTest::newRow("as it is") << QByteArray("plotMenuSave") << false;
    QTest::newRow("for print") << QByteArray("plotMenuPrint") << true;
  }
  void aPlotIsSavedAsAPicture() {
    QFETCH(QByteArray, action);
    QFETCH(bool, light);
    window_->findChild<QAction*>("actionDark")->trigger();
    QVERIFY(Theme::instance().isDark());
    table_->selectAll();
    PlotView* plot = page_->overlay();
    QVERIFY(wait([&] { return plot->sampleCount() == 480; }));
    auto* canvas = plot->findChild<QWidget*>("plotCanvas");
    for (const char* ending : {"png", "svg", "pdf"}) {
      QContextMenuEvent event(QContextMenuEvent::Keyboard, canvas->rect().center(),
                              canvas->mapToGlobal(canvas->rect().center()));
      QApplication::sendEvent(canvas, &event);
      auto* menu = plot->findChild<QMenu*>("plotMenu");
      QVERIFY(menu && wait([&] { return menu->isVisible(); }));
      auto* chosen = plot->findChild<QAction*>(action.constData());
      QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(chosen).center());
      const QString path = home_->path(QString("plot.") + ending);
      QVERIFY(saveAs(plot->findChild<QFileDialog*>("savePictureDialog"), path));
      QVERIFY(wait([&] { return QFileInfo(path).size() > 3000; }));
      QVERIFY(wait([&] { return !plot->findChild<QFileDialog*>("savePictureDialog"); }));
    }
    const QImage image(home_->path("plot.png"));
    QVERIFY(image.width() >= 1280 && image.height() >= 720);
    QCOMPARE(qGray(image.pixel(3, 3)) > 200, light);
    QCOMPARE(qGray(image.pixel(3, image.height() - 4)) > 200, light);
    QString error;
    const QString text = xmlText(readAll(home_->path("plot.svg")), error);
    QVERIFY2(error.isEmpty(), qPrintable(error));
    for (const auto& series : plot->series())
      QVERIFY2(text.contains(series->name), qPrintable(text.left(400)));
    QVERIFY(text.contains("step") && text.contains("Curves"));
    const QByteArray svg = readAll(home_->path("plot.svg"));
    QVERIFY(svg.count("<polyline") >= 4 && !svg.contains("<image"));
    const QByteArray pdf = readAll(home_->path("plot.pdf"));
    QVERIFY(pdf.startsWith("%PDF-") && pdf.trimmed().endsWith("%%EOF") &&
            !pdf.contains("/Subtype /Image"));
    QVERIFY(Theme::instance().isDark());  // the screen stays as it was
  }

  // A zoomed plot's lines end at its frame in formats that cannot clip.
  void picturesStayWithinTheirAxes() {
    PlotView plot("p");
    plot.setTexts("Title <&>", "step", {}, {});
    std::mt19937 random(3);
    for (int s = 0; s < 9; ++s) {
      auto series = std::make_shared<Series>(QString("series <%1> & more").arg(s), s, s % 2 == 0);
      for (int i = 0; i < 20000; ++i)
        series->append(i, i % 97 == 0 ? NAN : static_cast<double>(random() % 1000) * (s + 1));
      series->setSmoothing(0.9);
      plot.addSeries(series);
    }
    plot.resize(700, 300);
    plot.show();
    QVERIFY(QTest::qWaitForWindowExposed(&plot));
    auto* canvas = plot.findChild<QWidget*>("plotCanvas");
    QSignalSpy frames(&FrameClock::instance(), &FrameClock::paint);
    QVERIFY(wait([&] { return frames.size() > 3; }));
    QTest::mousePress(canvas, Qt::LeftButton, {}, {300, 100});
    QTest::mouseMove(canvas, {360, 160});
    QTest::mouseRelease(canvas, Qt::LeftButton, {}, {360, 160});
    frames.clear();
    QVERIFY(wait([&] { return frames.size() > 3; }));
    const QString path = home_->path("zoomed.svg");
    QVERIFY(writePicture(path, plot.picture(), PictureLook::kLight).ok());
    const QByteArray svg = readAll(path);
    QVERIFY2(svg.size() < 6'000'000, QByteArray::number(svg.size()));
    QXmlStreamReader reader(svg);
    int points = 0;
    while (!reader.atEnd()) {
      reader.readNext();
      if (!reader.isStartElement() || reader.name() != QLatin1String("polyline")) continue;
      for (const auto& pair :
           reader.attributes().value("points").toString().split(' ', Qt::SkipEmptyParts)) {
        const QStringList xy = pair.split(',');
        ++points;
        QVERIFY2(xy[0].toDouble() > 10 && xy[0].toDouble() < 700 && xy[1].toDouble() > -1 &&
                     xy[1].toDouble() < 360,
                 qPrintable(pair));
      }
    }
    QVERIFY2(!reader.hasError(), qPrintable(reader.errorString()));
    QVERIFY(points > 100);
    const Status bad = writePicture(home_->path("x.bmp"), plot.picture(), PictureLook::kCurrent);
    QCOMPARE(bad.code(), Code::kInvalidArgument);
    QVERIFY(!writePicture("/nowhere/x.png", plot.picture(), PictureLook::kCurrent).ok());
  }

  // Heat map and timeline, which paint themselves.
  void aHeatMapIsSavedAsAPicture() {
    RunPage* run = window_->openRun(runs_[0]);
    QVERIFY(wait([&] { return run->document()->loaded(); }));
    auto* tabs = run->findChild<QTabWidget*>("runTabs");
    auto* map = run->findChild<HeatMapView*>();
    for (int i = 0; tabs && i < tabs->count(); ++i)
      if (tabs->widget(i)->isAncestorOf(map)) tabs->setCurrentIndex(i);
    QVERIFY(wait([&] { return map->isVisible(); }));
    QContextMenuEvent event(QContextMenuEvent::Keyboard, map->rect().center(),
                            map->mapToGlobal(map->rect().center()));
    QApplication::sendEvent(map, &event);
    auto* menu = map->findChild<QMenu*>("pictureMenu");
    QVERIFY(menu && wait([&] { return menu->isVisible(); }));
    menu->close();
    for (const char* ending : {"png", "svg", "pdf"}) {
      const QString path = home_->path(QString("map.") + ending);
      QVERIFY(writePicture(path, pictureOf(map), PictureLook::kCurrent).ok());
      QVERIFY(QFileInfo(path).size() > 2000);
    }
    QVERIFY(!QImage(home_->path("map.png")).isNull());
  }
};

QTEST_MAIN(HistoryExportsTest)
#include "history_exports_test.moc"
