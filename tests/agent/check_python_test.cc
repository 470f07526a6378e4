// A program's Python that is not on a node: refused, with what is missing.
#include "agent/workload/check_python.h"

#include <sys/stat.h>
#include <unistd.h>

#include <QDir>
#include <QTemporaryDir>
#include <QTest>
#include <map>
#include <string>
#include <system_error>

#include "engine/base/file.h"

using namespace lockstep;

class CheckPythonTest : public QObject {
  Q_OBJECT

  QTemporaryDir folder_;
  std::map<std::string, std::string> secrets_;
  std::string path(const std::string& name) const {
    return folder_.path().toStdString() + "/" + name;
  }
  void program(const std::string& name, mode_t mode = 0700) const {
    QDir().mkpath(QFileInfo(QString::fromStdString(path(name))).path());
    QVERIFY(writeFileAtomically(path(name), "#!/bin/sh\n").ok());
    QCOMPARE(chmod(path(name).c_str(), mode), 0);
  }
  Status check(const std::string& kind, const std::string& python) const {
    spec::v1::WorkloadSpec workload;
    workload.add_command("trainer");
    workload.mutable_python()->set_kind(kind);
    workload.mutable_python()->set_path(python);
    if (secrets_.empty()) (*workload.mutable_env())["PATH"] = path("tools");
    return agent::checkPython(workload, secrets_, path("code"));
  }
  // What is wrong: "what | why"; "" where nothing is.
  std::string wrong(const std::string& kind, const std::string& python) const {
    const Status status = check(kind, python);
    return status.ok() ? "" : status.error().what.text() + " | " + status.error().why.text();
  }

 private Q_SLOTS:
  void initTestCase() {
    QVERIFY(QDir().mkpath(QString::fromStdString(path("code"))));
    program("code/.venv/bin/python");
    program("conda/bin/python3");
    program("bin/trainer");
    program("locked/bin/python", 0600);
    QDir().mkpath(QString::fromStdString(path("moved/bin")));
    QCOMPARE(symlink("python3", path("moved/bin/python").c_str()), 0);
    QCOMPARE(symlink("/gone/python3.11", path("moved/bin/python3").c_str()), 0);
    QDir().mkpath(QString::fromStdString(path("empty")));
    program("versioned/python3.11");
    QDir().mkpath(QString::fromStdString(path("code/broken/bin")));
    QCOMPARE(symlink("/gone/python3", path("code/broken/bin/python").c_str()), 0);
  }

  void whatIsThere() {
    QCOMPARE(wrong("none", ""), std::string());
    QCOMPARE(wrong("venv", ".venv"), std::string());
    QCOMPARE(wrong("venv", path("code/.venv")), std::string());
    QCOMPARE(wrong("conda", path("conda")), std::string());
    QCOMPARE(wrong("path", path("code/.venv/bin")), std::string());
    QCOMPARE(wrong("path", path("bin")), std::string());  // it has the command
    QCOMPARE(wrong("path", path("versioned")), std::string());
  }

  void whatIsMissing() {
    QCOMPARE(wrong("venv", "absent"), "there is no Python in " + path("code/absent") +
                                          " on this node | the folder does not exist");
    QCOMPARE(wrong("venv", path("empty")), "there is no Python in " + path("empty") +
                                               " on this node | it has no " +
                                               path("empty/bin/python"));
    QCOMPARE(wrong("path", path("empty")), "there is no Python in " + path("empty") +
                                               " on this node | it has no " +
                                               path("empty/python3"));
    QVERIFY(wrong("venv", path("bin/trainer"))
                .ends_with("it is a file; expected the folder that "
                           "has the interpreter"));
    QVERIFY(wrong("conda", path("moved"))
                .ends_with(path("moved/bin/python") +
                           " is a link to /gone/python3.11, which does not exist"));
    QVERIFY(
        wrong("venv", path("locked")).ends_with(path("locked/bin/python") + " is not executable"));
  }

  void whatToDo() {
    const Status relative = check("venv", "absent"), absolute = check("venv", path("absent"));
    QCOMPARE(relative.error().field, std::string("workload.python.path"));
    QVERIFY(relative.error().next.text().find("workload.setup") != std::string::npos);
    QVERIFY(absolute.error().next.text().starts_with("create it on the node"));
    const Status broken = check("venv", "broken");  // git has not left it out
    QVERIFY(broken.error().next.text().starts_with("create it on the node"));
  }

  void whatIsOfAnotherPerson() {
    if (geteuid() == 0) QSKIP("root may look into all folders");
    program("private/venv/bin/python");
    QCOMPARE(symlink(path("private/venv").c_str(), path("shared").c_str()), 0);
    QCOMPARE(chmod(path("private").c_str(), 0), 0);
    const std::string why = std::make_error_code(std::errc::permission_denied).message();
    for (const char* folder : {"private/venv", "shared"})
      QVERIFY(wrong("venv", path(folder)).ends_with(path(folder) + ": " + why));
    QCOMPARE(chmod(path("private").c_str(), 0700), 0);
    QCOMPARE(wrong("venv", path("shared")), std::string());
  }

  void thePathMayBeASecret() {
    program("secret/uv");
    secrets_ = {{"PATH", path("secret")}};
    QCOMPARE(wrong("uv", ""), std::string());
    secrets_.clear();
  }

  void tools() {
    QVERIFY(wrong("uv", "").starts_with("there is no program uv on this node"));
    QVERIFY(wrong("apptainer", "a.sif").starts_with("there is no program apptainer on this node"));
    program("tools/uv");
    program("tools/apptainer");
    QCOMPARE(wrong("uv", ""), std::string());
    QVERIFY(wrong("uv", "sub").starts_with("there is no project in " + path("code/sub")));
    QVERIFY(wrong("apptainer", "a.sif").starts_with("there is no image " + path("code/a.sif")));
    QCOMPARE(wrong("apptainer", "docker://a/b"), std::string());
    program("code/a.sif");
    QCOMPARE(wrong("apptainer", "a.sif"), std::string());
    program("code/sub/pyproject.toml");
    QCOMPARE(wrong("uv", "sub"), std::string());
  }
};

QTEST_GUILESS_MAIN(CheckPythonTest)
#include "check_python_test.moc"
