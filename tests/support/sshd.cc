#include "tests/support/sshd.h"
#include "tests/support/free_port.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

extern char** environ;

namespace lockstep::test {
namespace fs = std::filesystem;

TempFolder::TempFolder() {
  char path[] = "/tmp/lsXXXXXX";
  if (!::mkdtemp(path)) ::abort();
  path_ = path;
}
TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

bool waitFor(const std::function<bool()>& condition, int milliseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return condition();
    ::poll(nullptr, 0, 5);
  }
  return true;
}

namespace {

// Starts a program with stdout and stderr in a file. It is killed when the test process dies.
pid_t spawn(const std::vector<std::string>& argv, const std::string& outputFile) {
  std::vector<char*> args;
  for (const auto& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  const int out = ::open(outputFile.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(null, 0);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::execvp(args[0], args.data());
    ::_exit(127);
  }
  ::close(out);
  ::close(null);
  return pid;
}

int reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

sockaddr_un unixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

}  // namespace

int runCommand(const std::vector<std::string>& argv, std::string* output) {
  const TempFolder folder;
  const pid_t pid = spawn(argv, folder / "out");
  int status = -1;
  siginfo_t info{};
  const bool ended = waitFor(
      [&] {
        info.si_pid = 0;
        return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid == pid;
      },
      60000);
  if (!ended) ::kill(pid, SIGKILL);
  status = reap(pid);
  if (output) *output = readText(folder / "out");
  return ended ? status : -1;
}

std::string readText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void writeText(const std::string& path, const std::string& text, int mode) {
  std::ofstream(path, std::ios::binary) << text;
  ::chmod(path.c_str(), static_cast<mode_t>(mode));
}

void makeKey(const std::string& path, const std::string& passphrase, const std::string& type) {
  runCommand({"ssh-keygen", "-q", "-t", type, "-N", passphrase, "-f", path, "-C", "test"});
}

std::unique_ptr<Sshd> Sshd::start(const std::string& folder, const std::string& clientKey,
                                  SshdOptions options, std::string* why) {
  if (::access("/usr/sbin/sshd", X_OK) != 0) {
    *why = "no /usr/sbin/sshd (package openssh-server)";
    return nullptr;
  }
  if (::getuid() == 0) ::mkdir("/run/sshd", 0755);  // the empty folder privilege separation wants
  std::unique_ptr<Sshd> server(new Sshd());
  server->folder_ = folder;
  server->options_ = std::move(options);
  server->clientKey_ = clientKey;
  fs::create_directories(folder);
  makeKey(server->hostKeyFile());
  if (!clientKey.empty()) fs::copy_file(clientKey + ".pub", folder + "/authorized_keys");
  server->port_ = server->options_.port ? server->options_.port : freePort();
  if (!server->launch(why)) return nullptr;
  return server;
}

bool Sshd::launch(std::string* why) {
  std::ostringstream config;
  config << options_.extraConfig << "\n"
         << "Port " << port_ << "\nListenAddress " << options_.address << "\n"
         << "HostKey " << hostKeyFile() << "\nPidFile none\n"
         << "AuthorizedKeysFile " << folder_ << "/authorized_keys\n"
         << "StrictModes no\nUsePAM no\nPasswordAuthentication no\n"
         << "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
         << "Subsystem sftp internal-sftp\nLogLevel VERBOSE\nMaxStartups 100\n"
         << "UseDNS no\nPrintMotd no\n"
         // bash reads no ~/.bashrc then, which may wait for whatever it likes
         << "SetEnv SHLVL=1\n";
  writeText(folder_ + "/sshd_config", config.str());
  const std::size_t before = log().size();
  std::vector<std::string> argv = options_.prefix;
  for (const auto& arg : {options_.program, std::string("-D"), std::string("-e"), std::string("-f"),
                          folder_ + "/sshd_config"})
    argv.push_back(arg);
  pid_ = spawn(argv, folder_ + "/sshd.log");
  const bool up = waitFor([&] {
    return log().find("Server listening", before) != std::string::npos ||
           ::waitpid(pid_, nullptr, WNOHANG) == pid_;
  });
  if (up && log().find("Server listening", before) != std::string::npos) return true;
  if (why) *why = "sshd does not start: " + log();
  return false;
}

Sshd::~Sshd() { stop(); }

std::string Sshd::log() const { return readText(folder_ + "/sshd.log"); }

std::string Sshd::knownHostsLine() const {
  std::istringstream key(readText(hostKeyFile() + ".pub"));
  std::string type, base64;
  key >> type >> base64;
  const std::string host =
      port_ == 22 ? options_.address : "[" + options_.address + "]:" + std::to_string(port_);
  return host + " " + type + " " + base64;
}

std::string Sshd::fingerprint() const {
  std::string output;
  runCommand({"ssh-keygen", "-lf", hostKeyFile() + ".pub"}, &output);
  std::istringstream words(output);
  std::string bits, fingerprint;
  words >> bits >> fingerprint;
  return fingerprint;
}

void Sshd::replaceHostKey() {
  ::unlink(hostKeyFile().c_str());
  ::unlink((hostKeyFile() + ".pub").c_str());
  makeKey(hostKeyFile());
  const std::size_t before = log().size();
  ::kill(pid_, SIGHUP);  // re-executes itself, with the new key
  waitFor([&] { return log().find("Server listening", before) != std::string::npos; });
}

namespace {
std::vector<pid_t> childrenOf(pid_t process) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = readText("/proc/" + name + "/stat");
    const auto paren = stat.rfind(')');
    if (paren == std::string::npos) continue;
    std::istringstream rest(stat.substr(paren + 1));
    std::string state;
    pid_t parent = 0;
    rest >> state >> parent;
    if (parent == process && state != "Z") found.push_back(std::stoi(name));
  }
  return found;
}
}  // namespace

