// `lockstep open`: what it starts the studio with, and which one. A script stands in for the
// studio.
#include <QDir>
#include <QFile>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

#include "tests/support/paths.h"

class CliOpenTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    folder_ = std::make_unique<QTemporaryDir>();
    // A copy has no studio beside it.
    QVERIFY(QDir(folder_->path()).mkpath("bin") && QDir(folder_->path()).mkpath("path"));
    QVERIFY(QFile::copy(QString::fromStdString(lockstep::test::buildPath("bin/lockstep")),
                        path("bin/lockstep")));
  }

  void linksAndFilesAreHandedOn() {
    makeStudio("path");
    const QString link = "lockstep:run/r1?part=steps&rank=3&step=1200";
    QCOMPARE(open({"--ssh-config", path("ssh config"), "open", link, "two words.yaml"}),
             (QStringList{"path", "--home", path("home"), "--ssh-config", path("ssh config"), "--",
                          link, "two words.yaml"}));
    QCOMPARE(open({"open"}), (QStringList{"path", "--home", path("home"), "--"}));
  }

  void theStudioBesideItComesFirst() {
    makeStudio("path");
    makeStudio("bin");
    QCOMPARE(open({"open", "a.yaml"}),
             (QStringList{"bin", "--home", path("home"), "--", "a.yaml"}));
  }

  void withoutAStudioItSaysSo() {
    QCOMPARE(open({"open"}), QStringList());
    QVERIFY(exit_ != 0);
    QVERIFY2(said_.contains("cannot start lockstep-studio") && said_.contains("install the studio"),
             said_.constData());
  }

 private:
  QString path(const QString& name) const { return folder_->filePath(name); }
  // Prints the name of its folder and what it is started with, a line each.
  void makeStudio(const char* folder) const {
    QFile file(path(QString("%1/lockstep-studio").arg(folder)));
    QVERIFY(file.open(QFile::WriteOnly));
    file.write(QByteArray("#!/bin/sh\nprintf '%s\\n' ") + folder + " \"$@\"\n");
    file.setPermissions(QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
  }
  // The lines of the studio.
  QStringList open(const QStringList& words) {
    QProcess process;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert("PATH", path("path"));
    environment.insert("LOCKSTEP_HOME", path("home"));
    environment.insert("HOME", path("home"));
    process.setProcessEnvironment(environment);
    process.start(path("bin/lockstep"), words);
    process.waitForFinished(60'000);
    exit_ = process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -1;
    said_ = process.readAllStandardError();
    return QString::fromUtf8(process.readAllStandardOutput()).split('\n', Qt::SkipEmptyParts);
  }

  std::unique_ptr<QTemporaryDir> folder_;
  QByteArray said_;
  int exit_ = 0;
};

QTEST_MAIN(CliOpenTest)
#include "cli_open_test.moc"
