// The files of a program on a node: what a message says is written, and nothing else anywhere.
#include "agent/workload/code_folder.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "engine/base/file.h"
#include "lockstep/spec/v1/code.pb.h"

using namespace lockstep;
namespace fs = std::filesystem;

namespace {

void addFile(spec::v1::CodeFiles& code, const std::string& path, const std::string& data = "data",
             bool executable = false) {
  spec::v1::CodeFile& file = *code.add_files();
  file.set_path(path);
  file.set_data(data);
  file.set_executable(executable);
}
void addLink(spec::v1::CodeFiles& code, const std::string& path, const std::string& target) {
  spec::v1::CodeFile& file = *code.add_files();
  file.set_path(path);
  file.set_link(target);
}

unsigned modeOf(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 ? info.st_mode & 0777u : 0;
}

}  // namespace

class CodeFolderTest : public QObject {
  Q_OBJECT

  std::unique_ptr<QTemporaryDir> folder_;
  std::string at(const std::string& name) const {
    return folder_->path().toStdString() + "/" + name;
  }
  Status write(const std::string& bytes) const {
    std::ofstream(at("message"), std::ios::binary | std::ios::trunc) << bytes;
    return agent::writeCode(at("message"), at("parent/to"));
  }
  Status write(const spec::v1::CodeFiles& code) const { return write(code.SerializeAsString()); }

  // That it is refused, for the reason, and that nothing is left.
  void refuses(const spec::v1::CodeFiles& code, const char* why) {
    const Status written = write(code);
    QVERIFY2(!written.ok(), why);
    QCOMPARE(written.code(), Code::kInvalidArgument);
    const std::string text = written.error().text();
    QVERIFY2(text.find(why) != std::string::npos, text.c_str());
    QVERIFY(fs::is_empty(at("parent")));
    int entries = 0;
    for (const auto& entry : fs::directory_iterator(at(""))) entries += entry.exists() ? 1 : 0;
    QCOMPARE(entries, 2);  // the message and the parent
  }

 private Q_SLOTS:
  void init() {
    folder_ = std::make_unique<QTemporaryDir>();
    fs::create_directories(at("parent"));
  }
  void cleanup() { fs::remove_all(at("parent")); }  // which Qt cannot with names that are not UTF-8

  void filesAndLinksAreWritten() {
    spec::v1::CodeFiles code;
    addFile(code, "main.py", "print()");
    addFile(code, "bin/run", "", true);
    addFile(code, "odd\n\xff name/-x", std::string("\0\1", 2));
    addLink(code, "bin/main", "../main.py");
    addLink(code, "all", ".");
    addLink(code, "by-link", "all/bin/main");  // main.py, by way of two others
    addLink(code, "back", "all/bin/../main.py");
    addLink(code, "loop", "loop");
    addLink(code, "one", "two");
    addLink(code, "two", "one");
    addLink(code, "missing", "not/there");
    const auto before = umask(0);
    const auto restore = qScopeGuard([&] { umask(before); });
    const Status written = write(code);
    QVERIFY2(written.ok(), written.ok() ? "" : written.error().text().c_str());
    const std::string to = at("parent/to/");
    QCOMPARE(readFile(to + "main.py").value(), std::string("print()"));
    QCOMPARE(readFile(to + "odd\n\xff name/-x").value(), std::string("\0\1", 2));
    for (const char* name : {"by-link", "back", "bin/main"})
      QCOMPARE(readFile(to + name).value(), std::string("print()"));
    QCOMPARE(fs::read_symlink(to + "loop").string(), std::string("loop"));
    QCOMPARE(modeOf(to), 0700u);
    QCOMPARE(modeOf(to + "bin"), 0700u);
    QCOMPARE(modeOf(to + "bin/run"), 0700u);
    QCOMPARE(modeOf(to + "main.py"), 0600u);
    QCOMPARE(std::distance(fs::directory_iterator(at("parent")), fs::directory_iterator()), 1);
  }

  void noFilesAreAnEmptyFolder() {
    QVERIFY(write(spec::v1::CodeFiles()).ok());
    QVERIFY(fs::is_empty(at("parent/to")));
  }

  void wrongPathsAreRefused() {
    for (const std::string& path :
         {std::string("../x"), std::string("/etc/x"), std::string("a/../../x"), std::string(),
          std::string("."), std::string(".."), std::string("a//b"), std::string("a/"),
          std::string("a/./b"), std::string("a\0b", 3)}) {
      spec::v1::CodeFiles code;
      addFile(code, "before");
      addFile(code, path);
      refuses(code, "a part that is empty, . or ..");
      code.mutable_files(1)->set_link("before");
      refuses(code, "a part that is empty, . or ..");
    }
    std::string deep = "a";
    for (int i = 0; i < 200; ++i) deep += "/a";
    for (const std::string& path : {deep, std::string(5000, 'x')}) {
      spec::v1::CodeFiles code;
      addFile(code, path);
      refuses(code, "too long");
    }
    spec::v1::CodeFiles code;
    addFile(code, "a/" + std::string(300, 'x'));  // more than a name may have
    refuses(code, "cannot write");
  }

