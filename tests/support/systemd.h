// A stand-in for systemd's programs on a node of a test, and how an agent there was started.
#pragma once

#include <filesystem>
#include <string>

#include "tests/support/sshd.h"

namespace lockstep::test {

// A unit is a session whose environment names it. The files "manager" and "linger" of the folder
// say whether a user manager answers, and whether the account lingers.
inline void makeSystemd(const std::string& folder) {
  std::filesystem::create_directories(folder);
  writeText(folder + "/systemctl",
            "#!/bin/sh\ncd " + folder +
                "\n[ -e manager ] || { echo 'Failed to connect to bus: No medium found' "
                ">&2; exit 1; }\n"
                "case \"$*\" in *is-active*) for unit; do :; done\n"
                "  grep -qs '^State:.[^Z]' \"/proc/$(cat \"active-$unit\")/status\";; esac\n",
            0755);
  writeText(folder + "/loginctl",
            "#!/bin/sh\n[ -e " + folder + "/linger ] && echo yes || echo no\n", 0755);
  writeText(folder + "/systemd-run",
            "#!/bin/sh\necho \"$XDG_RUNTIME_DIR $*\" >> " + folder +
                "/log\n"
                "[ -e " +
                folder +
                "/broken ] && { echo 'Job failed.' >&2; exit 1; }\n"
                "while [ \"$1\" != -- ]; do case $1 in --unit=*) unit=${1#--unit=};; esac; "
                "shift; done\nshift\n"
                "env -i HOME=\"$HOME\" UNIT=\"$unit\" XDG_RUNTIME_DIR=\"$XDG_RUNTIME_DIR\" "
                "setsid \"$@\" > " +
                folder +
                "/said || exit\n"
                "sed -n 's/.*\"pid\": *\\([0-9]*\\).*/\\1/p' " +
                folder + "/said > " + folder + "/active-$unit\n",
            0755);
}

// As it was started: "unit" or "detached".
inline std::string startOf(std::int64_t pid) {
  const std::string environment = readText("/proc/" + std::to_string(pid) + "/environ");
  const bool unit = environment.find("UNIT=lockstep-agent-") != std::string::npos;
  return unit ? "unit" : "detached";
}

}  // namespace lockstep::test
