#include "app/cli/command.h"

#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "app/cli/json_line.h"

namespace lockstep::app::cli {
namespace {
std::atomic<int> interruptCount{0};
static_assert(std::atomic<int>::is_always_lock_free);
}  // namespace

int exitCodeOf(const Error& error) {
  switch (error.code) {
    case Code::kInvalidArgument: case Code::kNotFound: case Code::kAlreadyExists: return kBadInput;
    case Code::kCancelled: return kStoppedByUser;
    case Code::kInternal: case Code::kAborted: return kRunFailed;
    default: return kNode;
  }
}

void watchInterrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interruptCount.fetch_add(1); };
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}
int interrupts() { return interruptCount.load(); }

bool drainUntil(Inbox& inbox, const std::function<bool()>& done, int interruptsSeen,
                const std::function<void()>& idle) {
  while (!done()) {
    if (interrupts() > interruptsSeen) return false;
    inbox.wait(std::chrono::milliseconds(33));
    inbox.drain();
    if (idle) idle();
  }
  return true;
}

Result<ClusterSpecFile> clusterOf(const Globals& globals, const Arguments& arguments) {
  if (arguments.has("cluster") && arguments.has("local"))
    return invalidArgument("--cluster and --local exclude each other");
  if (arguments.has("cluster")) return loadClusterSpec(arguments.text("cluster"));
  LOCKSTEP_ASSIGN(const std::int64_t nodes, arguments.integer("local", 1, 1, 64));
  return localCluster(static_cast<int>(nodes), globals.home.root + "/local", arguments.text("comm"));
}

ClusterSessionOptions sessionOptions(const Globals& globals, double sampleHertz) {
  ClusterSessionOptions options;
  options.home = globals.home;
  options.sshConfig = globals.sshConfig;
  options.acceptedHostKeys = globals.acceptedHostKeys;
  options.ask = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
  options.sampleHertz = sampleHertz;
  return options;
}

void askAtTerminal(ClusterSession& session, const NodeQuestion& question) {
  if (question.kind == NodeQuestion::Kind::kHostKey) {
    std::cerr << fmt::format(
        "\nThe host key of {} ({}) is not known.\n{} fingerprint: {}\nTrust it and go on? (yes/no) ",
        question.hostKey.host, question.node, question.hostKey.keyType, question.hostKey.fingerprint);
    std::string line;
    std::getline(std::cin, line);
    session.answer(question.id, line == "yes");
    return;
  }
  const SecretQuestion& secret = question.secret;
  std::cerr << (secret.attempt > 1 ? "\nThat was not right.\n" : "\n")
            << (secret.kind == SecretQuestion::Kind::kPassphrase
                    ? fmt::format("Passphrase of {}: ", secret.keyFile)
                    : fmt::format("{} {}: ", secret.account,
                                  secret.prompt.empty() ? "password" : secret.prompt));
  termios before{};
  const bool hide = !secret.echo && tcgetattr(STDIN_FILENO, &before) == 0;
  if (hide) {
    termios hidden = before;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
  }
  std::string line;
  const bool read = static_cast<bool>(std::getline(std::cin, line));
  if (hide) {
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    std::cerr << "\n";
  }
  session.answer(question.id, read ? std::optional<Secret>(Secret(std::move(line))) : std::nullopt);
}

void report(const Error& error, bool json) {
  if (json)
    errorLine(error).print();
  else
    std::cerr << "error: " << error.text() << "\n";
}

}  // namespace lockstep::app::cli
