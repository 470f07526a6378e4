// What needs no node: previews, identities, and what becomes of the records of a run.
#include <QProcess>
#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include "app/core/home.h"
#include "app/runs/log_line.h"
#include "app/runs/preview.h"
#include "app/runs/relaunch.h"
#include "app/runs/run_aggregator.h"
#include "app/runs/run_model.h"
#include "app/runs/run_progress.h"
#include "app/runs/tls.h"
#include "app/specs/spec_text.h"
#include "engine/base/clock.h"
#include "engine/plan/plan.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/app/runs/made_up_records.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::app::test;

namespace {

LaunchRequest requestFor(const std::string& example, int nodes, const std::string& comm = {}) {
  auto spec = loadRunSpec(lockstep::test::sourcePath("resources/examples/") + example + ".yaml");
  if (!spec.ok()) qFatal("%s", spec.error().text().c_str());
  LaunchRequest request;
  request.spec = spec->spec;
  request.cluster = localCluster(nodes, "/nowhere", comm).spec;
  return request;
}

}  // namespace

class RunAggregatorTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void previewsSayWhoDoesWhat() {
    for (const std::string example : {"fashion-mlp", "fashion-cnn"}) {
      auto preview = makePreview(requestFor(example, 3),
                                 {{"local1", "h", 2}, {"local2", "h", 2}, {"local3", "h", 2}});
      QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
      QCOMPARE(preview->ranks.size(), std::size_t{3});
      QCOMPARE(preview->comm, std::string("gloo"));
      std::int64_t samples = 0;
      for (const auto& rank : preview->ranks) {
        samples += rank.samples;
        QVERIFY(rank.totalBytes() > rank.parameterBytes && rank.parameterBytes > 100'000);
      }
      QCOMPARE(samples, preview->plan.globalBatch);
      QVERIFY(preview->stepSeconds > 0);
      QVERIFY(!preview->remarks.empty());  // three threads share two cores
      auto plan = plan::parse(preview->planText);
      QVERIFY(plan.ok());
      QCOMPARE(plan::text(*plan), preview->planText);
      auto back = parsePrediction(predictionJson(*preview));
      QVERIFY(back.ok());
      QCOMPARE(back->stepSeconds, preview->stepSeconds);
      QCOMPARE(back->ranks.size(), std::size_t{3});
      QCOMPARE(back->ranks[2].waiting, preview->ranks[2].waiting);
      QVERIFY(previewText(*preview).find("local2") != std::string::npos);
    }
    QVERIFY(!parsePrediction("[1").ok());
    QVERIFY(parsePrediction("{\"ranks\":[1,{\"rank\":\"x\"}],\"remarks\":3}").ok());
  }

  void sharedMemoryIsForOneNode() {
    auto preview = makePreview(requestFor("fashion-mlp", 3, "shm"), {});
    QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
    QCOMPARE(preview->comm, std::string("shm"));
    QCOMPARE(preview->ranks.size(), std::size_t{3});
  }

  void identitiesNameRunNodeAndGeneration() {
    auto identities = makeRunIdentities("20240101-120000-abcd", 3, {"n1", "n2"});
    QVERIFY(identities.ok());
    QCOMPARE(identities->size(), std::size_t{2});
    BIO* bio = BIO_new_mem_buf(identities->at("n2").certificatePem.data(), -1);
    X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    QVERIFY(certificate != nullptr);
    auto* names = static_cast<GENERAL_NAMES*>(
        X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
    QVERIFY(names != nullptr);
    QCOMPARE(sk_GENERAL_NAME_num(names), 1);
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, 0);
    QCOMPARE(name->type, GEN_URI);
    const auto* uri = name->d.uniformResourceIdentifier;
    QCOMPARE(QByteArray(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                        ASN1_STRING_length(uri)),
             QByteArray("lockstep://run/20240101-120000-abcd/node/n2/generation/3"));
    GENERAL_NAMES_free(names);
    X509_free(certificate);
    BIO_free(bio);
    QVERIFY(identities->at("n1").keyPem != identities->at("n2").keyPem);
  }

