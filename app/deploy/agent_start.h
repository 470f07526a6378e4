// How a node's agent is started: detached, or as a unit of systemd's user manager, which accounts
// for its resources. The choice is kept on the node, in <workdir>/agent-start, so that whoever
// starts the agent next starts it alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep::app {

enum class AgentStart : std::uint8_t {
  kDetached,
  kSystemd,    // an error where no user manager answers, or the account does not linger
  kAutomatic,  // as a unit where that would work, else detached
};
std::string_view agentStartName(AgentStart start);  // "detached", "systemd", "auto"
// Of these names. Errors: kInvalidArgument.
Result<AgentStart> parseAgentStart(const std::string& name);

// Returns the POSIX shell script that keeps the choice, if there is one, and starts the agent of
// the folder as the choice kept says; its last line of output is the agent's announcement.
// `flags` are further ones of `serve`.
std::string agentStartScript(const std::string& folder, const std::string& workdir,
                             const std::string& flags, std::optional<AgentStart> choice);

// What the script's end means where systemd was to be used and could not; nothing for other ends.
std::optional<Error> systemdError(int exitStatus, const std::string& errorOutput);

}  // namespace lockstep::app
