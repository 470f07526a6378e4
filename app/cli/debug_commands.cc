// debug: stacks, processes, kernel messages, speed, a debugger and a terminal, of a node from afar.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/cli/commands.h"
#include "app/cli/connecting.h"
#include "app/cli/json_line.h"
#include "app/cli/preflight_text.h"
#include "app/cli/terminal.h"
#include "app/cluster/node_debug.h"
#include "app/history/history.h"
#include "app/runs/rank_debug.h"
#include "app/runs/recorder.h"
#include "engine/base/clock.h"
#include "engine/base/shell_text.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

using Cluster = std::shared_ptr<const spec::v1::ClusterSpec>;

int failed(const Error& error, bool json) {
  report(error, json);
  return exitCodeOf(error);
}

std::string jsonArray(const std::vector<std::string>& texts) {
  return nlohmann::json(texts).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// Runs `work` on a thread, while questions are asked and Ctrl-C is heard.
template <typename Work>
auto besides(Inbox& inbox, Work work) {
  using Value = decltype(work(std::stop_token()));
  std::optional<Value> value;
  std::atomic<bool> done = false;
  std::jthread thread([&](const std::stop_token& stop) {
    value.emplace(work(stop));
    done = true;
  });
  if (!drainUntil(inbox, [&] { return done.load(); })) thread.request_stop();
  thread.join();
  return std::move(*value);
}

bool namesFile(const std::string& word) {
  std::error_code ignored;
  return word.find('/') != std::string::npos || word.ends_with(".yaml") || word.ends_with(".yml") ||
         std::filesystem::exists(word, ignored);
}

// The cluster of a command: that of a run or of a file, or --local N.
Result<Cluster> clusterIn(const Globals& globals, const Arguments& arguments) {
  if (arguments.has("local")) {
    if (arguments.words().size() > 1) return invalidArgument("with --local expected NODE alone");
    LOCKSTEP_ASSIGN(const ClusterSpecFile file, clusterOf(globals, arguments));
    return file.spec;
  }
  if (arguments.words().empty())
    return invalidArgument("expected a run, the file of a cluster, or --local N");
  const std::string& word = arguments.words()[0];
  if (namesFile(word)) {
    LOCKSTEP_ASSIGN(const ClusterSpecFile file, loadClusterSpec(word));
    return file.spec;
  }
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(const RunRow row, history->find(word));
  return clusterOfRun(*history, row.run);
}

// The cluster with this node alone; "": with all.
Result<Cluster> chosenNode(const Cluster& cluster, const std::string& name) {
  if (name.empty()) return cluster;
  for (const auto& node : cluster->nodes()) {
    if (node.name() != name) continue;
    auto chosen = std::make_shared<spec::v1::ClusterSpec>(*cluster);
    chosen->clear_nodes();
    *chosen->add_nodes() = node;
    return Cluster(std::move(chosen));
  }
  std::vector<std::string> names;
  for (const auto& node : cluster->nodes()) names.push_back(node.name());
  Error error = invalidArgument("the cluster has no node \"{}\"", name);
  error.next = message("its nodes are {}", fmt::join(names, ", "));
  return error;
}

// The NODE of a command; "": none.
std::string nodeWord(const Arguments& arguments) {
  const std::size_t at = arguments.has("local") ? 0 : 1;
  return arguments.words().size() > at ? arguments.words()[at] : "";
}

// Connects to the nodes of a command, asks each that is connected, and prints what it says, in
// order. Returns the exit code.
template <typename Ask, typename Print>
int onNodes(const Globals& globals, const Arguments& arguments, Ask ask, Print print) {
  const bool json = arguments.has("json");
  const auto all = clusterIn(globals, arguments);
  if (!all.ok()) return failed(all.error(), json);
  const auto cluster = chosenNode(*all, nodeWord(arguments));
  if (!cluster.ok()) return failed(cluster.error(), json);
  Connecting connecting(*cluster, sessionOptions(globals, 0));
  if (!connecting.connect()) return kStoppedByUser;
  const ClusterSession& session = connecting.session();
  using Value = decltype(ask(session.access(0), std::stop_token()));
  std::vector<std::pair<int, std::optional<Value>>> answers;
  for (int i = 0; i < session.size(); ++i)
    if (session.status(i).phase == NodeState::CONNECTED) answers.emplace_back(i, std::nullopt);
  const bool whole = besides(connecting.inbox(), [&](const std::stop_token& stop) {
    std::vector<std::jthread> threads;
    for (auto& [node, answer] : answers)
      threads.emplace_back([&ask, &session, &stop, node = node, &answer = answer] {
        answer.emplace(ask(session.access(node), stop));
      });
    threads.clear();
    return !stop.stop_requested();
  });
  if (!whole) return kStoppedByUser;
  int code = reportFailures(session, json) ? int{kSucceeded} : int{kNode};
  for (const auto& [node, answer] : answers) {
    if (answer->ok())
      print(session.status(node).name, **answer, answers.size() > 1);
    else
      code = failed(answer->error(), json);
  }
  return code;
}

std::string partText(const NodeProcess& process) {
  if (process.rank >= 0) return fmt::format("rank {} of {}", process.rank, process.run);
  if (process.part == "supervisor") return "supervisor of " + process.run;
  return process.part;
}

void printProcesses(const std::string& node, const NodeProcesses& list, bool several) {
  const Style style(wantsColour(STDOUT_FILENO));
  Table table;
  table.header = {"pid", "user", "CPU", "memory", "threads", "state", "age", "Lockstep", "command"};
  table.right = {true, false, true, true, true, false, true, false, false};
  for (const NodeProcess& process : list.processes)
    table.rows.push_back(
        {fmt::format("{}", process.pid), printable(process.user),
         fmt::format("{:.0f} %", 100 * process.cores),
         bytesText(static_cast<double>(process.memoryBytes)), fmt::format("{}", process.threads),
         process.state, durationText(process.ageSeconds), style.cyan(printable(partText(process))),
         fit(printable(process.command), 120)});
  put(stdout, (several ? style.bold(node) + "\n" : "") + table.text() + (several ? "\n" : ""));
  if (list.othersHidden)
    put(stderr, fmt::format("note: node {} hides the processes of other accounts\n", node));
}

void printProcessLines(const std::string& node, const NodeProcesses& list) {
  for (const NodeProcess& process : list.processes) {
    JsonLine line("process");
    line.add("node", node).add("pid", process.pid).add("parent", process.parent);
    line.add("user", process.user).add("cores", process.cores);
    line.add("memory_bytes", process.memoryBytes).add("threads", process.threads);
    line.add("state", process.state).add("age_seconds", process.ageSeconds);
    line.add("command", process.command).add("part", process.part).add("run", process.run);
    line.add("rank", process.rank).print();
  }
}

void printKernel(const std::string& node, const std::vector<KernelLine>& lines, bool several) {
  const Style style(wantsColour(STDOUT_FILENO));
  std::string text = several ? style.bold(node) + "\n" : "";
  constexpr int kError = 3, kWarning = 4;
  for (const KernelLine& line : lines) {
    const std::string said =
        fmt::format("{} {} {}\n", localTime(line.wallNs), padded(kernelLevelName(line.level), 9),
                    printable(line.text));
    text += line.level <= kError     ? style.red(said)
            : line.level == kWarning ? style.yellow(said)
                                     : said;
  }
  if (lines.empty()) text += "the kernel's log is empty\n";
  put(stdout, text + (several ? "\n" : ""));
}

void printKernelLines(const std::string& node, const std::vector<KernelLine>& lines) {
  for (const KernelLine& line : lines)
    JsonLine("kernel")
        .add("node", node)
        .add("time", isoTime(line.wallNs))
        .add("boot_seconds", static_cast<double>(line.bootNs) * 1e-9)
        .add("level", kernelLevelName(line.level))
        .add("text", line.text)
        .print();
}

// The NODE of a command that needs one, and its cluster.
struct NodeOf {
  Cluster cluster;
  std::string node;
};
Result<NodeOf> nodeIn(const Globals& globals, const Arguments& arguments) {
  NodeOf out;
  LOCKSTEP_ASSIGN(out.cluster, clusterIn(globals, arguments));
  out.node = nodeWord(arguments);
  if (out.node.empty() && out.cluster->nodes_size() == 1) out.node = out.cluster->nodes(0).name();
  if (out.node.empty()) return invalidArgument("NODE is missing");
  LOCKSTEP_TRY(chosenNode(out.cluster, out.node).status());
  return out;
}

bool isWeak(const PreflightResult& result, const std::string& node) {
  return std::any_of(result.values.begin(), result.values.end(), [&](const PreflightValue& value) {
    return value.node == node && value.grade == PreflightValue::Grade::kWeak;
  });
}

// A run under way and one of its ranks.
struct RankOfRun {
  RunRow row;
  int rank = 0;
  Cluster cluster;
  std::string nodes;
};
Result<RankOfRun> rankIn(const Globals& globals, const Arguments& arguments) {
  RankOfRun out;
  const std::string& word = arguments.words()[1];
  std::int64_t rank = -1;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), rank);
  if (read.ec != std::errc() || read.ptr != word.data() + word.size() || rank < 0)
    return invalidArgument("RANK is \"{}\", expected a number", word);
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(out.row, history->find(arguments.words()[0]));
  LOCKSTEP_TRY(app::checkRank(out.row, rank));
  out.rank = static_cast<int>(rank);
  LOCKSTEP_ASSIGN(out.cluster, clusterOfRun(*history, out.row.run));
  LOCKSTEP_ASSIGN(const RunDocuments documents, history->documents(out.row.run));
  out.nodes = documents.nodes;
  return out;
}