// All descendants of the listener: monitors, their unprivileged halves, and what they run. Behind
// a prefix (unshare --fork) the listener is the child of what was started.
std::vector<pid_t> Sshd::sessionPids() const {
  std::vector<pid_t> found = childrenOf(pid_);
  const std::size_t listeners = options_.prefix.empty() ? 0 : found.size();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto children = childrenOf(found[i]);
    found.insert(found.end(), children.begin(), children.end());
  }
  found.erase(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(listeners));
  return found;
}

pid_t Sshd::listener() const {
  if (pid_ <= 0 || options_.prefix.empty()) return pid_;
  const auto children = childrenOf(pid_);
  return children.empty() ? -1 : children.front();
}

int Sshd::killSessions() {
  const auto pids = sessionPids();
  for (const pid_t pid : pids) ::kill(pid, SIGKILL);
  waitFor([&] {  // a client may be back already, in sessions of other processes
    const auto left = sessionPids();
    return std::find_first_of(left.begin(), left.end(), pids.begin(), pids.end()) == left.end();
  });
  return static_cast<int>(pids.size());
}

int Sshd::freeze(bool on) {
  const auto pids = sessionPids();
  for (const pid_t pid : pids) ::kill(pid, on ? SIGSTOP : SIGCONT);
  return static_cast<int>(pids.size());
}

void Sshd::stop() {
  if (pid_ <= 0) return;
  killSessions();
  ::kill(pid_, SIGKILL);
  reap(pid_);
  pid_ = -1;
}

bool Sshd::restart() { return launch(nullptr); }

std::string sshConfigFor(const std::vector<const Sshd*>& servers, const std::string& knownHosts,
                         const std::string& identityFile, const std::string& user) {
  std::ostringstream text;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    text << "Host n" << i + 1 << "\n  HostName 127.0.0.1\n  Port " << servers[i]->port() << "\n";
  }
  text << "Host *\n  User " << (user.empty() ? ::getpwuid(::getuid())->pw_name : user)
       << "\n  UserKnownHostsFile " << knownHosts << "\n  GlobalKnownHostsFile /dev/null\n"
       << "  IdentityAgent none\n";
  if (!identityFile.empty()) text << "  IdentityFile " << identityFile << "\n";
  return text.str();
}

std::unique_ptr<TestUser> TestUser::make(const std::string& password, std::string* why) {
  std::string hash;
  if (::geteuid() != 0) return *why = "making an account needs root", nullptr;
  if (runCommand({"openssl", "passwd", "-6", password}, &hash) != 0)
    return *why = "openssl passwd does not work here", nullptr;
  while (hash.ends_with('\n')) hash.pop_back();
  std::unique_ptr<TestUser> user(new TestUser());
  user->name_ = "lockstep-t" + std::to_string(::getpid());
  char home[] = "/tmp/luXXXXXX";
  if (!::mkdtemp(home)) return *why = "no folder in /tmp can be made", nullptr;
  user->home_ = home;
  std::string output;
  if (runCommand({"useradd", "-M", "-N", "-d", home, "-s", "/bin/sh", "-p", hash, user->name_},
                 &output) != 0)
    return *why = "useradd does not work here: " + output, nullptr;
  const passwd* entry = ::getpwnam(user->name_.c_str());
  if (!entry || ::chown(home, entry->pw_uid, entry->pw_gid) != 0)
    return *why = "the account cannot be used", nullptr;
  return user;
}
TestUser::~TestUser() {
  if (const passwd* entry = ::getpwnam(name_.c_str())) {
    for (const auto& process : fs::directory_iterator("/proc")) {
      struct stat info {};
      const std::string pid = process.path().filename();
      if (pid.find_first_not_of("0123456789") == std::string::npos &&
          ::stat(process.path().c_str(), &info) == 0 && info.st_uid == entry->pw_uid)
        ::kill(std::stoi(pid), SIGKILL);
    }
    runCommand({"userdel", "-f", name_});
  }
  std::error_code ignored;
  fs::remove_all(home_, ignored);
}

