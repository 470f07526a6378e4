// Real sshd servers on loopback for tests, as the current user, each with its own folder, host key,
// authorised client key and free port; and small helpers round them. Everything is ended and
// removed by the destructors.
#pragma once

#include <sys/types.h>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::test {

// A temporary folder with a short path (unix sockets are made in it), removed at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Polls a condition, without a fixed sleep before it is true; false after the limit.
bool waitFor(const std::function<bool()>& condition, int milliseconds = 60000);
// Runs a program to its end; its exit status, output through `output`. Aborts the test after 60 s.
int runCommand(const std::vector<std::string>& argv, std::string* output = nullptr);
std::string readText(const std::string& path);
void writeText(const std::string& path, const std::string& text, int mode = 0644);

// An ed25519 (or other) key made by ssh-keygen; public half at path + ".pub".
void makeKey(const std::string& path, const std::string& passphrase = "",
             const std::string& type = "ed25519");

struct SshdOptions {
  std::string extraConfig;  // lines before the defaults: the first of a keyword counts
  std::string address = "127.0.0.1";
  int port = 0;                     // 0: a free one
  std::vector<std::string> prefix;  // of the command line: {"ip", "netns", "exec", …}
  std::string program = "/usr/sbin/sshd";
};

class Sshd {
 public:
  // Null with the reason where no sshd can be run.
  static std::unique_ptr<Sshd> start(const std::string& folder, const std::string& clientKey,
                                     SshdOptions options, std::string* why);
  ~Sshd();
  int port() const { return port_; }
  std::string knownHostsLine() const;  // without newline
  std::string fingerprint() const;     // SHA256:…
  std::string hostKeyFile() const { return folder_ + "/host_key"; }
  std::string log() const;  // what sshd wrote (VERBOSE)
  // New host key, same port; sessions in being are not touched.
  void replaceHostKey();
  // SIGKILL to every session process (not the listener). How many there were.
  int killSessions();
  // SIGSTOP or SIGCONT to every session process. How many there were.
  int freeze(bool on);
  pid_t listener() const;  // the process that listens, behind any prefix; -1 while stopped
  void stop();             // the listener and its sessions
  bool restart();          // after stop

 private:
  Sshd() = default;
  bool launch(std::string* why);
  std::vector<pid_t> sessionPids() const;
  std::string folder_;
  SshdOptions options_;
  std::string clientKey_;
  int port_ = 0;
  pid_t pid_ = -1;
};

// The text of an ssh_config for these servers: Host n1, n2, … with own known_hosts and key.
std::string sshConfigFor(const std::vector<const Sshd*>& servers, const std::string& knownHosts,
                         const std::string& identityFile, const std::string& user = "");

// An account of this machine with a password and a home, removed at the end with its processes.
class TestUser {
 public:
  // Null with the reason where none can be made.
  static std::unique_ptr<TestUser> make(const std::string& password, std::string* why);
  ~TestUser();
  const std::string& name() const { return name_; }
  const std::string& home() const { return home_; }

 private:
  TestUser() = default;
  std::string name_, home_;
};

// A PAM service of this test alone, and a name of sshd under which sshd uses it. Removed at the
// end.
class PamService {
 public:
  // `lines` as in /etc/pam.d. Null with the reason where none can be made.
  static std::unique_ptr<PamService> make(const std::string& folder, const std::string& lines,
                                          std::string* why);
  ~PamService();
  const std::string& sshd() const { return sshd_; }  // for SshdOptions::program

 private:
  PamService() = default;
  std::string file_, sshd_;
};

// An ssh-agent on its own socket.
class SshAgent {
 public:
  static std::unique_ptr<SshAgent> start(const std::string& folder);
  ~SshAgent();
  bool add(const std::string& keyFile) const;
  const std::string& socket() const { return socket_; }

 private:
  std::string socket_;
  pid_t pid_ = -1;
};

// A unix-socket server that sends back what it gets, and half-closes when its peer does.
class EchoServer {
 public:
  explicit EchoServer(const std::string& socketPath);
  ~EchoServer();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

int connectUnix(const std::string& path);  // -1: refused
// Sends all, half-closes, reads to the end, closes.
std::optional<std::string> exchange(int fd, const std::string& bytes);

}  // namespace lockstep::test
