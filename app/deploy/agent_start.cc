#include "app/deploy/agent_start.h"

#include <algorithm>
#include <array>

#include "engine/base/shell_text.h"
#include "engine/base/text.h"

namespace lockstep::app {
namespace {

constexpr std::array<std::string_view, 3> kNames{"detached", "systemd", "auto"};
constexpr int kNoUserManager = 81, kNoLingering = 82, kUnitFailed = 83;

// Of A (the agent), W (its workdir), V (its version), R (further options) and CHOICE (of this
// start; "": as it was chosen before). An agent that serves is taken as it is. A forking unit is
// started when the agent serves; only the agent is stopped with it, since the supervisors of runs
// outlive it. Without lingering the user manager, and the unit with it, ends at the last logout.
// Another start may have made the unit meanwhile: its agent is found. The choice is kept once it
// has served.
constexpr const char* kStart = R"sh(keep() {
  case $CHOICE in
    detached) rm -f "$W/agent-start" ;;
    ?*) echo "$CHOICE" > "$W/agent-start" ;;
  esac
}
found() {
  "$A" serve --workdir "$W" --find $R </dev/null 2>/dev/null
}
if found; then
  keep
  exit
fi
how=${CHOICE:-$(cat "$W/agent-start" 2>/dev/null)}
case $how in systemd|auto)
  : "${XDG_RUNTIME_DIR:=/run/user/$(id -u)}"
  export XDG_RUNTIME_DIR
  fault=0
  if ! command -v systemd-run >/dev/null 2>&1; then
    fault=81 said='systemd-run is not installed'
  elif ! said=$(systemctl --user show-environment 2>&1 >/dev/null); then
    fault=81
  elif [ "$(loginctl show-user "$(id -un)" --property=Linger --value 2>/dev/null)" != yes ]; then
    fault=82 said=$(id -un)
  else
    unit=lockstep-agent-$V-$(printf %s "$W" | cksum | cut -d ' ' -f 1)
    plain=$(printf %s "$W" | sed 's/\$/$$/g')
    if ! said=$(systemd-run --user --quiet --collect --unit="$unit" --property=Type=forking \
      --property=KillMode=process -- "$A" serve --workdir "$plain" --detach $R 2>&1 </dev/null)
    then
      fault=83
      for second in 1 2 3 4 5; do
        if found; then
          keep
          exit
        fi
        sleep 1
      done
    fi
  fi
  if [ $fault -ne 0 ] && [ "$how" = systemd ]; then
    printf '%s\n' "$said" >&2
    exit $fault
  fi
esac
"$A" serve --workdir "$W" --detach $R </dev/null && keep
)sh";

}  // namespace

std::string_view agentStartName(AgentStart start) {
  return kNames[static_cast<std::size_t>(start)];
}

Result<AgentStart> parseAgentStart(const std::string& name) {
  if (const auto found = std::ranges::find(kNames, name); found != kNames.end())
    return static_cast<AgentStart>(found - kNames.begin());
  return invalidArgument("'{}' is no way to start an agent; expected detached, systemd or auto",
                         name);
}

std::string agentStartScript(const std::string& folder, const std::string& workdir,
                             const std::string& flags, std::optional<AgentStart> choice) {
  const std::string version = folder.substr(folder.rfind('/') + 1).substr(0, 12);
  const std::string kept(choice ? agentStartName(*choice) : std::string_view());
  return "A=" + shellQuote(folder + "/lockstep-agent") + "\nW=" + shellQuote(workdir) +
         "\nV=" + shellQuote(version) + "\nR=" + shellQuote(flags) + "\nCHOICE=" + kept + "\n" +
         kStart;
}

std::optional<Error> systemdError(int exitStatus, const std::string& errorOutput) {
  if (exitStatus != kNoUserManager && exitStatus != kNoLingering && exitStatus != kUnitFailed)
    return std::nullopt;
  Error error =
      makeError(Code::kFailedPrecondition, "the agent cannot start as a systemd user unit");
  const std::string said = withoutLineEnds(errorOutput.substr(0, 2000));
  if (exitStatus == kNoLingering) {
    error.why = message("{} does not linger: its units end at the last logout", said);
    error.next =
        message("on the node: loginctl enable-linger {}; or deploy with --start detached", said);
  } else if (exitStatus == kNoUserManager) {
    error.why = message("no user manager answers: {}", said);
    error.next =
        "on the node: loginctl enable-linger, which starts the user manager; or deploy with "
        "--start detached";
  } else {
    error.why = said;
    error.next = "see journalctl --user on the node; or deploy with --start detached";
  }
  return error;
}

}  // namespace lockstep::app