std::unique_ptr<PamService> PamService::make(const std::string& folder, const std::string& lines,
                                             std::string* why) {
  if (::geteuid() != 0) return *why = "making a PAM service needs root", nullptr;
  // sshd takes the service of its own name.
  static int made = 0;
  const std::string name = "lockstep-" + std::to_string(::getpid()) + "-" + std::to_string(made++);
  std::unique_ptr<PamService> service(new PamService());
  service->file_ = "/etc/pam.d/" + name;
  service->sshd_ = folder + "/" + name;
  writeText(service->file_, lines);
  if (readText(service->file_) != lines || ::symlink("/usr/sbin/sshd", service->sshd_.c_str()) != 0)
    return *why = "a PAM service cannot be made here", nullptr;
  return service;
}
PamService::~PamService() { ::unlink(file_.c_str()); }

std::unique_ptr<SshAgent> SshAgent::start(const std::string& folder) {
  std::unique_ptr<SshAgent> agent(new SshAgent());
  agent->socket_ = folder + "/agent.sock";
  agent->pid_ = spawn({"ssh-agent", "-D", "-a", agent->socket_}, folder + "/agent.log");
  const bool up = waitFor([&] {
    const int fd = connectUnix(agent->socket_);
    if (fd >= 0) ::close(fd);
    return fd >= 0;
  });
  return up ? std::move(agent) : nullptr;
}
SshAgent::~SshAgent() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  reap(pid_);
}
bool SshAgent::add(const std::string& keyFile) const {
  return runCommand({"env", "SSH_AUTH_SOCK=" + socket_, "ssh-add", "-q", keyFile}) == 0;
}

class EchoServer::Impl {
 public:
  explicit Impl(const std::string& path) : path_(path) {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = unixAddress(path);
    ::unlink(path.c_str());
    if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_, 128) != 0)
      ::abort();
    acceptor_ = std::thread([this] { accept(); });
  }
  ~Impl() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : fds_) ::shutdown(fd, SHUT_RDWR);
    }
    for (auto& thread : threads_) thread.join();
    for (const int fd : fds_) ::close(fd);
    ::close(listener_);
    ::unlink(path_.c_str());
  }

 private:
  void accept() {
    while (!stopping_) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::lock_guard lock(mutex_);
      fds_.push_back(fd);
      threads_.emplace_back([fd] {
        char bytes[65536];
        ssize_t n;
        while ((n = ::read(fd, bytes, sizeof bytes)) > 0)
          for (ssize_t at = 0; at < n;) {
            const ssize_t sent =
                ::send(fd, bytes + at, static_cast<std::size_t>(n - at), MSG_NOSIGNAL);
            if (sent <= 0) return;
            at += sent;
          }
        ::shutdown(fd, SHUT_WR);
      });
    }
  }
  const std::string path_;
  int listener_ = -1;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::vector<int> fds_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};
EchoServer::EchoServer(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
EchoServer::~EchoServer() = default;

int connectUnix(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = unixAddress(path);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

std::optional<std::string> exchange(int fd, const std::string& bytes) {
  if (fd < 0) return std::nullopt;
  std::string got;
  std::size_t sent = 0;
  char chunk[65536];
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (;;) {
    if (sent == bytes.size()) {
      ::shutdown(fd, SHUT_WR);
      ++sent;
    }
    pollfd poll{fd, static_cast<short>(POLLIN | (sent < bytes.size() ? POLLOUT : 0)), 0};
    if (::poll(&poll, 1, 1000) == 0 && std::chrono::steady_clock::now() > deadline) break;
    if (poll.revents & POLLOUT) {
      const ssize_t n =
          ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) sent += static_cast<std::size_t>(n);
    }
    if (poll.revents & (POLLIN | POLLHUP | POLLERR)) {
      const ssize_t n = ::recv(fd, chunk, sizeof chunk, MSG_DONTWAIT);
      if (n > 0) {
        got.append(chunk, static_cast<std::size_t>(n));
      } else if (n == 0) {
        ::close(fd);
        return got;
      } else if (errno != EAGAIN && errno != EINTR) {
        break;
      }
    }
  }
  ::close(fd);
  return std::nullopt;
}

}  // namespace lockstep::test
