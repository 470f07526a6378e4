#include "app/cli/command.h"

#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/cluster/run_cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/list_folder.h"

namespace lockstep::app::cli {
namespace {
std::atomic<int> interruptCount{0}, interruptsTaken{0};
static_assert(std::atomic<int>::is_always_lock_free);

// Where examples are looked for, in this order.
std::vector<std::string> exampleFolders() {
  std::vector<std::string> out;
  if (const char* given = std::getenv("LOCKSTEP_EXAMPLES"); given != nullptr && *given != '\0')
    out.push_back(given);
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  out.push_back(self / "../../../resources/examples");  // build/<preset>/bin
  out.push_back(self / "../share/lockstep/examples");
  return out;
}
}  // namespace

std::string exampleFile(const std::string& name) {
  std::error_code ignored;
  for (const std::string& folder : exampleFolders())
    if (std::string path = folder + "/" + name + ".yaml"; std::filesystem::exists(path, ignored))
      return path;
  return {};
}

std::string modelFile(const std::string& text) {
  std::error_code ignored;
  const auto there = std::filesystem::status(text, ignored);
  if (exists(there) && !is_directory(there)) return text;
  if (text.find('/') != std::string::npos || text.ends_with(".yaml")) return text;
  const std::string example = exampleFile(text);
  return example.empty() ? text : example;
}

std::vector<std::string> exampleNames() {
  std::vector<std::string> out;
  for (const std::string& folder : exampleFolders()) {
    for (const std::filesystem::path& path : listFolder(folder))
      if (path.extension() == ".yaml" && loadRunSpec(path.string()).ok())
        out.push_back(path.stem().string());
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

int exitCodeOf(const Error& error) {
  // A node's error, such as a missing file or a full disk, has to be fixed there.
  if (!error.node.empty() && error.code != Code::kCancelled && error.code != Code::kInternal)
    return kNode;
  switch (error.code) {
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kAlreadyExists:
      return kBadInput;
    case Code::kCancelled:
      return kStoppedByUser;
    case Code::kInternal:
    case Code::kAborted:
      return kRunFailed;
    default:
      return kNode;
  }
}

void watchInterrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interruptCount.fetch_add(1); };
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}
int interrupts() { return interruptCount.load(); }
bool isInterrupted() { return interrupts() > interruptsTaken.load(); }
bool takeInterrupt() {
  for (int taken = interruptsTaken; taken < interrupts();)
    if (interruptsTaken.compare_exchange_weak(taken, taken + 1)) return true;
  return false;
}

bool drainUntil(Inbox& inbox, const std::function<bool()>& done,
                const std::function<void()>& idle) {
  while (!done()) {
    if (takeInterrupt()) return false;
    inbox.wait(std::chrono::milliseconds(33));
    inbox.drain();
    if (idle) idle();
  }
  return true;
}

Result<ClusterSpecFile> clusterOf(const Globals& globals, const Arguments& arguments) {
  if (arguments.has("cluster") && arguments.has("local"))
    return invalidArgument("--cluster and --local exclude each other");
  const std::vector<std::string> ranks = arguments.all("ranks");
  if (arguments.has("cluster")) {
    LOCKSTEP_ASSIGN(ClusterSpecFile cluster, loadClusterSpec(arguments.text("cluster")));
    return withRanks(std::move(cluster), ranks);
  }
  LOCKSTEP_ASSIGN(const std::int64_t nodes, arguments.integer("local", 1, 1, 64));
  return withRanks(
      localCluster(static_cast<int>(nodes), globals.home.root + "/local", arguments.text("comm")),
      ranks);
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

std::vector<std::string> cleanUpNodesOf(const Globals& globals, const History& history,
                                        const std::string& run,
                                        std::shared_ptr<const spec::v1::ClusterSpec> cluster,
                                        const std::string& away) {
  constexpr std::chrono::seconds kReachLimit{10};
  std::vector<std::string> keeping = nodesKeeping(history, run);
  const auto awaited = [&] {
    return keeping.size() > static_cast<std::size_t>(std::ranges::count(keeping, away));
  };
  if (!awaited()) return keeping;
  Inbox inbox;
  ClusterSessionOptions options = sessionOptions(globals, 0);
  options.ask = false;
  options.copy = false;
  ClusterSession session(std::move(cluster), options, inbox);
  session.connect();
  const auto end = std::chrono::steady_clock::now() + kReachLimit;
  const auto isAwaited = [&](const NodeStatus& node) {
    return node.phase != NodeState::UNAVAILABLE && node.name != away &&
           std::ranges::find(keeping, node.name) != keeping.end();
  };
  const auto settled = [&] {
    keeping = nodesKeeping(history, run);
    for (int i = 0; i < session.size(); ++i)
      if (isAwaited(session.status(i))) return std::chrono::steady_clock::now() > end;
    return true;
  };
  (void)drainUntil(inbox, settled);
  return keeping;
}

void askAtTerminal(ClusterSession& session, const NodeQuestion& question) {
  if (question.kind == NodeQuestion::Kind::kHostKey) {
    put(stderr,
        fmt::format(
            "\nThe host key of {} ({}) is not known.\n{} fingerprint: {}\nTrust it and go on? "
            "(yes/no) ",
            question.hostKey.host, question.node, question.hostKey.keyType,
            question.hostKey.fingerprint));
    std::string line;
    while (std::getline(std::cin, line) && line != "yes" && line != "no")
      put(stderr, "Type yes or no: ");
    session.answer(question.id, line == "yes");
    return;
  }
  const SecretQuestion& secret = question.secret;
  // Before the question: what is typed in answer to it is never shown, nor lost.
  termios before{};
  const bool hide = !secret.echo && tcgetattr(STDIN_FILENO, &before) == 0;
  if (hide) {
    termios hidden = before;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
  }
  put(stderr, std::string(secret.attempt > 1 ? "\nThat was not right.\n" : "\n") +
                  (secret.kind == SecretQuestion::Kind::kPassphrase
                       ? fmt::format("Passphrase of {}: ", secret.keyFile)
                       : fmt::format("{} {}: ", secret.account,
                                     secret.prompt.empty() ? "password" : secret.prompt)));
  std::string line;
  const bool read = static_cast<bool>(std::getline(std::cin, line));
  if (hide) {
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    put(stderr, "\n");
  }
  session.answer(question.id, read ? std::optional<Secret>(Secret(std::move(line))) : std::nullopt);
}

Error withSourceLocation(Error error, const RunSpecFile& spec, const std::string& clusterYaml,
                         const std::string& clusterFile) {
  if (error.code != Code::kInvalidArgument || !error.node.empty()) return error;
  const std::string& field = error.field;
  const bool ofCluster =
      field.starts_with("nodes") || field.starts_with("links") || field.starts_with("comm");
  const bool ofSpec = field.starts_with("model") || field.starts_with("training") ||
                      field.starts_with("strategy") || field.starts_with("data");
  if (!ofCluster && !ofSpec) return error;
  const SpecText text = ofSpec ? SpecText::parse(spec.yaml, spec.file, SpecKind::kRun)
                               : SpecText::parse(clusterYaml, clusterFile, SpecKind::kCluster);
  return errorOf(text.locate(error), field, ofSpec ? spec.sets : std::vector<std::string>());
}

std::string stateText(const RunRow& row) {
  if (row.unreachableNs == 0) return std::string(stateName(row.phase));
  return "unreachable since " + localTime(row.unreachableNs);
}

void printRuns(const std::vector<RunRow>& rows, bool json) {
  if (json) {
    for (const RunRow& row : rows) {
      JsonLine line("run");
      line.add("run", row.run).add("name", row.name).add("state", stateName(row.phase));
      if (row.unreachableNs != 0) line.add("unreachable_since", isoTime(row.unreachableNs));
      line.add("created", isoTime(row.createdNs)).add("world", row.world);
      line.add("strategy", row.strategy).add("comm", row.comm).add("cluster", row.clusterName);
      line.add("effective_time", effectiveTime(row)).add(row.figures).add("error", row.error);
      line.addRaw("tags", jsonTexts(row.tags)).add("notes", row.notes);
      line.print();
    }
    return;
  }
  if (rows.empty()) return;
  Table table;
  table.header = {"run",  "model", "state",      "created", "ranks",
                  "comm", "steps", "train loss", "test"};
  table.right = {false, false, false, false, true, false, true, true, true};
  const bool tagged =
      std::any_of(rows.begin(), rows.end(), [](const RunRow& row) { return !row.tags.empty(); });
  if (tagged) table.header.emplace_back("tags"), table.right.push_back(false);
  for (const RunRow& row : rows)
    table.rows.push_back(
        {row.run, row.name, stateText(row), localTime(row.createdNs), fmt::format("{}", row.world),
         row.comm, fmt::format("{}", row.figures.steps), lossText(row.figures.trainLoss),
         row.figures.evalLoss != 0 ? metricText(row.figures.metric, row.figures.evalMetric) : "–"});
  for (std::size_t i = 0; tagged && i < rows.size(); ++i)
    table.rows[i].push_back(fmt::format("{}", fmt::join(rows[i].tags, " ")));
  put(stdout, table.text());
}

void report(const Error& error, bool json) {
  if (json)
    errorLine(error).print();
  else
    put(stderr, "error: " + error.text() + "\n");
}

std::vector<std::string> splitList(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t from = 0, end = 0; end < text.size() || out.empty(); from = end + 1) {
    end = std::min(text.find(',', from), text.size());
    out.push_back(text.substr(from, end - from));
  }
  return out;
}

}  // namespace lockstep::app::cli
