#include "tests/cluster/hosts.h"

#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

namespace lockstep::test {
namespace {

constexpr int kPort = 2222;

std::vector<std::string> hostPrefix(const std::string& netns, const std::string& name, bool apart) {
  const std::string boot =
      "cat /proc/sys/kernel/random/uuid > /run/boot_id; "
      "mount --bind /run/boot_id /proc/sys/kernel/random/boot_id; ";
  return {"nsenter",
          "--net=/run/netns/" + netns,
          "unshare",
          "--pid",
          "--fork",
          "--mount",
          "--uts",
          "--ipc",
          "--mount-proc",
          "--kill-child=SIGKILL",
          "sh",
          "-c",
          "hostname " + name +
              "; mount -t tmpfs run /run; mkdir /run/sshd; mount -t tmpfs shm /dev/shm; " +
              (apart ? boot : "") + "exec \"$@\"",
          "sh"};
}

}  // namespace

std::string Hosts::netns(int host) const {
  return prefix_ + (host == 0 ? "-sw" : "-n" + std::to_string(host));
}
std::string Hosts::address(int host) const { return "10.77.0." + std::to_string(host); }

bool Hosts::ip(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), "ip");
  return runCommand(arguments) == 0;
}

std::unique_ptr<Hosts> Hosts::start(int count, const std::string& folder,
                                    const std::string& clientKey, std::string* why,
                                    const std::string& sshdConfig, bool apart) {
  if (::getuid() != 0) {
    *why = "hosts in network namespaces need root";
    return nullptr;
  }
  for (const char* tool : {"ip", "nsenter", "unshare", "nft"})
    if (runCommand({"sh", "-c", std::string("command -v ") + tool}) != 0) {
      *why = std::string(tool) + " is not installed (packages iproute2, util-linux, nftables)";
      return nullptr;
    }
  std::unique_ptr<Hosts> hosts(new Hosts());
  hosts->prefix_ = "ls" + std::to_string(::getpid());
  hosts->folder_ = folder;
  const std::string bridge = hosts->netns(0);
  for (int i = 0; i <= count; ++i) {
    if (!hosts->ip({"netns", "add", hosts->netns(i)})) {
      *why = "network namespaces cannot be made here";
      return nullptr;
    }
    hosts->made_ = i + 1;
    if (!hosts->ip({"-n", hosts->netns(i), "link", "set", "lo", "up"})) *why = "no loopback";
  }
  bool ok = hosts->ip({"-n", bridge, "link", "add", "br0", "type", "bridge"}) &&
            hosts->ip({"-n", bridge, "link", "set", "br0", "up"}) &&
            hosts->ip({"-n", bridge, "addr", "add", "10.77.0.254/24", "dev", "br0"});
  for (int i = 1; ok && i <= count; ++i) {
    const std::string port = "p" + std::to_string(i), host = hosts->netns(i);
    ok = hosts->ip({"-n", host, "link", "add", "eth0", "type", "veth", "peer", "name", port,
                    "netns", bridge}) &&
         hosts->ip({"-n", host, "addr", "add", hosts->address(i) + "/24", "dev", "eth0"}) &&
         hosts->ip({"-n", host, "link", "set", "eth0", "up"}) &&
         hosts->ip({"-n", bridge, "link", "set", port, "master", "br0", "up"});
  }
  if (!ok) {
    *why = "a bridge of network namespaces cannot be made here";
    return nullptr;
  }
  for (int i = 1; i <= count; ++i) {
    SshdOptions options;
    options.extraConfig = sshdConfig;
    options.address = hosts->address(i);
    options.port = kPort;
    options.prefix = hostPrefix(hosts->netns(i), "n" + std::to_string(i), apart);
    auto server = Sshd::start(folder + "/n" + std::to_string(i), clientKey, options, why);
    if (!server) return nullptr;
    hosts->sshd_.push_back(std::move(server));
  }
  return hosts;
}

Hosts::~Hosts() {
  sshd_.clear();
  for (int i = 0; i < made_; ++i) ip({"netns", "del", netns(i)});
}

