// What a program's Python tells its worker: by a real interpreter, and by strangers' lines.
#include "agent/workload/python_hooks.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <QDir>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "agent/supervisor/program_hang.h"
#include "agent/workload/collective_counts.h"
#include "agent/workload/counts_file.h"

using namespace lockstep;
using agent::PythonHooks;

namespace {

// compute(): uses the processor for so many seconds of its time.
constexpr const char* kBusy = R"(
import time
def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
)";

}  // namespace

class PythonHooksTest : public QObject {
  Q_OBJECT

  QTemporaryDir folder_;
  std::unique_ptr<PythonHooks> hooks_;

  // What is told when these bytes are written to the pipe.
  PythonHooks::Told told(const std::string& bytes) {
    const int fd = ::open(hooks_->pipe().c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    PythonHooks::Told out;
    for (std::size_t at = 0; at < bytes.size(); at += 4096) {
      const std::string part = bytes.substr(at, 4096);
      if (::write(fd, part.data(), part.size()) != static_cast<ssize_t>(part.size())) break;
      merge(out, hooks_->read());
    }
    ::close(fd);
    return out;
  }
  static void merge(PythonHooks::Told& into, PythonHooks::Told from) {
    for (auto& one : from.values) into.values.push_back(one);
    for (auto& one : from.steps) into.steps.push_back(one);
    for (auto& one : from.sources) into.sources.push_back(one);
  }
  void make(const QString& name, bool hooked) {
    hooks_.reset();  // it removes its pipe
    hooks_ = std::move(PythonHooks::make((folder_.path() + name).toStdString(), 0, hooked).value());
  }
  QProcessEnvironment environmentOf() const {
    QProcessEnvironment out = QProcessEnvironment::systemEnvironment();
    out.insert("PYTHONPATH", QString::fromStdString(hooks_->folder()));
    out.insert("LOCKSTEP_PIPE", QString::fromStdString(hooks_->pipe()));
    out.insert("LOCKSTEP_HOOKS", hookWords_);
    return out;
  }
  static void write(const QString& path, const QByteArray& text) {
    QDir().mkpath(QFileInfo(path).path());
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(text);
  }
  PythonHooks::Told ofScript(const QString& script) {
    QProcess python;
    python.setProcessEnvironment(environmentOf());
    python.setProcessChannelMode(QProcess::MergedChannels);
    python.start("/usr/bin/python3", {"-c", script});
    PythonHooks::Told out;
    while (!python.waitForFinished(20)) merge(out, hooks_->read());
    merge(out, hooks_->read());
    said_ = python.readAll();
    return out;
  }
  // The lines of a process's collectives while it runs, after this script.
  std::vector<std::string> countedBy(const QString& script) {
    QProcess python;
    python.setProcessEnvironment(environmentOf());
    python.start("/usr/bin/python3",
                 {"-c", script + "\nimport sys; print('there', flush=True); sys.stdin.read()"});
    said_.clear();
    while (!said_.contains("there\n") && python.waitForReadyRead(60000))
      said_ += python.readAllStandardOutput();
    std::vector<std::string> lines = hooks_->takeStacks({});
    python.closeWriteChannel();
    if (!python.waitForFinished(60000)) return {};
    return lines;
  }
  // Modules of the names and shapes that the hooks look for, first in the script's path.
  QString standIns() const {
    const QString packages = folder_.path() + "/stand-ins";
    write(packages + "/jax/__init__.py", "__version__ = '0.10'\n");
    const QString eager = packages + "/tensorflow/python/eager/polymorphic_function/";
    write(eager + "polymorphic_function.py",
          "class Function:\n"
          "    def __init__(self, function): self.function = function\n"
          "    def __call__(self, *args): return self.function(*args)\n");
    write(packages + "/keras/src/callbacks.py",
          "class Callback: pass\n"
          "class CallbackList:\n"
          "    def __init__(self): self.callbacks = []\n"
          "    def append(self, callback): self.callbacks.append(callback)\n"
          "    def on_train_batch_end(self, batch, logs):\n"
          "        for callback in self.callbacks: callback.on_train_batch_end(batch, logs)\n");
    return "import sys\nsys.path.insert(0, '" + packages + "')\n";
  }
  template <typename T>
  static double median(const std::vector<agent::ProgramStep>& steps, T agent::ProgramStep::*part) {
    std::vector<double> values;
    for (const agent::ProgramStep& step : steps) values.push_back(static_cast<double>(step.*part));
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }
  static QStringList sourcesIn(const PythonHooks::Told& told) {
    QStringList out;
    for (const auto& source : told.sources) out << QString::fromStdString(source.name());
    out.sort();
    return out;
  }
  QByteArray said_;
  QString hookWords_ = "c10d ddp wandb mlflow transformers lightning keras tensorflow jax stacks";

 private Q_SLOTS:
  void init() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
    make("/hooks", true);
  }