  // However long the run takes, and whatever a node's clock says.
  void certificatesDoNotExpire() {
    const auto identities = makeRunIdentities("20240101-120000-abcd", 1, {"n1"});
    QVERIFY(identities.ok());
    for (const std::string& pem :
         {identities->at("n1").certificatePem, identities->at("n1").caPem}) {
      BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
      X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
      BIO_free(bio);
      QVERIFY(certificate != nullptr);
      tm from{}, to{};
      QCOMPARE(ASN1_TIME_to_tm(X509_get0_notBefore(certificate), &from), 1);
      QCOMPARE(ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &to), 1);
      X509_free(certificate);
      QCOMPARE(from.tm_year + 1900, 1970);
      QCOMPARE(to.tm_year + 1900, 9999);
    }
  }

  // Each node has a key of its own, and none that issues certificates.
  void theAuthoritysKeyIsNotGivenAway() {
    const auto identities = makeRunIdentities("20240101-120000-abcd", 1, {"n1", "n2"});
    QVERIFY(identities.ok());
    const auto parsed = [](const std::string& pem, auto read) {
      BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
      auto* out = read(bio, nullptr, nullptr, nullptr);
      BIO_free(bio);
      return out;
    };
    for (const auto& [node, identity] : *identities) {
      for (const std::string& pem : {identity.caPem, identity.certificatePem})
        QVERIFY(pem.find("PRIVATE KEY") == std::string::npos);
      EVP_PKEY* key = parsed(identity.keyPem, PEM_read_bio_PrivateKey);
      X509* own = parsed(identity.certificatePem, PEM_read_bio_X509);
      X509* authority = parsed(identity.caPem, PEM_read_bio_X509);
      QVERIFY(key != nullptr && own != nullptr && authority != nullptr);
      QCOMPARE(X509_check_private_key(own, key), 1);
      QCOMPARE(X509_check_private_key(authority, key), 0);
      QCOMPARE(X509_check_ca(own), 0);
      EVP_PKEY_free(key);
      X509_free(own);
      X509_free(authority);
    }
    QVERIFY(identities->at("n1").keyPem != identities->at("n2").keyPem);
  }

  // The history, models and reports are in it.
  void otherAccountsCannotReadTheHome() {
    const auto before = umask(0);
    const auto restore = qScopeGuard([&] { umask(before); });
    const QTemporaryDir folder;
    const std::string path = folder.filePath("new/home").toStdString();
    const auto home = openHome(path);
    QVERIFY2(home.ok(), home.ok() ? "" : home.error().text().c_str());
    QCOMPARE(home->root, path);
    using std::filesystem::perms;
    for (const auto& made : {path, folder.filePath("new").toStdString()})
      QVERIFY(std::filesystem::status(made).permissions() == perms::owner_all);
  }

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

  void logLinesSayTheirTime() {
    const LogLine line = parseLogLine("2024-05-01T12:00:00.123Z W the step waited");
    QVERIFY(levelOf(line) == LogLevel::kWarning);
    QVERIFY(levelOf(parseLogLine("2024-05-01T12:00:00.123Z D an error")) == LogLevel::kDebug);
    QVERIFY(levelOf(parseLogLine("RuntimeERROR: no")) == LogLevel::kError);
    QVERIFY(levelOf(parseLogLine("traceback (most recent)")) == LogLevel::kError);
    QVERIFY(levelOf(parseLogLine("UserWarning: x")) == LogLevel::kWarning);
    QVERIFY(levelOf(parseLogLine("loss 0.3")) == LogLevel::kInfo);
    QCOMPARE(isoTime(line.wallNs), std::string("2024-05-01T12:00:00.123Z"));
    QCOMPARE(line.level, 'W');
    QCOMPARE(line.text, std::string_view("the step waited"));
    for (const char* other :
         {"", "words", "2024-05-01T12:00:00.123Z", "2024-05-01T12:00:00.123Z X text",
          "2024-05-01 12:00:00.123Z I text", "12 I text", "9999-05-01T12:00:00.123Z I text",
          "0000-00-00T00:00:00.000Z I text"}) {
      QCOMPARE(parseLogLine(other).text, std::string_view(other));
      QCOMPARE(parseLogLine(other).wallNs, 0);
    }
  }

  void aRunIsLaunchedAgainAsItRan() {
    QTemporaryDir folder;
    auto history = History::open(folder.path().toStdString());
    QVERIFY(history.ok());
    RunRow row = rowOf(2);
    row.name = "mlp";
    RunDocuments documents;
    const std::string file = lockstep::test::sourcePath("resources/examples/fashion-mlp.yaml");
    const auto written = loadRunSpec(file);
    QVERIFY(written.ok());
    documents.specYaml = written->yaml;
    documents.specResolved = toYaml(*written->spec);
    documents.clusterYaml = localCluster(2, "/nowhere", "").yaml;
    documents.nodes = R"([{"node": "local1", "folder": "/w/runs/r"}])";
    QVERIFY((*history)->add(row, documents).ok());
    const auto resumed = relaunchOf(**history, "r", RelaunchKind::kResume);
    QVERIFY(resumed.ok());
    QCOMPARE(resumed->checkpoints.ofNode.at("local1"), std::string("/w/runs/r/checkpoints"));
    QCOMPARE(resumed->specYaml, written->yaml);  // with its comments
    QVERIFY(relaunchOf(**history, "r", RelaunchKind::kRerun)->checkpoints.empty());
    // With --set the text says something else than what ran.
    documents.specResolved = toYaml(*loadRunSpec(file, {"training.batch=96"})->spec);
    documents.nodes.clear();
    QVERIFY((*history)->setDocuments("r", documents).ok());
    const auto anew = relaunchOf(**history, "r", RelaunchKind::kRerun);
    QVERIFY(anew.ok());
    QCOMPARE(completeRunSpec(anew->specYaml, {})->spec->training().batch(), 96);
    const auto never = relaunchOf(**history, "r", RelaunchKind::kResume);
    QVERIFY(!never.ok());
    QCOMPARE(never.error().code, Code::kFailedPrecondition);
    QVERIFY(!relaunchOf(**history, "other", RelaunchKind::kRerun).ok());
    // Without checkpoints there is none to resume from.
    documents.specResolved =
        toYaml(*loadRunSpec(file, {"training.checkpoint.disabled=true"})->spec);
    documents.nodes = R"([{"node": "local1", "folder": "/w/runs/r"}])";
    QVERIFY((*history)->setDocuments("r", documents).ok());
    const auto without = relaunchOf(**history, "r", RelaunchKind::kResume);
    QVERIFY(!without.ok());
    QCOMPARE(without.error().why, std::string("training.checkpoint.disabled is set"));
  }

  // Resumed as long as there is something to train from a checkpoint; one that is under way does
  // not lose what it has trained.
  void aRunIsLaunchedAgainWithAFasterStrategy() {
    QTemporaryDir folder;
    auto history = History::open(folder.path().toStdString());
    QVERIFY(history.ok());
    const std::string file = lockstep::test::sourcePath("resources/examples/fashion-mlp.yaml");
    RunRow row = rowOf(2);
    RunDocuments documents;
    documents.clusterYaml = localCluster(2, "/nowhere", "").yaml;
    documents.nodes = R"([{"node": "local1", "folder": "/w/runs/r"}])";
    QVERIFY((*history)->add(row, documents).ok());
    for (const bool saves : {true, false}) {
      const auto spec = loadRunSpec(
          file, {std::string("training.checkpoint.disabled=") + (saves ? "false" : "true")});
      QVERIFY(spec.ok());
      documents.specYaml = documents.specResolved = toYaml(*spec->spec);
      QVERIFY((*history)->setDocuments("r", documents).ok());
      for (const RunState phase :
           {RunState::RUNNING, RunState::STOPPED, RunState::FAILED, RunState::SUCCEEDED}) {
        row.phase = phase;
        QVERIFY((*history)->update(row).ok());
        const auto again = relaunchOf(**history, "r", RelaunchKind::kFaster);
        const bool isUnderWay = phase == RunState::RUNNING;
        QCOMPARE(again.ok(), saves || !isUnderWay);
        if (!again.ok()) continue;
        QCOMPARE(again->isUnderWay, isUnderWay);
        QCOMPARE(again->checkpoints.empty(), !saves || phase == RunState::SUCCEEDED);
      }
    }
  }

  void onlyAStoppedRunIsResumed() {
    RunRow row = rowOf(2);
    row.phase = RunState::STOPPED;
    QVERIFY(mustHaveStopped(row).ok());
    for (const auto& [phase, why] :
         {std::pair{RunState::SUCCEEDED, "it had trained to its end before it could be stopped"},
          {RunState::FAILED, "it ended before it could be stopped"},
          {RunState::EXPIRED, "it ended before it could be stopped"},
          {RunState::STOPPING, "it has not stopped"}}) {
      row.phase = phase;
      const Status status = mustHaveStopped(row);
      QVERIFY(!status.ok());
      QCOMPARE(status.error().code, Code::kFailedPrecondition);
      QCOMPARE(status.error().why, std::string(why));
    }
  }

  void stepsBecomeCurvesAndWaiting() {
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    book.add("n1", stepsRecord(1, 0, 1, 30, 0.002));
    book.add("n2", stepsRecord(1, 1, 1, 30, 0.010));
    const auto taken = book.take();
    QCOMPARE(find(taken.batch, "loss")->points.size(), std::size_t{30});
    QCOMPARE(find(taken.batch, "loss")->points[3].y, 0.25);
    QVERIFY(find(taken.batch, "rank/0/staleness") == nullptr);
    const auto* waiting = find(taken.batch, "rank/0/waiting");
    QVERIFY(waiting != nullptr);
    QCOMPARE(waiting->points.size(), std::size_t{30});
    QVERIFY(std::abs(waiting->points[5].y - 0.008) < 1e-6);
    QVERIFY(find(taken.batch, "rank/1/waiting")->points[5].y < 1e-6);
    QCOMPARE(taken.batch.cursors.size(), std::size_t{2});
    QVERIFY(std::abs(taken.update.row->measuredStepSeconds - 0.02) < 1e-9);
    QVERIFY(taken.update.slow.has_value());
    QCOMPARE(taken.update.slow->rank, 1);
    // Told again: nothing new.
    book.add("n1", stepsRecord(1, 0, 1, 30, 0.002));
    QVERIFY(book.empty());
  }

  // Of several measurements of a clock's offset the surest is applied.
  void theSurestClockOffsetHolds() {
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    constexpr std::int64_t kSecond = 1'000'000'000;
    std::uint64_t sequence = 0;
    for (const auto& [offset, uncertainty] : {std::pair{5 * kSecond + 40'000'000, 50'000'000L},
                                              {5 * kSecond, 100'000L},
                                              {5 * kSecond - 80'000'000, 90'000'000L}}) {
      run::v1::Record record;
      record.set_sequence(++sequence);
      record.set_monotonic_ns(static_cast<std::int64_t>(sequence) * kSecond);
      record.set_wall_ns(record.monotonic_ns());
      record.mutable_clock()->set_offset_ns(offset);
      record.mutable_clock()->set_uncertainty_ns(uncertainty);
      book.add("n2", record);
    }
    run::v1::Record late = stepsRecord(++sequence, 1, 1, 30, 0.010);
    late.mutable_steps()->set_begin_ns(0, late.steps().begin_ns(0) - 5 * kSecond);
    book.add("n1", stepsRecord(1, 0, 1, 30, 0.002));
    book.add("n2", late);
    const auto taken = book.take();
    const auto* waiting = find(taken.batch, "rank/0/waiting");
    QVERIFY(waiting != nullptr);
    QVERIFY(std::abs(waiting->points[5].y - 0.008) < 1e-6);
    QCOMPARE(find(taken.batch, "node/n2/clock_uncertainty")->points.size(), std::size_t{3});
  }

  // An outline has the extremes of many steps: curves, but nothing that compares ranks of one step.
  void anOutlineBecomesCurves() {
    RunRow row;
    row.run = "r";
    row.world = 2;
    RunAggregator book(row, {{"a", 0}});
    for (const std::int64_t step : {1, 500})
      for (int rank = 0; rank < 2; ++rank) {
        run::v1::Record record =
            stepsRecord(static_cast<std::uint64_t>(rank + 2 * step), rank, step, 1, 0.01);
        record.set_outline_from(1);
        book.add("a", record);
      }
    const auto taken = book.take();
    std::map<std::string, std::vector<Point>> series;
    for (const auto& one : taken.batch.series) series[one.name] = one.points;
    for (const char* name : {"loss", "rank/0/step", "rank/0/forward", "rank/1/optimizer"}) {
      QCOMPARE(series[name].size(), std::size_t{2});
      QCOMPARE(series[name][1].x, 500.0);
    }
    QVERIFY(!series.contains("rank/0/waiting"));
  }

  void stepsThatUpdateNothingAreASeries() {
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    for (const int rank : {0, 1}) {
      run::v1::Record record = stepsRecord(1, rank, 1, 4, 0.002);
      for (const float scale : {65536.0f, 65536.0f, 32768.0f, 32768.0f})
        record.mutable_steps()->add_loss_scale(scale);
      for (const int skipped : {0, 1, 0, 0}) record.mutable_steps()->add_skipped(skipped);
      book.add(rank == 0 ? "n1" : "n2", record);
    }
    const auto taken = book.take();
    QCOMPARE(find(taken.batch, "loss_scale")->points.size(), std::size_t{4});
    QCOMPARE(find(taken.batch, "loss_scale")->points[2].y, 32768.0);
    QCOMPARE(find(taken.batch, "skipped")->points.size(), std::size_t{1});
    QCOMPARE(find(taken.batch, "skipped")->points[0].x, 2.0);
    QCOMPARE(find(taken.batch, "skipped")->points[0].y, 1.0);
  }

  // The same on all ranks that report them: the first report of a step counts, and none that were
  // not measured.
  void whatIsWatchedIsASeries() {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    const auto record = [&](std::uint64_t sequence, int rank, int first, int seen) {
      run::v1::Record out = stepsRecord(sequence, rank, first, 4, 0.002);
      run::v1::StepChunk& steps = *out.mutable_steps();
      for (int i = 0; i < 4; ++i) {
        steps.add_learning_rate(0.001 * (first + i));
        steps.add_gradient_norm(static_cast<float>(i == 2 ? kNone : first + i));
        steps.add_update_ratio(static_cast<float>(kNone));
      }
      steps.set_samples_seen(seen);
      steps.set_sample_tokens(100);
      return out;
    };
    for (const int rank : {1, 0}) book.add(rank == 0 ? "n1" : "n2", record(1, rank, 1, 256));
    // Trained again after a restart, in part: what is known stays.
    book.add("n1", record(2, 0, 3, 384));
    const auto taken = book.take();
    const auto points = [&](const char* name) { return find(taken.batch, name)->points; };
    QCOMPARE(points("learning_rate").size(), std::size_t{6});
    QCOMPARE(points("learning_rate")[5].y, 0.006);
    std::vector<double> measured;
    for (const Point& point : points("gradient_norm")) measured.push_back(point.x);
    QCOMPARE(measured, (std::vector<double>{1, 2, 4, 6}));
    QCOMPARE(find(taken.batch, "update_ratio"), nullptr);
    QCOMPARE(points("samples").size(), std::size_t{6});
    QCOMPARE(points("samples")[0].y, 64.0);
    QCOMPARE(points("samples")[5].y, 384.0);
    QCOMPARE(points("tokens")[5].y, 38400.0);
    QCOMPARE(points("tokens_per_second")[0].y, points("samples_per_second")[0].y * 100);
  }

  // Curves of GPUs are what their driver tells; what is wrong is told once.
  void gpusAreSeriesAndWarnings() {
    RunAggregator book(rowOf(1), {{"n1", 0}});
    std::uint64_t sequence = 0;
    const auto sample = [&](const std::function<void(run::v1::GpuSample&)>& set) {
      ++sequence;
      run::v1::Record record = sampleRecord(sequence, static_cast<double>(sequence), {});
      run::v1::GpuSample& one = *record.mutable_node_sample()->add_gpu();
      one.set_index(3);
      one.set_utilisation(0.9);
      one.set_power_w(600);
      one.set_throttle_known(true);
      one.set_ecc_uncorrected(7);  // from before the run
      one.set_xids(0);
      set(one);
      book.add("n1", record);
    };
    for (int i = 0; i < 3; ++i) sample([](auto&) {});
    auto taken = book.take();
    QVERIFY(taken.update.warnings.empty());
    QCOMPARE(find(taken.batch, "node/n1/gpu/3/utilisation")->points.size(), std::size_t{3});
    QCOMPARE(find(taken.batch, "node/n1/gpu/3/utilisation")->points[0].y, 0.9);
    QCOMPARE(find(taken.batch, "node/n1/gpu/3/power")->points[0].y, 600.0);
    QCOMPARE(find(taken.batch, "node/n1/gpu/3/throttled")->points[2].y, 0.0);
    // did not change
    QCOMPARE(find(taken.batch, "node/n1/gpu/3/ecc_uncorrected")->points.size(), std::size_t{1});
    for (const char* absent :
         {"memory", "memory_utilisation", "temperature", "sm_clock", "memory_clock", "pcie_in",
          "pcie_out", "nvlink_in", "nvlink_out", "ecc_corrected"})
      QVERIFY2(find(taken.batch, std::string("node/n1/gpu/3/") + absent) == nullptr, absent);
    // Under its power limit it works as it should; for a moment of heat nobody is called.
    for (int i = 0; i < 20; ++i) sample([](auto& gpu) { gpu.add_throttle("power"); });
    sample([](auto& gpu) { gpu.add_throttle("heat"); });
    taken = book.take();
    QVERIFY(taken.update.warnings.empty());
    QCOMPARE(find(taken.batch, "node/n1/gpu/3/throttled")->points[0].y, 1.0);
    for (int i = 0; i < 20; ++i)
      sample([](auto& gpu) {
        gpu.add_throttle("heat");
        gpu.set_temperature_c(91);
      });
    sample([](auto& gpu) {
      gpu.set_ecc_uncorrected(9);
      gpu.set_xids(1);
      gpu.set_last_xid(48);
      gpu.set_pcie_width(8);
      gpu.set_pcie_width_max(16);
    });
    for (int i = 0; i < 3; ++i)
      sample([](auto& gpu) {
        const std::string problem = "GPU is lost";
        gpu.Clear();
        gpu.set_index(3);
        gpu.mutable_problem()->set_text(problem);
        gpu.set_xids(1);
      });
    taken = book.take();
    QStringList told;
    for (const Error& warning : taken.update.warnings) {
      QCOMPARE(warning.node, std::string("n1"));
      told << QString::fromStdString(warning.what);
    }
    QCOMPARE(told,
             (QStringList{"GPU 3 is slowed down for heat",
                          "the driver reports an error of GPU 3: Xid 48",
                          "GPU 3 has uncorrected memory errors: 9",
                          "the PCIe link of GPU 3 has 8 of 16 lanes", "GPU 3 does not answer"}));
    QCOMPARE(taken.update.warnings[0].why, std::string("it has 91 °C"));
    QCOMPARE(taken.update.warnings[4].why, std::string("GPU is lost"));
    QCOMPARE(taken.batch.logs.size(), std::size_t{5});
    // Back and away again is news.
    sample([](auto&) {});
    sample([](auto& gpu) { gpu.mutable_problem()->set_text("GPU is lost"); });
    QCOMPARE(book.take().update.warnings.size(), std::size_t{1});
  }

  // Sums and differences of what nodes say do not overflow.
  void timesAreBounded() {
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    const std::int64_t now = wallNow();
    QCOMPARE(bounded(now), now);
    QCOMPARE(bounded(-now), -now);
    QCOMPARE(bounded(kMost), -bounded(kLeast));
    QVERIFY(bounded(kMost) > now && bounded(kMost) <= kMost / 4 + 1);
    QVERIFY(bounded(bounded(kMost) + bounded(kMost)) == bounded(kMost));
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}, {"n3", 0}});
    for (const bool early : {true, false}) {
      const std::string node = early ? "n2" : "n3";
      const std::int64_t end = early ? kLeast : kMost;
      run::v1::Record clock;
      clock.set_sequence(1);
      clock.mutable_clock()->set_relative_to("n1");
      clock.mutable_clock()->set_offset_ns(end);
      book.add(node, clock);
      run::v1::Record record = stepsRecord(2, early ? 0 : 1, 1, 1, 0.002);
      record.set_wall_ns(end);
      record.set_monotonic_ns(early ? kMost : kLeast);
      record.mutable_steps()->set_begin_ns(0, end);
      record.mutable_steps()->set_duration_ns(0, kMost);
      record.mutable_steps()->set_arrival_ns(0, early ? 1 : kMost);
      book.add(node, record);
    }
    const auto taken = book.take();
    const auto waiting = [&](int rank) {
      const auto* series = find(taken.batch, fmt::format("rank/{}/waiting", rank));
      return series != nullptr ? series->points.at(0).y : -1;
    };
    QVERIFY2(std::abs(waiting(0) - 0.0179) < 1e-6, qPrintable(QString::number(waiting(0))));
    QCOMPARE(waiting(1), 0.0);
    RunAggregator longest(rowOf(1), {{"n1", 0}});
    run::v1::Record record;
    record.set_sequence(1);
    record.set_wall_ns(kLeast);
    record.mutable_started();
    longest.add("n1", record);
    record.set_sequence(2);
    record.set_wall_ns(kMost);
    record.mutable_finished()->set_state(run::v1::SUCCEEDED);
    longest.add("n1", record);
    QCOMPARE(longest.row().finishedNs - longest.row().startedNs, bounded(kMost) - bounded(kLeast));
  }

  void theCoordinatorSaysTheEnd() {
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    run::v1::Record finished;
    finished.set_sequence(1);
    finished.mutable_finished()->set_state(run::v1::SUCCEEDED);
    book.add("n2", finished);
    QVERIFY(!book.ended() && book.finished("n2"));
    finished.mutable_finished()->set_weights_sha256("ab");
    finished.mutable_finished()->set_steps(7);
    book.add("n1", finished);
    QVERIFY(book.ended());
    QCOMPARE(book.row().figures.weightsSha256, std::string("ab"));
    QCOMPARE(book.row().figures.steps, std::int64_t{7});
  }

  // Its supervisor was lost as it ended the run: another node tells how.
  void anotherNodeSaysTheEnd_data() {
    QTest::addColumn<bool>("agreed");
    // The coordinator is, before (1) or after (2) that record; or its folder is gone (3).
    QTest::addColumn<int>("unreachable");
    QTest::addColumn<bool>("returns");  // its agent has written an end for it
    QTest::addColumn<RunState>("state");
    QTest::newRow("the coordinator answers") << true << 0 << false << RunState::RUNNING;
    QTest::newRow("it was out of reach before") << true << 1 << false << RunState::SUCCEEDED;
    QTest::newRow("it is out of reach later") << true << 2 << false << RunState::SUCCEEDED;
    QTest::newRow("it comes back") << true << 0 << true << RunState::SUCCEEDED;
    QTest::newRow("it comes back later") << true << 2 << true << RunState::SUCCEEDED;
    QTest::newRow("its folder is gone") << true << 3 << false << RunState::SUCCEEDED;
    QTest::newRow("the node's own end, and its folder is gone")
        << false << 3 << false << RunState::FAILED;
    QTest::newRow("the node's own end") << false << 1 << false << RunState::RUNNING;
    QTest::newRow("the node's own end, and it comes back")
        << false << 1 << true << RunState::FAILED;
  }
  void anotherNodeSaysTheEnd() {
    QFETCH(bool, agreed);
    QFETCH(int, unreachable);
    QFETCH(bool, returns);
    QFETCH(RunState, state);
    RunRow row = rowOf(2);
    row.phase = RunState::RUNNING;
    RunAggregator book(row, {{"n1", 0}, {"n2", 0}});
    run::v1::Record finished;
    finished.set_sequence(1);
    finished.set_wall_ns(9);
    finished.mutable_finished()->set_state(run::v1::SUCCEEDED);
    finished.mutable_finished()->set_steps(7);
    finished.mutable_finished()->set_agreed(agreed);
    if (unreachable == 1) book.setUnreachable(5);
    book.add("n2", finished);
    if (unreachable == 2) book.setUnreachable(5);
    if (unreachable == 3) book.fail(makeError(Code::kNotFound, "the node does not know the run"));
    finished.mutable_finished()->set_state(run::v1::FAILED);
    finished.mutable_finished()->set_agreed(false);
    finished.mutable_finished()->set_alone(true);
    if (returns) book.add("n1", finished);
    QCOMPARE(book.row().phase, state);
    if (state != RunState::SUCCEEDED) return;
    QCOMPARE(book.row().finishedNs, std::int64_t{9});
    QCOMPARE(book.row().unreachableNs, std::int64_t{0});
    QCOMPARE(book.row().figures.steps, std::int64_t{7});
    QVERIFY(book.take().update.errors.empty());
  }

  // A run that was killed has the loss of its last whole epoch, or none; one that ended has what
  // its ranks said.
  void aKilledRunsLossIsWhatWasSeen() {
    for (const bool whole : {false, true})
      for (const auto state : {run::v1::FAILED, run::v1::STOPPED}) {
        RunAggregator book(rowOf(1), {{"n1", 0}});
        run::v1::Record record;
        record.set_sequence(1);
        if (whole) {
          record.mutable_epoch()->set_epoch(1);
          record.mutable_epoch()->set_train_loss(0.5);
          book.add("n1", record);
          record.set_sequence(2);
        }
        record.mutable_finished()->set_state(state);
        record.mutable_finished()->set_steps(7);
        book.add("n1", record);
        const double loss = book.row().figures.trainLoss;
        QVERIFY2(whole ? loss == 0.5 : std::isnan(loss), fmt::format("{}", loss).c_str());
      }
    RunAggregator book(rowOf(1), {{"n1", 0}});
    run::v1::Record record;
    record.set_sequence(1);
    record.mutable_finished()->set_state(run::v1::STOPPED);
    record.mutable_finished()->set_train_loss(0.25);
    book.add("n1", record);
    QCOMPARE(book.row().figures.trainLoss, 0.25);
  }

  // What a person sees as the end comes after everything that was recorded up to it.
  void theEndIsToldAfterTheLastRecords() {
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    book.add("n1", stepsRecord(1, 0, 1, 3, 0.01));
    run::v1::Record finished;
    finished.set_sequence(2);
    finished.mutable_finished()->set_state(run::v1::SUCCEEDED);
    book.add("n1", finished);
    auto taken = book.take();
    QVERIFY(taken.update.ending && !isFinal(taken.update.row->phase));
    QVERIFY(find(taken.batch, "rank/1/waiting") == nullptr);
    book.add("n2", stepsRecord(1, 1, 1, 3, 0.02));
    taken = book.take();
    QCOMPARE(find(taken.batch, "rank/1/waiting")->points.size(), std::size_t{3});
    QVERIFY(taken.update.ending && (!taken.update.row || !isFinal(taken.update.row->phase)));
    QCOMPARE(book.row().phase, RunState::SUCCEEDED);
  }

  // Until it waits for nothing any more, its coordinator is lost, or it is over.
  void whatTheRunWaitsForIsTold() {
    for (const int until : {1, 2, 3}) {
      RunAggregator book(rowOf(1), {{"n1", 0}});
      RunModel model;
      model.begin(rowOf(1), {});
      run::v1::Record record;
      record.set_sequence(1);
      record.mutable_awaited()->set_text("waits for copies");
      book.add("n1", record);
      model.add(book.take().update, 0);
      QCOMPARE(model.awaited().text(), std::string("waits for copies"));
      record.set_sequence(2);
      if (until == 1) record.mutable_awaited()->clear_text();
      if (until == 2) record.mutable_recovering()->set_generation(2);
      if (until == 3) record.mutable_finished()->set_state(run::v1::SUCCEEDED);
      book.add("n1", record);
      auto update = book.take().update;
      if (until == 3) update.row = book.row();  // as the last update has it
      model.add(update, 0);
      QVERIFY(model.awaited().empty());
    }
  }

  void aSavedCheckpointIsToldOnce() {
    RunAggregator book(rowOf(1), {{"n1", 0}});
    run::v1::Record record;
    record.set_sequence(1);
    record.mutable_checkpoint()->set_step(120);
    book.add("n1", record);
    QVERIFY(book.take().update.checkpoint == 120);
    book.add("n1", stepsRecord(2, 0, 121, 1, 0.01));
    QVERIFY(!book.take().update.checkpoint);
    book.add("n1", record);  // again, as by a recorder that takes over
    QVERIFY(!book.take().update.checkpoint);
  }

  // Of a run with a node of role evaluator.
  void whatIsEvaluatedLaterCompletesItsEpoch() {
    RunRow row = rowOf(1);
    row.figures.metric = "accuracy";
    RunAggregator book(row, {{"n1", 0}, {"n2", 0}});
    run::v1::Record record;
    record.set_sequence(1);
    record.mutable_epoch()->set_epoch(1);
    record.mutable_epoch()->set_step(40);
    record.mutable_epoch()->set_train_loss(0.5);
    record.mutable_epoch()->set_evaluated_later(true);
    book.add("n1", record);
    auto taken = book.take();
    QVERIFY(!taken.update.epochs.at(0).evaluated());
    QCOMPARE(taken.update.row->figures.epochs, std::int64_t{1});
    QCOMPARE(taken.update.row->figures.evalLoss, 0.0);
    QVERIFY(find(taken.batch, "epoch/eval_loss") == nullptr);
    const run::v1::EpochInfo epoch = record.epoch();
    record.set_sequence(2);
    *record.mutable_evaluation() = epoch;
    record.mutable_evaluation()->set_evaluated_later(false);
    record.mutable_evaluation()->set_eval_loss(0.25);
    record.mutable_evaluation()->set_eval_metric(0.9);
    book.add("n1", record);
    taken = book.take();
    QCOMPARE(taken.update.epochs.at(0).evalLoss, 0.25);
    QCOMPARE(taken.update.epochs.at(0).step, std::int64_t{40});
    QCOMPARE(taken.update.row->figures.evalMetric, 0.9);
    QCOMPARE(find(taken.batch, "epoch/eval_accuracy")->points.at(0).x, 1.0);
    QVERIFY(find(taken.batch, "epoch/train_loss") == nullptr);
    record.set_sequence(3);
    record.mutable_warning()->set_code("aborted");
    record.mutable_warning()->mutable_what()->set_text(
        "the weights after step 80 could not be evaluated");
    book.add("n1", record);
    taken = book.take();
    QCOMPARE(taken.update.warnings.size(), std::size_t{1});
    QVERIFY(taken.update.errors.empty() && book.row().error.empty());
    QVERIFY(taken.update.logs.at(0).text.find("warning: ") == 0);
    // The last epoch's evaluation did not come: an older one is not its.
    record.set_sequence(4);
    record.mutable_finished()->set_state(run::v1::SUCCEEDED);
    book.add("n1", record);
    QCOMPARE(book.row().figures.evalLoss, 0.0);
  }

  void errorsReachRowAndObservers() {
    RunAggregator book(rowOf(1), {{"n1", 0}});
    run::v1::Record record;
    record.set_sequence(1);
    record.mutable_error()->set_code("aborted");
    record.mutable_error()->mutable_what()->set_text("rank 1 was killed");
    record.mutable_error()->set_rank(1);
    book.add("n1", record);
    const auto taken = book.take();
    QCOMPARE(taken.update.errors.size(), std::size_t{1});
    QCOMPARE(taken.update.errors[0].node, std::string("n1"));
    QVERIFY(taken.update.row->error.text().find("rank 1 was killed") != std::string::npos);
  }
};

QTEST_GUILESS_MAIN(RunAggregatorTest)
#include "run_aggregator_test.moc"
