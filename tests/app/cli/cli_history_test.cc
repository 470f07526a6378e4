// `lockstep history check` where files of the history, or of the nodes it is read from, are
// damaged.
#include <signal.h>

#include <QDir>
#include <QFile>
#include <QScopeGuard>
#include <QTest>

#include "app/history/history.h"
#include "engine/storage/database.h"
#include "tests/app/cli/cli_runner.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

QByteArray readAll(const QString& path) {
  QFile file(path);
  return file.open(QFile::ReadOnly) ? file.readAll() : QByteArray();
}

bool write(const QString& path, const QByteArray& bytes) {
  QFile file(path);
  return file.open(QFile::WriteOnly) && file.write(bytes) == bytes.size();
}

bool copyFolder(const QString& from, const QString& to) {
  return QProcess::execute("cp", {"-a", from, to}) == 0;
}

}  // namespace

class CliHistoryTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    cli_ = std::make_unique<Cli>();
    const CliResult result = cli_->run({"run", example("fashion-mlp"), "--json", "--local", "1",
                                        "--no-benchmark", "--set", "training.max_steps=60"});
    QVERIFY2(result.exit == 0, result.text());
    run_ = result.first("started")["run"].toString();
    file_ = cli_->path("home/history/runs/" + run_ + ".db");
    node_ = cli_->path("home/local/1/runs/" + run_);
    QVERIFY(QDir(node_).exists() && cli_->leave());
    QVERIFY(copyFolder(node_, cli_->path("kept")));
    // One file: what the write-ahead log has is merged into it when the last connection closes.
    QVERIFY(storage::Database::check(kept("spool.db").toStdString()).ok());
    QVERIFY(!QFile::exists(kept("spool.db-wal")) && QFile(kept("spool.db")).size() > 6000);
  }
  void cleanupTestCase() { cli_.reset(); }

  // Each begins with a run whose file is gone, and its node's folder as it was.
  void init() {
    QVERIFY(cli_->leave());
    QVERIFY(QDir(node_).removeRecursively());
    QVERIFY(copyFolder(cli_->path("kept"), node_));
    removeFile();
  }

  // What a node no longer has is not restored, however often that is asked.
  void whatANodeLacksIsNotRestored() {
    QVERIFY(QDir(node_).removeRecursively());
    for (int time = 0; time < 2; ++time) {
      const CliResult check = cli_->run({"history", "check"});
      QCOMPARE(check.exit, 3);
      QVERIFY2(check.out.contains("could not be restored: node local1 no longer has the run ("),
               check.text());
      QVERIFY2(check.out.contains("1 run checked, 1 damaged, 1 not restored\n"), check.text());
    }
    const CliResult json = cli_->run({"history", "check", "--json"});
    QVERIFY(json.exit == 3 && json.onlyJson);
    QCOMPARE(json.first("damaged")["restored"].toBool(true), false);
    QCOMPARE(json.first("checked")["damaged"].toInt(), 1);
    QCOMPARE(json.first("checked")["not_restored"].toInt(), 1);
    const CliResult shown = cli_->run({"history", "list", "--json"});
    QVERIFY2(shown.out.contains("succeeded"), shown.text());
    // The folder comes back, from a copy or with its disk.
    QVERIFY(copyFolder(cli_->path("kept"), node_));
    checkRestored();
  }

  // Where a node's records cannot be opened, the reason is told here and in its agent's log.
  void aNodesDamageIsTold_data() {
    QTest::addColumn<QString>("file");
    QTest::addColumn<QByteArray>("content");  // none: a folder
    QTest::addColumn<QByteArray>("reason");
    QTest::newRow("magic") << "spool.db" << QByteArray(9000, 'x') << QByteArray("not a database");
    QTest::newRow("truncated") << "spool.db" << readAll(kept("spool.db")).left(6000)
                               << QByteArray("malformed");
    QTest::newRow("folder") << "spool.db" << QByteArray() << QByteArray("it is a folder");
    QTest::newRow("request") << "request.pb" << QByteArray(900, '\xff')
                             << QByteArray("is not a run's request");
  }
  void aNodesDamageIsTold() {
    QFETCH(QString, file);
    QFETCH(QByteArray, content);
    QFETCH(QByteArray, reason);
    const QString path = node_ + "/local1/" + file;
    for (const char* ending : {"", "-wal", "-shm"}) QFile::remove(path + ending);
    QVERIFY(content.isEmpty() ? QDir().mkpath(path) : write(path, content));
    for (int time = 0; time < 2; ++time) {
      const CliResult check = cli_->run({"history", "check"});
      QCOMPARE(check.exit, 3);
      QVERIFY2(check.out.contains("could not be restored: ") && check.out.contains(reason),
               check.text());
      QVERIFY2(check.out.contains("1 run checked, 1 damaged, 1 not restored\n"), check.text());
    }
    const QByteArray log = readAll(cli_->path("home/local/1/agent.log"));
    QVERIFY2(log.contains(reason), log.right(2000));
  }

  // A spool that is empty or gone has nothing to restore, and nobody counts what it had.
  void anEmptySpoolIsNotRestored_data() {
    QTest::addColumn<bool>("removed");
    QTest::newRow("removed") << true;
    QTest::newRow("empty") << false;
  }
  void anEmptySpoolIsNotRestored() {
    QFETCH(bool, removed);
    const QString path = node_ + "/local1/spool.db";
    for (const char* ending : {"", "-wal", "-shm"}) QFile::remove(path + ending);
    QVERIFY(removed || write(path, {}));
    for (int time = 0; time < 2; ++time) {
      const CliResult check = cli_->run({"history", "check"});
      QCOMPARE(check.exit, 3);
      QVERIFY2(check.out.contains(" could not be restored: node local1 has nothing of the run but "
                                  "its end ("),
               check.text());
      QVERIFY2(check.out.contains("1 run checked, 1 damaged, 1 not restored\n"), check.text());
    }
    const auto history = app::History::open(cli_->path("home/history").toStdString());
    const auto lines = (*(*history)->openRun(run_.toStdString()))->logs({}, 0, 10);
    QCOMPARE(lines->size(), 1u);
    QCOMPARE(lines->front().text,
             std::string("records are lost: the run's spool on this node is empty"));
  }

  // Ctrl-C while a node is silent says nothing of the node.
  void aCheckIsCancelled() {
    QCOMPARE(cli_->run({"cluster", "load", "--local", "1"}).exit, 0);  // starts an agent
    const QList<qint64> agents = cli_->agents();
    QVERIFY(!agents.isEmpty());
    const auto signal = [&](int number) {
      for (const qint64 agent : agents) ::kill(static_cast<pid_t>(agent), number);
    };
    signal(SIGSTOP);
    const auto goOn = qScopeGuard([&] { signal(SIGCONT); });
    const auto process = cli_->start({"history", "check", run_});
    QTRY_VERIFY_WITH_TIMEOUT(QFile::exists(file_), 20000);  // it is filled again from now on
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult result = cli_->finish(*process, {});
    QVERIFY2(result.exit == 130 && result.err.contains("the check was cancelled"), result.text());
    QVERIFY2(!result.text().contains("could not be restored"), result.text());
    signal(SIGCONT);
    checkRestored();
  }

  // One file that cannot be used does not keep the other runs from being checked.
  void whatCannotBeCheckedIsPassedOver() {
    const std::string folder = cli_->path("home/history").toStdString();
    app::RunRow row;
    row.run = "a-newer-one";
    row.createdNs = std::numeric_limits<std::int64_t>::max();
    QVERIFY((*app::History::open(folder))->add(row, {}).ok());
    const QString bad = cli_->path("home/history/runs/a-newer-one.db");
    QVERIFY(QFile::remove(bad) && QFile::link("/nowhere/run.db", bad));
    const CliResult check = cli_->run({"history", "check"});
    QCOMPARE(check.exit, 3);
    QVERIFY2(check.out.contains("a-newer-one.db: it is a link to a file that is not there ("),
             check.text());
    QVERIFY2(check.out.contains(run_.toUtf8() + ": restored from its nodes\n"), check.text());
    QVERIFY2(check.out.contains("2 runs checked, 2 damaged, 1 not restored\n"), check.text());
    QVERIFY((*app::History::open(folder))->remove("a-newer-one").ok());
    removeFile();
    QVERIFY(QDir().mkpath(file_));
    checkRestored();
  }

 private:
  QString kept(const QString& file) const { return cli_->path("kept/local1/" + file); }
  void removeFile() {
    for (const char* ending : {"", "-wal", "-shm"}) QFile::remove(file_ + ending);
  }
  void checkRestored() {
    const CliResult check = cli_->run({"history", "check"});
    QVERIFY2(check.exit == 0 && check.out.contains(": restored from its nodes\n"), check.text());
    const CliResult again = cli_->run({"history", "check", "--json"});
    QVERIFY2(again.exit == 0, again.text());
    QCOMPARE(again.first("checked")["damaged"].toInt(), 0);
    const CliResult csv = cli_->run({"history", "export", run_});
    QVERIFY2(csv.out.contains("\n60,"), csv.text());
  }

  std::unique_ptr<Cli> cli_;
  QString run_, file_, node_;
};

QTEST_GUILESS_MAIN(CliHistoryTest)
#include "cli_history_test.moc"
