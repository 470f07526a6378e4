// lockstep_hosts COUNT MEGABIT COMMAND…: runs a command among hosts n1 … nCOUNT of their own on
// this machine, whose links carry so many megabits a second (0: as many as there are). In its
// environment are HOSTS_SSH_CONFIG, for `lockstep
// --ssh-config`, and HOSTS_FOLDER, which is deleted afterwards. Needs root. Exit: the command's; 77
// where there can be no hosts.
#include <cstdio>
#include <cstdlib>

#include "tests/cluster/hosts.h"

using namespace lockstep;

int main(int argc, char** argv) {
  const int count = argc > 3 ? std::atoi(argv[1]) : 0, megabit = argc > 3 ? std::atoi(argv[2]) : -1;
  if (count < 1 || count > test::Hosts::kMost || megabit < 0) {
    std::fprintf(stderr, "usage: lockstep_hosts COUNT MEGABIT COMMAND…\n");
    return 2;
  }
  test::TempFolder folder;
  test::makeKey(folder / "id");
  std::string why;
  const auto hosts = test::Hosts::start(count, folder.path(), folder / "id", &why, "", true);
  if (!hosts || !hosts->enter()) {
    std::fprintf(stderr, "no hosts: %s\n", why.c_str());
    return 77;
  }
  for (int host = 1; megabit > 0 && host <= count; ++host) {
    if (hosts->limitRate(host, megabit)) continue;
    std::fprintf(stderr, "the rate of host %d cannot be limited\n", host);
    return 77;
  }
  test::writeText(folder / "config", hosts->sshConfig(folder / "known", folder / "id"));
  ::setenv("HOSTS_SSH_CONFIG", (folder / "config").c_str(), 1);
  ::setenv("HOSTS_FOLDER", folder.path().c_str(), 1);
  std::string command;
  for (int i = 3; i < argc; ++i) {
    std::string quoted;
    for (const char c : std::string(argv[i]))
      quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    command += " '" + quoted + "'";
  }
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
