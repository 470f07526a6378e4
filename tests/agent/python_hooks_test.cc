// What a program's Python tells its worker: by a real interpreter, and by strangers' lines.
#include "agent/workload/python_hooks.h"

#include <fcntl.h>
#include <unistd.h>

#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <nlohmann/json.hpp>
#include <random>

using namespace lockstep;
using agent::PythonHooks;

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
  PythonHooks::Told ofScript(const QString& script) {
    QProcess python;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert("PYTHONPATH", QString::fromStdString(hooks_->folder()));
    environment.insert("LOCKSTEP_PIPE", QString::fromStdString(hooks_->pipe()));
    python.setProcessEnvironment(environment);
    python.setProcessChannelMode(QProcess::MergedChannels);
    python.start("/usr/bin/python3", {"-c", script});
    PythonHooks::Told out;
    while (!python.waitForFinished(20)) merge(out, hooks_->read());
    merge(out, hooks_->read());
    said_ = python.readAll();
    return out;
  }
  QByteArray said_;

 private Q_SLOTS:
  void init() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
    hooks_.reset();  // it removes its pipe
    hooks_ = std::move(PythonHooks::make((folder_.path() + "/hooks").toStdString(), 0).value());
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
    int seconds = 0;
    for (const auto& values : told.values)
      for (const auto& value : values.scalars()) {
        QCOMPARE(value.tag(), std::string("step_seconds"));
        QVERIFY(value.value() >= 0.05 && value.value() < 0.07);
        ++seconds;
      }
    QCOMPARE(seconds, 5);
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

  // A library whose inside is not as expected is left as it is, and that is told.
  void aStrangeLibraryIsTold() {
    QDir().mkpath(folder_.path() + "/strange/wandb/sdk");
    for (const char* file :
         {"wandb/__init__.py", "wandb/sdk/__init__.py", "wandb/sdk/wandb_run.py"}) {
      QFile module(folder_.path() + "/strange/" + file);
      QVERIFY(module.open(QIODevice::WriteOnly));
      module.write("__version__ = '99'\nvalue = 7\n");
    }
    const auto told = ofScript("import sys; sys.path.append('" + folder_.path() +
                               "/strange')\nimport wandb.sdk.wandb_run as w\nprint(w.value)");
    QCOMPARE(said_.trimmed(), QByteArray("7"));
    QCOMPARE(told.sources.size(), std::size_t{1});
    QCOMPARE(told.sources[0].name(), std::string("wandb"));
    QCOMPARE(told.sources[0].version(), std::string("99"));
    QVERIFY(told.sources[0].problem().find("Run") != std::string::npos);
  }

  void linesAndStacksHaveASize() {
    const auto value = [](std::size_t length) {
      return "{\"tag\": \"a\", \"value\": 1, \"source\": \"" + std::string(length, 's') + "\"}\n";
    };
    QCOMPARE(told(value(8000)).values.size(), std::size_t{1});
    QVERIFY(told(value(9000)).empty());
    for (int line = 0; line < 100; ++line) (void)told(std::string(8000, 'f') + "\n");
    std::size_t bytes = 0;
    for (const std::string& line : hooks_->takeStacks()) bytes += line.size();
    QCOMPARE(bytes, std::size_t{(256 << 10) / 8000 * 8000});
  }

  // Any line of a program that writes to the pipe itself.
  void strangeLines() {
    const std::string whole =
        R"({"pid": 7, "first": 3, "steps": [[5, 9, 4, 1, 1, 1], [14, 8, 4, 1, 1, 1]]})";
    QCOMPARE(told(whole + "\n").steps.size(), std::size_t{2});
    for (const char* line :
         {R"({"pid": 7, "first": "3", "steps": [[5, 9, 4, 1, 1, 1]]})",
          R"({"pid": 7, "first": 0, "steps": [[5, 9, 4, 1, 1, 1]]})",
          R"({"pid": 7, "first": 9223372036854775807, "steps": [[5, 9, 4, 1, 1, 1]]})",
          R"({"pid": 7, "first": 281474976710657, "steps": [[5, 9, 4, 1, 1, 1]]})",
          R"({"pid": 7, "first": 3, "steps": [[-5, 9, 4, 1, 1, 1]]})",
          R"({"pid": 7, "first": 3, "steps": [[5, 9, -4, 1, 1, 1]]})",
          R"({"pid": 7, "first": 3, "steps": [[5, 9, 4, 1, 1]]})",
          R"({"pid": 7, "first": 3, "steps": [[5, 9, "nan", 1, 1, 1]]})",
          R"({"pid": 7, "first": 3, "steps": [[5, 9, 1e300, 1, 1, 1]]})",
          R"({"pid": 7, "first": 3, "steps": [[5, 18446744073709551615, 4, 1, 1, 1]]})",
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
