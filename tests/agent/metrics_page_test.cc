// What `lockstep-agent metrics` serves of a node, and that it serves when it is asked to alone.
#include "agent/node/metrics_page.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <QElapsedTimer>
#include <QProcess>
#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTest>

#include <random>
#include <set>

#include "agent/base/run_folder.h"
#include "engine/base/file.h"
#include "engine/base/unique_fd.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::agent;

namespace {

constexpr int kLimit = 20000;  // ms

QString fetched(int port, const QByteArray& path) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const timeval limit{20, 0};
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const QByteArray request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::send(fd.get(), request.data(), static_cast<std::size_t>(request.size()), MSG_NOSIGNAL) < 0)
    return {};
  QByteArray out;
  char bytes[4096];
  for (ssize_t got = 0; (got = ::recv(fd.get(), bytes, sizeof bytes, 0)) > 0;)
    out.append(bytes, static_cast<qsizetype>(got));
  return QString::fromUtf8(out);
}

class MetricsProcess {
 public:
  explicit MetricsProcess(const QStringList& arguments) {
    process_.start(QString::fromStdString(test::buildPath("bin/lockstep-agent")),
                   QStringList{"metrics"} + arguments);
    QElapsedTimer timer;
    timer.start();
    while (!process_.canReadLine() && process_.state() != QProcess::NotRunning &&
           timer.elapsed() < kLimit)
      process_.waitForReadyRead(100);
    url_ = QString::fromUtf8(process_.readLine()).trimmed();
  }
  ~MetricsProcess() {
    process_.kill();
    process_.waitForFinished(kLimit);
  }
  int port() const { return url_.section(':', -1).section('/', 0, 0).toInt(); }
  const QString& url() const { return url_; }
  bool endsWhenAsked() {
    process_.terminate();
    return process_.waitForFinished(kLimit) && process_.exitStatus() == QProcess::NormalExit &&
           process_.exitCode() == 0;
  }
  QString said() { return QString::fromUtf8(process_.readAllStandardError()); }

 private:
  QProcess process_;
  QString url_;
};

}  // namespace

class MetricsPageTest : public QObject {
  Q_OBJECT
  QTemporaryDir folder_;
  Workdir workdir_{folder_.path().toStdString(), folder_.path().toStdString()};

  QStringList linesOf(const run::v1::NodeSample& sample) const {
    return QString::fromStdString(metricsPage("n\"1", sample, workdir_)).split('\n');
  }
  RunFolder makeRun(const std::string& run, run::v1::RunState state) const {
    const RunFolder out = runFolder(workdir_, run, "n1");
    if (!makeFolders(out.path).ok() || !writeFileAtomically(out.request(), "", 0600).ok() ||
        !out.writeState(state).ok())
      qFatal("cannot make a run");
    return out;
  }

 private Q_SLOTS:
  void valuesOfANode() {
    run::v1::NodeSample sample;
    sample.set_cpu(0.25);
    sample.set_memory_used(7);
    sample.set_network_in(1.5);
    const QStringList lines = linesOf(sample);
    QVERIFY(lines.contains("lockstep_node_cpu_ratio{node=\"n\\\"1\"} 0.25"));
    QVERIFY(lines.contains("lockstep_node_memory_bytes{node=\"n\\\"1\"} 7"));
    QVERIFY(lines.contains("# TYPE lockstep_node_cpu_ratio gauge"));
    QVERIFY(lines.filter("lockstep_node_disk_busy").isEmpty());  // not measured
    sample.set_disk_busy(0.5);
    QVERIFY(linesOf(sample).contains("lockstep_node_disk_busy_ratio{node=\"n\\\"1\"} 0.5"));
  }

  // What a driver does not provide is left out.
  void valuesOfGpus() {
    run::v1::NodeSample sample;
    auto& first = *sample.add_gpu();
    first.set_index(3);
    first.set_sm_clock_mhz(1500);
    first.set_throttle_known(true);
    first.add_throttle("power");
    first.set_xids(2);
    sample.add_gpu()->set_index(4);
    const QStringList lines = linesOf(sample);
    const QString labels = "{node=\"n\\\"1\",gpu=\"3\"}";
    QVERIFY(lines.contains("lockstep_gpu_sm_clock_hertz" + labels + " 1500000000"));
    QVERIFY(lines.contains("lockstep_gpu_throttled" + labels + " 1"));
    QVERIFY(lines.contains("lockstep_gpu_slowed" + labels + " 0"));
    QVERIFY(lines.contains("lockstep_gpu_xid_errors_total" + labels + " 2"));
    QVERIFY(lines.contains("# TYPE lockstep_gpu_xid_errors_total counter"));
    QVERIFY(lines.filter("gpu=\"4\"").isEmpty());
  }

  // Those that have not ended and whose supervisor is there, of any number in any state.
  void runsUnderWay() {
    std::mt19937 random(21);
    std::set<QString> expected;
    std::vector<UniqueFd> locks;
    for (int i = 0; i < 40; ++i) {
      const auto state = static_cast<run::v1::RunState>(
          random() % static_cast<unsigned>(run::v1::RunState_ARRAYSIZE));
      const std::string name = fmt::format("run{}", i);
      const RunFolder folder = makeRun(name, state);
      const bool isServed = random() % 2 == 0;
      if (isServed) locks.emplace_back(tryLock(folder.lock()));
      if (isServed && !isFinal(folder.readState())) expected.insert(QString::fromStdString(name));
    }
    QVERIFY(!expected.empty());
    std::set<QString> found;
    static const QRegularExpression one(
        "^lockstep_run_state\\{run=\"(\\w+)\",node=\"n1\",state=\"[^\"]+\"\\} 1$");
    for (const QString& line : linesOf({}))
      if (const auto match = one.match(line); match.hasMatch()) found.insert(match.captured(1));
    QVERIFY(found == expected);
  }

  void aProcessServesUntilItIsAsked() {
    QTemporaryDir workdir;
    MetricsProcess process({"--listen", "127.0.0.1:0", "--workdir", workdir.path()});
    QVERIFY2(process.url().startsWith("http://127.0.0.1:"), qPrintable(process.url()));
    const auto page = [&] { return fetched(process.port(), "/metrics"); };
    QVERIFY2(page().startsWith("HTTP/1.1 200 OK\r\n"), qPrintable(page()));
    QVERIFY(page().contains("Content-Type: text/plain; version=0.0.4"));
    // It samples without being read, so that rates appear.
    static const QRegularExpression used("lockstep_node_memory_bytes\\{node=\"[^\"]+\"\\} [1-9]");
    QTRY_VERIFY_WITH_TIMEOUT(page().contains(used), kLimit);
    QVERIFY(fetched(process.port(), "/").startsWith("HTTP/1.1 404"));
    QVERIFY(process.endsWhenAsked());
    QCOMPARE(process.said(), QString());
    QVERIFY(page().isEmpty());
  }

  void whereItListens() {
    QTemporaryDir workdir;
    MetricsProcess all({"--listen", "0.0.0.0:0", "--workdir", workdir.path()});
    QVERIFY2(all.url().startsWith("http://0.0.0.0:"), qPrintable(all.url()));
    QVERIFY(all.endsWhenAsked());
    QVERIFY(all.said().contains("whoever can reach this address can read the values"));
    MetricsProcess wrong({"--listen", "localhost:0", "--workdir", workdir.path()});
    QCOMPARE(wrong.url(), QString());
    QVERIFY(wrong.said().contains("is not an address to listen on"));
  }
};

QTEST_GUILESS_MAIN(MetricsPageTest)
#include "metrics_page_test.moc"
