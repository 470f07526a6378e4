// The files of a program that its run collects: which match, and none outside of the folder.
#include "agent/workload/artifacts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <QTemporaryDir>
#include <QTest>
#include <filesystem>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "engine/base/file.h"

using namespace lockstep;
using agent::ArtifactFile;
using agent::findArtifacts;
using agent::openArtifact;

namespace {

namespace fs = std::filesystem;

std::set<std::string> pathsOf(const std::vector<ArtifactFile>& files, bool problems = false) {
  std::set<std::string> out;
  for (const ArtifactFile& file : files)
    if (file.problem.empty() != problems) out.insert(file.path);
  return out;
}

std::set<std::string> found(const std::string& folder, const std::vector<std::string>& patterns) {
  const auto files = findArtifacts(folder, patterns);
  return files.ok() ? pathsOf(*files) : std::set<std::string>{files.error().text()};
}

void write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  QVERIFY(writeFileAtomically(path, text).ok());
}

// What a pattern matches, as a regular expression; `within` also what is in a folder that matches.
std::regex regexOf(const std::string& pattern) {
  std::string out;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const char c = pattern[at];
    if (pattern.compare(at, 3, "**/") == 0) {
      out += "(?:[^/.][^/]*/)*";
      at += 2;
    } else if (pattern.compare(at, 2, "**") == 0) {
      out += "(?:[^/.][^/]*/)*[^/.][^/]*";
      ++at;
    } else if (c == '*' || c == '?') {
      if (at == 0 || pattern[at - 1] == '/') out += "(?!\\.)";
      out += c == '*' ? "[^/]*" : "[^/]";
    } else {
      out += std::string(c == '.' ? "\\" : "") + c;
    }
  }
  return std::regex(out + "(?:/(?:[^/.][^/]*/)*[^/.][^/]*)?");
}

}  // namespace

class ArtifactsTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // Against regular expressions over all files, of random trees and patterns.
  void patternsMatchAsInAShell() {
    std::mt19937 random(21);
    const std::vector<std::string> names{"a", "b", "ab", "a.pt", "b.pt", ".h", ".h.pt", "ba"};
    const std::vector<std::string> parts{"a", "b", "*", "?", "a*", "*.pt", "**", "?b", ".*", "ab"};
    int matched = 0;
    for (int round = 0; round < 60; ++round) {
      QTemporaryDir temporary;
      const std::string root = temporary.path().toStdString();
      std::set<std::string> files;
      for (int i = 0; i < 25; ++i) {
        std::string path;
        for (int depth = static_cast<int>(random() % 4); depth >= 0; --depth)
          path += (path.empty() ? "" : "/") + names[random() % names.size()];
        std::error_code failed;
        fs::create_directories(fs::path(root + "/" + path).parent_path(), failed);
        if (failed || fs::exists(root + "/" + path)) continue;
        if (writeFileAtomically(root + "/" + path, path).ok()) files.insert(path);
      }
      for (int i = 0; i < 20; ++i) {
        std::string pattern;
        for (int depth = static_cast<int>(random() % 4); depth >= 0; --depth)
          pattern += (pattern.empty() ? "" : "/") + parts[random() % parts.size()];
        const std::regex expression = regexOf(pattern);
        std::set<std::string> expected;
        for (const std::string& file : files)
          if (std::regex_match(file, expression)) expected.insert(file);
        matched += static_cast<int>(expected.size());
        const auto got = found(root, {pattern});
        std::string shown = pattern + "\nexpected";
        for (const auto& one : expected) shown += " " + one;
        shown += "\ngot";
        for (const auto& one : got) shown += " " + one;
        QVERIFY2(got == expected, shown.c_str());
      }
    }
    QVERIFY(matched > 1000);
  }

  void facts() {
    QTemporaryDir temporary;
    const std::string root = temporary.path().toStdString();
    write(root + "/out/b", "12345");
    write(root + "/out/a", "");
    const auto files = findArtifacts(root, {"out/*", "out/a", "out"});
    QVERIFY(files.ok());
    QCOMPARE(files->size(), std::size_t{2});  // each once, in order
    QCOMPARE(files->at(0).path, std::string("out/a"));
    QCOMPARE(files->at(1).bytes, std::int64_t{5});
    struct stat info {};
    QCOMPARE(stat((root + "/out/b").c_str(), &info), 0);
    QCOMPARE(files->at(1).modified, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec);
    QVERIFY(findArtifacts(root, {"absent/*"})->empty());
    QVERIFY(!findArtifacts(root + "/absent", {"*"}).ok());
  }

  void linksThatLeaveAreNotFollowed() {
    QTemporaryDir temporary, other;
    const std::string root = temporary.path().toStdString() + "/code";
    const std::string outside = other.path().toStdString();
    write(outside + "/x", "secret");
    write(root + "/in/x", "mine");
    const std::pair<const char*, std::string> links[] = {{"file", outside + "/x"},
                                                         {"folder", outside},
                                                         {"up", ".."},
                                                         {"beside", "../../" + outside},
                                                         {"inner", "in"},
                                                         {"innerfile", "in/x"},
                                                         {"absolute", root + "/in/x"},
                                                         {"self", "self"},
                                                         {"broken", "nowhere"},
                                                         {"chain", "file"}};
    for (const auto& [name, target] : links) fs::create_symlink(target, root + "/" + name);
    const auto files =
        findArtifacts(root, {"*", "folder/*", "up/*", "inner/*", "**/x", "folder/x", "self/x"});
    QVERIFY(files.ok());
    QCOMPARE(pathsOf(*files), (std::set<std::string>{"absolute", "in/x", "inner/x", "innerfile"}));
    const auto problems = pathsOf(*files, true);
    for (const char* name : {"file", "folder", "up", "chain"})
      QVERIFY2(problems.contains(name), name);
    for (const char* path : {"file", "folder/x", "up/x", "chain", "../x", "in/../../x", "",
                             "/etc/passwd", "in//x", "./in/x", "in", "self", "broken"}) {
      const auto opened = openArtifact(root, path, files->front().modified);
      QVERIFY2(!opened.ok(), path);
    }
  }

  void anotherFileIsRefused() {
    QTemporaryDir temporary;
    const std::string root = temporary.path().toStdString();
    write(root + "/x", "one");
    const auto files = findArtifacts(root, {"x"});
    const Nanoseconds modified = files->front().modified;
    QVERIFY(openArtifact(root, "x", modified).ok());
    const timespec times[2] = {{5, 0}, {5, 0}};
    QCOMPARE(utimensat(AT_FDCWD, (root + "/x").c_str(), times, 0), 0);
    const auto opened = openArtifact(root, "x", modified);
    QCOMPARE(opened.status().code(), Code::kFailedPrecondition);
    QVERIFY(openArtifact(root, "x", 5'000'000'000).ok());
  }

  void whatIsNoFileIsLeftOut() {
    QTemporaryDir temporary;
    const std::string root = temporary.path().toStdString();
    write(root + "/x", "one");
    QCOMPARE(mkfifo((root + "/pipe").c_str(), 0600), 0);
    QCOMPARE(found(root, {"*", "pipe", "x"}), std::set<std::string>{"x"});
    QVERIFY(!openArtifact(root, "pipe", 0).ok());
  }
};

QTEST_GUILESS_MAIN(ArtifactsTest)
#include "artifacts_test.moc"
