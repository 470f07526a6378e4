#include "tests/cluster/runs_on_hosts.h"
#include "tests/support/paths.h"
#include "tests/support/sanitizers.h"

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <QDir>
#include <QFile>
#include <QProcess>
#include <QTest>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace fs = std::filesystem;

namespace lockstep::test {
namespace {

// Room for the bundle, which is larger with sanitizers, decoded data and some runs.
constexpr const char* kSmallSize = kSanitized ? "size=600m" : "size=300m";
const QString kBundle = QString::fromStdString(lockstep::test::buildPath("bundle"));

}  // namespace

RunsOnHosts::RunsOnHosts(int hosts, int diskLimitSeconds, const std::string& environment,
                         bool smallBeside)
    : count_(hosts), small_(smallBeside ? hosts + 1 : hosts) {
  makeKey(folder_ / "id");
  fs::create_directories(workdir(small()).toStdString());
  // What is mounted from here on goes with this process, also where it is killed.
  const bool isApart = ::unshare(CLONE_NEWNS) == 0 &&
                       ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  mounted_ = isApart &&
             ::mount("lockstep-test", qPrintable(workdir(small())), "tmpfs", 0, kSmallSize) == 0;
  const std::string disk =
      std::string("SetEnv ") + kPreloads +
      "SHLVL=1 LD_PRELOAD=" LOCKSTEP_SLOW_DISK_LIBRARY " LOCKSTEP_DISK_LIMIT=" +
      std::to_string(diskLimitSeconds) + " LOCKSTEP_SLOW_DISK=" + slowDisk() + " " + environment;
  hosts_ = Hosts::start(hosts, folder_.path(), folder_ / "id", &why_, disk, true);
  if (hosts_ && !hosts_->enter()) {
    hosts_.reset();
    why_ = "the bridge's namespace cannot be entered";
  }
}

RunsOnHosts::~RunsOnHosts() {
  hosts_.reset();
  if (mounted_) ::umount2(qPrintable(workdir(small())), MNT_DETACH);
}

QString RunsOnHosts::prepare() {
  if (!hosts_) return QString::fromStdString(why_);
  if (!QDir(kBundle).exists()) return "there is no bundle";
  if (!QFile::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"))
    return "dataset-fashion-mnist is not installed";
  cli_.useBundle(kBundle);
  writeText(folder_ / "config", hosts_->sshConfig(folder_ / "known_hosts", folder_ / "id"), 0600);
  QList<int> folders;
  for (int host = 1; host <= count_; ++host) folders += host;
  cluster_ = cluster("cluster", folders);
  contact(cluster_);
  std::vector<std::string> workdirs;
  for (int folder = 1; folder <= small(); ++folder)
    workdirs.push_back(workdir(folder).toStdString());
  left_ = std::make_unique<LeftBehind>(*hosts_, count_, workdirs);
  return {};
}

QString RunsOnHosts::cluster(const QString& name, const QList<int>& folders, bool spare) const {
  QByteArray nodes;
  for (const int folder : folders) {
    const int host = std::min(folder, count_);
    const QByteArray node = "n" + QByteArray::number(host);
    nodes += "  - name: " + node + "\n    ssh: {host: " + node +
             "}\n    address: " + QByteArray::fromStdString(hosts_->address(host)) +
             "\n    workdir: " + workdir(folder).toUtf8() + "\n" +
             (spare && folder == folders.back() ? "    roles: [spare]\n" : "");
  }
  return cli_.write(name + ".yaml", "version: 1\nname: " + name.toUtf8() + "\nnodes:\n" + nodes);
}

CliResult RunsOnHosts::lockstep(const QStringList& arguments, int limitMs) const {
  return cli_.run(QStringList{"--ssh-config", sshConfig()} + arguments, limitMs);
}

std::unique_ptr<QProcess> RunsOnHosts::start(const QStringList& arguments) const {
  return cli_.start(QStringList{"--ssh-config", sshConfig()} + arguments);
}

std::unique_ptr<QProcess> RunsOnHosts::train(const QStringList& more,
                                             const QString& cluster) const {
  return start(QStringList{"run", example("fashion-mlp"), "--json", "--every", "1", "--cluster",
                           cluster, "--set", "recovery.policy=none"} +
               more);
}

bool RunsOnHosts::awaitSteps(QProcess& process, int steps, QByteArray& out, QString& run) const {
  if (!cli_.awaitEvent(process, "step", out)) return false;
  const bool there = waitFor([&] {
    process.waitForReadyRead(20);
    out += process.readAllStandardOutput();
    return out.count("{\"event\":\"step\"") >= steps;
  });
  const auto at = out.indexOf("\"run\":\"");
  run = QString::fromUtf8(out.mid(at + 7, out.indexOf('"', at + 7) - at - 7));
  return there;
}

bool RunsOnHosts::isOn(int host, qint64 process) const {
  const auto space = [](qint64 id) {
    std::error_code none;
    return fs::read_symlink("/proc/" + std::to_string(id) + "/ns/pid", none).string();
  };
  return space(process) == space(hosts_->sshd(host).listener());
}

pid_t RunsOnHosts::workerOn(int host, const QString& run) const {
  for (const qint64 worker : cli_.workers(run))
    if (isOn(host, worker)) return static_cast<pid_t>(worker);
  return -1;
}

pid_t RunsOnHosts::supervisorOn(int host, const QString& run) const {
  for (const QString& process : cli_.processes()) {
    const QStringList words = process.split(' ');
    if (words.value(2) == "supervise" && process.contains(run) && isOn(host, words[0].toInt()))
      return words[0].toInt();
  }
  return -1;
}

void RunsOnHosts::slowDown(int seconds) {
  ::unlink(slowDisk().c_str());
  if (seconds == 0) return;
  ::unlink((slowDisk() + ".begun").c_str());
  writeText(slowDisk(), std::to_string(seconds));
}

void RunsOnHosts::slowReads(int host, int milliseconds) {
  const std::string control = slowDisk() + ".reads";
  ::unlink(control.c_str());
  if (milliseconds > 0)
    writeText(control, "/n" + std::to_string(host) + "/ " + std::to_string(milliseconds));
}

bool RunsOnHosts::slowDiskWasMet() const { return fs::exists(slowDisk() + ".begun"); }

bool RunsOnHosts::fillSmall(bool full) const {
  const std::string filler = workdir(small()).toStdString() + "/filler";
  if (!full) return fs::remove(filler);
  std::ofstream file(filler, std::ios::binary);
  const std::string block(1 << 16, 'x');
  while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
  }
  return fs::exists(filler);
}

bool RunsOnHosts::mountVolume(int host, bool on) {
  if (!on) return hosts_->unmount(host, volume());
  for (const std::string& folder : {volume(), volumeContent()}) fs::create_directories(folder);
  return hosts_->mount(host, volumeContent(), volume());
}

void RunsOnHosts::contact(const QString& cluster) const {
  const CliResult result = lockstep({"run", example("fashion-mlp"), "--json", "--cluster", cluster,
                                     "--set", "training.max_steps=50"});
  QVERIFY2(result.exit == 0, result.text());
}

void RunsOnHosts::nothingStays() const {
  // A host that was away is known for a while as one that has no address. Of one that lost power
  // the agent is there again from the first contact on.
  QVERIFY(waitFor([&] { return lockstep({"cluster", "check", cluster_}).exit == 0; }));
  contact(cluster_);
  if (small() > count_ && fs::exists(workdir(small()).toStdString() + "/versions"))
    contact(cluster("small-last", {1, 2, small()}));
  if (QTest::currentTestFailed()) return;
  QElapsedTimer clock;
  clock.start();
  const bool noKeys = waitFor([&] { return left_->keys().isEmpty(); }, kSweptMs);
  QVERIFY2(noKeys, qPrintable(left_->keys().join("\n")));
  const auto keysGone = clock.restart();
  for (const QJsonObject& run : lockstep({"history", "list", "--json"}).events) {
    const CliResult deleted = lockstep({"history", "delete", run["run"].toString()});
    QVERIFY2(deleted.exit == 0 && !deleted.err.contains("may keep"), deleted.text());
  }
  const bool swept = waitFor([&] { return left_->all().isEmpty(); }, kSweptMs);
  qInfo("keys were gone after %lld ms, the rest after %lld ms", keysGone, clock.elapsed());
  QVERIFY2(swept, qPrintable(left_->all().join("\n")));
}

void RunsOnHosts::agentsDoNotGrow() {
  constexpr std::size_t kDescriptors = 8, kMegabytes = 32;
  Uses now;
  for (const qint64 agent : cli_.agents()) {
    const fs::path process = "/proc/" + std::to_string(agent);
    std::error_code none;
    const auto descriptors = std::distance(fs::directory_iterator(process / "fd", none), {});
    now.descriptors = std::max(now.descriptors, static_cast<std::size_t>(descriptors));
    std::istringstream pages(readText(process / "statm"));  // all, resident, …
    std::size_t all = 0, resident = 0;
    pages >> all >> resident;
    now.megabytes = std::max(now.megabytes, resident * 4096 >> 20);
  }
  QVERIFY(now.descriptors > 0);
  if (!atFirst_) atFirst_ = now;
  qInfo("agents have up to %zu MB and %zu descriptors; at first %zu MB and %zu", now.megabytes,
        now.descriptors, atFirst_->megabytes, atFirst_->descriptors);
  QVERIFY(now.descriptors <= atFirst_->descriptors + kDescriptors);
  QVERIFY(now.megabytes <= atFirst_->megabytes + kMegabytes);
}

void RunsOnHosts::endsEverywhere(const QString& run) const {
  const bool ended = waitFor([&] { return cli_.workers(run).isEmpty(); }, kEndsMs);
  QVERIFY2(ended, qPrintable(cli_.processes(run).join("\n")));
}

void RunsOnHosts::restore() {
  if (!hosts_) return;
  slowDown(0);
  slowReads(0, 0);
  for (int host = 1; host <= count_; ++host) {
    if (hosts_->sshd(host).listener() < 0) hosts_->boot(host);
    hosts_->freeze(host, false);
    hosts_->heal(host);
    while (fs::exists(volume()) && hosts_->unmount(host, volume())) {
    }
  }
  if (fs::exists(workdir(small()).toStdString() + "/filler")) fillSmall(false);
}

void RunsOnHosts::close() {
  if (!hosts_) return;
  for (int folder = 1; folder <= small(); ++folder)
    hosts_->run(std::min(folder, count_), {lockstep::test::buildPath("bin/lockstep-agent"), "leave",
                                           "--workdir", workdir(folder).toStdString()});
  const bool left = waitFor([&] { return cli_.processes().isEmpty(); });
  const QString stay = cli_.processes().join("\n");
  left_.reset();
  hosts_.reset();
  QVERIFY2(left, qPrintable(stay));
  std::string spaces;
  QCOMPARE(runCommand({"ip", "netns", "list"}, &spaces), 0);
  QVERIFY2(spaces.find("ls" + std::to_string(::getpid()) + "-") == std::string::npos,
           spaces.c_str());
}

}  // namespace lockstep::test
