// Every command of `lockstep`; command_table.h has the table of names, flags and help.
#pragma once

#include <span>

#include "app/cli/command.h"

namespace lockstep::app::cli {

struct LaunchedRun {
  int exit = 0;     // status of the command
  std::string run;  // "": it has not started
};
// Launches a run and follows it to its end, as `lockstep run` does.
LaunchedRun launchRun(const Globals& globals, const Arguments& arguments);
int runCommand(const Globals& globals, const Arguments& arguments);  // launchRun()'s status
int rerunCommand(const Globals& globals, const Arguments& arguments);
int resumeCommand(const Globals& globals, const Arguments& arguments);
int attachCommand(const Globals& globals, const Arguments& arguments);
int checkpointCommand(const Globals& globals, const Arguments& arguments);
int excludeCommand(const Globals& globals, const Arguments& arguments);
int rebalanceCommand(const Globals& globals, const Arguments& arguments);
int restartCommand(const Globals& globals, const Arguments& arguments);
int profileCommand(const Globals& globals, const Arguments& arguments);
int stepsCommand(const Globals& globals, const Arguments& arguments);
int timelineCommand(const Globals& globals, const Arguments& arguments);
int trafficCommand(const Globals& globals, const Arguments& arguments);
int stragglersCommand(const Globals& globals, const Arguments& arguments);
int stopCommand(const Globals& globals, const Arguments& arguments);
int killCommand(const Globals& globals, const Arguments& arguments);
int artifactsCommand(const Globals& globals, const Arguments& arguments);
int logsCommand(const Globals& globals, const Arguments& arguments);
int runsCommand(const Globals& globals, const Arguments& arguments);
int metricsCommand(const Globals& globals, const Arguments& arguments);

int adviseCommand(const Globals& globals, const Arguments& arguments);
int planCommand(const Globals& globals, const Arguments& arguments);
int simulateCommand(const Globals& globals, const Arguments& arguments);
int whatIfCommand(const Globals& globals, const Arguments& arguments);
int learnCommand(const Globals& globals, const Arguments& arguments);

int verifyCommand(const Globals& globals, const Arguments& arguments);

int historyListCommand(const Globals& globals, const Arguments& arguments);
int historyTagCommand(const Globals& globals, const Arguments& arguments);
int historyNoteCommand(const Globals& globals, const Arguments& arguments);
int historyFilterCommand(const Globals& globals, const Arguments& arguments);
int historyShowCommand(const Globals& globals, const Arguments& arguments);
int historyDiffCommand(const Globals& globals, const Arguments& arguments);
int historyExportCommand(const Globals& globals, const Arguments& arguments);
int historyCheckCommand(const Globals& globals, const Arguments& arguments);
int historyDeleteCommand(const Globals& globals, const Arguments& arguments);

int clusterCheckCommand(const Globals& globals, const Arguments& arguments);
int clusterDeployCommand(const Globals& globals, const Arguments& arguments);
int clusterScriptCommand(const Globals& globals, const Arguments& arguments);
int clusterHostsCommand(const Globals& globals, const Arguments& arguments);
int clusterImportCommand(const Globals& globals, const Arguments& arguments);
int clusterAddCommand(const Globals& globals, const Arguments& arguments);
int clusterRemoveCommand(const Globals& globals, const Arguments& arguments);
int clusterSetCommand(const Globals& globals, const Arguments& arguments);
int clusterLoadCommand(const Globals& globals, const Arguments& arguments);
int clusterPreflightCommand(const Globals& globals, const Arguments& arguments);
int gcCommand(const Globals& globals, const Arguments& arguments);

int benchTrainCommand(const Globals& globals, const Arguments& arguments);
int benchCollectiveCommand(const Globals& globals, const Arguments& arguments);
int benchGemmCommand(const Globals& globals, const Arguments& arguments);
int benchMemoryCommand(const Globals& globals, const Arguments& arguments);

int alertsCommand(const Globals& globals, const Arguments& arguments);
int alertsSetCommand(const Globals& globals, const Arguments& arguments);
int alertsTestCommand(const Globals& globals, const Arguments& arguments);

int debugStacksCommand(const Globals& globals, const Arguments& arguments);
int debugProcessesCommand(const Globals& globals, const Arguments& arguments);
int debugKernelCommand(const Globals& globals, const Arguments& arguments);
int debugBenchCommand(const Globals& globals, const Arguments& arguments);
int debugGdbCommand(const Globals& globals, const Arguments& arguments);
int debugTerminalCommand(const Globals& globals, const Arguments& arguments);

int layersCommand(const Globals& globals, const Arguments& arguments);
int newCommand(const Globals& globals, const Arguments& arguments);
int optionsCommand(const Globals& globals, const Arguments& arguments);
// Returns the paths of all options that have a value: "training.optimizer.kind".
std::vector<std::string> optionPaths(SpecKind kind);

// `lockstep completion`, given all commands.
int complete(std::span<const Command> commands, const Globals& globals, const Arguments& arguments);
// Returns the manual page in the macros of man(7).
std::string manualPage(std::span<const Command> commands, std::string_view version);

int predictCommand(const Globals& globals, const Arguments& arguments);
int generateCommand(const Globals& globals, const Arguments& arguments);
int exportCommand(const Globals& globals, const Arguments& arguments);
int tokenizeCommand(const Globals& globals, const Arguments& arguments);
int dataShowCommand(const Globals& globals, const Arguments& arguments);
int makeDataCommand(const Globals& globals, const Arguments& arguments);
int makeTableCommand(const Globals& globals, const Arguments& arguments);
int makeImagesCommand(const Globals& globals, const Arguments& arguments);
int openCommand(const Globals& globals, const Arguments& arguments);
int energyCommand(const Globals& globals, const Arguments& arguments);
int doctorCommand(const Globals& globals, const Arguments& arguments);

}  // namespace lockstep::app::cli
