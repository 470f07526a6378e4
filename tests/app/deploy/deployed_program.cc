// Stands in for an agent where only bringing and starting it matters. Linked to libssh, whose own
// libraries have libraries: a bundle of it needs a transitive RPATH.
#include <libssh/libssh.h>
#include <unistd.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "serve" && argc >= 5) {
    std::printf(
        "a line of something else\n{\"socket\":\"%s/agent.sock\",\"version\":\"%s\",\"pid\":%d}\n",
        argv[3], ssh_version(0), static_cast<int>(::getpid()));
    return 0;
  }
  if (command == "hold") {  // runs until its stdin ends
    std::printf("holding\n");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    return 0;
  }
  std::fprintf(stderr, "no such command\n");
  return 2;
}
