// What the commands share: global options, exit codes, the loop that drains the inbox.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/arguments.h"
#include "app/cluster/cluster_session.h"
#include "app/core/home.h"
#include "app/core/inbox.h"
#include "app/history/history.h"
#include "app/runs/preview.h"
#include "app/specs/spec_text.h"
#include "engine/base/status.h"

namespace lockstep::app::cli {

enum ExitCode : int {
  kSucceeded = 0,
  kRunFailed = 1,
  kBadInput = 2,
  kNode = 3,
  kStoppedByUser = 130
};
// Of an error before a run has started: bad input, or a node or prerequisite.
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

// How often Ctrl-C came since the command began. watchInterrupts() once, at its start.
void watchInterrupts();
int interrupts();

// Drains the inbox until `done` or Ctrl-C came more often than `interruptsSeen`; false then.
// `idle` is called about thirty times a second.
bool drainUntil(Inbox& inbox, const std::function<bool()>& done, int interruptsSeen,
                const std::function<void()>& idle = {});

// A spec's file, or of an example's name its file.
std::string modelFile(const std::string& text);
// The cluster of --cluster FILE, --local N (--comm KIND), or one local node.
Result<ClusterSpecFile> clusterOf(const Globals& globals, const Arguments& arguments);
// A session that asks at the terminal where there is one, and never without.
ClusterSessionOptions sessionOptions(const Globals& globals, double sampleHertz);
// Connects the nodes of a run that was given up or deleted, without a question, and waits until
// those that answer are cleaned up of it: for ten seconds at most, or until Ctrl-C. `away` is not
// waited for. Returns the nodes that may still have a part of the run.
std::vector<std::string> cleanUpNodesOf(const Globals& globals, const History& history,
                                        const std::string& run,
                                        std::shared_ptr<const spec::v1::ClusterSpec> cluster,
                                        const std::string& away = {});
// Puts an open question to the person at the terminal.
void askAtTerminal(ClusterSession& session, const NodeQuestion& question);

// An error that names a path in a spec, with the place of that path in the file before it.
Error withSourceLocation(Error error, const std::string& specYaml, const std::string& specFile,
                         const std::string& clusterYaml, const std::string& clusterFile);

// The phase, or since when the run is out of reach.
std::string stateText(const RunRow& row);
// A table, or a line {"event":"run",…} each.
void printRuns(const std::vector<RunRow>& rows, bool json);

// "error: …" to stderr, or an error line with --json.
void report(const Error& error, bool json);

}  // namespace lockstep::app::cli
