#include <QDir>
#include <QFileInfo>
#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>

#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "app/history/history.h"
#include "app/history/integrity.h"
#include "engine/storage/database.h"
#include "tests/support/run_file.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {
RunRow rowOf(const std::string& run, std::int64_t created = 1) {
  RunRow row;
  row.run = run;
  row.name = "fashion-mlp";
  row.strategy = "multi-worker-mirrored";
  row.clusterName = "local-3";
  row.createdNs = created;
  row.figures.trainLoss = NAN;
  return row;
}
RunBatch lossBatch(std::int64_t first, std::int64_t count) {
  RunBatch batch;
  RunBatch::Series series{"loss", {}};
  for (std::int64_t i = first; i < first + count; ++i)
    series.points.push_back({static_cast<double>(i), static_cast<double>(i % 1000)});
  batch.series.push_back(series);
  batch.cursors.push_back({"n1", static_cast<std::uint64_t>(first + count)});
  return batch;
}
}  // namespace

class HistoryTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void init() {
    dir_ = std::make_unique<QTemporaryDir>();
    auto opened = History::open(dir_->path().toStdString());
    QVERIFY(opened.ok());
    history_ = std::move(opened).value();
  }

  void launchesWhoseProcessEndedExpire() {
    {
      auto held = history_->begin(rowOf("a"), {});
      QVERIFY(held.ok());
      QVERIFY(!history_->begin(rowOf("a"), {}).ok());
      QVERIFY(history_->expireAbandoned().ok());
      QCOMPARE(history_->row("a")->phase, RunState::LAUNCHING);
    }
    RunDocuments found;
    found.nodes = "[]";
    QVERIFY(history_->begin(rowOf("b"), found).ok());
    QVERIFY(history_->expireAbandoned().ok());
    QCOMPARE(history_->row("a")->phase, RunState::EXPIRED);
    QVERIFY(!history_->row("a")->error.empty());
    QCOMPARE(history_->row("b")->phase, RunState::LAUNCHING);  // its nodes can be asked
  }

  // Of before runs had a metric of their own: what they told of was accuracy.
  void historiesOfTheFirstVersion() {
    QTemporaryDir old;
    const std::string folder = old.path().toStdString();
    {
      const auto first = storage::Database::open(
          folder + "/history.db",
          {"CREATE TABLE run(run TEXT PRIMARY KEY, name TEXT, notes TEXT, phase INTEGER, created "
           "INTEGER,"
           " started INTEGER, finished INTEGER, generation INTEGER, world INTEGER, strategy TEXT, "
           "comm TEXT,"
           " plan_hash TEXT, version TEXT, predicted_step REAL, measured_step REAL, steps INTEGER,"
           " epochs INTEGER, train_loss REAL, eval_loss REAL, eval_accuracy REAL, "
           "samples_per_second REAL,"
           " weights_sha256 TEXT, cluster TEXT, error TEXT, model_file TEXT, resumed_from TEXT);"
           "CREATE INDEX run_created ON run(created);"
           "CREATE TABLE document(run TEXT PRIMARY KEY, spec TEXT, resolved TEXT, cluster TEXT, "
           "plan TEXT,"
           " prediction TEXT, nodes TEXT);"
           "INSERT INTO run(run, epochs, eval_accuracy) VALUES('a', 3, 0.875);"
           "INSERT INTO document VALUES('a', 'spec', '', '', '', '', 'nodes')"});
      QVERIFY2(first.ok(), first.ok() ? "" : first.error().text().c_str());
    }
    const auto history = History::open(folder);
    QVERIFY2(history.ok(), history.ok() ? "" : history.error().text().c_str());
    QCOMPARE((*history)->row("a")->figures.evalMetric, 0.875);
    QCOMPARE((*history)->row("a")->figures.metric, std::string("accuracy"));
    QCOMPARE((*history)->row("a")->unreachableNs, std::int64_t{0});
    const auto kept = (*history)->documents("a");
    QCOMPARE(kept->nodes, std::string("nodes"));
    QCOMPARE(kept->codePatch, std::string());
    RunRow mine = rowOf("b");
    mine.figures.metric = "auc";
    RunDocuments documents;
    documents.nodes = "[]";
    documents.codePatch = "patch";
    QVERIFY((*history)->add(mine, documents).ok());
    QCOMPARE((*history)->row("b")->figures.metric, std::string("auc"));
    QCOMPARE((*history)->documents("b")->nodes, std::string("[]"));
    QCOMPARE((*history)->documents("b")->codePatch, std::string("patch"));
  }

  void logsInPagesFromEitherEnd() {
    auto store = history_->begin(rowOf("a"), {});
    QVERIFY(store.ok());
    RunBatch batch;
    for (int i = 0; i < 25; ++i) batch.logs.push_back({0, i, "n1", 0, std::to_string(i)});
    QVERIFY((*store)->append(batch).ok());
    RunStore::LogFilter filter;
    QCOMPARE((*store)->logs(filter, 0, 10)->front().text, std::string("15"));
    filter.oldestFirst = true;
    std::vector<std::string> read;
    for (;;) {
      const auto page = (*store)->logs(filter, 0, 10);
      QVERIFY(page.ok());
      if (page->empty()) break;
      for (const LogRow& row : *page) read.push_back(row.text);
      filter.after = page->back().id;
    }
    QCOMPARE(read.size(), std::size_t{25});
    for (std::size_t i = 0; i < read.size(); ++i) QCOMPARE(read[i], std::to_string(i));
    // From a range of ids.
    filter = {};
    filter.after = 5;
    const auto range = (*store)->logs(filter, 10, 100);
    QVERIFY(range.ok());
    QCOMPARE(range->size(), std::size_t{4});
    QCOMPARE(range->front().id, std::int64_t{6});
  }

  void rowsAreFoundListedAndRemoved() {
    QVERIFY(
        history_
            ->add(rowOf("20240101-aaaa", 1), {"spec", "resolved", "cluster", "plan", "{}", "[]"})
            .ok());
    QVERIFY(history_->add(rowOf("20240101-abbb", 2), {}).ok());
    QVERIFY(!history_->add(rowOf("20240101-abbb", 2), {}).ok());
    QVERIFY(!history_->add(rowOf("../evil"), {}).ok());
    QCOMPARE(history_->find("last")->run, std::string("20240101-abbb"));
    QCOMPARE(history_->find("20240101-aa")->run, std::string("20240101-aaaa"));
    QVERIFY(history_->find("20240101-a").error().code == Code::kInvalidArgument);
    QVERIFY(history_->find("x").error().code == Code::kNotFound);
    QVERIFY(std::isnan(history_->row("20240101-aaaa")->figures.trainLoss));
    QCOMPARE(history_->documents("20240101-aaaa")->plan, std::string("plan"));
    QVERIFY(history_->setNotes("20240101-aaaa", "the Good one").ok());
    QCOMPARE(history_->list(RunFilter::containing("good"))->size(), std::size_t{1});
    QCOMPARE(history_->list()->front().run, std::string("20240101-abbb"));
    auto store = history_->openRun("20240101-aaaa");
    QVERIFY(store.ok() && (*store)->lockForRecording().ok());
    QVERIFY(history_->remove("20240101-aaaa").error().code == Code::kFailedPrecondition);
    *store = nullptr;
    RunRow underWay = *history_->row("20240101-aaaa");
    underWay.phase = RunState::RUNNING;
    QVERIFY(history_->update(underWay).ok());
    QVERIFY(history_->remove("20240101-aaaa").error().code == Code::kFailedPrecondition);
    QVERIFY(history_->remove("20240101-aaaa", true).ok());
    QVERIFY(history_->openRun("20240101-aaaa").error().code == Code::kNotFound);
    QCOMPARE(QDir(dir_->path() + "/runs").entryList({"20240101-aaaa*"}).size(), 0);
  }

  // A run whose nodes are gone would stand in the history as running for ever.
  void runsOutOfReachAreGivenUpAndRemoved() {
    RunRow row = rowOf("far");
    row.phase = RunState::RUNNING;
    QVERIFY(history_->add(row, {}).ok());
    // One that can be reached is neither given up nor removed.
    QCOMPARE(history_->giveUp("far").code(), Code::kFailedPrecondition);
    QCOMPARE(history_->remove("far").code(), Code::kFailedPrecondition);
    row.heardNs = 1200;
    row.unreachableNs = 1234;
    QVERIFY(history_->update(row).ok());
    QCOMPARE(history_->row("far")->heardNs, std::int64_t{1200});
    QCOMPARE(history_->row("far")->unreachableNs, std::int64_t{1234});
    QVERIFY(history_->giveUp("far").ok());
    QCOMPARE(history_->row("far")->phase, RunState::FAILED);
    QCOMPARE(history_->row("far")->finishedNs, std::int64_t{1234});
    QCOMPARE(history_->row("far")->unreachableNs, std::int64_t{0});
    QVERIFY(history_->row("far")->error.text().starts_with("given up"));
    QCOMPARE(history_->giveUp("far").code(), Code::kFailedPrecondition);  // it has ended
    QVERIFY(history_->remove("far").ok());
    // And one that is not given up first can be removed as well.
    row.run = "farther";
    QVERIFY(history_->add(row, {}).ok());
    QVERIFY(history_->remove("farther").ok());
    QCOMPARE(history_->giveUp("farther").code(), Code::kNotFound);
  }

  // Noted until each has done what is left to do.
  void whatNodesStillHaveIsForgottenPartByPart() {
    RunDocuments documents;
    documents.nodes = R"([{"node":"n1","host":"a"},{"node":"n'2","folder":"/w/runs/far/n'2"}])";
    RunRow row = rowOf("far");
    row.phase = RunState::RUNNING;
    row.unreachableNs = 1234;
    QVERIFY(history_->add(row, documents).ok());
    QVERIFY(history_->leftOnNodes().empty());
    QVERIFY(history_->giveUp("far").ok());
    QCOMPARE(history_->leftOnNodes().size(), std::size_t{1});
    QCOMPARE(history_->leftOnNodes().front().run, std::string("far"));
    QVERIFY(!history_->leftOnNodes().front().deleted);
    QVERIFY(history_->forgetPart("far", "n1").ok());
    QCOMPARE(history_->leftOnNodes().front().nodes,
             std::string(R"([{"node":"n'2","folder":"/w/runs/far/n'2"}])"));
    // What was ended there is still to be removed.
    QVERIFY(history_->remove("far").ok());
    QVERIFY(history_->leftOnNodes().front().deleted);
    QCOMPARE(history_->leftOnNodes().front().nodes, documents.nodes);
    for (const char* node : {"n1", "n3", "n'2"}) QVERIFY(history_->forgetPart("far", node).ok());
    QVERIFY(history_->leftOnNodes().empty());
    // Of nodes that never come back the newest are noted.
    for (int i = 0; i < 1005; ++i) {
      QVERIFY(history_->add(rowOf(fmt::format("r{:04}", i)), documents).ok());
      QVERIFY(history_->remove(fmt::format("r{:04}", i)).ok());
    }
    QCOMPARE(history_->leftOnNodes().size(), std::size_t{1000});
    QCOMPARE(history_->leftOnNodes().back().run, std::string("r0005"));
  }

  void anotherProcessesChangeIsSeen() {
    const std::int64_t before = history_->changes();
    auto other = History::open(dir_->path().toStdString());
    QVERIFY((*other)->add(rowOf("r"), {}).ok());
    QVERIFY(history_->changes() > before);
  }

  void oneRecorderAtATime() {
    QVERIFY(history_->add(rowOf("r"), {}).ok());
    auto first = history_->openRun("r"), second = history_->openRun("r");
    QVERIFY((*first)->append(lossBatch(1, 5)).error().code == Code::kFailedPrecondition);
    QVERIFY((*first)->lockForRecording().ok());
    QVERIFY((*second)->lockForRecording().error().code == Code::kAlreadyExists);
    QVERIFY((*first)->append(lossBatch(1, 5)).ok());
    QCOMPARE((*second)->cursor("n1"), std::uint64_t{6});
    *first = nullptr;
    QVERIFY((*second)->lockForRecording().ok());
    // Taking over goes on behind what is there; points told twice are kept once.
    QVERIFY((*second)->append(lossBatch(3, 10)).ok());
    QCOMPARE((*second)->readAll("loss")->size(), std::size_t{12});
  }

  void filesThatNodesMayStillHave() {
    QVERIFY(history_->add(rowOf("r"), {}).ok());
    auto store = std::move(history_->openRun("r")).value();
    const auto lacking = [&](const char* about) {
      if (!store->setAbout({{std::string(kAboutArtifacts), about}}).ok()) qFatal("not kept");
      return std::pair(lacksFiles(*store, "n1"), lacksFiles(*store, "n2"));
    };
    QVERIFY(!lacksFiles(*store, "n1"));  // none are wanted
    QCOMPARE(lacking("{}"), std::pair(true, true));
    QCOMPARE(lacking(R"({"folder": "", "missing": ["n2"]})"), std::pair(false, true));
    QCOMPARE(lacking(R"({"folder": "", "missing": []})"), std::pair(false, false));
    for (const char* damaged :
         {"", "[", "7", "[1]", R"({"missing": true})", R"({"missing": "n1"})"})
      (void)lacking(damaged);
  }

  void curvesAreExactWhenCloseAndBoundedWhenFar() {
    QVERIFY(history_->add(rowOf("r"), {}).ok());
    auto store = std::move(history_->openRun("r")).value();
    QVERIFY(store->lockForRecording().ok());
    constexpr std::int64_t kCount = 300'000;
    for (std::int64_t at = 1; at <= kCount; at += 700)
      QVERIFY(store->append(lossBatch(at, std::min<std::int64_t>(700, kCount - at + 1))).ok());
    QCOMPARE(store->readAll("loss")->size(), static_cast<std::size_t>(kCount));
    auto exact = store->read("loss", 5000, 5100, 1000);
    QVERIFY(exact.ok());
    QCOMPARE(exact->size(), std::size_t{103});  // and a neighbour on either side
    for (const Span& span : *exact) QCOMPARE(span.last, std::fmod(span.x, 1000));
    auto whole = store->read("loss", 0, kCount + 1, 1500);
    QVERIFY(whole.ok());
    QVERIFY(whole->size() <= 2 * 1502 && whole->size() > 100);
    double low = INFINITY, high = -INFINITY;
    for (const Span& span : *whole) {
      low = std::min(low, span.low);
      high = std::max(high, span.high);
    }
    QCOMPARE(low, 0.0);
    QCOMPARE(high, 999.0);
    QVERIFY(std::is_sorted(whole->begin(), whole->end(),
                           [](const Span& a, const Span& b) { return a.x < b.x; }));
    QVERIFY(store->read("nothing", 0, 1, 10)->empty());
    const auto info = store->series();
    QCOMPARE(info.size(), std::size_t{1});
    QCOMPARE(info[0].points, kCount);
  }

  void logsErrorsAndEpochs() {
    QVERIFY(history_->add(rowOf("r"), {}).ok());
    auto store = std::move(history_->openRun("r")).value();
    QVERIFY(store->lockForRecording().ok());
    RunBatch batch;
    for (int i = 0; i < 50; ++i)
      batch.logs.push_back({0, i, i % 2 ? "n1" : "n2", i % 3, fmt::format("Line {} 100%", i)});
    Error error = makeError(Code::kAborted, "a worker {}", "ended");
    error.node = "n2";
    error.rank = 1;
    batch.errors.push_back(error);
    batch.epochs.push_back({1, 938, 0.5, 0.4, 0.9});
    QVERIFY(store->append(batch).ok());
    RunStore::LogFilter filter;
    filter.contains = "LINE 4";
    QCOMPARE(store->logs(filter, 0, 100)->size(), std::size_t{11});
    filter = {"n1", 1, "", 0};
    for (const LogRow& row : *store->logs(filter, 0, 100))
      QVERIFY(row.node == "n1" && row.rank == 1);
    QCOMPARE(store->logs({}, 11, 5)->front().id, std::int64_t{6});
    QCOMPARE(store->errors().front().text(), std::string("node n2, rank 1: a worker ended"));
    QCOMPARE(store->errors().front().what.id(), std::string("a worker %1"));
    QCOMPARE(store->errors().front().what.arguments().at(0), Message("ended"));
    QCOMPARE(store->epochs().front().evalMetric, 0.9);
  }

  // Stragglers come and go in batches, as they begin, are understood and are over; a recorder that
  // takes over tells of one that it finds again.
  void stragglersAreRowsFromBeginToEnd() {
    QVERIFY(history_->add(rowOf("r"), {}).ok());
    std::mt19937 random(4);
    std::vector<StragglerRow> expected;
    std::int64_t now = 1'700'000'000'000'000'000;
    auto store = std::move(history_->openRun("r")).value();
    QVERIFY(store->lockForRecording().ok());
    for (int round = 0; round < 200; ++round) {
      RunBatch batch;
      for (auto count = random() % 4; count > 0; --count) {
        now += 1'000'000'000;
        StragglerRow row;
        const bool open = !expected.empty() && expected.back().endNs == 0;
        if (open && random() % 3 != 0) {  // goes on, or is over
          row = expected.back();
          row.cause = fmt::format("cause {}", random() % 9);
          if (random() % 2 == 0) {
            row.endNs = now;
            row.untilStep = round + 5;
            row.lostSeconds = 0.25 * round;
          }
          row.text = fmt::format("text {}", random());
          StragglerRow told = row;
          told.wallNs = now;                                  // when it was told again
          told.sinceStep = std::max<std::int64_t>(1, round);  // as a recorder that took over knows
          expected.back() = row;
          batch.stragglers.push_back(told);
          continue;
        }
        const int was = expected.empty() ? -2 : expected.back().rank;
        row.rank = static_cast<int>(random() % 4) - 1;
        if (open && row.rank == was) continue;
        row.node = "n1";
        row.to = row.rank < 0 ? fmt::format("n{}", round) : "";
        row.wallNs = now;
        row.sinceStep = round + 1;
        row.factor = 1.5;
        row.phase = "forward";
        if (open) expected.back().endNs = now;  // a recorder that was killed left it open
        expected.push_back(row);
        batch.stragglers.push_back(row);
      }
      QVERIFY(store->append(batch).ok());
    }
    QVERIFY(store->closeStragglers(++now).ok());
    if (expected.back().endNs == 0) expected.back().endNs = now;
    QVERIFY(expected.size() > 50);
    const auto rows = store->stragglers();
    QCOMPARE(rows.size(), expected.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      QCOMPARE(rows[i].wallNs, expected[i].wallNs);
      QCOMPARE(rows[i].endNs, expected[i].endNs);
      QCOMPARE(rows[i].rank, expected[i].rank);
      QCOMPARE(rows[i].to, expected[i].to);
      QCOMPARE(rows[i].sinceStep, expected[i].sinceStep);
      QCOMPARE(rows[i].untilStep, expected[i].untilStep);
      QCOMPARE(rows[i].lostSeconds, expected[i].lostSeconds);
      QCOMPARE(rows[i].cause, expected[i].cause);
      QCOMPARE(rows[i].text, expected[i].text);
    }
  }

  void restartsAreRowsOfTheirGeneration() {
    QVERIFY(history_->add(rowOf("r"), {}).ok());
    auto store = std::move(history_->openRun("r")).value();
    QVERIFY(store->lockForRecording().ok());
    Error cause = makeError(Code::kAborted, "the worker of rank {} died", 3);
    cause.node = "n2";
    RunBatch batch;
    batch.restarts.push_back({2, 100, 0, cause, 0, 0});
    QVERIFY(store->append(batch).ok());
    batch.restarts = {{2, 0, 200, {}, 12, 1.8}, {3, 300, 0, cause, 0, 0}};
    QVERIFY(store->append(batch).ok());
    QVERIFY(store->append(batch).ok());  // read again from the nodes
    const auto rows = store->restarts();
    QCOMPARE(rows.size(), std::size_t{2});
    QCOMPARE(rows[0].wallNs, std::int64_t{100});
    QCOMPARE(rows[0].endNs, std::int64_t{200});
    QCOMPARE(rows[0].lostSteps, std::int64_t{12});
    QCOMPARE(rows[0].seconds, 1.8);
    QCOMPARE(rows[0].cause->text(), std::string("node n2: the worker of rank 3 died"));
    QCOMPARE(rows[0].cause->what.id(), std::string("the worker of rank %1 died"));
    QCOMPARE(rows[1].endNs, std::int64_t{0});
  }

  // The file of a run of an earlier version: the log's lines about stragglers become rows.
  void aRunsFileOfAnEarlierVersion() {
    QVERIFY(history_->add(rowOf("r"), {}).ok());
    const std::string path = history_->folder() + "/runs/r.db";
    for (const char* ending : {"", "-wal", "-shm"}) unlink((path + ending).c_str());
    {
      const auto old = storage::Database::open(
          path,
          {"CREATE TABLE series(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);"
           "CREATE TABLE chunk(series INTEGER NOT NULL, level INTEGER NOT NULL, t0 REAL NOT NULL, "
           "t1 "
           "REAL NOT NULL, n INTEGER NOT NULL, low REAL, high REAL, last REAL, data BLOB NOT NULL, "
           "PRIMARY KEY(series, level, t0)) WITHOUT ROWID;"
           "CREATE TABLE log(id INTEGER PRIMARY KEY, wall INTEGER NOT NULL, node TEXT NOT NULL, "
           "rank "
           "INTEGER NOT NULL, text TEXT NOT NULL);"
           "CREATE TABLE epoch(epoch INTEGER PRIMARY KEY, step INTEGER NOT NULL, train_loss REAL, "
           "eval_loss REAL, eval_metric REAL);"
           "CREATE TABLE error(id INTEGER PRIMARY KEY, code TEXT NOT NULL, what TEXT NOT NULL, why "
           "TEXT NOT NULL, next TEXT NOT NULL, node TEXT NOT NULL, rank INTEGER NOT NULL, step "
           "INTEGER NOT NULL);"
           "CREATE TABLE event(step INTEGER NOT NULL, rank INTEGER NOT NULL, packed BLOB NOT NULL, "
           "PRIMARY KEY(step, rank));"
           "CREATE TABLE cursor(node TEXT PRIMARY KEY, sequence INTEGER NOT NULL);",
           "ALTER TABLE error ADD COLUMN info BLOB;",
           "CREATE TABLE about(key TEXT PRIMARY KEY, text TEXT);"
           "INSERT INTO event VALUES(50,0,x'00'),(50,1,x'00');"
           "INSERT INTO log(wall,node,rank,text) VALUES(5,'n1',0,'step 1'),"
           "(6,'n2',1,'straggler: rank 1 (n2) is slow'),(7,'n2',1,'no straggler: here'),"
           "(8,'n2',1,'straggler: rank 1 (n2) was slow in steps 4 to 9');"});
      QVERIFY2(old.ok(), old.ok() ? "" : old.error().text().c_str());
    }
    auto store = std::move(history_->openRun("r")).value();
    QCOMPARE(store->stragglers().size(), std::size_t{2});
    QCOMPARE(store->stragglers()[0].text, std::string("rank 1 (n2) is slow"));
    QCOMPARE(store->stragglers()[1].wallNs, std::int64_t{8});
    QVERIFY(store->restarts().empty());
    QCOMPARE(store->logs({}, 0, 10)->size(), std::size_t{4});
    // It is recorded on: what is told now is no part of those rows.
    QVERIFY(store->lockForRecording().ok());
    RunBatch batch;
    StragglerRow row;
    row.rank = 1;
    row.node = "n2";
    row.wallNs = 9;
    row.sinceStep = 20;
    batch.stragglers.push_back(row);
    batch.events.push_back({1, 73, "x", true});
    QVERIFY(store->append(batch).ok());
    QCOMPARE(store->stragglers().size(), std::size_t{3});
    const std::vector<EventStep> told = store->eventSteps();
    QCOMPARE(told.size(), std::size_t{2});
    QVERIFY(told[0].step == 50 && !told[0].slow && told[0].ranks == 2);
    QVERIFY(told[1].step == 73 && told[1].slow && told[1].ranks == 1);
  }

  // A writer killed at any moment loses nothing it was told was kept, and cursor and data agree.
  void killedWriterLosesNothingKept() {
    QVERIFY(history_->add(rowOf("r"), {}).ok());
    std::int64_t kept = 0;
    for (int round = 0; round < 10; ++round) {
      int told[2];
      QCOMPARE(pipe(told), 0);
      const pid_t child = fork();
      if (child == 0) {
        auto history = History::open(dir_->path().toStdString());
        auto store = std::move((*history)->openRun("r")).value();
        if (!store->lockForRecording().ok()) _exit(1);
        for (auto at = static_cast<std::int64_t>(store->cursor("n1")); at < 1'000'000; at += 100) {
          if (!store->append(lossBatch(std::max<std::int64_t>(at, 1), 100)).ok()) _exit(1);
          const auto done = static_cast<std::int64_t>(store->cursor("n1"));
          if (write(told[1], &done, sizeof done) != sizeof done) _exit(1);
          at = done - 100;
        }
        _exit(0);
      }
      close(told[1]);
      std::int64_t done = 0;
      for (int i = 0; i < 40 + round * 7; ++i)
        if (read(told[0], &done, sizeof done) != sizeof done) break;
      kill(child, SIGKILL);
      int status = 0;
      waitpid(child, &status, 0);
      while (read(told[0], &done, sizeof done) == sizeof done) {
      }
      close(told[0]);
      QVERIFY(WIFSIGNALED(status));
      kept = std::max(kept, done);
      auto store = std::move(history_->openRun("r")).value();
      const auto points = store->readAll("loss");
      QVERIFY(points.ok());
      const auto cursor = static_cast<std::int64_t>(store->cursor("n1"));
      QVERIFY(cursor >= kept);
      QCOMPARE(static_cast<std::int64_t>(points->size()), cursor - 1);
    }
    QVERIFY(kept > 1000);
  }

  void csvHasStepsAsRows() {
    QVERIFY(history_->add(rowOf("r"), {}).ok());
    auto store = std::move(history_->openRun("r")).value();
    QVERIFY(store->lockForRecording().ok());
    RunBatch batch;
    batch.series = {{"loss", {{1, 2.5}, {2, 1.0 / 3}}},
                    {"accuracy", {{2, 0.5}}},
                    {"epoch/eval_loss", {{1, 0.25}}},
                    {"node/n1/cpu", {{1700000000.5, 0.75}}}};
    QVERIFY(store->append(batch).ok());
    QCOMPARE(QString::fromStdString(*history_->csv("r")),
             QString("step,accuracy,loss\n1,,2.5\n2,0.5,0.3333333333333333\n\n"
                     "epoch,epoch/eval_loss\n1,0.25\n\ntime,node/n1/cpu\n1700000000.500,0.75\n"));
    QVERIFY(history_->exportCsv("r", "/proc/nothing/x.csv").error().code == Code::kNotFound);
  }

  // Not while another program has it open: that one would write to the renamed file.
  void aDamagedHistoryInUseIsRefused() {
    QFile file(dir_->path() + "/history.db");
    QVERIFY(file.open(QFile::ReadWrite) && file.resize(0) &&
            file.write(QByteArray(9000, 'x')) == 9000);
    file.close();
    auto opened = History::open(dir_->path().toStdString());
    QVERIFY(!opened.ok() && opened.error().code == Code::kDataLoss);
    QVERIFY(opened.error().next.text().starts_with("close all other Lockstep programs"));
    QVERIFY(filesSetAside(dir_->path().toStdString()).empty());
  }

  // The runs' own files outlast history.db: a new one lists them, with what they know.
  void runsAreListedAgain() {
    RunDocuments documents;
    documents.specYaml = "x";
    {
      auto store = history_->begin(rowOf("kept"), documents);
      QVERIFY(store.ok());
      RunBatch batch = lossBatch(1, 500);
      batch.series.push_back({"accuracy", {{1, 0.5}}});
      for (const char* rank : {"rank/0/step", "rank/1/step"})
        batch.series.push_back({rank, {{1, 0.5}}});
      batch.epochs.push_back({2, 400, 0.25, 0.125, 0.75});
      QVERIFY((*store)->append(batch).ok());
      QVERIFY(history_->begin(rowOf("short"), {}).ok());
    }
    QVERIFY(history_->begin(rowOf("damaged"), {}).ok());
    history_.reset();
    for (const char* run : {"kept", "short"}) {  // as earlier versions left them
      auto file = openRunFile(fmt::format("{}/runs/{}.db", dir_->path().toStdString(), run));
      QVERIFY(file.ok() && (*file)->execute("DELETE FROM about").ok());
    }
    QFile damaged(dir_->path() + "/runs/damaged.db");
    QVERIFY(damaged.open(QFile::WriteOnly | QFile::Truncate) &&
            damaged.write(QByteArray(5000, 'x')) == 5000);
    damaged.close();
    QVERIFY(QFile::rename(dir_->path() + "/history.db", dir_->path() + "/aside"));
    for (int time = 0; time < 2; ++time) {  // and stay listed
      auto opened = History::open(dir_->path().toStdString());
      QVERIFY(opened.ok());
      QCOMPARE((*opened)->list()->size(), 2u);
      const auto row = (*opened)->row("kept");
      QVERIFY(row.ok());
      QVERIFY(isFinal(row->phase) && !row->error.empty() && row->createdNs > 0);
      QCOMPARE(row->figures.steps, 500);
      QCOMPARE(row->figures.epochs, 2);
      QCOMPARE(row->figures.trainLoss, 0.25);
      QCOMPARE(row->figures.evalMetric, 0.75);
      QCOMPARE(row->figures.metric, std::string("accuracy"));
      QCOMPARE(row->world, 2);
      QVERIFY((*opened)->csv("kept")->size() > 1000);
      QVERIFY((*opened)->remove("short").ok());
      QVERIFY((*opened)->add(rowOf("short"), {}).ok());
    }
  }

  // Whatever is lost of a run's file is said, and never taken for a run without curves.
  void aRunsFileThatIsLostIsSaid() {
    QVERIFY(history_->begin(rowOf("r"), {}).ok());
    const QString path = dir_->path() + "/runs/r.db";
    QVERIFY((*history_->openRun("r"))->series().empty());
    for (const char* ending : {"", "-wal", "-shm"}) QFile::remove(path + ending);
    for (int time = 0; time < 2; ++time) {
      const auto gone = history_->openRun("r");
      QVERIFY(!gone.ok() && gone.error().code == Code::kDataLoss);
      QVERIFY2(gone.error().why.text().ends_with("r.db was removed"),
               gone.error().why.text().c_str());
      QVERIFY(!history_->csv("r").ok());
    }
    QFile file(path);
    QVERIFY(file.open(QFile::WriteOnly) && file.write(QByteArray(9000, 'x')) == 9000);
    file.close();
    const auto damaged = history_->openRun("r");
    QVERIFY(!damaged.ok() &&
            damaged.error().next.text().starts_with("run `lockstep history check r`"));
    QVERIFY(history_->remove("r").ok());
  }

  // A run that is being recorded when the history is lost goes on until its recorder ends.
  void aRunBeingRecordedIsListedAsRunning() {
    auto store = history_->begin(rowOf("live"), {});
    QVERIFY(store.ok() && (*store)->append(lossBatch(1, 20)).ok());
    history_.reset();
    QVERIFY(QFile::rename(dir_->path() + "/history.db", dir_->path() + "/aside"));
    auto opened = History::open(dir_->path().toStdString());
    QVERIFY(opened.ok());
    QVERIFY((*opened)->expireAbandoned().ok());
    auto row = (*opened)->row("live");
    QCOMPARE(row->phase, RunState::RUNNING);
    QCOMPARE(row->name, std::string("fashion-mlp"));
    QCOMPARE(row->figures.steps, 20);
    QVERIFY((*store)->append(lossBatch(21, 20)).ok());  // the lock was left with its recorder
    store->reset();
    QVERIFY((*opened)->expireAbandoned().ok());
    row = (*opened)->row("live");
    QCOMPARE(row->phase, RunState::FAILED);
    QVERIFY(!row->error.empty());
    QVERIFY(row->finishedNs > 0);
  }

  // So is one that is not recorded now, but was.
  void aRunThatHasBegunIsListedAsRunning() {
    RunDocuments documents;
    documents.nodes = R"([{"node":"n1"}])";
    {
      auto store = history_->begin(rowOf("begun"), documents);
      QVERIFY(store.ok() && (*store)->append(lossBatch(1, 20)).ok());
      QVERIFY(history_->begin(rowOf("launched"), documents).ok());
    }
    history_.reset();
    QVERIFY(QFile::rename(dir_->path() + "/history.db", dir_->path() + "/aside"));
    auto opened = History::open(dir_->path().toStdString());
    QVERIFY(opened.ok());
    QVERIFY((*opened)->expireAbandoned().ok());
    QCOMPARE((*opened)->row("begun")->phase, RunState::RUNNING);
    QCOMPARE((*opened)->row("launched")->phase, RunState::LAUNCHING);
    QVERIFY(!(*opened)->remove("begun").ok());
  }

  // However much is cut off, a part of a history is not taken for the whole: it is set aside, and
  // all that is known of the runs comes from their own files.
  void aTruncatedHistoryIsMadeAgain() {
    RunDocuments documents;
    documents.nodes = std::string(20000, 'n');
    documents.specYaml = "model: \"m\" # 50 %";
    const std::string folder = dir_->path().toStdString();
    for (int i = 0; i < 20; ++i) {
      RunRow row = rowOf(fmt::format("run-{}", i), i + 1);
      QVERIFY(history_->add(row, documents).ok());
      row.phase = RunState::SUCCEEDED;
      row.figures.trainLoss = 0.125;
      if (i % 2 == 0) QVERIFY(history_->update(row).ok());
    }
    QVERIFY(history_->setNotes("run-3", "the good one").ok());
    history_.reset();
    const QString path = dir_->path() + "/history.db";
    QVERIFY(!QFile::exists(path + "-wal"));
    std::size_t aside = 0;
    for (const double share : {0.99, 0.9, 0.5, 0.1}) {
      const auto size = static_cast<double>(QFileInfo(path).size());
      QVERIFY(QFile::resize(path, static_cast<qint64>(size * share)));
      const auto opened = History::open(folder);
      QVERIFY2(opened.ok(), opened.ok() ? "" : opened.error().text().c_str());
      QCOMPARE(filesSetAside(folder).size(), ++aside);
      const auto rows = (*opened)->list();
      QCOMPARE(rows->size(), 20u);
      QCOMPARE(rows->front().run, std::string("run-19"));
      QCOMPARE((*opened)->row("run-3")->notes, std::string("the good one"));
      QCOMPARE((*opened)->row("run-4")->phase, RunState::SUCCEEDED);
      QCOMPARE((*opened)->row("run-4")->figures.trainLoss, 0.125);
      QVERIFY(std::isnan((*opened)->row("run-5")->figures.trainLoss));
      QCOMPARE((*opened)->row("run-5")->createdNs, 6);
      QCOMPARE((*opened)->documents("run-7")->nodes, documents.nodes);
      QCOMPARE((*opened)->documents("run-7")->specYaml, documents.specYaml);
    }
  }

  // An empty history is made again as a missing one is, whether or not it is checked.
  void anEmptyHistoryIsMadeAgain() {
    RunRow row = rowOf("r");
    row.phase = RunState::SUCCEEDED;
    QVERIFY(history_->add(row, {}).ok());
    QVERIFY(history_->setNotes("r", "the good one").ok());
    for (const bool check : {false, true}) {
      history_.reset();
      QVERIFY(QFile::resize(dir_->path() + "/history.db", 0));
      auto opened = History::open(dir_->path().toStdString(), check);
      QVERIFY2(opened.ok(), opened.ok() ? "" : opened.error().text().c_str());
      history_ = std::move(*opened);
      QCOMPARE(history_->list()->size(), 1u);
      QCOMPARE(history_->row("r")->notes, std::string("the good one"));
    }
  }

  // JSON, as which a run's own file keeps its row, has no infinity.
  void aDivergedRunIsListedAgain() {
    RunRow row = rowOf("r");
    row.phase = RunState::FAILED;
    row.tags = {"bad"};
    row.figures.trainLoss = INFINITY;
    row.figures.evalLoss = -INFINITY;
    RunDocuments documents;
    documents.specYaml = "x";
    QVERIFY(history_->add(row, documents).ok());
    history_.reset();
    QVERIFY(QFile::resize(dir_->path() + "/history.db", 0));
    const auto opened = History::open(dir_->path().toStdString());
    QVERIFY(opened.ok());
    const auto again = (*opened)->row("r");
    QVERIFY(again.ok());
    QCOMPARE(again->name, row.name);
    QCOMPARE(again->tags, row.tags);
    QVERIFY(again->figures.trainLoss == INFINITY && again->figures.evalLoss == -INFINITY);
    QCOMPARE((*opened)->documents("r")->specYaml, documents.specYaml);
  }

  // Damage in the middle, which no open notices, is found where a writer was killed.
  void aHistoryThatWasNotClosedIsChecked() {
    RunDocuments documents;
    documents.plan = std::string(20000, 'p');
    for (int i = 0; i < 20; ++i)
      QVERIFY(history_->add(rowOf(fmt::format("run-{}", i)), documents).ok());
    history_.reset();
    const pid_t child = fork();
    if (child == 0) {
      auto opened = History::open(dir_->path().toStdString());
      if (!opened.ok() || !(*opened)->setNotes("run-1", "x").ok()) _exit(1);
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    QVERIFY(WIFSIGNALED(status));
    const std::string folder = dir_->path().toStdString();
    QVERIFY(hasLog(folder + "/history.db"));
    {
      auto opened = History::open(folder);
      QVERIFY(opened.ok());
      QCOMPARE((*opened)->row("run-1")->notes, std::string("x"));
    }
    QVERIFY(filesSetAside(folder).empty());
    const pid_t again = fork();
    if (again == 0) {
      auto opened = History::open(folder);
      if (!opened.ok() || !(*opened)->setNotes("run-2", "y").ok()) _exit(1);
      kill(getpid(), SIGKILL);
    }
    waitpid(again, &status, 0);
    QFile file(dir_->path() + "/history.db");
    QVERIFY(file.open(QFile::ReadWrite) && file.size() > 300'000);
    for (qint64 at = 60'000; at + 4096 < file.size(); at += 40'960) {
      QVERIFY(file.seek(at / 4096 * 4096));
      QCOMPARE(file.write(QByteArray(4096, '\xee')), 4096);
    }
    file.close();
    auto opened = History::open(folder);
    QVERIFY(opened.ok());
    QCOMPARE(filesSetAside(folder).size(), 1u);
    QCOMPARE((*opened)->list()->size(), 20u);
    QCOMPARE((*opened)->row("run-2")->notes, std::string("y"));
    QCOMPARE((*opened)->documents("run-9")->plan, documents.plan);
  }

  void aDamagedRunIsSetAside() {
    RunDocuments documents;
    documents.nodes = "[]";
    {
      auto store = history_->begin(rowOf("r"), documents);
      QVERIFY(store.ok() && (*store)->append(lossBatch(1, 20000)).ok());
      QVERIFY(!history_->checkRun("r")->has_value());
    }
    QVERIFY(!history_->checkRun("r")->has_value());
    QFile file(dir_->path() + "/runs/r.db");
    QVERIFY(file.open(QFile::ReadWrite) && file.seek(file.size() / 2 / 4096 * 4096));
    file.write(QByteArray(40'960, '\xee'));
    file.close();
    const auto aside = history_->checkRun("r");
    QVERIFY2(aside.ok(), aside.ok() ? "" : aside.error().text().c_str());
    QVERIFY(aside->has_value() && QFile::exists(QString::fromStdString(**aside)));
    QCOMPARE(filesSetAside(dir_->path().toStdString()), std::vector<std::string>{**aside});
    auto fresh = history_->openRun("r");
    QVERIFY(fresh.ok() && (*fresh)->series().empty());
    QVERIFY(!(*fresh)->about(kAboutRefill).empty());
    QVERIFY(!(*fresh)->about(kAboutDocuments).empty());
    QVERIFY(!history_->checkRun("r")->has_value());
  }

  // An empty file is no run without curves: neither one without tables nor one that has only those.
  void anEmptyRunIsSetAside() {
    RunRow row = rowOf("r");
    row.phase = RunState::SUCCEEDED;
    row.figures.steps = 500;
    {
      auto store = history_->begin(rowOf("r"), {});
      QVERIFY(store.ok() && (*store)->append(lossBatch(1, 500)).ok());
    }
    QVERIFY(history_->update(row).ok());
    QVERIFY(!history_->checkRun("r")->has_value());
    const QString path = dir_->path() + "/runs/r.db";
    QVERIFY(QFile::resize(path, 0));
    const auto empty = history_->openRun("r");
    QVERIFY(!empty.ok() && empty.error().code == Code::kDataLoss);
    QVERIFY(history_->setNotes("r", "a note").ok());  // which makes it no less empty
    QVERIFY(history_->checkRun("r")->has_value());
    QVERIFY(!(*history_->openRun("r"))->about(kAboutRefill).empty());
    QVERIFY(!history_->checkRun("r")->has_value());
    for (const char* ending : {"", "-wal", "-shm"}) QFile::remove(path + ending);
    QVERIFY(makeRunStore(path.toStdString()).ok());
    QVERIFY(history_->checkRun("r")->has_value());
    // One that ended before it began has nothing to keep.
    QVERIFY(history_->begin(rowOf("expired"), {}).ok());
    QVERIFY(history_->expireAbandoned().ok());
    QVERIFY(!history_->checkRun("expired")->has_value());
  }

  // A folder or a pipe in a file's place is set aside as a damaged file is.
  void whatIsNoFileIsSetAside() {
    const std::string folder = dir_->path().toStdString();
    QVERIFY(history_->add(rowOf("r"), {}).ok());
    QVERIFY(history_->setNotes("r", "the good one").ok());
    const auto replace = [&](const std::string& path, bool byFolder) {
      for (const char* ending : {"", "-wal", "-shm"}) std::filesystem::remove(path + ending);
      return byFolder ? std::filesystem::create_directory(path) : mkfifo(path.c_str(), 0600) == 0;
    };
    std::size_t aside = 0;
    for (const bool byFolder : {true, false}) {
      QVERIFY(replace(folder + "/runs/r.db", byFolder));
      QVERIFY(history_->checkRun("r")->has_value());
      QVERIFY(!history_->checkRun("r")->has_value());
      history_.reset();
      QVERIFY(replace(folder + "/history.db", byFolder));
      auto opened = History::open(folder);
      QVERIFY2(opened.ok(), opened.ok() ? "" : opened.error().text().c_str());
      history_ = std::move(*opened);
      QCOMPARE(history_->row("r")->notes, std::string("the good one"));
      QCOMPARE(filesSetAside(folder).size(), aside += 2);
    }
  }

  // Where the history cannot be opened, the error names what stands in its way.
  void whatStandsInTheWayIsNamed() {
    history_.reset();
    const QString path = dir_->path();
    QVERIFY(QFile::remove(path + "/history.db"));
    QVERIFY(QFile::link("/nowhere/history.db", path + "/history.db"));
    const auto linked = History::open(path.toStdString());
    QCOMPARE(linked.error().why, std::string("it is a link to a file that is not there"));
    QVERIFY(!linked.error().next.empty());
    QVERIFY(QDir(path + "/runs").removeRecursively());
    QFile file(path + "/runs");
    QVERIFY(file.open(QFile::WriteOnly));
    const auto blocked = History::open(path.toStdString());
    QCOMPARE(blocked.error().what,
             "cannot create the history's folder " + path.toStdString() + "/runs");
    QVERIFY(!blocked.error().next.empty());
  }

  // On a file system that is read-only, what is there can be read; what writes says why it cannot.
  void aReadOnlyFileSystemCanBeRead() {
    if (::geteuid() != 0) QSKIP("mounting needs root");
    {
      auto store = history_->begin(rowOf("r"), {});
      QVERIFY(store.ok() && (*store)->append(lossBatch(1, 10)).ok());
    }
    history_.reset();
    const QByteArray path = dir_->path().toUtf8();
    if (::mount(path, path, nullptr, MS_BIND, nullptr) != 0) QSKIP("nothing can be mounted here");
    const auto unmount = qScopeGuard([&] { ::umount2(path, MNT_DETACH); });
    QCOMPARE(::mount(nullptr, path, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
    auto opened = History::open(path.toStdString());
    QVERIFY2(opened.ok(), opened.ok() ? "" : opened.error().text().c_str());
    QCOMPARE((*opened)->list()->size(), 1u);
    QVERIFY((*opened)->csv("r")->starts_with("step,loss\n1,1\n"));
    QVERIFY((*opened)->expireAbandoned().ok());
    const Status written = (*opened)->setNotes("r", "x");
    QVERIFY(!written.ok() && written.code() == Code::kPermissionDenied &&
            !written.error().next.empty());
    QVERIFY(!(*opened)->remove("r").ok());
    const auto other = History::open((path + "/other").toStdString());
    QVERIFY(!other.ok() && other.error().why.text().find("Read-only") != std::string::npos);
  }

  // What a writer that was killed left in its log is read where nothing can be written.
  void aReadOnlyHistoryWithALogIsWhole() {
    if (::geteuid() != 0) QSKIP("mounting needs root");
    QVERIFY(history_->add(rowOf("r"), {}).ok());
    namespace fs = std::filesystem;
    const std::string from = dir_->path().toStdString(), copy = from + "/copy";
    fs::create_directories(copy + "/runs");
    for (const char* file : {"/history.db", "/history.db-wal"}) fs::copy(from + file, copy + file);
    QVERIFY(fs::file_size(copy + "/history.db-wal") > 0);
    const char* const path = copy.c_str();
    if (::mount(path, path, nullptr, MS_BIND, nullptr) != 0) QSKIP("nothing can be mounted here");
    const auto unmount = qScopeGuard([&] { ::umount2(path, MNT_DETACH); });
    QCOMPARE(::mount(nullptr, path, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
    auto opened = History::open(copy);
    QVERIFY2(opened.ok(), opened.ok() ? "" : opened.error().text().c_str());
    const auto rows = (*opened)->list();
    QVERIFY(rows.ok());
    QCOMPARE(rows->size(), 1u);
    QCOMPARE(rows->front().run, "r");
    QVERIFY(!(*opened)->setNotes("r", "x").ok());
  }

 private:
  std::unique_ptr<QTemporaryDir> dir_;
  std::unique_ptr<History> history_;
};

QTEST_GUILESS_MAIN(HistoryTest)
#include "history_test.moc"
