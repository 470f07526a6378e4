// The files of a program: which are collected, by the real git, and that nodes get the same.
#include "app/runs/code_files.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "agent/workload/code_folder.h"
#include "app/runs/code_patch.h"
#include "app/ssh/run_process.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "lockstep/spec/v1/code.pb.h"

using namespace lockstep;
using namespace lockstep::app;
namespace fs = std::filesystem;

namespace {

using Names = std::set<std::string>;

// What is on the disk: '-' a file, 'x' a program, 'l' a link; and its data or target. Without
// folders and what git keeps.
using Tree = std::map<std::string, std::pair<char, std::string>>;

Tree treeOf(const std::string& folder, const std::string& below = "") {
  Tree out;
  for (const auto& entry : fs::directory_iterator(folder + "/" + below)) {
    const std::string name = entry.path().filename().string(), path = below + name;
    if (name == ".git") continue;
    if (entry.is_symlink()) {
      out[path] = {'l', fs::read_symlink(entry.path()).string()};
    } else if (entry.is_directory()) {
      out.merge(treeOf(folder, path + "/"));
    } else {
      struct stat info {};
      stat(entry.path().c_str(), &info);
      out[path] = {info.st_mode & S_IXUSR ? 'x' : '-', readFile(entry.path().string()).value()};
    }
  }
  return out;
}

std::string printed(const Names& names) {
  std::string out;
  for (const std::string& name : names) out += "[" + name + "] ";
  return out;
}

}  // namespace

class CodeFilesTest : public QObject {
  Q_OBJECT

  std::unique_ptr<QTemporaryDir> folder_;
  std::string code_;  // the folder of the code
  std::string at(const std::string& name) const {
    return folder_->path().toStdString() + "/" + name;
  }

  // Makes the folder that a file of the code is in, if it can be.
  bool makeFolderOf(const std::string& path) const {
    const fs::path folder = fs::path(code_ + "/" + path).parent_path();
    std::error_code failed;
    fs::create_directories(folder, failed);
    return fs::is_directory(folder, failed);
  }
  // Writes a file of the code, by default with its name as its data.
  void write(const std::string& path, const std::string& data = "data", bool executable = false) {
    const fs::path full = code_ + "/" + path;
    QVERIFY(makeFolderOf(path));
    std::ofstream(full, std::ios::binary | std::ios::trunc) << data;
    fs::permissions(
        full, executable ? fs::perms::owner_all : fs::perms::owner_read | fs::perms::owner_write);
  }
  bool isThere(const std::string& path) const {
    struct stat info {};
    return lstat((code_ + "/" + path).c_str(), &info) == 0;
  }
  void link(const std::string& path, const std::string& target) {
    QVERIFY(makeFolderOf(path));
    QVERIFY(symlink(target.c_str(), (code_ + "/" + path).c_str()) == 0);
  }

  std::string git(const std::vector<std::string>& words, const std::string& below = "") {
    std::vector<std::string> argv = {
        "git",          "-C", code_ + "/" + below,          "-c", "user.name=n",    "-c",
        "user.email=e", "-c", "protocol.file.allow=always", "-c", "core.fsync=none"};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto ran = runProcess(argv, std::chrono::seconds(30));
    if (!ran.ok() || ran->exitStatus != 0)
      qFatal("git %s: %s", words[0].c_str(),
             ran.ok() ? ran->errorOutput.c_str() : ran.error().text().c_str());
    return ran->output;
  }
  void commitAll(const std::string& below = "") {
    git({"add", "--all"}, below);
    git({"commit", "--quiet", "--allow-empty", "-m", "m"}, below);
  }
  Names gitNames(const std::vector<std::string>& words) {
    Names out;
    std::istringstream text(git(words));
    for (std::string name; std::getline(text, name, '\0');) out.insert(name);
    return out;
  }

