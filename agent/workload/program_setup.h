// What workload.setup has made of a program's code on this node: a folder for each content of the
// code, its commands, variables and Python, <workdir>/programs/<key>/. Runs get a copy of it.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"
#include "lockstep/spec/v1/workload.pb.h"

namespace lockstep::agent {

struct SetupFolder {
  std::string path;
  std::string code() const { return path + "/code"; }
  std::string log() const { return path + "/log"; }  // what the commands have printed
  // Exists once all commands have succeeded. Holds the run that they ran for; its time is the last
  // use.
  std::string done() const { return path + "/done"; }
  std::string lock() const { return path + "/lock"; }
  bool isDone() const;
};

// Returns the name of the folder: a hash. Values of workload.env_from do not count.
std::string setupKey(const spec::v1::WorkloadSpec& workload, const std::string& codeSha256);

// Holds the folder: alone, while commands run in it or it is removed, or with others that read it.
// Waits for whoever holds it. Makes the folder if it is missing.
Result<UniqueFd> holdSetup(const SetupFolder& folder, bool alone);
// Likewise alone, without waiting; kUnavailable if somebody holds it.
Result<UniqueFd> tryHoldSetup(const SetupFolder& folder);

struct SetupCommands {
  std::string run;       // that is being launched
  std::string codeFile;  // spec.v1.CodeFiles
  std::map<std::string, std::string> secrets;
  std::function<void(int index, const std::string& command)> onCommand;  // index from 1
  std::function<void(std::string_view bytes)> onOutput;
};
// Runs the commands in the code, one after the other. `folder` is held alone. What an unfinished
// call has left is removed first. Errors: of a command, kFailedPrecondition with its last lines and
// field workload.setup[…]; those of writeCode().
Status runSetup(const spec::v1::WorkloadSpec& workload, const SetupFolder& folder,
                const SetupCommands& commands);

// Copies what was set up to the folder `to`, which must not exist, with modes and times. Removes it
// again if that fails. Errors: kFailedPrecondition, it was not set up; kCancelled; others of the
// system.
Status copySetup(const SetupFolder& folder, const std::string& to,
                 const std::function<bool()>& cancelled);

// Returns what the run's log says of it: what the commands printed, if they ran for `run`.
std::string setupStory(const SetupFolder& folder, const std::string& run);

}  // namespace lockstep::agent
