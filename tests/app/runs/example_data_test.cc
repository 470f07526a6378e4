// The data of examples: made once, whole, where the spec has them or in the fallback folder.
#include "app/runs/example_data.h"

#include <unistd.h>
#include <QFile>
#include <QFileInfo>
#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>

#include <filesystem>

#include "lockstep/spec/v1/spec.pb.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

std::shared_ptr<const spec::v1::RunSpec> textRun(const std::string& path) {
  auto spec = std::make_shared<spec::v1::RunSpec>();
  spec->mutable_data()->mutable_train()->set_text(path);
  spec->mutable_data()->mutable_evaluate()->set_text(path);
  return spec;
}

}  // namespace

class ExampleDataTest : public QObject {
  Q_OBJECT

  QTemporaryDir folder_;
  std::string at(const std::string& name) const {
    return folder_.path().toStdString() + "/" + name;
  }
  std::vector<std::string> made_;
  Result<std::shared_ptr<const spec::v1::RunSpec>> provide(
      const std::shared_ptr<const spec::v1::RunSpec>& spec, const std::stop_token& stop = {}) {
    return provideExampleData(
        spec, at("fallback"), [this](const std::string& path) { made_.push_back(path); }, stop);
  }

 private Q_SLOTS:
  void init() { made_.clear(); }

  void theTextIsMadeOnce() {
    const std::string path = at("kjv.txt");
    const auto first = provide(textRun(path));
    QVERIFY2(first.ok(), first.ok() ? "" : first.error().text().c_str());
    QCOMPARE(made_, std::vector{path});  // once, though training and evaluation both name it
    QCOMPARE((*first)->data().train().text(), path);
    QFile file(QString::fromStdString(path));
    QVERIFY(file.open(QIODevice::ReadOnly));
    QVERIFY(file.size() > 4'000'000);
    QVERIFY(file.read(200).contains("In the beginning"));
    const QDateTime written = QFileInfo(file).lastModified();
    QVERIFY(provide(textRun(path)).ok());
    QCOMPARE(made_.size(), std::size_t{1});
    QCOMPARE(QFileInfo(file).lastModified(), written);
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path().toStdString()))
      QVERIFY(entry.path().filename() == "kjv.txt");  // nothing is left beside it
  }

  // As a user who may not write where the example is.
  void aFolderThatCannotBeWrittenIsPassedOver() {
    namespace fs = std::filesystem;
    fs::create_directories(at("installed"));
    fs::permissions(at("installed"), fs::perms::owner_read | fs::perms::owner_exec |
                                         fs::perms::others_read | fs::perms::others_exec);
    fs::permissions(folder_.path().toStdString(), fs::perms::all);
    const uid_t user = geteuid();
    const auto restore = qScopeGuard([&] { (void)seteuid(user); });
    if (user == 0) QCOMPARE(seteuid(65534), 0);
    const auto made = provide(textRun(at("installed") + "/kjv.txt"));
    QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
    QCOMPARE((*made)->data().train().text(), at("fallback") + "/kjv.txt");
    QCOMPARE((*made)->data().evaluate().text(), at("fallback") + "/kjv.txt");
    QCOMPARE(made_, std::vector{at("fallback") + "/kjv.txt"});
  }

  // Nothing takes the place of a file in a folder that does not exist.
  void aMistypedFolderStaysAMistake() {
    const auto made = provide(textRun(at("nowhere") + "/kjv.txt"));
    QVERIFY(made.ok());
    QCOMPARE((*made)->data().train().text(), at("nowhere") + "/kjv.txt");
    QVERIFY(made_.empty());
  }

  void aMissingProgramIsNamed() {
    const QByteArray before = qgetenv("PATH");
    const auto restore = qScopeGuard([&] { qputenv("PATH", before); });
    qputenv("PATH", folder_.path().toUtf8());
    QVERIFY(provide(textRun(at("other.txt"))).ok());  // no example's name
    std::filesystem::create_directories(at("empty"));
    const auto missing = provide(textRun(at("empty") + "/kjv.txt"));
    QVERIFY(!missing.ok());
    QCOMPARE(missing.error().code, Code::kFailedPrecondition);
    QVERIFY2(missing.error().text().find("bible-kjv-text") != std::string::npos,
             missing.error().text().c_str());
    QVERIFY(std::filesystem::is_empty(at("empty")));
  }

  // A program that prints a part of the text, or fails, leaves no file.
  void halfATextIsNone() {
    std::filesystem::create_directories(at("bin"));
    for (const char* script : {"#!/bin/sh\necho In the beginning\n", "#!/bin/sh\nexit 3\n"}) {
      QFile program(QString::fromStdString(at("bin/bible")));
      QVERIFY(program.open(QIODevice::WriteOnly));
      program.write(script);
      program.close();
      program.setPermissions(QFile::ReadOwner | QFile::ExeOwner | QFile::WriteOwner);
      const QByteArray before = qgetenv("PATH");
      const auto restore = qScopeGuard([&] { qputenv("PATH", before); });
      qputenv("PATH", QByteArray::fromStdString(at("bin")) + ":" + before);
      std::filesystem::create_directories(at("half"));
      const auto made = provide(textRun(at("half") + "/kjv.txt"));
      QVERIFY(!made.ok());
      QVERIFY(std::filesystem::is_empty(at("half")));
    }
  }

  void theClickLogIsMade() {
    auto spec = std::make_shared<spec::v1::RunSpec>();
    spec->mutable_data()->mutable_train()->set_table(at("ctr.tsv"));
    spec->mutable_data()->mutable_evaluate()->set_table(at("ctr.tsv"));
    const auto made = provide(spec);
    QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
    QVERIFY(QFileInfo(QString::fromStdString(at("ctr.tsv"))).size() > 100'000'000);
  }

  void aStopLeavesNothing() {
    std::stop_source stop;
    stop.request_stop();
    std::filesystem::create_directories(at("stopped"));
    const auto made = provide(textRun(at("stopped") + "/kjv.txt"), stop.get_token());
    QVERIFY(!made.ok());
    QCOMPARE(made.error().code, Code::kCancelled);
    QVERIFY(std::filesystem::is_empty(at("stopped")));
  }
};

QTEST_GUILESS_MAIN(ExampleDataTest)
#include "example_data_test.moc"
