// How a program's command is started: as it is, by uv, or in a container.
#include "agent/workload/command_line.h"

#include <sys/stat.h>

#include <QTemporaryDir>
#include <QTest>
#include <string>
#include <vector>

#include "engine/base/file.h"

using namespace lockstep;
using agent::commandLine;
using agent::CommandPlace;
using Words = std::vector<std::string>;

namespace {

spec::v1::WorkloadSpec workloadOf(const std::string& kind, const std::string& path) {
  spec::v1::WorkloadSpec out;
  for (const char* word : {"python", "train.py", "--lr", "a b"}) out.add_command(word);
  out.mutable_python()->set_kind(kind);
  out.mutable_python()->set_path(path);
  return out;
}

Words joined(Words words) {
  for (const char* word : {"python", "train.py", "--lr", "a b"}) words.emplace_back(word);
  return words;
}

}  // namespace

class CommandLineTest : public QObject {
  Q_OBJECT

  QTemporaryDir folder_;
  std::string bin_;
  CommandPlace place() const {
    return {"/code", {"PATH=/nowhere:" + bin_}, {"/run/python"}, false};
  }

 private Q_SLOTS:
  void initTestCase() {
    bin_ = folder_.path().toStdString();
    for (const char* name : {"uv", "apptainer", "python3"}) {
      const std::string path = bin_ + "/" + name;
      QVERIFY(writeFileAtomically(path, "#!/bin/sh\n").ok());
      QCOMPARE(chmod(path.c_str(), 0700), 0);
    }
  }

  void asItIs() {
    const auto line = commandLine(workloadOf("none", ""), place());
    QVERIFY(line.ok());
    QCOMPARE(line->path, bin_ + "/python3");
    Words words = joined({});
    QCOMPARE(words.front(), std::string("python"));
    words.front() = "python3";  // which is what runs
    QCOMPARE(line->words, words);
  }

  void byUv_data() {
    QTest::addColumn<QString>("path");
    QTest::addColumn<QString>("project");
    QTest::newRow("the code's project") << ""
                                        << "";
    QTest::newRow("one in the code") << "sub"
                                     << "/code/sub";
    QTest::newRow("another") << "/opt/project"
                             << "/opt/project";
  }
  void byUv() {
    QFETCH(QString, path);
    QFETCH(QString, project);
    const auto line = commandLine(workloadOf("uv", path.toStdString()), place());
    QVERIFY(line.ok());
    QCOMPARE(line->path, bin_ + "/uv");
    Words words{"uv", "run", "--locked"};
    if (!project.isEmpty()) words.insert(words.end(), {"--project", project.toStdString()});
    words.emplace_back("--");
    QCOMPARE(line->words, joined(words));
  }

  void inAContainer() {
    spec::v1::WorkloadSpec workload = workloadOf("apptainer", "image.sif");
    workload.mutable_python()->add_binds("/data");
    CommandPlace here = place();
    const auto line = commandLine(workload, here);
    QVERIFY(line.ok());
    QCOMPARE(line->path, bin_ + "/apptainer");
    QCOMPARE(line->words, joined({"apptainer", "exec", "--bind", "/code", "--bind", "/run/python",
                                  "--bind", "/data", "--pwd", "/code", "/code/image.sif"}));
    here.gpus = true;
    workload.mutable_python()->set_path("docker://python:3.12");
    const auto other = commandLine(workload, here);
    QVERIFY(other.ok());
    QCOMPARE(other->words[2], std::string("--nv"));
    QVERIFY(std::find(other->words.begin(), other->words.end(), "docker://python:3.12") !=
            other->words.end());
    here.folder = "/a:b";
    QCOMPARE(commandLine(workload, here).status().code(), Code::kFailedPrecondition);
  }

  void aMissingToolIsNamed_data() {
    QTest::addColumn<QString>("kind");
    QTest::newRow("uv") << "uv";
    QTest::newRow("apptainer") << "apptainer";
  }
  void aMissingToolIsNamed() {
    QFETCH(QString, kind);
    CommandPlace here = place();
    here.environment = {"PATH=/nowhere"};
    const auto line = commandLine(workloadOf(kind.toStdString(), "x"), here);
    QCOMPARE(line.status().code(), Code::kNotFound);
    const QString text = QString::fromStdString(line.error().text());
    QVERIFY2(text.contains("there is no program " + kind + " on this node") &&
                 text.contains("install " + kind) && text.contains("/nowhere"),
             qPrintable(text));
  }
};

QTEST_GUILESS_MAIN(CommandLineTest)
#include "command_line_test.moc"
