// How far a run is, and how long it will take: its steps and epochs, also after a resume, and the
// samples of its data.
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <random>

#include "app/core/time_left.h"
#include "app/history/history.h"
#include "app/runs/run_model.h"
#include "app/runs/run_progress.h"
#include "engine/data/dataset.h"
#include "engine/specs/data_files.h"
#include "lockstep/spec/v1/spec.pb.h"

using namespace lockstep;
using namespace lockstep::app;

class RunProgressTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // Of any run, resumed or not: step, epoch and time left are those of a run that was never
  // interrupted.
  void progressCountsOnAfterAResume() {
    std::mt19937 random(17);
    const auto pick = [&](int from, int to) {
      return std::uniform_int_distribution<int>(from, to)(random);
    };
    for (int trial = 0; trial < 300; ++trial) {
      const std::int64_t perEpoch = pick(1, 400), epochs = pick(1, 6), total = perEpoch * epochs;
      const std::int64_t resumedAt = pick(0, 3) == 0 ? 0 : pick(0, static_cast<int>(total) - 1);
      const std::int64_t now = pick(static_cast<int>(resumedAt) + 1, static_cast<int>(total));
      const bool known = pick(0, 1) == 1;  // the size of the data
      RunScope scope{epochs, 0, 32, known ? perEpoch * 32 - pick(0, 31) : 0, {}};
      // What the run before told of, beyond where this one goes on too.
      const std::int64_t before =
          std::min<std::int64_t>(total, resumedAt + (resumedAt > 0 ? pick(0, 50) : 0));
      for (std::int64_t epoch = 1; epoch * perEpoch <= before; ++epoch)
        scope.before.push_back({epoch, epoch * perEpoch, 1, 1, 1});
      RunProgress progress;
      progress.begin(scope);
      RunBatch::Series loss{"loss", {}}, seconds{"rank/0/step", {}}, rate{"samples_per_second", {}};
      for (std::int64_t step = resumedAt + 1; step <= now; ++step) {
        const double x = static_cast<double>(step), length = 0.001 * pick(1, 40);
        loss.points.push_back({x, 1});
        seconds.points.push_back({x, length});
        rate.points.push_back({x, 32 / length});
      }
      for (int again = 0; again < 2; ++again) {  // a recorder that takes over tells it again
        for (const auto* series : {&loss, &seconds, &rate})
          progress.addSeries(*series, 5'000'000'000);
        for (std::int64_t epoch = resumedAt / perEpoch + 1; epoch * perEpoch <= now; ++epoch)
          progress.addEpoch({epoch, epoch * perEpoch, 1, 1, 1});
      }
      const auto where = fmt::format("{} steps an epoch, {} epochs, from {}, at {}", perEpoch,
                                     epochs, resumedAt, now);
      QCOMPARE(progress.step(), now);
      QCOMPARE(progress.firstStep(), resumedAt + 1);
      const bool told = known || now >= perEpoch || before >= perEpoch;
      QVERIFY2(progress.totalSteps() == (told ? total : 0), where.c_str());
      QVERIFY2(progress.epoch() == (now - 1) / perEpoch + 1, where.c_str());
      // Half a second a step of its own, so for those to come.
      const double left = progress.secondsLeft(0.5 * static_cast<double>(now - resumedAt));
      QVERIFY2(std::abs(left - (told ? 0.5 * static_cast<double>(total - now) : -1)) < 1e-6,
               where.c_str());
      // Throughput and step time are of the same steps.
      const Pace pace = progress.pace();
      QVERIFY2(std::abs(pace.stepSeconds * pace.samplesPerSecond - 32) < 1e-9, where.c_str());
      QCOMPARE(progress.stalledSeconds(7'000'000'000), 0.0);
      QCOMPARE(progress.stalledSeconds(25'000'000'000), 20.0);
    }
  }

  void theTimeLeftOfAJob() {
    const auto ns = [](double seconds) { return static_cast<std::int64_t>(seconds * 1e9); };
    TimeLeft left;
    QVERIFY(left.seconds() < 0);
    left.moved(0, ns(100));
    QVERIFY(left.seconds() < 0);
    left.moved(0.1, ns(100.5));  // half a second tells nothing
    QVERIFY(left.seconds() < 0);
    left.moved(0.25, ns(110));
    QVERIFY(std::abs(left.seconds() - 30) < 1e-6);
    left.moved(0.5, ns(140));  // it has become slower
    QVERIFY(std::abs(left.seconds() - 40) < 1e-6);
    left.moved(1, ns(150));
    QCOMPARE(left.seconds(), 0.0);
    left.moved(0.2, ns(160));  // another stage, at a pace of its own
    QVERIFY(left.seconds() < 0);
    left.moved(0.6, ns(164));
    QVERIFY(std::abs(left.seconds() - 4) < 1e-6);
    left.moved(-1, ns(170));
    QVERIFY(left.seconds() < 0);
    left.moved(0.5, ns(200));
    left.moved(0.75, ns(210));
    QVERIFY(std::abs(left.seconds() - 10) < 1e-6);
  }

  // What window and command line show of a run that was resumed after step 250 of 4 epochs of 100.
  void theModelOfAResumedRun() {
    constexpr std::int64_t kSecond = 1'000'000'000;
    RunRow row;
    row.run = "r";
    row.resumedFrom = "before";
    row.phase = RunState::RUNNING;
    RunModel model;
    model.begin(row, {4, 0, 10, 1000, {{1, 100, 1, 1, 1}, {2, 200, 1, 1, 1}}});
    QCOMPARE(model.step(), 0);
    QCOMPARE(model.elapsedSeconds(kSecond), 0.0);  // it has not started
    QVERIFY(model.secondsLeft(kSecond) < 0 && model.lastEvaluated() == nullptr);
    row.startedNs = 10 * kSecond;
    RunUpdate update;
    update.row = row;
    RunBatch::Series loss{"loss", {}}, seconds{"rank/0/step", {}}, rate{"samples_per_second", {}};
    for (int step = 251; step <= 310; ++step) {
      loss.points.push_back({static_cast<double>(step), 1});
      seconds.points.push_back({static_cast<double>(step), 0.5});
      rate.points.push_back({static_cast<double>(step), 20});
    }
    update.series = {loss, seconds, rate};
    update.epochs = {{3, 300, 0.75, NAN, NAN}};
    update.breakdown = {{0, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.5}};
    update.slowChanged = true;
    update.slow.emplace().rank = 1;
    for (int again = 0; again < 2; ++again) model.add(update, kSecond);
    QCOMPARE(model.step(), 310);
    QCOMPARE(model.progress().totalSteps(), 400);
    QCOMPARE(model.progress().epoch(), 4);
    QCOMPARE(model.progress().fraction(), 310.0 / 400);
    QCOMPARE(model.epochs().size(), 1u);  // those of the run before are not its own
    // 60 steps of its own took 30 s: so the other 90 will.
    QCOMPARE(model.elapsedSeconds(40 * kSecond), 30.0);
    QCOMPARE(model.secondsLeft(40 * kSecond), 45.0);
    QCOMPARE(model.pace(kSecond).stepSeconds, 0.5);
    QCOMPARE(model.pace(kSecond).samplesPerSecond, 20.0);
    QCOMPARE(model.stalledSeconds(31 * kSecond), 30.0);
    QCOMPARE(model.pace(31 * kSecond).samplesPerSecond, 0.0);
    QCOMPARE(model.breakdown().size(), 1u);
    QCOMPARE(model.slow()->rank, 1);
    // Where its end is never told, the figures are those of the last step that was.
    QCOMPARE(model.figures().steps, 310);
    QCOMPARE(model.figures().epochs, 3);
    QCOMPARE(model.figures().trainLoss, 0.75);

    RunUpdate evaluated;
    evaluated.epochs = {{3, 300, 0.75, 0.5, 0.9}};
    evaluated.slowChanged = true;
    model.add(evaluated, kSecond);
    QCOMPARE(model.epochs().size(), 1u);
    QCOMPARE(model.lastEvaluated()->evalLoss, 0.5);
    QVERIFY(!model.slow());
    model.add(update, kSecond);  // without its evaluation: that stays
    QCOMPARE(model.lastEvaluated()->evalLoss, 0.5);

    RunUpdate end;
    row.phase = RunState::SUCCEEDED;
    row.finishedNs = 60 * kSecond;
    row.figures.steps = 400;
    row.figures.samplesPerSecond = 18;
    end.row = row;
    model.add(end, kSecond);
    QVERIFY(model.over());
    QCOMPARE(model.step(), 400);
    QCOMPARE(model.elapsedSeconds(100 * kSecond), 50.0);
    QVERIFY(model.secondsLeft(100 * kSecond) < 0);
    QCOMPARE(model.stalledSeconds(100 * kSecond), 0.0);
    QCOMPARE(model.pace(100 * kSecond).stepSeconds, 0.5);
    QCOMPARE(model.pace(100 * kSecond).samplesPerSecond, 18.0);
  }

  // A limit of steps may end a run within an epoch, which the next run goes on with.
  void aLimitOfStepsEndsAnEpochEarly() {
    RunProgress progress;
    progress.begin({5, 600, 64, 60'000, {{1, 300, 1, 1, 1}}});
    progress.addSeries({"loss", {{301, 1}, {400, 1}}}, 0);
    QCOMPARE(progress.totalSteps(), 600);
    QCOMPARE(progress.epoch(), 1);
    progress.addEpoch({1, 600, 1, 1, 1});
    QCOMPARE(progress.stepsPerEpoch(), 938);
    QCOMPARE(progress.epoch(), 1);
    RunProgress endless;  // nothing is known of the data
    endless.begin({0, 0, 0, 0, {}});
    endless.addSeries({"loss", {{1, 1}}}, 0);
    QCOMPARE(endless.totalSteps(), 0);
    QCOMPARE(endless.fraction(), 0.0);
    QVERIFY(endless.secondsLeft(10) < 0);
  }

  // The samples of a text are those that a run of it has, also where it ends with a sample.
  void samplesOfATextAreCounted() {
    QTemporaryDir folder;
    spec::v1::RunSpec spec;
    spec.mutable_model()->mutable_input()->add_shape(10);
    spec.mutable_data()->set_format("text");
    spec::v1::DataFiles& train = *spec.mutable_data()->mutable_train();
    train.set_text(folder.filePath("t.txt").toStdString());
    train.set_to(1);
    for (const int bytes : {0, 1, 10, 11, 99, 100, 101, 201}) {
      QFile file(folder.filePath("t.txt"));
      QVERIFY(file.open(QIODevice::WriteOnly | QIODevice::Truncate));
      file.write(QByteArray(bytes, 'x'));
      file.close();
      for (const double from : {0.0, 0.5}) {
        train.set_from(from);
        const auto text = data::openText(specs::textFile(spec, true, train.text()));
        QCOMPARE(trainingSamples(spec), text.ok() ? (*text)->size() : 0);
      }
    }
  }

  // The rows of a table are those that a run of it has: seeded lengths round the ends of blocks,
  // with and without an end of the last line.
  void rowsOfATableAreCounted() {
    QTemporaryDir folder;
    auto history = History::open(folder.filePath("history").toStdString());
    QVERIFY(history.ok());
    std::mt19937 random(9);
    int packs = 0;
    RunDocuments documents;
    documents.specYaml =
        "version: 1\nmodel:\n  name: ctr\n  input: {shape: [1], columns: 1, categories: 10}\n"
        "  layers:\n    - dense: {units: 1}\n  loss: binary-cross-entropy\n"
        "data:\n  format: table\n  train: {table: " +
        folder.filePath("t.tsv").toStdString() +
        ", from: 0.25, to: 0.75}\n  evaluate: {table: t.tsv, from: 0.9}\ntraining: {batch: 4, "
        "epochs: 1}\n";
    for (const int bytes : {0, 1, 5, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20}) {
      for (const bool ended : {false, true, true}) {  // the last time as gzip
        std::string text;
        while (static_cast<int>(text.size()) < bytes)
          text += "1\t" + std::to_string(random() % 1000) + "\tx\n";
        text.resize(static_cast<std::size_t>(bytes));
        if (!text.empty()) text.back() = ended ? '\n' : 'x';
        QFile file(folder.filePath("t.tsv"));
        QVERIFY(file.open(QIODevice::WriteOnly | QIODevice::Truncate));
        file.write(text.data(), bytes);
        file.close();
        if (ended && packs++ % 2 == 1) {
          QCOMPARE(QProcess::execute("gzip", {"-k", file.fileName()}), 0);
          QVERIFY(QFile::remove(file.fileName()) &&
                  QFile::rename(file.fileName() + ".gz", file.fileName()));
        }
        const auto rows = static_cast<std::int64_t>(std::count(text.begin(), text.end(), '\n')) +
                          (ended || text.empty() ? 0 : 1);
        const RunScope scope = scopeOf(**history, {}, documents);
        QCOMPARE(scope.batch, 4);
        QCOMPARE(scope.samples, rows * 3 / 4 - rows / 4);
      }
    }
  }
};

QTEST_GUILESS_MAIN(RunProgressTest)
#include "run_progress_test.moc"
