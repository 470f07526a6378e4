// Bundles, and bringing them to nodes over real sshd.
#include "app/deploy/deploy.h"

#include <QScopeGuard>
#include <QStandardPaths>
#include <QTest>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <atomic>
#include <filesystem>
#include <thread>

#include "app/deploy/node_link.h"
#include "app/ssh/ssh_connection.h"
#include "engine/base/hash.h"
#include "engine/base/shell_text.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"
#include "tests/support/prompter.h"
#include "tests/support/sshd.h"

namespace fs = std::filesystem;
using namespace lockstep;
using namespace lockstep::app;

#define VERIFY_OK(expression)                                                   \
  do {                                                                          \
    const auto& checked = (expression);                                         \
    QVERIFY2(checked.ok(), checked.ok() ? "" : checked.error().text().c_str()); \
  } while (false)

class DeployTest : public QObject {
  Q_OBJECT
  test::TempFolder folder_;
  std::unique_ptr<test::Sshd> server_;
  std::string why_;
  Bundle bundle_;
  int count_ = 0;

  SshConnectionOptions options() {
    SshConnectionOptions options;
    options.node = "node-1";
    options.configFile = folder_ / "config";
    options.runtimeFolder = folder_.path();
    options.firstPause = std::chrono::milliseconds(20);
    return options;
  }
  std::string newWorkdir() { return folder_ / ("w" + std::to_string(++count_)); }
  DeployOptions to(const std::string& workdir) {
    DeployOptions options;
    options.node = "node-1";
    options.workdir = workdir;
    return options;
  }
  // The bundle with one more file: another version.
  Bundle variant(const std::string& name, std::size_t bytes = 100) {
    const std::string folder = folder_ / name;
    fs::copy(bundle_.folder, folder, fs::copy_options::recursive);
    std::string content(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i * 2654435761u >> 11);
    content += name;
    test::writeText(folder + "/extra", content);
    test::writeText(folder + "/manifest", bundle_.manifest + "file " + sha256Hex(content) + " " +
                                              std::to_string(content.size()) + " 644 extra\n");
    auto bundle = readBundle(folder);
    if (!bundle.ok()) qFatal("%s", bundle.error().text().c_str());
    return *bundle;
  }
  static std::vector<std::string> entries(const std::string& folder) {
    std::vector<std::string> names;
    if (fs::exists(folder))
      for (const auto& entry : fs::directory_iterator(folder))
        names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

 private Q_SLOTS:
  void initTestCase() {
    std::string output;
    const int made = test::runCommand(
        {lockstep::test::sourcePath("packaging/bundle"), ".", folder_ / "bundle", DEPLOYED_PROGRAM},
        &output);
    QVERIFY2(made == 0, output.c_str());
    auto bundle = readBundle(folder_ / "bundle");
    VERIFY_OK(bundle);
    bundle_ = *bundle;
    test::makeKey(folder_ / "id");
    server_ = test::Sshd::start(folder_ / "sshd", folder_ / "id", {}, &why_);
    if (!server_) QSKIP(why_.c_str());
    test::writeText(folder_ / "known", server_->knownHostsLine() + "\n", 0600);
    test::writeText(folder_ / "config",
                    test::sshConfigFor({server_.get()}, folder_ / "known", folder_ / "id"));
  }

  void bundleStandsAlone() {
    QCOMPARE(bundle_.version.size(), std::size_t{64});
    QVERIFY(bundle_.files.size() > 5);
    std::string libraries;
    QCOMPARE(test::runCommand({"ldd", bundle_.folder + "/lockstep-agent"}, &libraries), 0);
    QVERIFY2(libraries.find("libcrypto.so.3 => " + bundle_.folder + "/lib/") != std::string::npos,
             libraries.c_str());
    for (const BundleFile& file : bundle_.files) {
      QVERIFY(file.path.find("libc.so") == std::string::npos);
      QCOMPARE(sha256File(bundle_.folder + "/" + file.path).value(), file.sha256);
    }
    // The same program gives the same version.
    QCOMPARE(test::runCommand({lockstep::test::sourcePath("packaging/bundle"), ".",
                               folder_ / "again", DEPLOYED_PROGRAM}),
             0);
    QCOMPARE(readBundle(folder_ / "again")->version, bundle_.version);
    // A further executable lies beside, and uses the same libraries.
    fs::copy_file(DEPLOYED_PROGRAM, std::string(folder_ / "further"));
    QCOMPARE(test::runCommand({lockstep::test::sourcePath("packaging/bundle"), ".",
                               folder_ / "with-further", DEPLOYED_PROGRAM, folder_ / "further"}),
             0);
    QCOMPARE(readBundle(folder_ / "with-further")->files.size(), bundle_.files.size() + 1);
    libraries.clear();
    QCOMPARE(test::runCommand({"ldd", folder_ / "with-further/further"}, &libraries), 0);
    QVERIFY2(libraries.find("libcrypto.so.3 => " + std::string(folder_ / "with-further") +
                            "/lib/") != std::string::npos,
             libraries.c_str());
    // Without the RPATH it is refused rather than made wrong.
    std::string output;
    if (!QStandardPaths::findExecutable("patchelf").isEmpty()) return;
    QVERIFY(test::runCommand({lockstep::test::sourcePath("packaging/bundle"), ".", folder_ / "bad",
                              "/usr/bin/ssh"},
                             &output) != 0);
    QVERIFY2(output.find("DT_RPATH") != std::string::npos, output.c_str());
  }

  void damagedManifests_data() {
    QTest::addColumn<QString>("text");
    QTest::newRow("empty") << "";
    QTest::newRow("other") << "something 1\n";
    const QString head = "lockstep-bundle 1\nmachine x86_64\nglibc 2.36\n";
    const QString hash = QString(64, 'a');
    QTest::newRow("no agent") << head;
    QTest::newRow("short hash") << head + "file abc 1 755 lockstep-agent\n";
    QTest::newRow("escape") << head + "file " + hash + " 1 755 ../lockstep-agent\n";
    QTest::newRow("absolute") << head + "file " + hash + " 1 755 /lockstep-agent\n";
    QTest::newRow("shell") << head + "file " + hash + " 1 755 a;b\n";
    QTest::newRow("option") << head + "file " + hash + " 1 755 -rf\n";
    QTest::newRow("mode") << head + "file " + hash + " 1 9 lockstep-agent\n";
  }
  void damagedManifests() {
    QFETCH(QString, text);
    auto bundle = parseManifest(text.toStdString(), "/b");
    QVERIFY(!bundle.ok());
    QCOMPARE(bundle.error().code, Code::kDataLoss);
  }

  void deploysOnceAndStarts() {
    SshConnection connection({.host = "n1"}, options());
    VERIFY_OK(connection.connect());
    const std::string workdir = newWorkdir();
    DeployOptions deployOptions = to(workdir);
    std::uint64_t last = 0, total = 0;
    deployOptions.onProgress = [&](const DeployProgress& progress) {
      QVERIFY(progress.bytesDone >= last);
      last = progress.bytesDone;
      total = progress.bytesTotal;
    };
    auto deployed = deploy(connection, bundle_, deployOptions);
    VERIFY_OK(deployed);
    QVERIFY(deployed->uploaded);
    QCOMPARE(last, total);
    QCOMPARE(total, bundle_.totalBytes());
    QCOMPARE(deployed->folder, workdir + "/versions/" + bundle_.version);
    QCOMPARE(entries(workdir + "/versions"), std::vector<std::string>{bundle_.version});
    auto agent = startAgent(connection, *deployed, to(workdir));
    VERIFY_OK(agent);
    QCOMPARE(agent->socket, workdir + "/agent.sock");
    QVERIFY(agent->version.starts_with("0.10"));
    QVERIFY(agent->pid > 0);
    auto again = deploy(connection, bundle_, to(workdir));
    VERIFY_OK(again);
    QVERIFY(!again->uploaded);
    // What cannot start says why.
    Deployed gone = *deployed;
    gone.folder += "x";
    auto none = startAgent(connection, gone, to(workdir));
    QCOMPARE(none.error().code, Code::kFailedPrecondition);
    QCOMPARE(none.error().node, std::string("node-1"));
    QVERIFY(none.error().why.text().find("127") != std::string::npos);
  }

  // What only looks leaves a bare node as it was, and finds what was deployed.
  void looksWithoutTouching() {
    SshConnection connection({.host = "n1"}, options());
    VERIFY_OK(connection.connect());
    for (const std::string name : {"plain", "with space", "ünïcödé", "quote's", "deep/er/still"}) {
      const std::string workdir = folder_ / ("look/" + name);
      DeployOptions looking = to(workdir);
      looking.copy = false;
      const auto bare = deploy(connection, bundle_, looking);
      QVERIFY(!bare.ok());
      QVERIFY2(bare.error().code == Code::kNotFound &&
                   bare.error().what == "the agent is not on this node yet",
               bare.error().text().c_str());
      QCOMPARE(findDeployed(connection, looking).error().code, Code::kNotFound);
      QVERIFY2(!fs::exists(folder_ / "look"), "a look made a folder");
      Bundle other = bundle_;
      other.machine = "aarch64";
      QCOMPARE(deploy(connection, other, looking).error().code, Code::kFailedPrecondition);
      VERIFY_OK(deploy(connection, bundle_, to(workdir)));
      const auto made = fs::last_write_time(workdir + "/versions/" + bundle_.version);
      const auto found = deploy(connection, bundle_, looking);
      VERIFY_OK(found);
      QCOMPARE(found->folder, workdir + "/versions/" + bundle_.version);
      QVERIFY(fs::last_write_time(found->folder) == made);
      QCOMPARE(findDeployed(connection, looking)->folder, found->folder);
      fs::remove_all(folder_ / "look");
    }
  }

  // A studio without the package starts the version deployed last; on a bare node it says what is
  // missing.
  void withoutAPackage() {
    spec::v1::NodeSpec node;
    node.set_name("node-1");
    node.set_workdir(newWorkdir());
    node.mutable_ssh()->set_host("n1");
    NodeLinkOptions linkOptions;
    linkOptions.configFile = folder_ / "config";
    linkOptions.bundleFolder = folder_ / "no-such-bundle";
    {
      NodeLink link(node, linkOptions);
      const auto none = link.ensureAgent();
      QVERIFY(!none.ok());
      const std::string said = none.error().text();
      QVERIFY2(said.find("there is no agent package in") != std::string::npos, said.c_str());
      QVERIFY2(
          said.find("LOCKSTEP_") == std::string::npos && said.find("restart") == std::string::npos,
          said.c_str());
      QCOMPARE(none.error().node, std::string("node-1"));
    }
    {
      SshConnection connection({.host = "n1"}, options());
      VERIFY_OK(connection.connect());
      VERIFY_OK(deploy(connection, bundle_, to(node.workdir())));
    }
    NodeLink link(node, linkOptions);
    const auto agent = link.ensureAgent();
    VERIFY_OK(agent);
    QCOMPARE(agent->socket, node.workdir() + "/agent.sock");
    QCOMPARE(agent->reachedAt, std::string("127.0.0.1"));
  }

  // Building a program builds the package it deploys.
  void thePackageIsPartOfTheBuild() {
    const std::string build = test::buildPath(".");
    if (!fs::exists(build + "/build.ninja")) QSKIP("this build folder is not Ninja's");
    int built = 0;
    for (const std::string program : {"lockstep", "lockstep-studio"}) {
      std::string inputs;
      if (test::runCommand({"ninja", "-C", build, "-t", "query", "bin/" + program}, &inputs) != 0)
        continue;
      ++built;
      QVERIFY2(inputs.find("|| bundle") != std::string::npos ||
                   inputs.find("/bundle\n") != std::string::npos,
               inputs.c_str());
    }
    QVERIFY(built > 0);
  }

  void twoAtOnce() {
    const Bundle big = variant("two", 16 << 20);
    const std::string workdir = newWorkdir();
    std::atomic<int> good{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([&] {
        SshConnection connection({.host = "n1"}, options());
        if (connection.connect().ok() && deploy(connection, big, to(workdir)).ok()) ++good;
      });
    for (auto& thread : threads) thread.join();
    QCOMPARE(good.load(), 2);
    QCOMPARE(entries(workdir + "/versions"), std::vector<std::string>{big.version});
  }

  void otherMachineOrGlibc() {
    SshConnection connection({.host = "n1"}, options());
    VERIFY_OK(connection.connect());
    Bundle other = bundle_;
    other.machine = "aarch64";
    auto machine = deploy(connection, other, to(newWorkdir()));
    QCOMPARE(machine.error().code, Code::kFailedPrecondition);
    QVERIFY(machine.error().why.text().find("aarch64") != std::string::npos);
    other = bundle_;
    other.glibc = "2.999";
    auto glibc = deploy(connection, other, to(newWorkdir()));
    QCOMPARE(glibc.error().code, Code::kFailedPrecondition);
    QVERIFY2(glibc.error().why.text().find("2.999") != std::string::npos,
             glibc.error().why.text().c_str());
  }

  void noSpaceAtFirstOrMidway() {
    if (::getuid() != 0) QSKIP("mounting a small tmpfs needs root");
    const std::string workdir = newWorkdir();
    fs::create_directories(workdir);
    // A share may have a name with blanks.
    if (::mount("lockstep test", workdir.c_str(), "tmpfs", 0, "size=8m") != 0)
      QSKIP("a tmpfs cannot be mounted here");
    const auto unmount = qScopeGuard([&] { ::umount2(workdir.c_str(), MNT_DETACH); });
    SshConnection connection({.host = "n1"}, options());
    VERIFY_OK(connection.connect());
    auto first = deploy(connection, bundle_, to(workdir));
    QCOMPARE(first.error().code, Code::kResourceExhausted);
    QVERIFY2(first.error().what.text().find("node-1") != std::string::npos &&
                 first.error().what.text().find("bytes needed") != std::string::npos,
             first.error().text().c_str());
    QVERIFY(entries(workdir + "/versions").empty());
    // Enough at first; then another program takes it.
    QCOMPARE(::mount("lockstep test", workdir.c_str(), "tmpfs", MS_REMOUNT, "size=80m"), 0);
    const Bundle big = variant("full", 32 << 20);
    DeployOptions deployOptions = to(workdir);
    bool filled = false;
    deployOptions.onProgress = [&](const DeployProgress& progress) {
      if (filled || progress.bytesDone < (8u << 20)) return;
      filled = true;
      const int fd = ::open((workdir + "/hog").c_str(), O_WRONLY | O_CREAT, 0600);
      const std::string block(1 << 20, 'x');
      while (::write(fd, block.data(), block.size()) > 0) {
      }
      ::close(fd);
    };
    auto midway = deploy(connection, big, deployOptions);
    QVERIFY(filled);
    QVERIFY(!midway.ok());
    QCOMPARE(midway.error().code, Code::kResourceExhausted);
    QVERIFY(entries(workdir + "/versions").empty());
  }

  void killedDuringUpload() {
    const Bundle big = variant("killed", 64 << 20);
    const std::string workdir = newWorkdir();
    SshConnection connection({.host = "n1"}, options());
    VERIFY_OK(connection.connect());
    DeployOptions deployOptions = to(workdir);
    bool killed = false;
    deployOptions.onProgress = [&](const DeployProgress& progress) {
      if (killed || progress.bytesDone < (16u << 20)) return;
      killed = true;
      QVERIFY(server_->killSessions() > 0);
    };
    auto cut = deploy(connection, big, deployOptions);
    QVERIFY(!cut.ok());
    QCOMPARE(cut.error().code, Code::kUnavailable);
    QVERIFY(!fs::exists(workdir + "/versions/" + big.version));
    VERIFY_OK(connection.waitConnected(std::chrono::seconds(60)));
    auto again = deploy(connection, big, to(workdir));
    VERIFY_OK(again);
    QVERIFY(fs::exists(workdir + "/versions/" + big.version + "/lockstep-agent"));
  }

  void cancelled() {
    const Bundle big = variant("cancelled", 64 << 20);
    const std::string workdir = newWorkdir();
    SshConnection connection({.host = "n1"}, options());
    VERIFY_OK(connection.connect());
    std::stop_source stop;
    DeployOptions deployOptions = to(workdir);
    deployOptions.stop = stop.get_token();
    deployOptions.onProgress = [&](const DeployProgress& progress) {
      if (progress.bytesDone > (8u << 20)) stop.request_stop();
    };
    QCOMPARE(deploy(connection, big, deployOptions).error().code, Code::kCancelled);
    QVERIFY(entries(workdir + "/versions").empty());
  }

  void damagedOnTheWay() {
    const Bundle bundle = variant("damaged");
    test::writeText(bundle.folder + "/extra", std::string(bundle.files.back().bytes, 'z'));
    const std::string workdir = newWorkdir();
    SshConnection connection({.host = "n1"}, options());
    VERIFY_OK(connection.connect());
    auto result = deploy(connection, bundle, to(workdir));
    QCOMPARE(result.error().code, Code::kDataLoss);
    QVERIFY(entries(workdir + "/versions").empty());
  }

  void oldVersionsGoUnlessInUse() {
    const std::string workdir = newWorkdir();
    SshConnection connection({.host = "n1"}, options());
    VERIFY_OK(connection.connect());
    std::vector<Bundle> bundles;
    for (int i = 0; i < 5; ++i) bundles.push_back(variant("old" + std::to_string(i)));
    auto first = deploy(connection, bundles[0], to(workdir));
    VERIFY_OK(first);
    // A process runs from the oldest.
    ExecOptions forever;
    std::stop_source stop;
    std::thread running([&] {
      auto held = connection.exec("mkfifo " + workdir + "/pipe; " +
                                      shellQuote(first->folder + "/lockstep-agent") + " hold < " +
                                      workdir + "/pipe > " + workdir + "/held",
                                  forever, stop.get_token());
    });
    int pipe = -1;
    const bool up = test::waitFor([&] {
      if (pipe < 0) pipe = ::open((workdir + "/pipe").c_str(), O_WRONLY | O_NONBLOCK);
      return pipe >= 0 && !test::readText(workdir + "/held").empty();
    });
    for (int i = 1; up && i < 5; ++i) {
      // Times apart, without waiting for a clock: those before are made older.
      for (const std::string& name : entries(workdir + "/versions")) {
        const auto path = workdir + "/versions/" + name;
        fs::last_write_time(path, fs::last_write_time(path) - std::chrono::minutes(1));
      }
      auto next = deploy(connection, bundles[static_cast<std::size_t>(i)], to(workdir));
      if (!next.ok()) qWarning("%s", next.error().text().c_str());
    }
    ::close(pipe);
    running.join();
    QVERIFY(up);
    std::vector<std::string> expected = {bundles[0].version, bundles[3].version,
                                         bundles[4].version};
    std::sort(expected.begin(), expected.end());
    QCOMPARE(entries(workdir + "/versions"), expected);
  }

  // Hosts that share a home: a version that another host runs from stays, however old it is here.
  void versionsLeasedByOtherHostsStay() {
    const std::string workdir = newWorkdir();
    SshConnection connection({.host = "n1"}, options());
    VERIFY_OK(connection.connect());
    std::string boot = test::readText("/proc/sys/kernel/random/boot_id");
    boot.pop_back();
    const std::string space = fs::read_symlink("/proc/self/ns/pid").string();  // "pid:[4026531836]"
    const std::string here = boot + "." + space.substr(5, space.size() - 6) + ".4194304";
    std::vector<std::string> made;
    const auto add = [&](const std::string& name, const std::string& lease, int daysAgo) {
      const Bundle bundle = variant("lease " + name);
      const auto deployed = deploy(connection, bundle, to(workdir));
      if (!deployed.ok()) qFatal("%s", deployed.error().text().c_str());
      if (!lease.empty()) {
        fs::create_directories(deployed->folder + "/leases");
        const std::string file = deployed->folder + "/leases/" + lease;
        test::writeText(file, "host\n");
        fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(24 * daysAgo));
      }
      for (const std::string& version : entries(workdir + "/versions")) {
        const auto path = workdir + "/versions/" + version;
        fs::last_write_time(path, fs::last_write_time(path) - std::chrono::minutes(1));
      }
      made.push_back(bundle.version);
    };
    add("other host", "0f0f0f0f-1111-2222-3333-444444444444.4026531836.77", 1);
    add("container", boot + ".1.77", 0);  // another process namespace here
    add("killed here", here, 0);          // no such process
    add("gone host", "0f0f0f0f-1111-2222-3333-444444444444.4026531836.78", 4);
    add("free", "", 0);
    add("newer", "", 0);
    add("newest", "", 0);
    std::vector<std::string> expected = {made[0], made[1], made[5], made[6]};
    std::sort(expected.begin(), expected.end());
    QCOMPARE(entries(workdir + "/versions"), expected);
  }

  void localAgent() {
    const std::string workdir = newWorkdir();
    auto agent = startLocalAgent(bundle_.folder + "/lockstep-agent", to(workdir));
    VERIFY_OK(agent);
    QCOMPARE(agent->socket, workdir + "/agent.sock");
    QCOMPARE(startLocalAgent(folder_ / "none", to(workdir)).error().code, Code::kNotFound);
  }

  // Ctrl-C, which a terminal sends to a group of processes, is not for an agent that starts.
  void localAgentHasAGroupOfItsOwn() {
    const std::string program = folder_ / "tells-group";
    test::writeText(program,
                    "#!/bin/sh\nread -r pid name state parent group rest </proc/self/stat\n"
                    "echo \"group $group.\"\nexit 1\n",
                    0700);
    const auto refused = startLocalAgent(program, to(newWorkdir()));
    QVERIFY(!refused.ok());
    const std::string why = refused.error().why.text();
    QVERIFY2(why.find("group ") != std::string::npos, why.c_str());
    QVERIFY2(why.find("group " + std::to_string(::getpgrp()) + ".") == std::string::npos,
             why.c_str());
  }

  void rootIsNamedOrTheStudios() {
    spec::v1::NodeSpec node;
    QVERIFY(allowsRoot(node, true));  // this machine, and a studio that runs as root
    QVERIFY(!allowsRoot(node, false));
    node.mutable_ssh()->set_host("n1");
    QVERIFY(!allowsRoot(node, false));
    node.mutable_ssh()->set_user("ann");
    QVERIFY(!allowsRoot(node, false));
    node.mutable_ssh()->set_user("root");
    QVERIFY(allowsRoot(node, false));
  }

  void nodeLink() {
    const std::string workdir = newWorkdir();
    spec::v1::NodeSpec node;
    node.set_name("node-1");
    node.set_workdir(workdir);
    node.mutable_ssh()->set_host("n1");
    NodeLinkOptions linkOptions;
    linkOptions.configFile = folder_ / "config";
    linkOptions.bundleFolder = bundle_.folder;
    linkOptions.localAgent = bundle_.folder + "/lockstep-agent";
    NodeLink link(node, linkOptions);
    QVERIFY(!link.reach("/x").ok());
    auto agent = link.ensureAgent();
    VERIFY_OK(agent);
    test::EchoServer echo(agent->socket);
    auto path = link.reach(agent->socket);
    VERIFY_OK(path);
    QCOMPARE(*link.reach(agent->socket), *path);
    QCOMPARE(test::exchange(test::connectUnix(*path), "hi"), std::optional<std::string>("hi"));
    link.close();
    QVERIFY(!fs::exists(*path));
    node.clear_ssh();
    NodeLink local(node, linkOptions);
    VERIFY_OK(local.ensureAgent());
    QCOMPARE(*local.reach(agent->socket), agent->socket);
  }
};

QTEST_GUILESS_MAIN(DeployTest)
#include "deploy_test.moc"