  spec::v1::CodeSpec spec() const {
    spec::v1::CodeSpec out;
    out.set_from(code_);
    out.set_exclude(".lockstepignore");
    out.set_max_bytes(1 << 28);
    return out;
  }
  Result<CollectedCode> collect(const std::stop_token& stop = {}) const {
    return collectCode(spec(), at("to"), stop);
  }
  // The files that are collected below code_; of an error, its text.
  static Names namesIn(const Result<CollectedCode>& collected) {
    if (!collected.ok()) return {collected.error().text()};
    spec::v1::CodeFiles files;
    if (!files.ParseFromString(readFile(collected->file).value())) return {"damaged"};
    Names out;
    for (const auto& file : files.files()) out.insert(file.path());
    return out;
  }
  Names names() const { return namesIn(collect()); }

 private Q_SLOTS:
  void init() {
    folder_ = std::make_unique<QTemporaryDir>();
    code_ = fs::canonical(folder_->path().toStdString()).string() + "/code";
    fs::create_directories(code_);
    fs::create_directories(at("home"));
    qputenv("HOME", at("home").c_str());
    qunsetenv("XDG_CONFIG_HOME");
    // The test's own git must not write to a repository that the environment names.
    for (const char* name : {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"}) qunsetenv(name);
  }
  void cleanup() {  // which Qt cannot with names that are not UTF-8
    for (const char* part : {"code", "copy"}) fs::remove_all(at(part));
  }

  void randomTreesArriveAsGitListsThem() {
    for (unsigned seed = 1; seed <= 12; ++seed) {
      cleanup();
      init();
      std::mt19937 random(seed);
      const auto below = [&](unsigned limit) { return random() % limit; };
      const std::vector<std::string> parts = {
          "a",         "b b",  "new\nline", "quo\"te'", "-dash", "数据",  "\xff\xfe raw",
          ":(top)x",   "*.py", "[x]",       "#hash",    "!not",  "tab\t", "back\\slash",
          "trailing ", "pt",   "x.pt",      ".hidden",  "~",     "deep"};
      const auto name = [&] { return parts[below(static_cast<unsigned>(parts.size()))]; };
      for (int i = 0; i < 40; ++i) {
        std::string path = name();
        for (unsigned depth = below(i == 0 ? 60 : 4); depth > 0; --depth) path += "/" + name();
        if (!makeFolderOf(path) || isThere(path)) continue;
        if (below(8) == 0)
          link(path, below(2) == 0 ? "missing" : "./" + fs::path(path).filename().string());
        else
          write(path, std::string(below(3) * 1000, static_cast<char>(random())), below(3) == 0);
      }
      const bool inRepository = seed % 3 != 0;
      if (inRepository) {
        git({"init", "--quiet"});
        commitAll();
      }
      for (const char* ignores : {".gitignore", ".lockstepignore", "a/.gitignore"}) {
        if (below(2) == 0 || isThere(ignores) || !makeFolderOf(ignores)) continue;
        write(ignores, fmt::format("*.pt\n!a/*.pt\n/b b/\npt/\n**/deep\n/{}\n", name()));
      }
      for (int i = 0; i < 4; ++i) write(fmt::format("late{}", i), name());
      for (const auto& [path, entry] : treeOf(code_))
        if (below(6) == 0 && path[0] != '.') fs::remove(code_ + "/" + path);

      if (!inRepository) git({"init", "--quiet"});  // to ask git, and then there is none again
      std::vector<std::string> words = {"ls-files", "-z", "--cached", "--others"};
      const bool excludes = isThere(".lockstepignore");
      if (excludes) words.push_back("--exclude-from=" + code_ + "/.lockstepignore");
      words.push_back("--exclude-standard");
      Names expected = gitNames(words);
      if (excludes)
        for (const std::string& path : gitNames({"ls-files", "-z", "--cached", "--ignored",
                                                 "--exclude-from=" + code_ + "/.lockstepignore"}))
          expected.erase(path);
      if (!inRepository) fs::remove_all(code_ + "/.git");
      Tree wanted = treeOf(code_);
      std::erase_if(wanted, [&](const auto& entry) { return !expected.contains(entry.first); });

      const auto collected = collect();
      QVERIFY2(collected.ok(), collected.ok() ? "" : collected.error().text().c_str());
      QCOMPARE(fs::path(collected->file).filename().string(), collected->sha256);
      QCOMPARE(sha256File(collected->file).value(), collected->sha256);
      QCOMPARE(collected->files, static_cast<int>(wanted.size()));
      QCOMPARE(collected->commit.empty(), !inRepository);
      const Status written = agent::writeCode(collected->file, at("copy"));
      QVERIFY2(written.ok(), written.ok() ? "" : written.error().text().c_str());
      QVERIFY2(treeOf(at("copy")) == wanted, qPrintable(QString::number(seed)));
      QVERIFY(wanted.size() > 4);
    }
  }

  void theSameFilesHaveTheSameHash() {
    write("b", "1");
    write("a/b", "2", true);
    link("a.link", "a/b");
    const auto first = collect();
    const std::string before = code_;
    code_ = at("other");
    link("a.link", "a/b");
    write("a/b", "2", true);
    write("b", "1");
    git({"init", "--quiet"});
    git({"add", "b"});
    fs::last_write_time(code_ + "/b", fs::file_time_type::clock::now() - std::chrono::hours(99));
    const auto second = collect();
    QVERIFY(first.ok() && second.ok());
    QCOMPARE(second->sha256, first->sha256);
    QCOMPARE(second->file, first->file);
    QCOMPARE(second->bytes, 2);
    QCOMPARE(second->files, 3);
    write("a/b", "2", false);
    QVERIFY(collect()->sha256 != first->sha256);
    int left = 0;
    for (const auto& entry : fs::directory_iterator(at("to"))) left += entry.exists() ? 1 : 0;
    QCOMPARE(left, 2);  // nothing else is left there
  }

  // Also where git ignores or tracks otherwise.
  void whatIsExcludedIsLeftOut() {
    write("keep.py");
    write("data/1");
    write("sub/data/1");
    write("sub/x.pt");
    write("keep.pt");
    write(".gitignore", "!x.pt\n");
    write(".lockstepignore", "/data\n*.pt\n!keep.pt\n");
    const Names expected = {"keep.py", "sub/data/1", "keep.pt", ".gitignore", ".lockstepignore"};
    QCOMPARE(printed(names()), printed(expected));  // in no repository
    git({"init", "--quiet"});
    QCOMPARE(printed(names()), printed(expected));  // untracked
    commitAll();
    QCOMPARE(printed(names()), printed(expected));  // tracked
    QVERIFY(!collect()->changed);
    write("data/1", "other");
    QVERIFY(!collect()->changed);  // not of what is collected
    spec::v1::CodeSpec without = spec();
    without.set_exclude("");
    QVERIFY(namesIn(collectCode(without, at("to"), {})).contains("data/1"));
    without.set_exclude(at("patterns"));
    std::ofstream(at("patterns")) << "*.py\n";
    QVERIFY(!namesIn(collectCode(without, at("to"), {})).contains("keep.py"));
    without.set_exclude("missing");
    QVERIFY(namesIn(collectCode(without, at("to"), {})).contains("data/1"));
  }

  void aFolderOfARepositoryIsEnough() {
    const std::string top = code_;
    git({"init", "--quiet"});
    write("outside.py");
    write("sub/a.py");
    write("sub/sub/b.py");
    write("sub/data/c");
    write("sub/secret");
    write(".gitignore", "secret\n");
    commitAll();
    const std::string commit = git({"rev-parse", "HEAD"}).substr(0, 40);
    code_ = top + "/sub";
    write(".lockstepignore", "/sub\n");  // of this folder, not the folder itself
    write("new.py");
    auto collected = collect();
    QCOMPARE(printed(namesIn(collected)), printed({"a.py", "data/c", ".lockstepignore", "new.py"}));
    QCOMPARE(collected->commit, commit);
    QVERIFY(collected->changed);
    commitAll();
    QVERIFY(!collect()->changed);
    std::ofstream(top + "/outside.py") << "changed";
    QVERIFY(!collect()->changed);
    write("a.py", "changed");
    QVERIFY(collect()->changed);
  }

  // As with a home folder that is a repository of a few files.
  void aFolderThatItsRepositoryIgnoresIsInNone() {
    git({"init", "--quiet"});
    write(".gitignore", "*\n");
    write("project/a.py");
    code_ += "/project";
    const auto collected = collect();
    QCOMPARE(printed(namesIn(collected)), printed({"a.py"}));
    QCOMPARE(collected->commit, std::string());
    QVERIFY(!collected->changed);
  }

  void gitsRulesHoldWithoutARepository() {
    write("a.py");
    write("b.log");
    write("c.tmp");
    write("sub/d.txt");
    write(".gitignore", "*.log\n");
    write("sub/.gitignore", "d.*\n");
    std::ofstream(at("home/.gitconfig")) << "[core]\nexcludesFile = ~/ignored\n";
    std::ofstream(at("home/ignored")) << "*.tmp\n";
    const Names expected = {".gitignore", "a.py", "sub/.gitignore"};
    QCOMPARE(printed(names()), printed(expected));
    fs::create_directories(code_ + "/.git");  // no repository either
    QCOMPARE(printed(names()), printed(expected));
    fs::remove_all(code_ + "/.git");
    write(".git", "gitdir: /nowhere\n");
    QCOMPARE(printed(names()), printed(expected));
  }

  void whatIsGoneIsLeftOut() {
    git({"init", "--quiet"});
    write("a");
    write("b");
    write("folder/c");
    write("other/c");
    commitAll();
    fs::remove(code_ + "/a");
    fs::remove_all(code_ + "/folder");
    link("folder", "other");  // folder/c is there still, by way of the link
    fs::remove(code_ + "/b");
    write("b/d");
    const auto collected = collect();
    QCOMPARE(printed(namesIn(collected)), printed({"b/d", "folder", "other/c"}));
    QVERIFY(collected->changed);
    QVERIFY(agent::writeCode(collected->file, at("copy")).ok());
  }

  void repositoriesWithinAreCollected() {
    const std::string top = code_;
    code_ = at("library");
    fs::create_directories(code_);
    git({"init", "--quiet"});
    write("lib.py");
    write(".gitignore", "*.o\n");
    commitAll();
    code_ = top;
    git({"init", "--quiet"});
    git({"submodule", "--quiet", "add", at("library"), "libs/one"});
    git({"submodule", "--quiet", "add", at("library"), "libs/two"});
    write("main.py");
    commitAll();
    QVERIFY(!collect()->changed);
    git({"submodule", "--quiet", "deinit", "libs/two"});
    write("libs/one/x.o");
    const Names expected = {".gitmodules", "main.py", "libs/one/lib.py", "libs/one/.gitignore"};
    QCOMPARE(printed(names()), printed(expected));
    QVERIFY(!collect()->changed);
    write("libs/one/new.py");
    QVERIFY(collect()->changed);
    fs::remove(code_ + "/libs/one/new.py");
    commitAll("libs/one");
    QVERIFY(collect()->changed);  // another commit than that of the whole
    git({"-C", "libs/one", "reset", "--quiet", "--hard", "HEAD~1"});
    QVERIFY(!collect()->changed);
    write("libs/one/lib.py", "changed");
    QVERIFY(collect()->changed);
    QVERIFY(collect()->patch.find("+++ b/libs/one/lib.py\n") != std::string::npos);
    git({"-C", "libs/one", "checkout", "--quiet", "."});
    git({"clone", "--quiet", at("library"), "cloned"});  // which the whole knows nothing of
    write(".lockstepignore", "cloned/.gitignore\n");
    Names more = expected;
    more.merge(Names{"cloned/lib.py", ".lockstepignore"});
    QCOMPARE(printed(names()), printed(more));
    fs::remove(code_ + "/libs/one/.git");  // as in a copy
    more.insert("libs/one/x.o");
    fs::remove(code_ + "/libs/one/.gitignore");
    more.erase("libs/one/.gitignore");
    QCOMPARE(printed(names()), printed(more));
  }

  void worktreesAreRepositories() {
    git({"init", "--quiet"});
    write("a.py");
    commitAll();
    git({"worktree", "add", "--quiet", at("tree")});
    const std::string commit = collect()->commit;
    code_ = at("tree");
    write("b.py");
    const auto collected = collect();
    QCOMPARE(printed(namesIn(collected)), printed({"a.py", "b.py"}));
    QCOMPARE(collected->commit, commit);
    QVERIFY(collected->changed);
  }

  void theCommitIsTold() {
    git({"init", "--quiet"});
    write("a.py");
    auto collected = collect();
    QCOMPARE(printed(namesIn(collected)), printed({"a.py"}));
    QCOMPARE(collected->commit, std::string());  // none yet
    QVERIFY(!collected->changed);
    commitAll();
    collected = collect();
    QCOMPARE(collected->commit, git({"rev-parse", "HEAD"}).substr(0, 40));
    QVERIFY(!collected->changed);
    fs::last_write_time(code_ + "/a.py", fs::file_time_type::clock::now() - std::chrono::hours(1));
    QVERIFY(!collect()->changed);  // touched alone
    write("a.py", "other");
    QVERIFY(collect()->changed);
    git({"add", "a.py"});
    QVERIFY(collect()->changed);
    commitAll();
    QVERIFY(!collect()->changed);
    fs::remove(code_ + "/a.py");
    QVERIFY(collect()->changed);
  }

  void theCommitIsInTheResolvedSpec() {
    const std::string id(40, 'a');
    for (const char* how : {"of", "changed since"})
      QCOMPARE(codeCommit(fmt::format("# data: x\n# code: 2 files, 10 bytes, {} commit {}, SHA-256 "
                                      "b\nversion: 1\n",
                                      how, id)),
               id);
    for (const char* none :
         {"", "# code: 2 files, 10 bytes, of no repository, SHA-256 b\nversion: 1\n",
          "# code:", "version: 1\n# code: 2 files, of commit a\n"})
      QCOMPARE(codeCommit(none), std::string());
  }

  // Without what is left out, whatever the person's settings are; it makes the files out of the
  // commit's.
  void thePatchTellsTheDifferences() {
    git({"init", "--quiet"});
    write("a.py", "one\n");
    write("folder/b.py", "gone\n");
    write(":(top)c.py", "one\n");
    write("secret.env", "key=1\n");
    write(".lockstepignore", "*.env\n");
    write(".gitattributes", "a.py diff=shown\n");
    commitAll();
    QCOMPARE(collect()->patch, std::string());
    git({"clone", "--quiet", code_, at("clone")});
    git({"config", "color.diff", "always"});
    git({"config", "diff.noprefix", "true"});
    git({"config", "diff.external", "/bin/false"});
    git({"config", "diff.shown.textconv", "/bin/false"});
    write("a.py", "two\n");
    fs::remove(code_ + "/folder/b.py");
    write(":(top)c.py", "two\n");
    write("secret.env", "key=2\n");
    write("new.py", "x\n");
    write("other.env", "key=3\n");
    const std::string patch = collect()->patch;
    QVERIFY2(patch.starts_with("# not in the commit:\n#   new.py\ndiff --git "), patch.c_str());
    QVERIFY2(patch.find("key=") == std::string::npos && patch.find(".env") == std::string::npos,
             patch.c_str());
    std::map<std::string, std::pair<int, int>> files;
    for (const ChangedFile& file : changedFiles(patch)) {
      files[file.path] = {file.added, file.removed};
      QCOMPARE(file.committed, file.path != "new.py");
    }
    QCOMPARE(changedFiles(patch).back().path, std::string("new.py"));
    const std::map<std::string, std::pair<int, int>> expected = {
        {":(top)c.py", {1, 1}}, {"a.py", {1, 1}}, {"folder/b.py", {0, 1}}, {"new.py", {0, 0}}};
    QCOMPARE(files, expected);
    QVERIFY(writeFileAtomically(at("patch"), patch, 0600).ok());
    git({"-C", at("clone"), "apply", at("patch")});
    for (const char* name : {"/a.py", "/:(top)c.py"})
      QCOMPARE(readFile(at("clone") + name).value(), std::string("two\n"));
    QVERIFY(!fs::exists(at("clone") + "/folder/b.py"));
    QCOMPARE(readFile(at("clone") + "/secret.env").value(), std::string("key=1\n"));
  }

  // Nor by the name of a file that has become their folder.
  void thePatchHasNothingThatIsLeftOut() {
    git({"init", "--quiet"});
    write("settings", "one\n");
    write("a.py", "one\n");
    write(".lockstepignore", "*.env\n");
    commitAll();
    fs::remove(code_ + "/settings");
    write("settings/secret.env", "key=1\n");
    write("settings/b.py", "two\n");
    write("a.py", "two\n");
    git({"add", "--all"});
    const std::string patch = collect()->patch;
    for (const char* part : {"#   settings\n", "+++ b/settings/b.py\n", "+++ b/a.py\n"})
      QVERIFY2(patch.find(part) != std::string::npos, patch.c_str());
    QVERIFY2(patch.find("key=") == std::string::npos && patch.find(".env") == std::string::npos,
             patch.c_str());
  }

  void aLongPatchIsCut() {
    git({"init", "--quiet"});
    write("a.py", "one\n");
    commitAll();
    std::string lines;
    while (lines.size() < 2 * kMostPatch) lines += "line = 1\n";
    write("a.py", lines);
    const std::string patch = collect()->patch;
    QVERIFY(patch.size() > kMostPatch / 2 && patch.size() < kMostPatch + 100);
    QVERIFY(patch.ends_with("\n+line = 1\n# cut after 256 KiB: the differences go on\n"));
  }

  void tooMuchIsRefused() {
    write("main.py", std::string(1000, 'x'));
    write(".venv/lib/torch.so", std::string(3 << 20, 'x'));
    write("data/a", std::string(1 << 20, 'x'));
    write("data/b", std::string(1 << 20, 'x'));
    spec::v1::CodeSpec small = spec();
    small.set_max_bytes(5 << 20);
    auto collected = collectCode(small, at("to"), {});
    QVERIFY(!collected.ok());
    QCOMPARE(collected.error().code, Code::kResourceExhausted);
    QCOMPARE(collected.error().field, std::string("workload.code.max_bytes"));
    const std::string text = collected.error().text();
    QVERIFY2(text.find(".venv/ 3.0 MiB, data/ 2.0 MiB, main.py") != std::string::npos,
             text.c_str());
    QVERIFY2(text.find("(list what the program does not need in .gitignore or .lockstepignore") !=
                 std::string::npos,
             text.c_str());
    QVERIFY(fs::is_empty(at("to")));
    small.set_max_bytes((5 << 20) + 1000);
    QVERIFY(collectCode(small, at("to"), {}).ok());
    small.set_max_bytes(1000 + 12);
    write(".lockstepignore", ".venv/\ndata\n");
    QVERIFY(collectCode(small, at("to"), {}).ok());
  }

  void linksStayInTheFolder() {
    write("a/b");
    link("a/up", "../c");
    link("root", ".");
    link("loop", "loop");
    link("missing", "a/../nothing/there");
    QVERIFY(collect().ok());
    const std::string targets[] = {"/etc/passwd",  "..",        "../code.py",
                                   "a/../../code", "root/../x", code_ + "/a/b"};
    for (const std::string& target : targets) {
      link("bad", target);
      const auto collected = collect();
      QVERIFY2(!collected.ok(), target.c_str());
      QCOMPARE(collected.error().code, Code::kInvalidArgument);
      QVERIFY(collected.error().text().find("the link bad ") != std::string::npos);
      write(".lockstepignore", "/bad\n");
      QVERIFY(collect().ok());
      fs::remove(code_ + "/.lockstepignore");
      fs::remove(code_ + "/bad");
    }
  }

  void otherKindsOfFilesAreRefused() {
    QVERIFY(mkfifo((code_ + "/untracked").c_str(), 0600) == 0);
    git({"init", "--quiet"});
    write("pipe");
    commitAll();
    QVERIFY(collect().ok());  // git knows nothing of the other
    fs::remove(code_ + "/pipe");
    QVERIFY(mkfifo((code_ + "/pipe").c_str(), 0600) == 0);
    QCOMPARE(collect().error().code, Code::kInvalidArgument);
  }

  void aMissingFolderIsNotFound() {
    write("file");
    for (const char* name : {"/missing", "/file"}) {
      spec::v1::CodeSpec wrong = spec();
      wrong.set_from(code_ + name);
      const auto collected = collectCode(wrong, at("to"), {});
      QCOMPARE(collected.error().code, Code::kNotFound);
      QCOMPARE(collected.error().field, std::string("workload.code.from"));
    }
  }

  void gitIsNeeded() {
    const QByteArray path = qgetenv("PATH");
    const auto restore = qScopeGuard([&] { qputenv("PATH", path); });
    fs::create_directories(at("bin"));
    fs::create_symlink("/usr/bin/env", at("bin/env"));
    qputenv("PATH", at("bin").c_str());
    const auto collected = collect();
    QCOMPARE(collected.error().code, Code::kNotFound);
    QVERIFY(collected.error().text().find("git is not installed") != std::string::npos);
  }

  void cancelEndsGit() {
    const QByteArray path = qgetenv("PATH");
    const auto restore = qScopeGuard([&] { qputenv("PATH", path); });
    fs::create_directories(at("bin"));
    {
      std::ofstream script(at("bin/git"));
      script << "#!/bin/sh\necho $$ > " << at("pid.new") << "\nmv " << at("pid.new") << " "
             << at("pid") << "\nexec sleep 60\n";
    }
    fs::permissions(at("bin/git"), fs::perms::owner_all);
    qputenv("PATH", (at("bin") + ":" + path.toStdString()).c_str());
    std::stop_source stop;
    std::thread stopper([&] {
      for (int i = 0; i < 500 && !fs::exists(at("pid")); ++i) QTest::qSleep(20);
      stop.request_stop();
    });
    const auto collected = collect(stop.get_token());
    stopper.join();
    QCOMPARE(collected.error().code, Code::kCancelled);
    QCOMPARE(collected.error().what, std::string("collecting the code was cancelled"));
    const pid_t pid = std::stoi(readFile(at("pid")).value());
    QVERIFY(kill(pid, 0) != 0 && errno == ESRCH);  // neither running nor a zombie
    QVERIFY(fs::is_empty(at("to")));
    QCOMPARE(collect(stop.get_token()).error().code, Code::kCancelled);
  }

  void variablesOfAnotherRepositoryDoNotMatter() {
    write("a.py");
    git({"init", "--quiet"});
    const auto restore = qScopeGuard([] {
      for (const char* name : {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_COUNT"})
        qunsetenv(name);
    });
    qputenv("GIT_DIR", "/nowhere");
    qputenv("GIT_WORK_TREE", "/nowhere");
    qputenv("GIT_INDEX_FILE", "/nowhere");
    qputenv("GIT_CONFIG_COUNT", "wrong");
    QCOMPARE(printed(names()), printed({"a.py"}));
  }

  void theUsersSettingsChangeNothing() {
    write("ä.py");
    git({"init", "--quiet"});
    commitAll();
    std::ofstream(at("home/.gitconfig"))
        << "[core]\nquotePath = true\nfsmonitor = false\npager = false\n[status]\nbranch = true\n"
           "short = true\nshowUntrackedFiles = all\n[color]\nui = always\n[init]\n"
           "defaultBranch = \"a b\"\n[safe]\ndirectory = /x\n";
    QCOMPARE(printed(names()), printed({"ä.py"}));
    QVERIFY(!collect()->changed);
    std::ofstream(at("home/.gitconfig")) << "[core\n";
    const auto collected = collect();
    QCOMPARE(collected.error().code, Code::kFailedPrecondition);
    QVERIFY(collected.error().text().find("bad config line 1") != std::string::npos);
  }

  // Its configuration may name programs, which are not run.
  void aFolderOfAnotherUserIsCollected() {
    if (getuid() != 0) QSKIP("needs root");
    git({"init", "--quiet"});
    write("a.py");
    write(".gitignore", "*.log\n");
    write(".gitattributes", "* filter=f\n");
    write("b.log");
    commitAll();
    const std::string ran = at("ran");
    git({"config", "core.fsmonitor", "touch " + ran});
    git({"config", "filter.f.clean", "touch " + ran});
    std::ofstream(code_ + "/.git/hooks/post-index-change") << "#!/bin/sh\ntouch " << ran << "\n";
    fs::permissions(code_ + "/.git/hooks/post-index-change", fs::perms::all);
    write("a.py", "DATA");
    for (const auto& entry : fs::recursive_directory_iterator(code_))
      QVERIFY(lchown(entry.path().c_str(), 1234, 1234) == 0);
    QVERIFY(chown(code_.c_str(), 1234, 1234) == 0);
    const auto collected = collect();
    QCOMPARE(printed(namesIn(collected)), printed({"a.py", ".gitignore", ".gitattributes"}));
    QCOMPARE(collected->commit.size(), std::size_t{40});
    QVERIFY(collected->changed);
    QVERIFY(!fs::exists(ran));
  }

  // Those of a folder of one's own neither, which git itself would run.
  void hooksAndMonitorsAreNotRun() {
    git({"init", "--quiet"});
    write("a.py");
    commitAll();
    const std::string hook = at("hook"), monitor = at("monitor");
    std::ofstream(code_ + "/.git/hooks/post-index-change") << "#!/bin/sh\ntouch " << hook << "\n";
    fs::permissions(code_ + "/.git/hooks/post-index-change", fs::perms::all);
    git({"config", "core.fsmonitor", "touch " + monitor});
    write("a.py", "DATA");
    const auto collected = collect();
    QCOMPARE(printed(namesIn(collected)), printed({"a.py"}));
    QVERIFY(collected->changed);
    QVERIFY(!fs::exists(hook) && !fs::exists(monitor));
    git({"status"});
    QVERIFY(fs::exists(hook) && fs::exists(monitor));
  }

  // git would fetch what a partial clone lacks, by a program that its configuration names.
  void nothingIsFetched() {
    git({"init", "--quiet"});
    git({"config", "uploadpack.allowFilter", "true"});
    write("folder/a.py");
    write("b.py");
    commitAll();
    const std::string from = "file://" + code_;
    code_ = at("clone");
    fs::create_directories(code_);
    git({"clone", "--quiet", "--filter=tree:0", "--no-checkout", from, "."});
    git({"sparse-checkout", "init", "--cone", "--sparse-index"});
    git({"checkout", "--quiet"});
    for (const char* part : {"objects", "objects/pack"}) {
      fs::remove_all(code_ + "/.git/" + part);
      fs::create_directories(code_ + "/.git/" + part);
    }
    git({"config", "remote.origin.url", "ssh://nowhere/x"});
    git({"config", "protocol.ssh.allow", "always"});
    git({"config", "core.sshCommand", "touch " + at("ran") + "; false"});
    (void)collect();
    QVERIFY(!fs::exists(at("ran")));
  }

  void collectionsOfOthersDaysAreRemoved() {
    write("a.py");
    const std::string first = collect()->file;
    write("a.py", "2");
    const std::string second = collect()->file;
    std::ofstream(at("to/notes")) << "not a collection";
    fs::create_directories(at("to/part-old/objects"));
    for (const std::string& path : {first, at("to/notes"), at("to/part-old")})
      fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24 * 7 + 1));
    write("a.py", "3");
    QVERIFY(collect().ok());
    QVERIFY(!fs::exists(first));
    QVERIFY(!fs::exists(at("to/part-old")));
    QVERIFY(fs::exists(second));
    QVERIFY(fs::exists(at("to/notes")));
  }

  void collectionsWithinAreNotCollected() {
    write("a.py");
    const std::string to = code_ + "/runs/code";
    const auto first = collectCode(spec(), to, {}), second = collectCode(spec(), to, {});
    QCOMPARE(printed(namesIn(second)), printed({"a.py"}));
    QCOMPARE(second->sha256, first->sha256);
  }
};

QTEST_GUILESS_MAIN(CodeFilesTest)
#include "code_files_test.moc"
