// Runs that are trained from the command line on hosts of their own, and what they leave there.
// Needs root, the bundle and Fashion-MNIST.
#pragma once

#include <QElapsedTimer>
#include <QString>
#include <QStringList>
#include <memory>
#include <optional>
#include <string>

#include "tests/app/cli/cli_runner.h"
#include "tests/cluster/hosts.h"
#include "tests/cluster/left_behind.h"

namespace lockstep::test {

class RunsOnHosts {
 public:
  static constexpr int kEndsMs = 60000;  // a run whose node is lost; 31 to 36 s on an idle machine
  static constexpr int kSweptMs =
      130000;  // what killed processes left: once it is a minute old, each minute

  // Hosts n1 …, and a work folder for each, on a disk that is slow for checkpoints on demand. That
  // of the last host is on a small file system, or it has one more there (`smallBeside`).
  // `environment`: more of their agents'. To be made before there are threads: they all have to be
  // on the studio's host.
  explicit RunsOnHosts(int hosts, int diskLimitSeconds = 1800, const std::string& environment = "",
                       bool smallBeside = true);
  ~RunsOnHosts();

  // Deploys to and measures the hosts. Returns why this cannot be played here; "" otherwise.
  QString prepare();
  bool there() const { return hosts_ != nullptr; }
  Hosts& hosts() { return *hosts_; }
  Cli& cli() { return cli_; }
  LeftBehind& left() { return *left_; }
  int count() const { return count_; }
  int small() const { return small_; }  // the last host's work folder on a small file system
  bool hasSmall() const { return mounted_; }
  // Fills that file system, or frees it again.
  bool fillSmall(bool full) const;
  QString workdir(int folder) const { return cli_.home() + "/local/n" + QString::number(folder); }
  const QString& all() const { return cluster_; }  // cluster file of all hosts
  QString sshConfig() const { return QString::fromStdString(folder_ / "config"); }

  // Writes a cluster of these work folders. The last may be a spare.
  QString cluster(const QString& name, const QList<int>& folders, bool spare = false) const;
  CliResult lockstep(const QStringList& arguments, int limitMs = 120000) const;
  std::unique_ptr<QProcess> start(const QStringList& arguments) const;
  // A run without restarts, unless `more` says otherwise.
  std::unique_ptr<QProcess> train(const QStringList& more, const QString& cluster) const;
  // Waits until the client has reported this many steps. Returns false if it ends before.
  bool awaitSteps(QProcess& process, int steps, QByteArray& out, QString& run) const;
  // A worker of a run on a host, and its supervisor there; < 0: none.
  pid_t workerOn(int host, const QString& run) const;
  pid_t supervisorOn(int host, const QString& run) const;

  // For so many seconds each file of a checkpoint takes to be written; 0: as the disk is.
  void slowDown(int seconds);
  bool slowDiskWasMet() const;  // since slowDown
  // Each read of a file of tokens (*.tokens) takes so long on a host; 0: as the disk is, on all.
  void slowReads(int host, int milliseconds);

  // A volume that all hosts share, once they have mounted it, and the folder with its content.
  std::string volume() const { return folder_ / "volume"; }
  std::string volumeContent() const { return folder_ / "content"; }
  bool mountVolume(int host, bool on);

  // A run, so that a client is connected to each node for a while.
  void contact(const QString& cluster) const;
  // Ended runs have no keys; once they are deleted nothing of them stays on any host.
  void nothingStays() const;
  // No agent has notably more memory or open files than the largest had at the first call.
  void agentsDoNotGrow();
  // A run's workers, on whichever host, end by themselves.
  void endsEverywhere(const QString& run) const;
  // Hosts as they were: what a case that failed may have left.
  void restore();
  // Ends the agents; nothing of the hosts stays.
  void close();

 private:
  bool isOn(int host, qint64 process) const;
  std::string slowDisk() const { return folder_ / "slow"; }

  const int count_, small_;
  TempFolder folder_;
  std::string why_;
  Cli cli_;
  std::unique_ptr<Hosts> hosts_;
  std::unique_ptr<LeftBehind> left_;
  bool mounted_ = false;
  QString cluster_;
  struct Uses {  // the most of any agent
    std::size_t descriptors = 0, megabytes = 0;
  };
  std::optional<Uses> atFirst_;
};

}  // namespace lockstep::test
