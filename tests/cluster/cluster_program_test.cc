// Programs of the user's own on hosts of their own, over SSH: PyTorch's ranks find each other, and
// a lost host does not end the run.
#include <QCoreApplication>
#include <QStandardPaths>
#include <QTest>

#include "tests/cluster/runs_on_hosts.h"
#include "tests/support/free_port.h"

using namespace lockstep::test;

namespace {

// All values on all ranks are those of the whole world, so that they do not depend on who is where.
constexpr const char* kDdp = R"(
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(3)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
torch.manual_seed(50 + rank)
for step in range(1, 61):
    inputs = torch.randn(40, 32)
    loss = (model(inputs).squeeze(1) - inputs.sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if rank == 0:
        print(f"step {step} loss {total.item() / world:.9f}", flush=True)
print("interface", os.environ.get("GLOO_SOCKET_IFNAME"), "head", os.environ["MASTER_ADDR"], flush=True)
)";

// Ranks meet at rank 0's port before each step. Rank 0 keeps the last step beside the program.
constexpr const char* kSteps = R"(
import os, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
start = int(open("step").read()) if os.path.exists("step") else 0
print("start", start, "world", world, "attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
if rank == 0:
    server = socket.create_server(place)
    peers = [server.accept()[0] for _ in range(world - 1)]
    for step in range(start + 1, 301):
        for peer in peers:
            peer.sendall(b"x")
            assert peer.recv(1) == b"x"
        open("step.new", "w").write(str(step))
        os.rename("step.new", "step")
        print(f"step {step} loss {1 / step:.6f}", flush=True)
        time.sleep(0.03)
    for peer in peers:
        peer.sendall(b".")
else:
    for _ in range(300):
        try:
            peer = socket.create_connection(place, 5)
            break
        except OSError:
            time.sleep(0.05)
    peer.settimeout(None)
    while peer.recv(1) == b"x":
        peer.sendall(b"x")
)";

QStringList lossesIn(const QByteArray& out) {
  QStringList found;
  for (const QByteArray& line : out.split('\n'))
    if (const auto at = line.indexOf(" loss "); line.startsWith("step ") && at > 0)
      found << QString::fromUtf8(line.mid(at + 6).trimmed());
  return found;
}

}  // namespace

class ClusterProgramTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    const QString why = on_.prepare();
    if (!why.isEmpty()) QSKIP(qPrintable(why));
  }
  void cleanup() { on_.restore(); }
  void cleanupTestCase() { on_.close(); }

  void pytorchTrainsAsByHand() {
    if (QProcess::execute("/usr/bin/python3", {"-c", "import torch"}) != 0)
      QSKIP("python3-torch is not installed");
    const QString spec = write("ddp", kDdp, "");
    const CliResult result = on_.lockstep({"run", spec, "--json", "--cluster", on_.all()});
    QVERIFY2(result.exit == 0, result.text());
    QStringList losses;
    for (const QJsonObject& line : result.all("output")) {
      const QByteArray text = line["text"].toString().toUtf8();
      if (line["rank"].toInt() == 0) losses += lossesIn(text);
      if (text.startsWith("interface ")) {
        QVERIFY2(text.contains("head " + QByteArray::fromStdString(on_.hosts().address(1))), text);
        QVERIFY2(!text.contains("interface None") && !text.contains("interface lo "), text);
      }
    }
    const QStringList hand = byHand(spec);
    QCOMPARE(hand.size(), qsizetype{60});
    QCOMPARE(losses, hand);
    QCOMPARE(result.all("scalar").size(), qsizetype{60});
  }

  // mpirun of the first host starts its daemons on the others, which have no SSH keys for each
  // other. The hosts of this test share a name: ranks must not take each other's memory for theirs.
  void mpirunReachesAllHosts() {
    if (QProcess::execute("/usr/bin/python3", {"-c", "import mpi4py"}) != 0 ||
        QStandardPaths::findExecutable("mpirun").isEmpty())
      QSKIP("openmpi-bin and python3-mpi4py are not installed");
    const QString spec = write("mpi",
                               "from mpi4py import MPI\n"
                               "world = MPI.COMM_WORLD\n"
                               "for step in range(1, 21):\n"
                               "    total = world.allreduce(world.Get_rank() * step)\n"
                               "    print(f'step {step} loss {total}', flush=True)\n",
                               "", "  launcher: mpi\n  env: {OMPI_MCA_btl: 'self,tcp'}\n");
    const CliResult result = on_.lockstep({"run", spec, "--json", "--cluster", on_.all()});
    QVERIFY2(result.exit == 0, result.text());
    for (int rank = 0; rank < 3; ++rank) {
      QStringList losses, expected;
      for (int step = 1; step <= 20; ++step) expected << QString::number(3 * step);
      for (const QJsonObject& line : result.all("output"))
        if (line["rank"].toInt() == rank) losses += lossesIn(line["text"].toString().toUtf8());
      QCOMPARE(losses, expected);
    }
    on_.endsEverywhere(result.first("started")["run"].toString());
  }

  void aLostHost_data() {
    QTest::addColumn<int>("host");
    QTest::addColumn<bool>("spare");
    QTest::newRow("the others go on") << 3 << false;
    QTest::newRow("a spare takes its place") << 2 << true;
    QTest::newRow("the coordinator's") << 1 << false;
  }
  void aLostHost() {
    QFETCH(int, host);
    QFETCH(bool, spare);
    const QString spec = write("steps", kSteps, spare ? "" : "recovery: {policy: shrink}\n");
    const QString cluster = on_.cluster("lost", {1, 2, 3}, spare);
    const auto process = on_.start({"run", spec, "--json", "--cluster", cluster});
    QByteArray out;
    QString run;
    QVERIFY2(on_.awaitSteps(*process, 20, out, run), out.right(2000));
    on_.hosts().kill(host);
    const CliResult result = on_.cli().finish(*process, out);
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.last()["steps"].toInt(), 300);
    const auto recovering = result.all("recovering");
    QCOMPARE(recovering.size(), qsizetype{1});
    QCOMPARE(recovering[0]["world"].toInt(), 2);
    QByteArray said;  // by rank 0
    for (const QJsonObject& line : result.all("output"))
      if (line["rank"].toInt() == 0) said += line["text"].toString().toUtf8() + "\n";
    const QByteArray last = said.mid(said.lastIndexOf("start ")).split('\n')[0];
    QVERIFY2(last.contains(" world 2 ") && !last.endsWith("attempt 0"), said.right(2000));
    // Rank 0's file is there, unless its host was lost.
    QVERIFY2((host == 1) == last.startsWith("start 0 "), last);
    on_.endsEverywhere(run);
  }

 private:
  QString write(const QString& name, const QByteArray& program, const QByteArray& more,
                const QByteArray& workload = {}) {
    const QString folder = on_.cli().path(name);
    QDir().mkpath(folder);
    on_.cli().write(name + "/train.py", program);
    return on_.cli().write(
        name + "/run.yaml",
        "version: 1\n" + more + "workload:\n  command: [/usr/bin/python3, train.py]\n" + workload);
  }
  // The losses of the same program, started as torch.distributed's documentation says.
  static QStringList byHand(const QString& spec) {
    const QString port = QString::number(freePort());
    std::vector<std::unique_ptr<QProcess>> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      auto process = std::make_unique<QProcess>();
      QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
      environment.insert("MASTER_ADDR", "127.0.0.1");
      environment.insert("MASTER_PORT", port);
      environment.insert("RANK", QString::number(rank));
      environment.insert("WORLD_SIZE", "3");
      environment.insert("GLOO_SOCKET_IFNAME", "lo");
      process->setProcessEnvironment(environment);
      process->setProcessChannelMode(QProcess::ForwardedErrorChannel);
      process->start("/usr/bin/python3", {QFileInfo(spec).path() + "/train.py"});
      ranks.push_back(std::move(process));
    }
    for (const auto& process : ranks)
      if (!process->waitForFinished(120000)) process->kill();
    return lossesIn(ranks[0]->readAllStandardOutput());
  }

  RunsOnHosts on_{3};
};

int main(int argc, char** argv) {
  ClusterProgramTest test;  // its hosts, before there are threads
  QCoreApplication app(argc, argv);
  QTEST_SET_MAIN_SOURCE_PATH
  return QTest::qExec(&test, argc, argv);
}
#include "cluster_program_test.moc"
