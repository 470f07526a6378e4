#include "tests/cluster/slurm_on_hosts.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <sstream>

namespace lockstep::test {
namespace {

constexpr const char* kConfig = R"(ClusterName=lockstep
SlurmctldHost=ctl(10.77.0.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=@/munge/socket,cred_expire=10
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
StateSaveLocation=@/state
SlurmdSpoolDir=@/spool/%h
SlurmctldPidFile=@/slurmctld.pid
SlurmdPidFile=@/slurmd-%h.pid
SlurmctldLogFile=@/slurmctld.log
SlurmdLogFile=@/slurmd-%h.log
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
MinJobAge=300
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
)";

std::string configFile(const std::string& folder) { return folder + "/slurm.conf"; }

}  // namespace

std::string SlurmOnHosts::sshdConfig(const std::string& folder) {
  // SHLVL: bash then does not read ~/.bashrc
  return "SetEnv SHLVL=1 SLURM_CONF=" + configFile(folder);
}

void SlurmOnHosts::begin(const std::vector<std::string>& argv, const std::string& log) {
  const std::string path = folder_ + "/" + log;
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, 1);
    ::dup2(file, 2);
    ::setsid();
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  if (pid > 0) daemons_.push_back(pid);
}

std::unique_ptr<SlurmOnHosts> SlurmOnHosts::start(Hosts& hosts, int count,
                                                  const std::string& folder, std::string* why) {
  for (const char* tool : {"slurmctld", "slurmd", "sbatch", "srun", "munged"})
    if (runCommand({"sh", "-c", std::string("PATH=$PATH:/usr/sbin; command -v ") + tool}) != 0) {
      *why = std::string(tool) + " is not installed (packages slurm-wlm, munge)";
      return nullptr;
    }
  std::unique_ptr<SlurmOnHosts> slurm(new SlurmOnHosts(folder));
  for (const char* part : {"", "/munge", "/state", "/spool"}) {
    std::filesystem::create_directories(folder + part);
    ::chmod((folder + part).c_str(), 0755);
  }
  std::string config = kConfig;
  for (std::size_t at = config.find('@'); at != std::string::npos; at = config.find('@'))
    config.replace(at, 1, folder);
  std::string names;
  for (int host = 1; host <= count; ++host) {
    const std::string name = "n" + std::to_string(host);
    names += (names.empty() ? "" : ",") + name;
    config += "NodeName=" + name + " NodeAddr=" + hosts.address(host) +
              " CPUs=2 RealMemory=1000 State=UNKNOWN\n";
  }
  config += "PartitionName=all Nodes=" + names + " Default=YES PriorityTier=1 State=UP\n";
  config += "PartitionName=urgent Nodes=" + names + " PriorityTier=9 State=UP\n";
  writeText(configFile(folder), config);
  ::setenv("SLURM_CONF", configFile(folder).c_str(), 1);

  std::random_device random;
  std::string key;
  for (int i = 0; i < 32; ++i) {
    const unsigned word = random();
    key.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  writeText(folder + "/munge/key", key, 0600);
  slurm->begin(
      {"/usr/sbin/munged", "--foreground", "--force", "--socket=" + folder + "/munge/socket",
       "--key-file=" + folder + "/munge/key", "--pid-file=" + folder + "/munge/pid",
       "--log-file=" + folder + "/munge/log", "--seed-file=" + folder + "/munge/seed"},
      "munged.out");
  if (!waitFor([&] { return std::filesystem::exists(folder + "/munge/socket"); }, 10000)) {
    *why = "munged does not start: " + readText(folder + "/munged.out");
    return nullptr;
  }
  slurm->begin({"unshare", "--uts", "sh", "-c", "hostname ctl; exec /usr/sbin/slurmctld -D -i"},
               "slurmctld.out");
  for (int host = 1; host <= count; ++host)
    slurm->begin({"nsenter", "-t", std::to_string(hosts.sshd(host).listener()), "-a",
                  "/usr/sbin/slurmd", "-D"},
                 "slurmd" + std::to_string(host) + ".out");
  const bool up = waitFor(
      [&] {
        std::string states;
        if (slurm->run({"sinfo", "-h", "-N", "-p", "all", "-o", "%T"}, &states) != 0) return false;
        std::istringstream lines(states);
        int idle = 0;
        for (std::string line; std::getline(lines, line);) idle += line == "idle";
        return idle == count;
      },
      30000);
  if (!up) {
    *why = "Slurm's nodes do not come up: " + readText(folder + "/slurmctld.log");
    return nullptr;
  }
  return slurm;
}

SlurmOnHosts::~SlurmOnHosts() {
  // Of nsenter and unshare the daemon itself is the child, or the process.
  for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon) {
    ::kill(-*daemon, SIGTERM);
    const auto ended = [&] { return ::waitpid(*daemon, nullptr, WNOHANG) != 0; };
    if (!waitFor(ended, 5000)) {
      ::kill(-*daemon, SIGKILL);
      ::waitpid(*daemon, nullptr, 0);
    }
  }
}

int SlurmOnHosts::run(const std::vector<std::string>& argv, std::string* output) const {
  return runCommand(argv, output);
}

std::string SlurmOnHosts::jobs() const {
  std::string out;
  run({"squeue", "--noheader", "--states=all", "--sort=i", "--format=%i %T"}, &out);
  return out;
}

}  // namespace lockstep::test