// Connects to the nodes of a rank's run, and does `work` with the rank's place.
template <typename Work>
int onRank(const Globals& globals, const RankOfRun& of, bool json, Work work) {
  Connecting connecting(of.cluster, sessionOptions(globals, 0));
  if (!connecting.connect()) return kStoppedByUser;
  const auto place = placeOf(of.row.run, of.rank, of.nodes, connecting.session());
  if (!place.ok()) return failed(place.error(), json);
  return besides(connecting.inbox(),
                 [&](const std::stop_token& stop) { return work(*place, stop); });
}

void printStacks(const RankStacks& stacks) {
  const Style style(wantsColour(STDOUT_FILENO));
  std::string text = fmt::format(
      "rank {} on {}, process {}: {} threads, each stopped for at most {:.1f} ms\n", stacks.rank,
      printable(stacks.node), stacks.pid, stacks.threads.size(), 1e3 * stacks.longestStop());
  for (const ThreadStack& thread : stacks.threads) {
    text += style.bold(fmt::format("thread {} {}, {}", thread.tid, printable(thread.name),
                                   printable(thread.state))) +
            "\n";
    for (const std::string& frame : thread.frames) text += "  " + printable(frame) + "\n";
  }
  if (stacks.incomplete) text += "… and more threads\n";
  put(stdout, text);
}