bool Hosts::enter() const {
  const int fd = ::open(("/run/netns/" + netns(0)).c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = fd >= 0 && ::setns(fd, CLONE_NEWNET) == 0;
  if (fd >= 0) ::close(fd);
  return entered;
}

std::string Hosts::sshConfig(const std::string& knownHosts, const std::string& identityFile) const {
  std::ostringstream text;
  std::string known;
  for (std::size_t i = 0; i < sshd_.size(); ++i) {
    text << "Host n" << i + 1 << "\n  HostName " << address(static_cast<int>(i) + 1) << "\n  Port "
         << kPort << "\n";
    known += sshd_[i]->knownHostsLine() + "\n";
  }
  text << "Host *\n  User " << ::getpwuid(::getuid())->pw_name << "\n  UserKnownHostsFile "
       << knownHosts << "\n  GlobalKnownHostsFile /dev/null\n  IdentityAgent none\n"
       << "  IdentityFile " << identityFile << "\n";
  writeText(knownHosts, known, 0600);
  return text.str();
}

bool Hosts::cut(int host) {
  return ip({"-n", netns(0), "link", "set", "p" + std::to_string(host), "down"});
}
bool Hosts::heal(int host) {
  return ip({"-n", netns(0), "link", "set", "p" + std::to_string(host), "up"});
}

bool Hosts::cutOneWay(int from, int to) {
  const auto port = [](int host) {
    return host == 0 ? std::string("br0") : "p" + std::to_string(host);
  };
  std::ostringstream table;
  table << "table bridge cut_" << from << "_" << to
        << " { chain f { type filter hook forward priority 0; iifname " << port(from) << " oifname "
        << port(to) << " drop; }; }";
  return runCommand({"nsenter", "--net=/run/netns/" + netns(0), "nft", table.str()}) == 0;
}
bool Hosts::mend(int from, int to) {
  return runCommand({"nsenter", "--net=/run/netns/" + netns(0), "nft", "delete", "table", "bridge",
                     "cut_" + std::to_string(from) + "_" + std::to_string(to)}) == 0;
}

bool Hosts::limitRate(int host, int megabitPerSecond) {
  const std::string rate = std::to_string(megabitPerSecond) + "mbit";
  const auto limit = [&](const std::string& space, const std::string& device) {
    return runCommand({"tc", "-n", space, "qdisc", "replace", "dev", device, "root", "tbf", "rate",
                       rate, "burst", "256kb", "latency", "50ms"}) == 0;
  };
  return limit(netns(host), "eth0") && limit(netns(0), "p" + std::to_string(host));
}
bool Hosts::unlimitRate(int host) {
  const auto clear = [&](const std::string& space, const std::string& device) {
    return runCommand({"tc", "-n", space, "qdisc", "del", "dev", device, "root"}) == 0;
  };
  const bool inside = clear(netns(host), "eth0");
  return clear(netns(0), "p" + std::to_string(host)) && inside;
}

bool Hosts::amongMounts(int host, std::vector<std::string> argv) {
  // The host's /proc shows only processes of its own.
  argv.insert(argv.begin(),
              {"nsenter", "--target", std::to_string(sshd(host).listener()), "--mount", "--pid"});
  return runCommand(argv) == 0;
}
bool Hosts::mount(int host, const std::string& folder, const std::string& at) {
  return amongMounts(host, {"mount", "--bind", folder, at});
}
bool Hosts::unmount(int host, const std::string& at) {
  return amongMounts(host, {"umount", "--lazy", at});
}

// Those of the host's process namespace, which only processes of the host are in.
std::vector<pid_t> Hosts::processes(int host) const {
  const auto space = [](const std::string& process) {
    std::error_code none;
    return std::filesystem::read_symlink("/proc/" + process + "/ns/pid", none).string();
  };
  std::vector<pid_t> found;
  const pid_t first = sshd_[static_cast<std::size_t>(host - 1)]->listener();
  if (first <= 0) return found;
  const std::string ours = space(std::to_string(first));
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos && space(name) == ours)
      found.push_back(std::stoi(name));
  }
  return found;
}

int Hosts::freeze(int host, bool on) {
  const auto found = processes(host);
  for (const pid_t process : found) ::kill(process, on ? SIGSTOP : SIGCONT);
  return static_cast<int>(found.size());
}

void Hosts::kill(int host) { sshd(host).stop(); }
bool Hosts::boot(int host) { return sshd(host).restart(); }

int Hosts::run(int host, std::vector<std::string> argv, std::string* output) const {
  argv.insert(argv.begin(), {"nsenter", "--net=/run/netns/" + netns(host)});
  return runCommand(argv, output);
}

}  // namespace lockstep::test