  // A line that another process has read for this rank; too long ones stay there.
  void linesOfOutputAreTold() {
    QVERIFY(hooks_->tellLine(0, "{\"tag\": 训练\t\\"));
    QVERIFY(hooks_->tellLine(0, ""));
    QVERIFY(!hooks_->tellLine(0, std::string(5000, 'x')));
    QVERIFY(!hooks_->tellLine(1, "nobody"));
    const PythonHooks::Told told = hooks_->read();
    QCOMPARE(told.lines, (std::vector<std::string>{"{\"tag\": 训练\t\\", ""}));
    QVERIFY(!told.empty() && told.values.empty());
    int count = 0;
    while (hooks_->tellLine(0, std::string(1000, 'x')) && count < 1000) ++count;
    QVERIFY(count > 10 && count < 1000);  // the pipe is full
    QCOMPARE(static_cast<int>(hooks_->read().lines.size()), count);
  }

  // As those of each class at the end of an epoch: the worker reads some times a second.
  void manyValuesAtOnceAreTold() {
    QProcess python;
    python.setProcessEnvironment(environmentOf());
    python.start("/usr/bin/python3",
                 {"-c",
                  "import lockstep\n"
                  "lockstep.log({f'class{i}/recall': i / 7 for i in range(3000)}, step=1)"});
    QVERIFY(python.waitForFinished(60000));
    const auto values = hooks_->read().values;
    QCOMPARE(values.size(), std::size_t{1});
    QCOMPARE(values[0].scalars_size(), 3000);
  }

  // Not by a process beside it, nor by one before it.
  void collectivesAreCounted() {
    std::vector<std::string> lines = countedBy(R"(
import subprocess, sys
from lockstep import _counts as counts
counts.begin("barrier", "world")
counts.end(counts.begin("all_reduce", "world"))
counts.begin("broadcast", "1")
for group in range(100): counts.end(counts.begin("gather", "g%d" % group))
counts.begin("broadcast", "1")
subprocess.run([sys.executable, "-c", 'from lockstep import _counts; print(_counts.begin("reduce", "world"))'])
)");
    QCOMPARE(said_, QByteArray("None\nthere\n"));
    QCOMPARE(lines.size(), std::size_t{64});
    QCOMPARE(lines.front(), std::string("Collective 2 of group world: after all_reduce"));
    QCOMPARE(lines.back(), std::string("Collective 2 of group 1: in broadcast"));
    QCOMPARE(countedBy("import lockstep"), std::vector<std::string>());
    lines = countedBy("from lockstep import _counts; _counts.begin('all_to_all', 'world')");
    QCOMPARE(lines, std::vector<std::string>{"Collective 1 of group world: in all_to_all"});
  }

  void anyCountsAreRead() {
    std::mt19937 random(13);
    for (int round = 0; round < 300; ++round) {
      std::string file(random() % (sizeof(agent::CountsTable) + 100), '\0');
      for (char& byte : file)
        if (random() % 4 == 0) byte = static_cast<char>(random());
      for (const agent::CollectiveCount& count : agent::countsIn(file)) {
        const auto again = agent::countOf(agent::countLine(count));
        QVERIFY(again);
        QCOMPARE(again->group, count.group);
        QCOMPARE(again->begun, count.begun);
        QCOMPARE(again->last, count.last);
        QCOMPARE(again->inside, count.inside);
      }
    }
  }

  // Without the hooks, a program tells what it tells by itself.
  void theModuleAlone() {
    make("/module", false);
    const auto told = ofScript(R"(
import lockstep
for _ in range(3):
    with lockstep.step(): lockstep.log({"loss": 0.5})
)");
    QVERIFY2(said_.isEmpty(), said_.constData());
    QCOMPARE(told.steps.size(), std::size_t{3});
    std::set<std::string> tags;
    for (const auto& values : told.values)
      for (const auto& value : values.scalars()) tags.insert(value.tag());
    QCOMPARE(tags, (std::set<std::string>{"loss", "step_seconds"}));
    QVERIFY(ofScript("import json").empty());
    QVERIFY(!hooks_->askStacks(static_cast<int>(QCoreApplication::applicationPid())));
  }