void printStackLines(const RankStacks& stacks) {
  for (const ThreadStack& thread : stacks.threads) {
    JsonLine line("thread");
    line.add("node", stacks.node).add("rank", stacks.rank).add("pid", stacks.pid);
    line.add("tid", thread.tid).add("name", thread.name).add("state", thread.state);
    line.add("stopped_ms", 1e3 * thread.stoppedSeconds);
    line.addRaw("frames", jsonArray(thread.frames)).print();
  }
}

void printNews(const RankPlace& place, const DebuggerNews& news, bool json) {
  using State = DebuggerNews::State;
  if (json) {
    JsonLine line("debugger");
    line.add("state", news.state == State::kWaiting    ? "waiting"
                      : news.state == State::kAttached ? "attached"
                                                       : "left");
    line.add("run", place.run).add("rank", place.rank).add("node", news.node);
    line.add("pid", news.pid).add("socket", news.socket).add("program", news.program);
    line.add("patience_seconds", news.patienceSeconds).add("command", debuggerCommand(news));
    line.print();
    return;
  }
  if (news.state == State::kAttached) put(stderr, "a debugger is attached\n");
  if (news.state == State::kLeft) put(stderr, "the debugger has left: the rank goes on\n");
  if (news.state != State::kWaiting) return;
  put(stdout, debuggerCommand(news) + "\n");
  std::string note = fmt::format(
      "rank {} on {}, process {}: connect with the command above, once.\n"
      "Training stands still while the debugger holds the rank.",
      place.rank, printable(news.node), news.pid);
  if (news.patienceSeconds > 0)
    note += fmt::format(" After {:.0f} s the other ranks give it up, and the run restarts or ends.",
                        news.patienceSeconds);
  put(stderr, note + "\nCtrl-C detaches the debugger.\n");
}

}  // namespace

int debugStacksCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto of = rankIn(globals, arguments);
  if (!of.ok()) return failed(of.error(), json);
  return onRank(globals, *of, json, [&](const RankPlace& place, const std::stop_token& stop) {
    const auto stacks = readStacks(place, stop);
    if (!stacks.ok()) return failed(stacks.error(), json);
    if (json)
      printStackLines(*stacks);
    else
      printStacks(*stacks);
    return int{kSucceeded};
  });
}

int debugProcessesCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  ProcessQuery query;
  const auto seconds = arguments.number("seconds", query.seconds, 0.1, 10);
  if (!seconds.ok()) return failed(seconds.error(), json);
  const auto most = arguments.integer("limit", query.most, 1, 500);
  if (!most.ok()) return failed(most.error(), json);
  query.seconds = *seconds;
  query.most = static_cast<int>(*most);
  return onNodes(
      globals, arguments,
      [&](NodeAccess& node, const std::stop_token& stop) {
        return listProcesses(node, query, stop);
      },
      [&](const std::string& node, const NodeProcesses& list, bool several) {
        if (json)
          printProcessLines(node, list);
        else
          printProcesses(node, list, several);
      });
}

int debugKernelCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto lines = arguments.integer("lines", 200, 1, 5000);
  if (!lines.ok()) return failed(lines.error(), json);
  return onNodes(
      globals, arguments,
      [&](NodeAccess& node, const std::stop_token& stop) {
        return readKernelLog(node, static_cast<int>(*lines), stop);
      },
      [&](const std::string& node, const std::vector<KernelLine>& log, bool several) {
        if (json)
          printKernelLines(node, log);
        else
          printKernel(node, log, several);
      });
}

int debugBenchCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  PreflightOptions options;
  const auto seconds = arguments.number("seconds", options.seconds, 0.05, 10);
  if (!seconds.ok()) return failed(seconds.error(), json);
  const auto of = nodeIn(globals, arguments);
  if (!of.ok()) return failed(of.error(), json);
  options.seconds = *seconds;
  Connecting connecting(of->cluster, sessionOptions(globals, 0));
  if (!connecting.connect()) return kStoppedByUser;
  const ClusterSession& session = connecting.session();
  const bool allAnswer = reportFailures(session, json);
  if (session.status(session.find(of->node)).phase != NodeState::CONNECTED) return kNode;
  const std::vector<PreflightNode> nodes = preflightNodes(session);
  const auto result = besides(connecting.inbox(), [&](const std::stop_token& stop) {
    put(stderr, "training on these nodes is slowed while they are measured\n");
    return benchNode(nodes, of->node, options, stop);
  });
  if (!result.ok() && result.error().code == Code::kCancelled) return kStoppedByUser;
  if (!result.ok()) return failed(result.error(), json);
  printPreflight("bench", *result, json);
  for (const Error& error : result->errors) report(error, json);
  printWarnings(*result);
  if (nodes.size() == 1) put(stderr, "note: there is no other node to compare it with\n");
  const bool well = allAnswer && result->errors.empty();
  return !well ? kNode : isWeak(*result, of->node) ? kRunFailed : kSucceeded;
}

int debugGdbCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto wait = arguments.number("wait", 600, 1, 3600);
  if (!wait.ok()) return failed(wait.error(), json);
  const auto of = rankIn(globals, arguments);
  if (!of.ok()) return failed(of.error(), json);
  return onRank(globals, *of, json, [&](const RankPlace& place, const std::stop_token& stop) {
    const Status ended = debugRank(
        place, *wait,
        [&](const DebuggerNews& news) {
          printNews(place, news, json);
          return news.state != DebuggerNews::State::kLeft;
        },
        stop);
    return ended.ok() ? int{kSucceeded} : failed(ended.error(), json);
  });
}

int debugTerminalCommand(const Globals& globals, const Arguments& arguments) {
  const bool json = arguments.has("json");
  const auto of = nodeIn(globals, arguments);
  if (!of.ok()) return failed(of.error(), json);
  const auto words = shellCommand(*of->cluster, of->node, globals.sshConfig);
  if (!words.ok()) return failed(words.error(), json);
  if (json) {
    JsonLine("terminal")
        .add("node", of->node)
        .add("command", shellLine(*words))
        .addRaw("words", jsonArray(*words))
        .print();
    return kSucceeded;
  }
  if (arguments.has("print") || isatty(STDIN_FILENO) == 0) {
    put(stdout, shellLine(*words) + "\n");
    return kSucceeded;
  }
  std::vector<char*> argv;
  for (const std::string& word : *words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  return failed(systemError(errno, message("cannot start {}", words->front())), json);
}

}  // namespace lockstep::app::cli
