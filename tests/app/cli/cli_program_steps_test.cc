// The steps of programs of the user's own, as the hooks in their libraries measure them, and the
// ranks that hold the others up.
#include <QDir>
#include <QRegularExpression>
#include <QTest>

#include "tests/app/cli/cli_runner.h"
#include "tests/app/cli/program_command.h"
#include "tests/support/pytorch.h"

using namespace lockstep::test;

namespace {

// PyTorch's DistributedDataParallel, of a step that takes 20 ms and more. `late` is what happens in
// a step of rank `slow` from step 20 on, in the place `where`.
const QByteArray kDdp = R"(
import torch, torch.distributed as dist
torch.manual_seed(1); torch.set_num_threads(1)
dist.init_process_group("gloo")

class Late(torch.autograd.Function):  # in the backward pass
    @staticmethod
    def forward(context, x): return x.clone()
    @staticmethod
    def backward(context, gradient):
        late("backward"); return gradient

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(64, 128), torch.nn.Linear(128, 4)
    def forward(self, x):
        late("forward")
        return self.last(Late.apply(torch.relu(self.first(x))))

def late(place):
    if place == "data": time.sleep(0.02)
    if step >= 20 and rank == SLOW and place == WHERE: time.sleep(0.08)

model = torch.nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
random = torch.Generator().manual_seed(rank)
for step in range(1, STEPS + 1):
    late("data")
    x, y = torch.randn(64, 64, generator=random), torch.randint(0, 4, (64,), generator=random)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward(); optimizer.step()
    if rank == 0: print(f"step {step} loss {loss.item():.9g}", flush=True)
)";

// The driver, as it is told to the agents: the processes of two GPUs, of which the second, rank
// SLOW's, has a low clock.
const QByteArray kGpus = R"(
pids = [None] * world
dist.all_gather_object(pids, os.getpid())
if rank == 0:
    others = " ".join(str(pid) for number, pid in enumerate(pids) if number != SLOW)
    with open("SCRIPT.new", "w") as file:
        file.write(f"utilization 90 50\nreasons 0\n0.processes {others}\n1.processes {pids[SLOW]}\n")
        file.write("0.clock1 1980\n1.clock1 900\n")
    os.rename("SCRIPT.new", "SCRIPT")
)";

// Programs of TensorFlow and JAX, of which there are the names alone: the ranks meet in each step,
// by sockets. Rank 1 is late from step 20 on.
const QByteArray kFramework = R"(
import importlib, lockstep
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.create_server(place)
    peers = [server.accept()[0] for _ in range(world - 1)]
while rank != 0:
    try:
        peers = [socket.create_connection(place)]
        break
    except OSError: time.sleep(0.05)

def module(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file: file.write(text)
    importlib.invalidate_caches()

def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass

def meet():  # nobody leaves before all are there
    if rank == 0:
        for peer in peers: peer.recv(1)
        for peer in peers: peer.sendall(b"x")
    else:
        peers[0].sendall(b"x")
        peers[0].recv(1)

def late(): return step >= 20 and rank == 1

def loop(train):
    global step
    for step in range(1, 61):
        with lockstep.step(): train()
        if rank == 0: print(f"step {step} loss {1 / step:.6f}", flush=True)
)";
const QByteArray kTensorFlow = kFramework + R"(
module("tensorflow/python/eager/polymorphic_function/polymorphic_function.py", '''
class Function:
    def __init__(self, function): self.function = function
    def __call__(self): return self.function()
''')
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
function = Function(lambda: (compute(0.02), meet()))
def train():
    if late(): time.sleep(0.08)
    function()
loop(train)
)";
const QByteArray kJax = kFramework + R"(
module("jax/__init__.py", "")
import jax
def train():
    compute(0.1 if late() else 0.02)
    meet()
loop(train)
)";

QByteArray withValues(QByteArray script, int steps, int slow, const QByteArray& where) {
  return script.replace("STEPS", QByteArray::number(steps))
      .replace("SLOW", QByteArray::number(slow))
      .replace("WHERE", "'" + where + "'");
}

// The last step that was told before the first event of this name.
int stepBefore(const CliResult& result, const QString& name) {
  int step = 0;
  for (const QJsonObject& line : result.events) {
    if (line["event"] == name) break;
    if (line["event"] == "step") step = line["step"].toInt();
  }
  return step;
}

}  // namespace