  // What torchrun starts takes the pipe of its number on the node, and that of torchrun if there is
  // none.
  void ranksOfTorchrunHavePipes() {
    const auto other = std::move(PythonHooks::make(hooks_->folder(), 1, true).value());
    const auto start = [&](QProcess& python, const QString& localRank) {
      QProcessEnvironment environment = environmentOf();
      environment.insert("LOCKSTEP_LOCAL_PIPES", QString::fromStdString(hooks_->localPipes()));
      if (!localRank.isEmpty()) environment.insert("LOCAL_RANK", localRank);
      python.setProcessEnvironment(environment);
      python.start("/usr/bin/python3", {"-c", R"(
import lockstep, sys
lockstep.log({"loss": 1})
sys.stdin.read()
)"});
    };
    std::size_t count = 0, otherCount = 0;
    const auto values = [&] { return count += hooks_->read().values.size(); };
    const auto otherValues = [&] { return otherCount += other->read().values.size(); };
    QProcess launcher, rank, unknown;
    start(launcher, "");
    QTRY_COMPARE_WITH_TIMEOUT(values(), std::size_t{1}, 60000);
    QCOMPARE(hooks_->launchedRank(), 0);
    start(rank, "1");
    QTRY_COMPARE_WITH_TIMEOUT(otherValues(), std::size_t{1}, 60000);
    QCOMPARE(other->launchedRank(), static_cast<int>(rank.processId()));
    QCOMPARE(values(), std::size_t{1});
    start(unknown, "2");
    QTRY_COMPARE_WITH_TIMEOUT(values(), std::size_t{2}, 60000);
    QCOMPARE(hooks_->launchedRank(), static_cast<int>(unknown.processId()));
    for (QProcess* process : {&launcher, &rank, &unknown}) {
      process->closeWriteChannel();
      QVERIFY(process->waitForFinished(60000));
    }
    QCOMPARE(other->launchedRank(), 0);
  }

  // It ends before a process that it has started, and before its parent knows.
  void theRankIsTheProcessOfTorchrun_data() {
    QTest::addColumn<bool>("hooked");
    QTest::newRow("hooks") << true;
    QTest::newRow("module") << false;
  }
  void theRankIsTheProcessOfTorchrun() {
    QFETCH(bool, hooked);
    make(hooked ? "/outlived" : "/outlived-module", hooked);
    QProcess launcher;  // as torchrun: its child has a number on the node
    QProcessEnvironment environment = environmentOf();
    environment.insert("LOCKSTEP_LOCAL_PIPES", QString::fromStdString(hooks_->localPipes()));
    launcher.setProcessEnvironment(environment);
    launcher.start("/usr/bin/python3", {"-c", R"(
import os, subprocess, sys
child = '''
import lockstep, sys
lockstep.log({"child": 1})
sys.stdin.read()
'''
rank = f'''
import lockstep, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {child!r}])
lockstep.log(dict(rank=1))
time.sleep(1000)
'''
process = subprocess.Popen([sys.executable, "-c", rank], env=dict(os.environ, LOCAL_RANK="0"))
print(process.pid, flush=True)
sys.stdin.read()
process.wait()
)"});
    QVERIFY(launcher.waitForReadyRead(60000));
    const int rank = launcher.readLine().trimmed().toInt();
    QVERIFY(rank > 0);
    std::set<std::string> tags;
    const auto told = [&] {
      for (const auto& values : hooks_->read().values)
        for (const auto& value : values.scalars()) tags.insert(value.tag());
      return tags.size();
    };
    QTRY_COMPARE_WITH_TIMEOUT(told(), std::size_t{2}, 60000);
    QCOMPARE(hooks_->launchedRank(), rank);
    QCOMPARE(::kill(rank, SIGKILL), 0);
    QTRY_COMPARE_WITH_TIMEOUT(hooks_->launchedRank(), 0, 60000);
    QCOMPARE(::kill(rank, 0), 0);  // nobody has reaped it
    launcher.closeWriteChannel();  // the child's too
    QVERIFY(launcher.waitForFinished(60000));
  }

  // Whatever is told, and though nobody reads it or the pipe is closed.
  void noCallRaisesOrBlocks() {
    QProcess python;
    python.setProcessEnvironment(environmentOf());
    python.setProcessChannelMode(QProcess::MergedChannels);
    python.start("/usr/bin/python3", {"-c", R"(
import lockstep, os
class Odd:
    def item(self): raise RuntimeError
    def __float__(self): raise ValueError
    def __int__(self): raise TypeError
    def __str__(self): raise KeyError
odd = Odd()
def tell():
    for values in (None, 5, "text", [1, 2], {1: odd, odd: 1, "a": "x", "b": None, "c": 10**400, "d": True}, {"e" * 9000: 1}):
        for step in (None, "x", -1, 10**30, odd): lockstep.log(values, step=step)
        with lockstep.step(): pass
for _ in range(1000): tell()
os.close(lockstep._fd)
tell()
print("over")
)"});
    QVERIFY(python.waitForFinished(60000));
    QCOMPARE(python.readAll(), QByteArray("over\n"));
    QCOMPARE(python.exitCode(), 0);
  }

  // A program that closes all descriptors may get the pipe's number for a file.
  void filesOfTheProgramStayItsOwn() {
    const auto told = ofScript(R"(
import lockstep, os, tempfile
lockstep.log({"loss": 0.5}, step=1)
os.closerange(3, 256)
files = [tempfile.TemporaryFile() for _ in range(8)]
assert lockstep._fd in [file.fileno() for file in files]
with lockstep.step(): lockstep.log({"loss": 0.25}, step=2)
assert not any(os.fstat(file.fileno()).st_size for file in files)
)");
    QVERIFY2(said_.isEmpty(), said_.constData());
    QCOMPARE(told.values.size(), std::size_t{1});
    QCOMPARE(told.values[0].scalars_size(), 1);
    QCOMPARE(told.values[0].scalars(0).value(), 0.5);
  }

  // A step may be a number of a library's own, as NumPy's.
  void stepsOfLibrariesAreNumbers() {
    const QString packages = folder_.path() + "/steps/";
    for (const char* file : {"wandb/__init__.py", "wandb/sdk/__init__.py"})
      write(packages + file, "");
    write(packages + "wandb/sdk/wandb_run.py",
          "class Run:\n    step = 0\n    def log(self, data, step=None): pass\n");
    const auto told = ofScript("import sys; sys.path.append('" + packages + R"(')
from wandb.sdk.wandb_run import Run
class Number:
    def __int__(self): return 12
run = Run()
run.log({"loss": 0.5}, step=Number())
run.log({"loss": 0.5}, step=20.0)
)");
    QVERIFY2(said_.isEmpty(), said_.constData());
    std::vector<std::int64_t> steps;
    for (const auto& values : told.values)
      for (const auto& value : values.scalars()) steps.push_back(value.step());
    QCOMPARE(steps, (std::vector<std::int64_t>{12, 20}));
  }

  void stepsOfTheProgramsOwn() {
    const auto told = ofScript(R"(
import lockstep, time
for _ in range(5):
    time.sleep(0.02)
    with lockstep.step(): time.sleep(0.05)
)");
    QVERIFY2(said_.isEmpty(), said_.constData());
    QCOMPARE(told.steps.size(), std::size_t{5});
    Nanoseconds ended = 0;
    for (std::size_t i = 0; i < told.steps.size(); ++i) {
      const agent::ProgramStep& step = told.steps[i];
      QCOMPARE(step.number, static_cast<std::int64_t>(i + 1));
      QVERIFY(step.duration >= (i == 0 ? 50'000'000 : 70'000'000));
      QVERIFY(i == 0 || std::abs(step.begin - ended) < 1000);  // nothing is between two steps
      QCOMPARE(step.waiting, 0.0);
      ended = step.begin + step.duration;
    }
    std::size_t seconds = 0;
    for (const auto& values : told.values)
      for (const auto& value : values.scalars()) {
        QCOMPARE(value.tag(), std::string("step_seconds"));
        QVERIFY(seconds < told.steps.size());
        // Without what is between two steps, which a step's duration has.
        const double most = static_cast<double>(told.steps[seconds].duration) * 1e-9 -
                            (seconds == 0 ? 0 : 0.02) + 0.001;
        QVERIFY2(value.value() >= 0.05 && value.value() <= most,
                 qPrintable(QString("%1 of %2").arg(value.value()).arg(most)));
        ++seconds;
      }
    QCOMPARE(seconds, std::size_t{5});
  }

  // Optimizers within and beside another one, and one that fails.
  void optimizersEndSteps() {
    const auto told = ofScript(R"(
import sys
try:
    import torch
except ImportError:
    print("no torch"); sys.exit()
parameters = [torch.nn.Parameter(torch.ones(1)) for _ in range(2)]
class Outer(torch.optim.SGD):
    def __init__(self, inner):
        super().__init__(parameters[:1], lr=0.1); self.inner, self.fails = inner, False
    def step(self, closure=None):
        if self.fails: raise ValueError
        self.inner.step()
other = torch.optim.Adam(parameters[1:])
outer = Outer(torch.optim.SGD(parameters[1:], lr=0.1))
def train(optimizers, steps):
    for _ in range(steps):
        for optimizer in optimizers: optimizer.step()
train([outer], 4)          # 1 to 4
outer.fails = True
try: outer.step()
except ValueError: pass
outer.fails = False
train([outer, other], 4)   # 5 to 8
train([other], 20)         # from the eighth without the first one
train([outer], 1)
)");
    if (said_.startsWith("no torch")) QSKIP("/usr/bin/python3 has no PyTorch");
    QVERIFY2(said_.isEmpty(), said_.constData());
    std::vector<std::int64_t> numbers;
    for (const agent::ProgramStep& step : told.steps) numbers.push_back(step.number);
    std::vector<std::int64_t> expected;  // the first has no begin
    for (std::int64_t number = 2; number <= 8 + 14; ++number) expected.push_back(number);
    QCOMPARE(numbers, expected);
    QCOMPARE(told.sources.size(), std::size_t{4});
  }

  // Of all tensors of a batch, however it is nested; a step without a batch has none.
  void elementsOfBatchesAreCounted() {
    const auto told = ofScript(R"(
import sys
try:
    import torch
except ImportError:
    print("no torch"); sys.exit()
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
data = [{"x": torch.ones(7), "more": [torch.ones(2, 2), "text"]} for _ in range(12)]
optimizer.step()
for size in (1, 3):
    for batch in torch.utils.data.DataLoader(data, batch_size=size): optimizer.step()
optimizer.step()
)");
    if (said_.startsWith("no torch")) QSKIP("/usr/bin/python3 has no PyTorch");
    QVERIFY2(said_.isEmpty(), said_.constData());
    std::vector<double> elements, expected(12, 7 + 4);
    for (const agent::ProgramStep& step : told.steps) elements.push_back(step.elements);
    expected.insert(expected.end(), 4, 3 * (7 + 4));
    expected.push_back(0);
    QCOMPARE(elements, expected);
  }

  // Long lists of numbers cost little, and hide no tensor that stands after them.
  void longBatchesAreNotWalked() {
    const auto told = ofScript(R"(
import time
from lockstep import _steps
class Tensor:
    def numel(self): return 7
numbers = list(range(1000000))
endless = [Tensor()]
endless.append(endless)
batches = [{"ids": numbers, "x": Tensor()}, [numbers, numbers, Tensor()], [[0, Tensor()]] * 3, endless, numbers, None]
counted = [_steps._elements(batch) for batch in batches]
spent = []
for _ in range(20):
    began = time.thread_time()
    _steps._elements(batches[0])
    spent.append(time.thread_time() - began)
print(counted[:3], counted[3] > 0, counted[4:], min(spent) < 0.005)
)");
    QCOMPARE(said_.trimmed(), QByteArray("[7, 7, 21] True [0, 0] True"));
    QVERIFY(told.steps.empty());
  }

  // Of short steps DistributedDataParallel measures one pass of eight, of others each. The times of
  // a step are those of the last measured pass, times the passes of a step, however many steps are
  // told together.
  void passesOfSteps() {
    ofScript(R"(
import random
from lockstep import _steps
class Model:
    # As in PyTorch: the first ten passes are measured, and those that the rate divides.
    rate = passes = measured = 0
    inside = False
    def parameters(self): return iter(())
    def _set_ddp_runtime_logging_sample_rate(self, rate):
        assert not self.inside
        self.rate = rate
    def _get_ddp_logging_data(self):
        return {"iteration": self.measured, "forward_compute_time": 1000, "backward_compute_time": 2000,
                "backward_comm_time": 500, "backward_compute_comm_overlap_time": 100}
    def run(self):
        if _steps.changing: _steps.begin_pass(self)
        self.passes += 1
        if self.passes <= 10 or self.passes % self.rate == 0: self.measured = self.passes
rng = random.Random(3)
for passes in (1, 2, 3):
    model = Model()
    _steps.watch_model(model)
    known = _steps._models.pop()
    _steps._models[:] = [known]
    def told(steps, trained=True):
        for _ in range(steps * passes if trained else 0): model.run()
        model.inside = True  # a step may end within a pass
        parts = known.of_step(model, steps)
        model.inside = False
        return parts
    exact = (400 * passes, 1000 * passes, 2000 * passes)
    assert all(told(1) == exact for _ in range(30)) and model.rate == 1
    assert told(1, False) == (0, 0, 0)
    assert told(12)[1] > 0 and model.rate == 1  # one group of short steps is none
    for group in range(60):
        parts = told(rng.randint(2, 32))
        assert group < 10 or all(0.85 < part / true < 1.15 for part, true in zip(parts, exact)), (group, parts, exact)
    assert model.rate == 8
    for _ in range(3): told(1)
    assert all(told(1) == exact for _ in range(30)) and model.rate == 1
    for _ in range(3): told(20)
    assert model.rate == 8 and told(20, False)[1] > 0
    for _ in range(5): parts = told(20, False)
    assert parts == (0, 0, 0)
print("right")
)");
    QCOMPARE(said_.trimmed(), QByteArray("right"));
  }

  // Of Keras on TensorFlow: a tf.function waits as long as it uses no processor. A batch that is
  // prepared outside of it is the rank's own, also while it sleeps.
  void waitingInTensorFlow() {
    const auto told = ofScript(standIns() + kBusy + R"(
from keras.src.callbacks import CallbackList
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
inner = Function(lambda: time.sleep(0.06))
def train():
    inner()
    compute(0.02)
train = Function(train)
callbacks = CallbackList()
for batch in range(9):
    time.sleep(0.06)
    train()
    callbacks.on_train_batch_end(batch, {"loss": 0.5})
)");
    QVERIFY2(said_.isEmpty(), said_.constData());
    QCOMPARE(told.steps.size(), std::size_t{8});  // the first has no begin
    for (const agent::ProgramStep& step : told.steps) {
      const double seconds = static_cast<double>(step.duration) * 1e-9;
      QVERIFY(seconds >= 0.14);
      QVERIFY(step.waiting + step.forward <= seconds - 0.06);
      QVERIFY(step.waiting + step.forward >= 0.08);
      QVERIFY(step.forward >= 0.02);
    }
    QVERIFY2(median(told.steps, &agent::ProgramStep::waiting) > 0.03, "most of 60 ms");
    QCOMPARE(sourcesIn(told), (QStringList{"keras", "processor time", "tensorflow"}));
  }

  // All of a step, since nothing says where a program waits in it.
  void waitingInJax() {
    const auto told = ofScript(standIns() + kBusy + R"(
import jax, lockstep
for _ in range(8):
    with lockstep.step():
        time.sleep(0.06)
        compute(0.02)
)");
    QVERIFY2(said_.isEmpty(), said_.constData());
    QCOMPARE(told.steps.size(), std::size_t{8});
    for (const agent::ProgramStep& step : told.steps) {
      const double seconds = static_cast<double>(step.duration) * 1e-9;
      QVERIFY(step.forward >= 0.02 && std::abs(step.waiting + step.forward - seconds) < 1e-6);
    }
    QVERIFY2(median(told.steps, &agent::ProgramStep::waiting) > 0.03, "most of 60 ms");
    QCOMPARE(sourcesIn(told), (QStringList{"jax", "processor time"}));
  }

  // A process that gets no core waits for nobody: here another one has half of its only core.
  void aProcessWithoutACoreDoesNotWait() {
    if (!QFile::exists("/proc/self/schedstat")) QSKIP("the kernel does not count delays");
    const auto told = ofScript(standIns() + kBusy + R"(
import jax, lockstep, os, subprocess, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
other = subprocess.Popen([sys.executable, "-S", "-c", "while __import__('time').process_time() < 20: pass"])
for _ in range(30):
    with lockstep.step(): compute(0.04)
other.kill()
other.wait()
)");
    QVERIFY2(said_.isEmpty(), said_.constData());
    QCOMPARE(told.steps.size(), std::size_t{30});
    const double seconds = median(told.steps, &agent::ProgramStep::duration) * 1e-9;
    QVERIFY2(seconds > 0.06, qPrintable(QString::number(seconds)));
    const double waiting = median(told.steps, &agent::ProgramStep::waiting);
    QVERIFY2(waiting < 0.2 * seconds, qPrintable(QString("%1 of %2 s").arg(waiting).arg(seconds)));
  }

  // What a GPU computes takes no processor time: that is told in the place of a guess.
  void onGpusProcessorTimeTellsNothing() {
    const QString withDriver = standIns() + "driver = '" + folder_.path() + R"(/libcuda.so.1'
import ctypes, jax, lockstep, shutil, time
maps = open("/proc/self/maps").read()
library = next(line.split()[-1] for line in maps.splitlines() if "libc.so" in line)
shutil.copy(library.replace("libc.so", "libm.so"), driver)
ctypes.CDLL(driver)
)";
    const auto told = ofScript(withDriver + R"(
for _ in range(3):
    with lockstep.step(): time.sleep(0.05)
)");
    QVERIFY2(said_.isEmpty(), said_.constData());
    QCOMPARE(told.steps.size(), std::size_t{3});
    for (const agent::ProgramStep& step : told.steps) QCOMPARE(step.waiting + step.forward, 0.0);
    QCOMPARE(sourcesIn(told), (QStringList{"jax", "processor time"}));
    for (const auto& source : told.sources)
      QCOMPARE(!source.problem().empty(), source.name() == "processor time");
    // Steps without waiting would look like those of ranks that wait for nobody.
    const auto batches = ofScript(withDriver + R"(
from keras.src.callbacks import CallbackList
callbacks = CallbackList()
for batch in range(3):
    time.sleep(0.05)
    callbacks.on_train_batch_end(batch, {"loss": 0.5})
)");
    QVERIFY2(said_.isEmpty(), said_.constData());
    QVERIFY(batches.steps.empty() && !batches.values.empty());
  }

  // A library whose inside is not as expected is left as it is, and that is told.
  void aStrangeLibraryIsTold() {
    for (const char* file :
         {"wandb/__init__.py", "wandb/sdk/__init__.py", "wandb/sdk/wandb_run.py"})
      write(folder_.path() + "/strange/" + file, "__version__ = '99'\nvalue = 7\n");
    const auto told = ofScript("import sys; sys.path.append('" + folder_.path() +
                               "/strange')\nimport wandb.sdk.wandb_run as w\nprint(w.value)");
    QCOMPARE(said_.trimmed(), QByteArray("7"));
    QCOMPARE(told.sources.size(), std::size_t{1});
    QCOMPARE(told.sources[0].name(), std::string("wandb"));
    QCOMPARE(told.sources[0].version(), std::string("99"));
    QVERIFY(told.sources[0].problem().find("Run") != std::string::npos);
  }

  // Only what workload.metrics.hooks names is watched.
  void eachHookIsOffByItself() {
    make("/chosen", true);
    const QString packages = folder_.path() + "/chosen-packages";
    const QMap<QString, QString> modules{
        {"wandb", "wandb/sdk/wandb_run.py"},
        {"keras", "keras/src/callbacks.py"},
        {"transformers", "transformers/trainer.py"},
    };
    QString script = "import sys\nsys.path.insert(0, '" + packages + "')\n";
    for (const QString& path : modules) {
      for (qsizetype at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1))
        write(packages + "/" + path.left(at) + "/__init__.py", "");
      write(packages + "/" + path, "value = 1\n");
      script += "import " + path.chopped(3).replace('/', '.') + "\n";
    }
    const QString all = std::exchange(hookWords_, "");
    for (const QStringList& words :
         {QStringList(), QStringList{"keras"}, QStringList{"transformers", "wandb", "stacks"}}) {
      hookWords_ = words.join(' ');
      const PythonHooks::Told told = ofScript(script);
      QStringList watched;
      for (const auto& source : told.sources)
        if (modules.contains(QString::fromStdString(source.name())))
          watched << QString::fromStdString(source.name());
      watched.sort();
      QStringList expected = words;
      expected.removeAll("stacks");
      QCOMPARE(watched, expected);
      QCOMPARE(!hooks_->processes().empty(), words.contains("stacks"));
    }
    hookWords_ = all;
  }

  // Of a collective that the hooks watch: without their frames, and with paths in the code.
  void stacksNameTheProgramsOwnLine() {
    const QString code = folder_.path() + "/code", packages = folder_.path() + "/site-packages";
    write(packages + "/torch/__init__.py", "");
    write(packages + "/torch/distributed/__init__.py", "from .distributed_c10d import *\n");
    write(packages + "/torch/distributed/distributed_c10d.py",
          "import time\ndef all_reduce(tensor, async_op=False):\n"
          "    print('there', flush=True)\n    time.sleep(1000)\n");
    write(code + "/main.py", "from data import load\nload.train()\n");
    write(code + "/data/load.py",
          "import torch.distributed\n"
          "def train():\n    torch.distributed.all_reduce(None)\n");
    QVERIFY(QFile::link(code, folder_.path() + "/link"));
    QProcess python;
    QProcessEnvironment environment = environmentOf();
    environment.insert("PYTHONPATH", environment.value("PYTHONPATH") + ":" + packages);
    python.setProcessEnvironment(environment);
    python.setWorkingDirectory(folder_.path() + "/link");
    python.start("/usr/bin/python3", {"./main.py"});
    QVERIFY(python.waitForReadyRead(60000));
    (void)hooks_->read();
    QVERIFY(hooks_->askStacks(static_cast<int>(python.processId())));
    std::vector<std::string> lines;
    const auto place = [&] {
      (void)hooks_->read();
      for (auto& line : hooks_->takeStacks((folder_.path() + "/link").toStdString()))
        lines.push_back(line);
      return agent::placeOf(lines);
    };
    QTRY_COMPARE_WITH_TIMEOUT(place().function, "all_reduce", 60000);
    QTRY_COMPARE_WITH_TIMEOUT(place().file, "data/load.py", 60000);
    QCOMPARE(place().own, "train");
    QCOMPARE(place().line, 3);
    QVERIFY(place().collective);
    for (const std::string& line : lines)
      QVERIFY2(line.find("/lockstep/") == std::string::npos, line.c_str());
    python.kill();
    QVERIFY(python.waitForFinished(60000));
  }

  void linesAndStacksHaveASize() {
    const auto value = [](std::size_t length) {
      return "{\"tag\": \"a\", \"value\": 1, \"source\": \"" + std::string(length, 's') + "\"}\n";
    };
    QCOMPARE(told(value(8000)).values.size(), std::size_t{1});
    QVERIFY(told(value(9000)).empty());
    for (int line = 0; line < 100; ++line) (void)told(std::string(8000, 'f') + "\n");
    std::size_t bytes = 0;
    for (const std::string& line : hooks_->takeStacks({})) bytes += line.size();
    QCOMPARE(bytes, std::size_t{(256 << 10) / 8000 * 8000});
  }

  // Any line of a program that writes to the pipe itself.
  void strangeLines() {
    const std::string whole =
        R"({"pid": 7, "first": 3, "steps": [[5, 9, 4, 1, 1, 1, 0], [14, 8, 4, 1, 1, 1, 0]]})";
    QCOMPARE(told(whole + "\n").steps.size(), std::size_t{2});
    for (const char* line :
         {R"({"pid": 7, "first": "3", "steps": [[5, 9, 4, 1, 1, 1, 0]]})",
          R"({"pid": 7, "first": 0, "steps": [[5, 9, 4, 1, 1, 1, 0]]})",
          R"({"pid": 7, "first": 9223372036854775807, "steps": [[5, 9, 4, 1, 1, 1, 0]]})",
          R"({"pid": 7, "first": 281474976710657, "steps": [[5, 9, 4, 1, 1, 1, 0]]})",
          R"({"pid": 7, "first": 3, "steps": [[-5, 9, 4, 1, 1, 1, 0]]})",
          R"({"pid": 7, "first": 3, "steps": [[5, 9, -4, 1, 1, 1, 0]]})",
          R"({"pid": 7, "first": 3, "steps": [[5, 9, 4, 1, 1, 1]]})",
          R"({"pid": 7, "first": 3, "steps": [[5, 9, "nan", 1, 1, 1, 0]]})",
          R"({"pid": 7, "first": 3, "steps": [[5, 9, 1e300, 1, 1, 1, 0]]})",
          R"({"pid": 7, "first": 3, "steps": [[5, 18446744073709551615, 4, 1, 1, 1, 0]]})",
          R"({"pid": 7, "first": 3, "steps": 7})",
          R"({"steps": []})",
          R"({"pid": 7, "first": 3, "steps": [7]})",
          R"({"source": 5})",
          R"({"source": ""})",
          R"({"tag": 5, "value": 1})",
          R"({"hello": {}})",
          R"({"hello": 1e300, "stacks": 1})",
          "{",
          "[]",
          "{}",
          "{\"\":{}}"})
      QVERIFY2(told(std::string(line) + "\n").empty(), line);
    // Random bytes of, and in place of, known messages.
    const std::string seeds[] = {whole,
                                 R"({"tag": "loss", "value": 0.5, "step": 3, "source": "wandb"})",
                                 R"({"source": "torch", "version": "2", "problem": null})",
                                 R"({"hello": 4194304, "stacks": true})"};
    std::mt19937 random(7);
    for (int i = 0; i < 20000; ++i) {
      std::string line = seeds[random() % std::size(seeds)];
      for (unsigned changes = random() % 4; changes > 0 && !line.empty(); --changes) {
        const std::size_t at = random() % line.size();
        if (random() % 2 == 0)
          line[at] = static_cast<char>(random() % 256);
        else
          line.erase(at, random() % 8);
      }
      for (const agent::ProgramStep& step : told(line + "\n").steps) {
        QVERIFY(step.number >= 1 && step.begin >= 0 && step.duration >= 0);
        QVERIFY(step.waiting >= 0 &&
                step.waiting <= static_cast<double>(step.duration) * 1e-9 + 1e-6);
      }
    }
  }
};

QTEST_GUILESS_MAIN(PythonHooksTest)
#include "python_hooks_test.moc"