  void pathsThatExcludeEachOtherAreRefused() {
    spec::v1::CodeFiles twice;
    addFile(twice, "a/b");
    addLink(twice, "a/b", "c");
    refuses(twice, "the same path");
    for (const bool fileFirst : {true, false}) {
      spec::v1::CodeFiles code;
      if (fileFirst) addFile(code, "a");
      addFile(code, "a/x/b");
      addFile(code, "a.b");
      if (!fileFirst) addFile(code, "a");
      refuses(code, "its folder is a file too");
    }
    for (const char* target : {"other", "a", "."}) {
      spec::v1::CodeFiles code;
      addLink(code, "a", target);
      addFile(code, "a/x");
      refuses(code, "its folder is a file too");
    }
  }

  void linksThatLeaveAreRefused() {
    for (const char* target :
         {"/", "/etc/passwd", "..", "../x", "a/../..", "folder/../../x", "./../x", "up/../..",
          "folder/up/../x", "folder/up/folder/up/..", "chain/../..", "new/../../x"}) {
      spec::v1::CodeFiles code;
      addFile(code, "folder/file");
      addLink(code, "folder/up", "..");     // the folder of all
      addLink(code, "up", "folder/up");     // too
      addLink(code, "chain", "up/folder");  // folder
      addLink(code, "bad", target);
      refuses(code, "leaves the folder");
    }
    spec::v1::CodeFiles mutual;  // each is fine without the other
    addLink(mutual, "a/b/c", "../..");
    addLink(mutual, "d", "a/b/c/../e");
    refuses(mutual, "leaves the folder");
    spec::v1::CodeFiles zero;
    addLink(zero, "a", std::string("b\0/../..", 8));
    refuses(zero, "no path");
    spec::v1::CodeFiles large;
    addLink(large, "a", std::string(5000, 'x'));
    refuses(large, "no path");
  }

  void damagedMessagesAreRefused() {
    spec::v1::CodeFiles code;
    addFile(code, "a", std::string(1000, 'x'));
    std::string bytes = code.SerializeAsString();
    bytes.resize(500);
    QCOMPARE(write(bytes).code(), Code::kDataLoss);
    QCOMPARE(write(std::string(100, '\xff')).code(), Code::kDataLoss);
    QVERIFY(fs::is_empty(at("parent")));
    QCOMPARE(agent::writeCode(at("missing"), at("parent/to")).code(), Code::kNotFound);
    QVERIFY(!agent::writeCode(at("parent"), at("parent/to")).ok());
    QCOMPARE(agent::writeCode(at("message"), at("no/folder")).code(), Code::kDataLoss);
    QVERIFY(write(code).ok());
    QCOMPARE(agent::writeCode(at("message"), at("no/folder")).code(), Code::kNotFound);
  }

  void whatIsThereStays() {
    spec::v1::CodeFiles code;
    addFile(code, "a", "new");
    const std::string to = at("parent/to");
    fs::create_directories(to);
    QCOMPARE(write(code).code(), Code::kAlreadyExists);
    QVERIFY(fs::is_empty(to));
    std::ofstream(to + "/a") << "old";
    QCOMPARE(write(code).code(), Code::kAlreadyExists);
    QCOMPARE(readFile(to + "/a").value(), std::string("old"));
    fs::remove_all(to);
    fs::create_symlink("nowhere", to);
    QCOMPARE(write(code).code(), Code::kAlreadyExists);
    fs::remove(to);
    QVERIFY(write(code).ok());
  }

  void aFullDiskLeavesNothing() {
    spec::v1::CodeFiles code;
    addFile(code, "a/first", "1");
    addFile(code, "b/large", std::string(1 << 20, 'x'));
    QVERIFY(write(code).ok());
    fs::remove_all(at("parent/to"));
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{1 << 16, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);  // stands for a disk that is full
    const Status written = agent::writeCode(at("message"), at("parent/to"));
    setrlimit(RLIMIT_FSIZE, &before);
    QVERIFY(!written.ok());
    QVERIFY2(written.error().text().find("cannot write b/large") != std::string::npos,
             written.error().text().c_str());
    QVERIFY(fs::is_empty(at("parent")));
  }
};

QTEST_GUILESS_MAIN(CodeFolderTest)
#include "code_folder_test.moc"
