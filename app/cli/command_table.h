// The table of all commands of `lockstep`, with their flags and help.
#pragma once

#include <vector>

#include "app/cli/command.h"

namespace lockstep::app::cli {

// All commands, in the order in which usage, completion and the manual page list them. To be called
// after main() has begun: only then are all parts initialised.
const std::vector<Command>& allCommands();

// Its parts by subject, each in the file command_table_*.cc of that subject.
extern const std::vector<Command> kRunCommands, kPlanCommands, kHistoryCommands, kModelCommands,
    kClusterCommands, kDebugCommands, kAlertCommands, kBenchCommands, kSpecCommands, kDataCommands;

}  // namespace lockstep::app::cli
