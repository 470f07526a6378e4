// What PyTorch's Flight Recorder has, as a program's Python tells it: by a real interpreter, with a
// package in PyTorch's place, and by strangers' lines.
#include "agent/workload/recorded_collectives.h"

#include <fcntl.h>
#include <unistd.h>

#include <QDir>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "agent/supervisor/program_hang.h"
#include "agent/workload/python_hooks.h"

using namespace lockstep;
using agent::PythonHooks;

class RecordedCollectivesTest : public QObject {
  Q_OBJECT

  QTemporaryDir folder_;
  std::unique_ptr<PythonHooks> hooks_;
  QByteArray said_;

  void tell(const std::string& line) {
    const int fd = ::open(hooks_->pipe().c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    const std::string text = line + "\n";
    QCOMPARE(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(fd);
    QVERIFY(hooks_->read().empty());
  }
  static void write(const QString& path, const QByteArray& text) {
    QDir().mkpath(QFileInfo(path).path());
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(text);
  }

  // What the process answers when it is asked, once `enough` of that has come.
  std::vector<std::string> answersOf(const QProcess& python, const char* enough) {
    (void)hooks_->read();
    if (!hooks_->askStacks(static_cast<int>(python.processId()))) return {};
    std::vector<std::string> lines;
    const auto has = [&](const char* part) {
      return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
        return line.find(part) != std::string::npos;
      });
    };
    const auto more = [&] {
      (void)hooks_->read();
      for (std::string& line : hooks_->takeStacks({}))
        if (!has(line.c_str())) lines.push_back(std::move(line));
      return has(enough) && has(" in <module>");
    };
    (void)QTest::qWaitFor(more, 60000);
    return lines;
  }

  // A package in place of PyTorch, whose Flight Recorder has what is in the file. Hangs.
  std::unique_ptr<QProcess> startRecorded(const QString& trace) {
    const QString packages = folder_.path() + "/recorded", torch = packages + "/torch";
    write(torch + "/__init__.py", "from . import _C\n__version__ = '2.15.0+cpu'\n");
    write(torch + "/_C/__init__.py", "from . import _distributed_c10d\n");
    write(torch + "/_C/_distributed_c10d.py",
          "def _dump_nccl_trace_json():\n    raise RuntimeError\n"
          "def _dump_fr_trace_json():\n    return open('" +
              trace.toUtf8() + "', 'rb').read()\n");
    write(torch + "/distributed/__init__.py", "from .distributed_c10d import *\n");
    write(torch + "/distributed/distributed_c10d.py",
          "import time\ndef init_process_group():\n    pass\n"
          "def all_reduce(tensor, group=None, async_op=False):\n"
          "    print('there', flush=True)\n    time.sleep(1000)\n");
    auto python = std::make_unique<QProcess>();
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert("PYTHONPATH", QString::fromStdString(hooks_->folder()) + ":" + packages);
    environment.insert("LOCKSTEP_PIPE", QString::fromStdString(hooks_->pipe()));
    environment.insert("LOCKSTEP_HOOKS", "c10d stacks");
    python->setProcessEnvironment(environment);
    python->start("/usr/bin/python3",
                  {"-c",
                   "import os, torch.distributed as dist\ndist.init_process_group()\n"
                   "print(os.environ['TORCH_FR_BUFFER_SIZE'])\ndist.all_reduce(None)\n"});
    while (!said_.contains("there\n") && python->waitForReadyRead(60000))
      said_ += python->readAllStandardOutput();
    return python;
  }

