// The log view of a run whose log is longer than the lines kept in memory: search, level, first
// error, and moments before those lines.
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QTabWidget>
#include <QTableView>
#include <QTest>
#include <QThreadPool>

#include "tests/ui/by_hand.h"
#include "tests/ui/studio_fixture.h"
#include "ui/pages/run_logs.h"
#include "ui/pages/run_page.h"
#include "ui/studio/log_reader.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

namespace {

constexpr int kLines = 25'000;
constexpr int kOwnLines = 90;  // that the made-up run has before
constexpr int kNeedle = 500, kErrorOf0 = 3000, kErrorOf1 = 1000, kLastError = 24'000;
constexpr int kLogsTab = 2;

std::string textOf(int line) {
  const std::string number = std::to_string(line);
  if (line == kNeedle) return "line " + number + " has the needle";
  if (line == kErrorOf0 || line == kErrorOf1 || line == kLastError) return "error " + number;
  return "line " + number;
}

}  // namespace

class LogsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    home_ = std::make_unique<StudioHome>();
    short_ = QString::fromStdString(home_->addRun(1, app::RunState::SUCCEEDED, 100));
    long_ = QString::fromStdString(home_->addRun(0, app::RunState::SUCCEEDED, 100));
    const auto history = app::History::open(home_->home().historyFolder());
    QVERIFY(history.ok());
    const auto row = (*history)->row(long_.toStdString());
    QVERIFY(row.ok());
    firstNs_ = row->startedNs + 60'000'000'000;
    const auto store = (*history)->openRun(long_.toStdString());
    QVERIFY(store.ok() && (*store)->lockForRecording().ok());
    app::RunBatch batch;
    for (int i = 0; i < kLines; ++i)
      batch.logs.push_back({0, wallNsOf(i), "local" + std::to_string(i % 2 + 1),
                            i == kErrorOf1 ? 1 : i % 2, textOf(i)});
    QVERIFY((*store)->append(batch).ok());
  }
  void init() {
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->resize(1400, 900);
    window_->show();
    open(long_);
  }
  void cleanup() { tests::closeWindow(window_); }
  void cleanupTestCase() { home_.reset(); }

  void searchCoversTheWholeRun() {
    QCOMPARE(rows(), LogModel::kKept);
    QCOMPARE(shown(), QString("The newest 20,000 lines of the run"));
    QVERIFY(!newest()->isVisible());
    QTest::keyClicks(search(), "NEEDLE");
    QVERIFY(newest()->isVisible());  // while it is read
    QVERIFY(wait([&] { return shown() == "Search of the whole run: matching lines: 1"; }));
    QCOMPARE(lines(), QStringList{"line 500 has the needle"});
    QVERIFY(newest()->isVisible());
    // Another text is found in the whole run again, and nothing is found of a third one.
    search()->setText("error");
    QVERIFY(wait([&] { return shown() == "Search of the whole run: matching lines: 3"; }));
    QCOMPARE(lines(), (QStringList{"error 1000", "error 3000", "error 24000"}));
    search()->setText("no such line");
    QVERIFY(wait([&] { return shown() == "Search of the whole run: matching lines: 0"; }));
    QCOMPARE(rows(), 0);
    search()->clear();
    QCOMPARE(rows(), LogModel::kKept);
    QVERIFY(!newest()->isVisible());
  }

  void oneClickLeadsBackToTheTail() {
    search()->setText("error");
    QVERIFY(wait([&] { return rows() == 3; }));
    // What arrives is not among what was found, and is in the tail.
    app::RunUpdate update;
    update.run = long_.toStdString();
    update.logs.push_back({kLines + kOwnLines + 1, wallNsOf(kLines), "local1", 0, "a new error"});
    page_->document()->take(update);
    QCOMPARE(rows(), 3);
    QTest::mouseClick(newest(), Qt::LeftButton);
    QCOMPARE(lines(), (QStringList{"error 24000", "a new error"}));
    QVERIFY(shown().startsWith("The newest "));
    QVERIFY(!newest()->isVisible());
  }

  // No more lines than are kept, and the window says so.
  void searchIsLimited() {
    search()->setText("line");
    QVERIFY(wait([&] {
      return shown() ==
             "Search of the whole run: the newest 20,000 matching lines; older ones are not shown";
    }));
    QCOMPARE(rows(), LogModel::kKept);
    QCOMPARE(lines().last(), QString("line 24999"));
    QVERIFY(!lines().contains("line 4990"));
  }

  void levelCoversTheWholeRun() {
    auto* level = page_->findChild<QComboBox*>("logLevel");
    tests::chooseByKeys(level, level->findText("Errors"));
    QVERIFY(wait([&] { return shown() == "Search of the whole run: matching lines: 3"; }));
    QCOMPARE(lines(), (QStringList{"error 1000", "error 3000", "error 24000"}));
    auto* rank = page_->findChild<QComboBox*>("logRank");
    tests::chooseByKeys(rank, rank->findData(1));
    QVERIFY(wait([&] { return shown() == "Search of the whole run: matching lines: 1"; }));
    QCOMPARE(lines(), QStringList{"error 1000"});
    tests::chooseByKeys(rank, rank->findText("node local1"));
    QVERIFY(wait([&] { return shown() == "Search of the whole run: matching lines: 3"; }));
    tests::chooseByKeys(level, 0);
    QVERIFY(!newest()->isVisible());
  }

  void firstErrorOfTheRunOrOfARank() {
    auto* button = page_->findChild<QPushButton*>("logFirstError");
    search()->setText("needle");
    QTest::mouseClick(button, Qt::LeftButton);
    QVERIFY(wait([&] { return current() == "error 1000"; }));
    QVERIFY(search()->text().isEmpty());
    QVERIFY2(shown().startsWith("Lines around "), qPrintable(shown()));
    const auto* table = page_->findChild<QTableView*>("logTable");
    const int row = table->currentIndex().row();
    QCOMPARE(lines().mid(row - 1, 3), (QStringList{"line 999", "error 1000", "line 1001"}));
    auto* rank = page_->findChild<QComboBox*>("logRank");
    rank->setCurrentIndex(rank->findData(0));
    QTest::mouseClick(button, Qt::LeftButton);
    QVERIFY(wait([&] { return current() == "error 3000"; }));
    rank->setCurrentIndex(rank->findData(2));
    QTest::mouseClick(button, Qt::LeftButton);
    QVERIFY(wait([&] { return shown() == "No error in the lines of rank 2"; }));
    QVERIFY(!newest()->isVisible());
  }

  void momentBeforeTheLinesKept() {
    auto* logs = page_->findChild<RunLogs*>("runLogs");
    logs->showMoment(1, (wallNsOf(701) + 300'000) * 1e-9);
    QVERIFY(wait([&] { return current() == "line 701"; }));
    QVERIFY2(shown().startsWith("Lines around "), qPrintable(shown()));
    QVERIFY(lines().contains("line 703") && !lines().contains("line 702"));  // of that rank alone
    // A moment that is among the lines kept is shown in the tail, at once.
    logs->showMoment(1, (wallNsOf(20'001) + 300'000) * 1e-9);
    QCOMPARE(current(), QString("line 20001"));
    QVERIFY(shown().startsWith("The newest "));
    logs->showMoment(0, (wallNsOf(700) + 300'000) * 1e-9);
    QVERIFY(wait([&] { return current() == "line 700"; }));
    logs->showAllRanks();
    QVERIFY(shown().startsWith("The newest "));
    QCOMPARE(rows(), LogModel::kKept);
  }

  // All of it is in memory, and the filters apply to it at once.
  void shortLogNeedsNoStore() {
    open(short_);
    QCOMPARE(shown(), QString("All lines of the run"));
    QCOMPARE(rows(), kOwnLines);
    search()->setText("waited");
    QCOMPARE(rows(), 1);
    QCOMPARE(shown(), QString("All lines of the run"));
    QVERIFY(!newest()->isVisible());
    QTest::mouseClick(page_->findChild<QPushButton*>("logFirstError"), Qt::LeftButton);
    QVERIFY(wait([&] { return shown() == "No error in the log of the run"; }));
    QCOMPARE(rows(), kOwnLines);
  }

  void aNewReadCancelsTheOlder() {
    LogReader reader(home_->home().historyFolder(), long_.toStdString());
    QStringList found;
    connect(&reader, &LogReader::found, this,
            [&](const LogResult& result) { found << result.request.query.text; });
    for (const char* text : {"line", "error", "needle"}) {
      LogRequest request;
      request.query.text = text;
      reader.read(request);
    }
    QVERIFY(wait([&] { return !reader.isReading(); }));
    QThreadPool::globalInstance()->waitForDone();
    QCoreApplication::sendPostedEvents();
    QCOMPARE(found, QStringList{"needle"});
    reader.read({});
    reader.cancel();
    QVERIFY(!reader.isReading());
    QThreadPool::globalInstance()->waitForDone();
    QCoreApplication::sendPostedEvents();
    QCOMPARE(found.size(), 1);
  }

  void failedReadShowsTheTail() {
    LogModel tail;
    tail.append({{1, "n1", 0, 1, "epoch 1"}, {2, "n1", 0, 1, "epoch 2"}});
    tail.setMissingUntil(1);
    RunLogs logs(&tail, home_->path("none").toStdString(), "r");
    logs.retranslate();
    int failures = 0;
    connect(&logs, &RunLogs::failed, this, [&] { ++failures; });
    logs.findChild<QLineEdit*>("logSearch")->setText("epoch 2");
    QVERIFY(wait([&] { return failures == 1; }));
    QCOMPARE(logs.findChild<QLabel*>("logShown")->text(), QString("The newest 2 lines of the run"));
    QCOMPARE(logs.findChild<QTableView*>("logTable")->model()->rowCount(), 1);
  }

 private:
  void open(const QString& run) {
    page_ = window_->openRun(run);
    QVERIFY(wait([&] { return page_->document()->loaded(); }));
    page_->findChild<QTabWidget*>("runTabs")->setCurrentIndex(kLogsTab);
  }
  std::int64_t wallNsOf(int line) const { return firstNs_ + line * 1'000'000LL; }
  QLineEdit* search() const { return page_->findChild<QLineEdit*>("logSearch"); }
  QPushButton* newest() const { return page_->findChild<QPushButton*>("logNewest"); }
  QString shown() const { return page_->findChild<QLabel*>("logShown")->text(); }
  QAbstractItemModel* model() const { return page_->findChild<QTableView*>("logTable")->model(); }
  int rows() const { return model()->rowCount(); }
  QStringList lines() const {
    QStringList out;
    for (int row = 0; row < rows(); ++row)
      out << model()->index(row, LogModel::kText).data().toString();
    return out;
  }
  QString current() const {
    const QModelIndex at = page_->findChild<QTableView*>("logTable")->currentIndex();
    return at.siblingAtColumn(LogModel::kText).data().toString();
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
  QString short_, long_;
  std::int64_t firstNs_ = 0;
  RunPage* page_ = nullptr;
};

QTEST_MAIN(LogsTest)
#include "logs_test.moc"
