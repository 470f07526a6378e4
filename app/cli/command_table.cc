#include "app/cli/command_table.h"

#include "app/cli/commands.h"
#include "app/cli/terminal.h"

namespace lockstep::app::cli {
namespace {

int completionCommand(const Globals& globals, const Arguments& arguments) {
  return complete(allCommands(), globals, arguments);
}

int manualCommand(const Globals&, const Arguments&) {
  put(stdout, manualPage(allCommands(), LOCKSTEP_VERSION));
  return kSucceeded;
}

const std::vector<Command> kOpen{
    {"open",
     {{}, 0, 64, "open [LINK | FILE]…"},
     "Opens the studio: at the place of a link, which its command \"Copy link to this place\" "
     "makes, "
     "or with\nfiles.",
     openCommand},
};

const std::vector<Command> kSelfDescribing{
    {"completion",
     {{}, 1, 100000, "completion bash|zsh|fish | words -- [WORD]…"},
     "Prints a script for a shell that completes commands, flags, options, examples and runs:\n"
     "  bash  source <(lockstep completion bash)\n"
     "  zsh   source <(lockstep completion zsh)\n"
     "  fish  lockstep completion fish | source\n"
     "The scripts ask for what can follow with `lockstep completion words`.",
     completionCommand},
    {"manual", {{}, 0, 0, "manual"}, "Prints the manual page lockstep(1).", manualCommand},
};

const std::vector<Command> kDoctor{
    {"doctor",
     {{"json"}, 0, 0, "doctor [--json]"},
     "Checks this machine for what Lockstep needs, and says how to fix what is missing.",
     doctorCommand},
};

}  // namespace

const std::vector<Command>& allCommands() {
  static const std::vector<Command> all = [] {
    std::vector<Command> out;
    for (const std::vector<Command>* part :
         {&kRunCommands, &kPlanCommands, &kHistoryCommands, &kModelCommands, &kClusterCommands,
          &kOpen, &kDebugCommands, &kAlertCommands, &kBenchCommands, &kSpecCommands,
          &kSelfDescribing, &kDataCommands, &kDoctor})
      out.insert(out.end(), part->begin(), part->end());
    return out;
  }();
  return all;
}

}  // namespace lockstep::app::cli