 private Q_SLOTS:
  void init() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
    hooks_.reset();  // it removes its pipe
    hooks_ =
        std::move(PythonHooks::make((folder_.path() + "/hooks").toStdString(), 0, true).value());
  }

  // As PyTorch 2.15 writes it of Gloo: what is retired has completed.
  void theFlightRecorderIsRead() {
    using nlohmann::json;
    const auto entry = [](const char* group, const char* about, int number, const char* name,
                          const char* state, bool retired) {
      return json{{"process_group", {group, about}},
                  {"collective_seq_id", number},
                  {"p2p_seq_id", number + 50},
                  {"profiling_name", name},
                  {"state", state},
                  {"retired", retired},
                  {"input_sizes", {{3, 4}}},
                  {"input_dtypes", {"Float"}},
                  {"time_created_ns", number},
                  {"is_p2p", false}};
    };
    json entries = {entry("0", "default_pg", 8, "gloo:all_reduce", "scheduled", true),
                    entry("1", "undefined", 3, "gloo:broadcast", "completed", true),
                    entry("0", "default_pg", 9, "gloo:all_reduce", "scheduled", false),
                    entry("0", "default_pg", 10, "gloo:barrier", "scheduled", false),
                    entry("2", "undefined", 20, "nccl:send", "started", true)};
    entries[4]["is_p2p"] = true;
    entries[4]["input_sizes"] = {{1}, {2}, {3}, {4}, {5}};
    entries[4]["input_dtypes"] = {"Long", "Long", "Long", "Long", "Long"};
    const QString trace = folder_.path() + "/trace.json";
    const auto good = QByteArray::fromStdString(json{{"entries", entries}}.dump());
    write(trace, good);
    said_.clear();
    const auto python = startRecorded(trace);
    QCOMPARE(said_, QByteArray("2000\nthere\n"));
    for (int round = 0; round < 2; ++round) {
      const auto lines = answersOf(*python, "Recorded transfer");
      const std::vector<std::string> expected{
          "Collective 1 of group world: in all_reduce",
          "Recorded collective 3 of 3 of group gloo/1: completed broadcast, Float [3, 4]",
          "Recorded collective 9 of 10 of group gloo/world: scheduled all_reduce, Float [3, 4]",
          "Recorded transfer 70 of 70 of group nccl/2: started send, Long [1], Long [2], Long [3], "
          "Long [4], ..."};
      for (const std::string& line : expected)
        QVERIFY2(std::find(lines.begin(), lines.end(), line) != lines.end(), line.c_str());
    }
    // Whatever the recorder gives: the rest is told.
    for (const char* text : {"", "[]", "{", "{}", "{\"entries\": 5}", "{\"entries\": [5, {}]}",
                             "{\"entries\": [{\"profiling_name\": 7}]}", "\xff"}) {
      write(trace, text);
      const auto lines = answersOf(*python, "Collective 1");
      QVERIFY2(agent::placeOf(lines).line > 0, text);
      QVERIFY2(agent::placeOf(lines).recorded.empty(), text);
    }
    write(trace, good);
    const auto lines = answersOf(*python, "Recorded transfer");
    QVERIFY(!agent::placeOf(lines).recorded.empty());
    python->kill();
    QVERIFY(python->waitForFinished(60000));
  }

  // The thread that answers is none of the program's.
  void theThreadOfTheHooksIsLeftOut() {
    const std::vector<std::string> own{"Current thread 0x2 (most recent call first):",
                                       "  File \"/usr/lib/python3.11/queue.py\", line 171 in get",
                                       "  File \"main.py\", line 7 in <module>"};
    tell("Thread 0x1 (most recent call first):");
    tell("  File \"" + hooks_->folder() + "/lockstep/_recorder.py\", line 46 in _answer");
    tell(own[0]);
    tell("  File \"" + hooks_->folder() + "/lockstep/_libraries.py\", line 99 in wrapped");
    tell(own[1]);
    tell("  File \"" + hooks_->folder() + "/lockstep/_libraries.py\", line 99 in wrapped");
    tell(own[2]);
    QCOMPARE(hooks_->takeStacks({}), own);
  }

  // What a program writes in the recorder's name.
  void anyRecordedCollectiveIsRead() {
    const std::string whole =
        R"({"recorded": "all_reduce", "group": "nccl/world", "number": 41, "scheduled": 43, )"
        R"("state": "started", "sizes": "Float [1000]", "between_two": false})";
    tell(whole);
    const auto lines = hooks_->takeStacks({});
    QCOMPARE(lines, std::vector<std::string>{"Recorded collective 41 of 43 of group nccl/world: "
                                             "started all_reduce, Float [1000]"});
    std::mt19937 random(19);
    for (int round = 0; round < 20000; ++round) {
      std::string text = whole;
      for (unsigned changes = random() % 5; changes > 0; --changes) {
        const std::size_t at = random() % text.size();
        if (random() % 2 == 0)
          text[at] = "0:, \"\\n-{}[]"[random() % 12];
        else
          text.erase(at, random() % 8);
        if (text.empty()) text = whole;
      }
      const auto json = nlohmann::json::parse(text, nullptr, false);
      if (!json.is_object()) continue;
      const auto recorded = agent::recordedIn(json);
      if (!recorded) continue;
      QVERIFY(recorded->scheduled >= recorded->number && recorded->number >= 0);
      const auto again = agent::recordedOf(agent::recordedLine(*recorded));
      QVERIFY2(again && *again == *recorded, text.c_str());
    }
    for (int line = 0; line < 100; ++line) tell(whole);
    QCOMPARE(hooks_->takeStacks({}).size(), std::size_t{64});
  }
};

QTEST_GUILESS_MAIN(RecordedCollectivesTest)
#include "recorded_collectives_test.moc"
