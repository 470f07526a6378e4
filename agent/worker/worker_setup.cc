// Runs the commands of workload.setup for an agent, as their parent.
#include "agent/worker/program_reports.h"
#include "agent/worker/worker_link.h"
#include "agent/workload/program_setup.h"
#include "engine/specs/workload.h"

namespace lockstep::agent {
namespace {

Result<UniqueFd> holdAlone(const SetupFolder& folder) {
  if (auto held = tryHoldSetup(folder); held.ok() || held.error().code != Code::kUnavailable)
    return held;
  print("waits for another launch that sets the same code up\n");
  return holdSetup(folder, true);
}

}  // namespace

Status runProgramSetup(const node::v1::WorkerStart& start, WorkerLink& link) {
  link.endGroupWithSupervisor();
  const SetupFolder folder{start.code_folder()};
  LOCKSTEP_ASSIGN(const UniqueFd held, holdAlone(folder));
  SetupCommands commands;
  commands.run = start.run();
  commands.codeFile = start.data_paths().at(std::string(specs::kCodeFile));
  commands.secrets = {start.secret_env().begin(), start.secret_env().end()};
  commands.onCommand = [&](int index, const std::string& command) {
    node::v1::FromWorker message;
    message.mutable_setting_up()->set_index(index);
    message.mutable_setting_up()->set_command(command);
    link.channel().send(message);
  };
  commands.onOutput = print;
  return runSetup(start.spec().workload(), folder, commands);
}

}  // namespace lockstep::agent
