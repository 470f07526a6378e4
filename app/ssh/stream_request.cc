#include "app/ssh/stream_request.h"

#include <errno.h>
#include <sys/socket.h>

namespace lockstep::app {

Result<std::pair<UniqueFd, UniqueFd>> streamPair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    return systemError(errno, "cannot create a pair of sockets");
  return std::pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

}  // namespace lockstep::app