class CliProgramStepsTest : public QObject {
  Q_OBJECT

  Cli cli_;
  int count_ = 0;

  CliResult run(const QByteArray& script, int nodes, const QByteArray& more = {}) {
    const QString folder = cli_.path(QString("code%1").arg(++count_));
    return cli_.run(programCommand(cli_, folder, script, nodes, more));
  }

 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
  }

  void theRankThatTheOthersWaitForIsNamed_data() {
    QTest::addColumn<int>("rank");
    QTest::addColumn<QByteArray>("phase");
    QTest::newRow("in its own code") << 1 << QByteArray("data");
    QTest::newRow("in the forward pass") << 0 << QByteArray("forward");
    QTest::newRow("in the backward pass") << 2 << QByteArray("backward");
  }
  void theRankThatTheOthersWaitForIsNamed() {
    if (!hasPyTorch()) QSKIP("/usr/bin/python3 has no PyTorch with Gloo");
    QFETCH(int, rank);
    QFETCH(QByteArray, phase);
    const CliResult result = run(withValues(kDdp, 60, rank, phase), 3);
    QVERIFY2(result.exit == 0, result.text());
    const auto found = result.all("straggler");
    QVERIFY2(!found.isEmpty(), result.text());
    for (const QJsonObject& line : found) {
      QVERIFY2(line["rank"].toInt() == rank, result.text());
      QVERIFY2(line["phase"].toString() == QString(phase), result.text());
    }
    QVERIFY2(found[0]["since_step"].toInt() >= 18 && found[0]["since_step"].toInt() <= 24,
             result.text());
    QVERIFY2(stepBefore(result, "straggler") - found[0]["since_step"].toInt() <= 20, result.text());
    // A step of 20 ms and a little is 80 ms longer.
    QVERIFY2(found[0]["step_seconds"].toDouble() - found[0]["without_seconds"].toDouble() > 0.02,
             result.text());
  }

  // Where no library tells how long ranks wait, processor time does.
  void theRankThatTheOthersWaitForIsNamedByProcessorTime_data() {
    QTest::addColumn<QByteArray>("script");
    QTest::addColumn<QString>("phase");
    QTest::newRow("TensorFlow, asleep in its own code") << kTensorFlow << "data";
    QTest::newRow("JAX, with more to compute") << kJax << "forward";
  }
  void theRankThatTheOthersWaitForIsNamedByProcessorTime() {
    QFETCH(QByteArray, script);
    QFETCH(QString, phase);
    const CliResult result = run(script, 3);
    QVERIFY2(result.exit == 0, result.text());
    const auto found = result.all("straggler");
    QVERIFY2(!found.isEmpty(), result.text());
    for (const QJsonObject& line : found) {
      QVERIFY2(line["rank"].toInt() == 1, result.text());
      QVERIFY2(line["phase"].toString() == phase, result.text());
    }
    QVERIFY2(found[0]["since_step"].toInt() >= 18 && found[0]["since_step"].toInt() <= 24,
             result.text());
    QStringList sources;
    for (const QJsonObject& line : result.all("source")) sources << line["name"].toString();
    QVERIFY2(sources.contains("processor time"), result.text());
  }

  void largerBatchesAreTheCause() {
    if (!hasPyTorch()) QSKIP("/usr/bin/python3 has no PyTorch with Gloo");
    // From step 20 on four times the rows.
    const CliResult result = run(unevenRows("60", "80 if step >= 20 and rank == 2 else 20"), 3);
    QVERIFY2(result.exit == 0, result.text());
    const auto found = result.all("straggler");
    QVERIFY2(!found.isEmpty(), result.text());
    for (const QJsonObject& line : found) QVERIFY2(line["rank"].toInt() == 2, result.text());
    QVERIFY2(found.last()["cause"].toString().startsWith("its batches had "), result.text());
    const QString id = result.all("started").value(0)["run"].toString();
    const CliResult logs = cli_.run({"logs", id}), shown = cli_.run({"history", "show", id});
    QVERIFY2(logs.out.contains("its batches had "), logs.text());
    QVERIFY2(shown.out.contains("its batches had "), shown.text());
  }

  void aLowClockIsTheCause() {
    if (!hasPyTorch()) QSKIP("/usr/bin/python3 has no PyTorch with Gloo");
    // Until the program tells its processes, those that nobody has.
    const QString script =
        cli_.write("gpus", "utilization 90 50\nreasons 0\nprocesses 99999999\nclock1 1980\n");
    qputenv("LOCKSTEP_NVML", LOCKSTEP_FAKE_NVML_FILE);
    qputenv("LOCKSTEP_NVML_SCRIPT", script.toUtf8());
    const Cli cli;  // with agents of its own, which have that driver
    QByteArray program = withValues(kDdp, 80, 1, "forward");
    const QByteArray begin = "dist.init_process_group(\"gloo\")\n";
    program.replace(
        begin, begin + QByteArray(kGpus).replace("SLOW", "1").replace("SCRIPT", script.toUtf8()));
    const CliResult result = cli.run(programCommand(cli, cli.path("code"), program, 3));
    qunsetenv("LOCKSTEP_NVML");
    qunsetenv("LOCKSTEP_NVML_SCRIPT");
    QVERIFY2(result.exit == 0, result.text());
    const auto found = result.all("straggler");
    QVERIFY2(!found.isEmpty(), result.text());
    QCOMPARE(found.last()["rank"].toInt(), 1);
    const QString cause = found.last()["cause"].toString();
    // A mean: of before it was found to be low, too.
    const QRegularExpression clocks("GPU 1 ran at ([0-9]+) MHz, the others' at 1980 MHz");
    const int clock = clocks.match(cause).captured(1).toInt();
    QVERIFY2(clock >= 900 && clock < 0.85 * 1980, qPrintable(cause));
  }

  // Twice as many steps as the others' stragglers are named within.
  void noRankOfAHealthyRunIsNamed() {
    if (!hasPyTorch()) QSKIP("/usr/bin/python3 has no PyTorch with Gloo");
    const CliResult result = run(withValues(kDdp, 100, -1, "data"), 3);
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY2(result.all("straggler").isEmpty(), result.text());
    QMap<QString, int> sources;
    for (const QJsonObject& line : result.all("source")) {
      ++sources[line["name"].toString()];
      QCOMPARE(line["problem"].toString(), QString());
    }
    QCOMPARE(sources, (QMap<QString, int>{{"DistributedDataParallel", 3},
                                          {"stdout", 1},
                                          {"torch.distributed", 3},
                                          {"torch.optim", 3},
                                          {"torch.utils.data", 3}}));
  }

  void hooksChangeNoResult() {
    if (!hasPyTorch()) QSKIP("/usr/bin/python3 has no PyTorch with Gloo");
    const QByteArray script = withValues(kDdp, 20, -1, "data");
    QList<QJsonValue> losses[2];
    for (const bool without : {false, true}) {
      const CliResult result = run(script, 2, without ? "  metrics: {hooks: []}\n" : "");
      QVERIFY2(result.exit == 0, result.text());
      for (const QJsonObject& line : result.all("scalar")) losses[without] << line["value"];
      QCOMPARE(result.all("source").size() > 1, !without);
    }
    QCOMPARE(losses[0].size(), qsizetype{20});
    QCOMPARE(losses[0], losses[1]);
  }

  // Of a program without any of the libraries, by its own account of its steps.
  void stepsOfItsOwnGoOnAfterARestart() {
    QByteArray script = R"(
import lockstep
for number in range(40):
    with lockstep.step(): time.sleep(0.01)
    if attempt == 0 and number == 20:
        print("step 20 loss 1", flush=True)
        open(f"DONE{rank}", "w").close()
        while not os.path.exists(f"DONE{1 - rank}"): time.sleep(0.05)
        time.sleep(0.3)
        os.kill(os.getpid(), 9)
)";
    const CliResult result = run(script.replace("DONE", cli_.path("done").toUtf8()), 2);
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.all("recovered").size(), qsizetype{1});
    const QString run = result.all("started").value(0)["run"].toString();
    const CliResult shown =
        cli_.run({"history", "export", run, "--format", "csv", "--curve", "rank/1/step"});
    QVERIFY2(shown.exit == 0, shown.text());
    // Steps 2 to 20 or 21 of the first start, all but the first and last of the second.
    const auto lines = shown.out.trimmed().count('\n');
    QVERIFY2(lines >= 50 && lines <= 62, shown.text());
  }
};

QTEST_GUILESS_MAIN(CliProgramStepsTest)
#include "cli_program_steps_test.moc"
