#include "tests/cluster/left_behind.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <QCryptographicHash>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

std::set<std::string> namesIn(const std::string& folder) {
  std::set<std::string> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) out.insert(entry.path().string());
  return out;
}

QString text(const std::string& what, const std::string& path) {
  return QString::fromStdString(what + ": " + path);
}

bool isServed(const std::string& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket.c_str(), sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool served =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return served;
}

// Of all hosts: as its own process namespace numbers it, with that namespace.
std::set<std::string> numbersOfProcesses() {
  std::set<std::string> out;
  for (const std::string& process : namesIn("/proc")) {
    if (process.find_first_not_of("0123456789", 6) != std::string::npos) continue;
    std::error_code none;
    const std::string space =
        fs::read_symlink(process + "/ns/pid", none).string();  // "pid:[4026531836]"
    const std::string status = readText(process + "/status");
    const auto at = status.find("NSpid:");
    if (space.size() < 7 || at == std::string::npos) continue;
    std::istringstream line(status.substr(at + 6, status.find('\n', at) - at - 6));
    std::string number, last;
    while (line >> number) last = number;
    out.insert(space.substr(5, space.size() - 6) + "." + last);
  }
  return out;
}

}  // namespace

QStringList LeftBehind::keys() const {
  QStringList out;
  for (const std::string& workdir : workdirs_)
    for (const std::string& run : namesIn(workdir + "/runs"))
      for (const std::string& node : namesIn(run))
        for (const std::string& file : namesIn(node))
          if (fs::is_regular_file(file) && readText(file).find("PRIVATE KEY") != std::string::npos)
            out << text("keys", file);
  return out;
}

QStringList LeftBehind::all() const {
  QStringList out = keys();
  for (const std::string& workdir : workdirs_) {
    for (const std::string& run : namesIn(workdir + "/runs")) out << text("run", run);
    out += sockets(workdir) + leases(workdir);
  }
  for (int host = 1; host <= count_; ++host)
    for (const std::string& name :
         namesIn("/proc/" + std::to_string(hosts_.sshd(host).listener()) + "/root/dev/shm"))
      out << text("shared memory", name);
  return out + processes();
}

// Where its path is long they are in /tmp.
QStringList LeftBehind::sockets(const std::string& workdir) const {
  const QByteArray hash =
      QCryptographicHash::hash(QByteArray::fromStdString(workdir), QCryptographicHash::Sha256);
  QStringList out;
  for (const std::string& folder :
       {workdir + "/sock",
        "/tmp/lockstep-" + std::to_string(::geteuid()) + "-" + hash.toHex().left(12).toStdString()})
    for (const std::string& path : namesIn(folder))
      if (path.ends_with(".sock") && !isServed(path)) out << text("dead socket", path);
  return out;
}

QStringList LeftBehind::leases(const std::string& workdir) const {
  QStringList out;
  const std::set<std::string> there = numbersOfProcesses();
  for (const std::string& version : namesIn(workdir + "/versions"))
    for (const std::string& lease : namesIn(version + "/leases"))
      if (!there.contains(lease.substr(lease.find('.', lease.rfind('/')) + 1)))
        out << text("lease", lease);
  return out;
}

QStringList LeftBehind::processes() const {
  QStringList out;
  for (const std::string& process : namesIn("/proc")) {
    if (process.find_first_not_of("0123456789", 6) != std::string::npos) continue;
    std::error_code none;
    const std::string command = readText(process + "/cmdline");
    const std::string program = fs::read_symlink(process + "/exe", none).string();
    if (readText(process + "/environ").find("LOCKSTEP_RUN=") == std::string::npos) continue;
    for (const std::string& workdir : workdirs_)
      if ((command + program).find(workdir + "/") != std::string::npos) {
        out << text("process", process + " " + std::string(command.c_str()));
        break;
      }
  }
  return out;
}

}  // namespace lockstep::test
