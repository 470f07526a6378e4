// workload.setup on real agents: once for each content on a node, before the ranks.
#include <signal.h>

#include <QDir>
#include <QFile>
#include <QRegularExpression>
#include <QTest>

#include "tests/app/cli/program_runs.h"

using namespace lockstep::test;

namespace {

// What setting up has printed, on one node or on all.
QStringList printed(const CliResult& result, const QString& node = {}) {
  QStringList out;
  for (const QJsonObject& line : result.all("setup"))
    if (node.isEmpty() || line["node"].toString() == node) out << line["text"].toString();
  return out;
}

}  // namespace

class CliProgramSetupTest : public QObject, ProgramRuns {
  Q_OBJECT

  // Folders of programs that a node has set up.
  QStringList setUpOn(int node) const {
    const QDir folder(QString("%1/local/%2/programs").arg(cli_.home()).arg(node));
    QStringList out;
    for (const QString& name : folder.entryList(QDir::Dirs | QDir::NoDotAndDotDot))
      if (QFile::exists(folder.filePath(name) + "/done")) out << folder.filePath(name);
    return out;
  }
  QByteArray logs(const QString& run) const { return cli_.run({"logs", run}).out; }

 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
  }

  void onceForEachContent() {
    const QByteArray script = "print('built', open('built/times').read().split())\n";
    const QByteArray setup =
        "  setup: ['mkdir -p built && echo made >> built/times', 'echo said by setup']\n";
    const QStringList arguments = program(script, 2, setup);
    const CliResult first = cli_.run(arguments);
    QVERIFY2(first.exit == 0 && first.onlyJson, first.text());
    for (const QString node : {"local1", "local2"}) {
      QVERIFY2(printed(first, node).contains("said by setup"), first.text());
      QVERIFY2(printed(first, node).contains("+ echo said by setup"), first.text());
    }
    for (const QJsonObject& line : first.all("output"))
      QCOMPARE(line["text"].toString(), QString("built ['made']"));
    QCOMPARE(first.all("output").size(), qsizetype{2});
    const QByteArray said = logs(first.first("started")["run"].toString());
    QCOMPARE(said.count("setup: said by setup"), qsizetype{2});
    QCOMPARE(setUpOn(1).size(), qsizetype{1});

    const CliResult again = cli_.run(arguments);
    QVERIFY2(again.exit == 0, again.text());
    QVERIFY2(printed(again).isEmpty(), again.text());
    QCOMPARE(again.all("output").size(), qsizetype{2});
    QVERIFY(logs(again.first("started")["run"].toString()).contains("setup: was done before"));
    QCOMPARE(setUpOn(1).size(), qsizetype{1});

    cli_.write(QDir(folder_).dirName() + "/other.txt", "content");  // another content
    const CliResult changed = cli_.run(arguments);
    QVERIFY2(changed.exit == 0, changed.text());
    QVERIFY2(printed(changed, "local2").contains("said by setup"), changed.text());
    for (const QJsonObject& line : changed.all("output"))
      QCOMPARE(line["text"].toString(), QString("built ['made']"));
    const CliResult longer =
        cli_.run(arguments +
                 QStringList{"--set", "workload.setup=[mkdir -p built, echo made >> built/times]"});
    QVERIFY2(longer.exit == 0, longer.text());
    QCOMPARE(setUpOn(1).size(), qsizetype{3});
    QCOMPARE(setUpOn(2).size(), qsizetype{3});
  }

  // What a run writes is its own: the next one begins from what the commands have made.
  void runsHaveCopies() {
    const QStringList arguments = program(
        "import stat\n"
        "print('modes', oct(os.stat('tool').st_mode & 0o777), os.readlink('link'))\n"
        "print('found', sorted(os.listdir('made')), int(os.stat('made/old').st_mtime))\n"
        "open('made/by-a-run', 'w').write('x'); open('tool', 'a').write('more')\n",
        1,
        "  setup: ['mkdir made; touch -d @1000000000 made/old; echo x > tool; chmod 750 tool; ln "
        "-s "
        "made/old link']\n");
    for (int round = 0; round < 2; ++round) {
      const CliResult result = cli_.run(arguments);
      QVERIFY2(result.exit == 0, result.text());
      QVERIFY2(result.out.contains("modes 0o750 made/old"), result.text());
      QVERIFY2(result.out.contains("found ['old'] 1000000000"), result.text());
    }
  }

  void theEnvironmentIsTheProgrammes() {
    qputenv("FROM_HERE", "first secret");
    const QStringList arguments =
        program("print('ran')\n", 1,
                "  env: {FROM_SPEC: 'of the spec'}\n  env_from: [FROM_HERE]\n"
                "  setup: ['echo \"$FROM_SPEC, $FROM_HERE, $PWD\"', 'command -v python3']\n");
    const CliResult result = cli_.run(arguments);
    QVERIFY2(result.exit == 0, result.text());
    const QStringList said = printed(result);
    QVERIFY2(said.contains("/usr/bin/python3"), result.text());
    QVERIFY2(!said.filter("of the spec, first secret, ").filter("/code").isEmpty(), result.text());
    qputenv("FROM_HERE", "another");  // secrets are no content
    const CliResult again = cli_.run(arguments);
    QVERIFY2(again.exit == 0 && printed(again).isEmpty(), again.text());
    qunsetenv("FROM_HERE");
  }

  void aFailureEndsTheLaunch() {
    const QString fixed = cli_.path("fixed");
    const QByteArray setup = "  setup: ['echo first', '[ -e " + fixed.toUtf8() +
                             " ] || { echo what is wrong >&2; exit 7; }', 'echo last']\n";
    const QStringList arguments = program("print('ran')\n", 2, setup);
    const CliResult failed = cli_.run(arguments);
    QVERIFY2(failed.exit == 3 && failed.onlyJson, failed.text());
    const QJsonObject error = failed.first("error");
    QVERIFY2(error["node"].toString().startsWith("local"), failed.text());
    QVERIFY2(error["what"].toString().contains("exited with code 7"), failed.text());
    QVERIFY2(error["what"].toString().contains("[ -e "), failed.text());
    QVERIFY2(error["why"].toString().contains("what is wrong"), failed.text());
    QVERIFY2(!printed(failed).contains("last"), failed.text());
    QVERIFY2(failed.all("output").isEmpty(), failed.text());
    const CliResult list = cli_.run({"history", "list", "--json"});
    const QString run = list.events.value(0)["run"].toString();
    QCOMPARE(list.events.value(0)["state"].toString(), QString("failed"));
    QVERIFY2(logs(run).contains("setup: what is wrong"), logs(run));
    QVERIFY(!QDir(QString("%1/local/1/runs/%2").arg(cli_.home(), run)).exists());

    QFile(fixed).open(QIODevice::WriteOnly);
    const CliResult result = cli_.run(arguments);
    QVERIFY2(result.exit == 0, result.text());
    for (const QString node : {"local1", "local2"})  // from the first command on
      QVERIFY2(printed(result, node).contains("first") && printed(result, node).contains("last"),
               result.text());
  }

  void launchesAtTheSameTimeShareIt() {
    const QByteArray starts = cli_.path("starts").toUtf8(), go = cli_.path("go").toUtf8();
    const QStringList arguments =
        program("print('ran')\n", 1,
                "  setup: ['echo started; echo x >> " + starts + "; while [ ! -e " + go +
                    " ]; do sleep 0.1; done']\n");
    const auto first = cli_.start(arguments);
    QByteArray out, other;
    QVERIFY2(cli_.awaitEvent(*first, "setup", out), out);
    const auto second = cli_.start(arguments);
    QVERIFY2(cli_.awaitEvent(*second, "setup", other), other);
    QVERIFY2(other.contains("waits for another launch"), other);
    QCOMPARE(read(starts), QByteArray("x\n"));
    QFile(go).open(QIODevice::WriteOnly);
    const CliResult one = cli_.finish(*first, out), two = cli_.finish(*second, other);
    QVERIFY2(one.exit == 0, one.text());
    QVERIFY2(two.exit == 0, two.text());
    QCOMPARE(read(starts), QByteArray("x\n"));
    QCOMPARE(two.all("output").size(), qsizetype{1});
  }

  // With all that the command has started; the next launch begins it again.
  void itIsCancelledOrKilled_data() {
    QTest::addColumn<bool>("killed");
    QTest::newRow("cancelled") << false;
    QTest::newRow("its process is killed") << true;
  }
  void itIsCancelledOrKilled() {
    QFETCH(bool, killed);
    const QByteArray quick = cli_.path(killed ? "quick-killed" : "quick").toUtf8();
    const QStringList arguments =
        program("print('half', os.path.exists('half'))\n", 1,
                "  setup: ['[ -e " + quick +
                    " ] && exit 0; touch half; sleep 1000 & setsid sleep 1000 & "
                    "echo pids=$PPID=$$=$!=; wait']\n");
    const auto process = cli_.start(arguments);
    QByteArray out;
    static const QRegularExpression said("pids=(\\d+)=(\\d+)=(\\d+)=\"");
    QTRY_VERIFY_WITH_TIMEOUT(
        (out += process->readAllStandardOutput(), said.match(QString::fromUtf8(out)).hasMatch()),
        60000);
    const auto pids = said.match(QString::fromUtf8(out));
    for (int i = 1; i <= 3; ++i) QVERIFY(isThere(pids.captured(i).toLongLong()));
    if (killed)
      ::kill(pids.captured(1).toInt(), SIGKILL);
    else
      ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult ended = cli_.finish(*process, out);
    QVERIFY2(ended.exit == (killed ? 3 : 130), ended.text());
    for (int i = 1; i <= 3; ++i)
      QTRY_VERIFY_WITH_TIMEOUT(!isThere(pids.captured(i).toLongLong()), 60000);
    QFile(quick).open(QIODevice::WriteOnly);
    const CliResult result = cli_.run(arguments);
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY2(result.out.contains("half False"), result.text());
  }

  void whatIsSetUpIsListedAndOldOnesGo() {
    const CliResult listed = cli_.run({"gc", "--local", "1", "--json"});
    QVERIFY2(listed.exit == 0, listed.text());
    int programs = 0;
    for (const QJsonObject& item : listed.all("item"))
      if (item["kind"].toString() == "program") ++programs;
    QVERIFY2(programs >= 4, listed.text());
  }

  void mistakes_data() {
    QTest::addColumn<QByteArray>("more");
    QTest::addColumn<QString>("text");
    QTest::newRow("no copy of the code")
        << QByteArray("  code: {disabled: true}\n  setup: [make]\n") << "code.disabled";
    QTest::newRow("no command") << QByteArray("  setup: [make, '']\n") << "a command of setup";
  }
  void mistakes() {
    QFETCH(QByteArray, more);
    QFETCH(QString, text);
    const CliResult result = cli_.run(program("", 1, more));
    QVERIFY2(result.exit == 2 && result.out.contains(text.toUtf8()), result.text());
  }
};

QTEST_GUILESS_MAIN(CliProgramSetupTest)
#include "cli_program_setup_test.moc"
