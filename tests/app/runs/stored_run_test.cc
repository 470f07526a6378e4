// A run that another program records, as it is read from the history.
#include "app/runs/stored_run.h"

#include <QTemporaryDir>
#include <QTest>

#include <cmath>

using namespace lockstep;
using namespace lockstep::app;

class StoredRunTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // An epoch is told when it is there, and again when it is evaluated.
  void epochsThatAreEvaluatedLater() {
    const QTemporaryDir folder;
    const auto history = History::open(folder.path().toStdString());
    QVERIFY(history.ok());
    RunRow row;
    row.run = "r";
    const auto store = (*history)->begin(row, {});
    QVERIFY(store.ok());
    std::vector<EpochRow> told;
    StoredRun stored("r", **history, **store, [&](const RunUpdate& update) {
      told.insert(told.end(), update.epochs.begin(), update.epochs.end());
    });
    for (const EpochRow& epoch : {EpochRow{1, 10, 0.5, NAN, NAN}, EpochRow{1, 10, 0.5, 0.25, 0.75},
                                  EpochRow{2, 20, 0.25, 0.125, 0.875}}) {
      RunBatch batch;
      batch.epochs.push_back(epoch);
      QVERIFY((*store)->append(batch).ok());
      QVERIFY(!stored.tell({}));
      QVERIFY(!stored.tell({}));
    }
    QCOMPARE(told.size(), std::size_t{3});
    QVERIFY(!told[0].evaluated());
    QCOMPARE(told[1].epoch, 1);
    QCOMPARE(told[1].evalMetric, 0.75);
    QCOMPARE(told[2].epoch, 2);
  }
};

QTEST_GUILESS_MAIN(StoredRunTest)
#include "stored_run_test.moc"
