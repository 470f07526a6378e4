// Shared by all commands: global options, exit codes, the loop that drains the inbox.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/cluster/cluster_session.h"
#include "app/core/home.h"
#include "app/core/inbox.h"
#include "app/history/history.h"
#include "app/runs/preview.h"
#include "app/specs/spec_text.h"
#include "engine/base/arguments.h"
#include "engine/base/status.h"

namespace lockstep::app::cli {

enum ExitCode : int {
  kSucceeded = 0,
  kRunFailed = 1,
  kBadInput = 2,
  kNode = 3,
  kStoppedByUser = 130
};
// Returns the exit code of an error before a run has started: kBadInput or kNode.
int exitCodeOf(const Error& error);

struct Globals {
  Home home;
  std::string sshConfig;
  std::vector<std::string> acceptedHostKeys;
};

struct Command {
  std::string_view name;  // "run", "cluster check"
  Grammar grammar;
  std::string_view help;
  int (*run)(const Globals& globals, const Arguments& arguments);
};

// The flags of every command.
inline constexpr std::string_view kGlobalHelp =
    "  --home DIR                  folder of the run history and of local agents\n"
    "  --ssh-config FILE           used instead of ~/.ssh/config\n"
    "  --accept-host-key SHA256:…  trusts a host key; may be given more than once\n"
    "  --version, --help\n";

// Ctrl-C, from watchInterrupts() on. Each press ends one thing, at once or, when it comes between
// two waits, the next wait: none is lost.
void watchInterrupts();
int interrupts();      // returns how often it was pressed
bool isInterrupted();  // returns whether a press has not ended anything yet
bool takeInterrupt();  // the same, and the oldest such press has ended something now

// Drains the inbox until `done`. Returns false if a Ctrl-C ends that, which is then taken. Calls
// `idle` about thirty times a second.
bool drainUntil(Inbox& inbox, const std::function<bool()>& done,
                const std::function<void()>& idle = {});

// Returns the file of an example; "" if there is none of that name.
std::string exampleFile(const std::string& name);
// Returns the file of a spec, given its path or the name of an example.
std::string modelFile(const std::string& text);
std::vector<std::string> exampleNames();  // of run specs, sorted
// Returns the cluster of --cluster FILE or --local N (--comm KIND), by default one local node.
Result<ClusterSpecFile> clusterOf(const Globals& globals, const Arguments& arguments);
// Returns options of a session that asks questions at the terminal, if there is one.
ClusterSessionOptions sessionOptions(const Globals& globals, double sampleHertz);
// Connects to the nodes of a given-up or deleted run, without asking questions, and waits for at
// most ten seconds, or until Ctrl-C, until those that answer are cleaned up. Does not wait for node
// `away`. Returns the nodes that may still have files of the run.
std::vector<std::string> cleanUpNodesOf(const Globals& globals, const History& history,
                                        const std::string& run,
                                        std::shared_ptr<const spec::v1::ClusterSpec> cluster,
                                        const std::string& away = {});
// Asks the user at the terminal an open question.
void askAtTerminal(ClusterSession& session, const NodeQuestion& question);

// Prefixes an error that names a path in a spec with the --set that assigned it, or with the
// location of that path in its file.
Error withSourceLocation(Error error, const RunSpecFile& spec, const std::string& clusterYaml,
                         const std::string& clusterFile);

// Returns the run's state, or since when it is unreachable.
std::string stateText(const RunRow& row);
// Prints a table, or one line {"event":"run",…} per run.
void printRuns(const std::vector<RunRow>& rows, bool json);

// "a,b" → a, b; an empty text has one empty part.
std::vector<std::string> splitList(const std::string& text);

// Prints "error: …" to stderr, or an error line with --json.
void report(const Error& error, bool json);

}  // namespace lockstep::app::cli
