#include "agent/base/unix_server.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "agent/base/paths.h"
#include "engine/base/list_folder.h"
#include "engine/base/log.h"

namespace lockstep::agent {
namespace {

constexpr int kPauseMs = 50;  // before accept() is tried again

Result<sockaddr_un> addressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() > kMaxSocketPath)
    return invalidArgument("the socket path {} is longer than {} bytes", path, kMaxSocketPath);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

}  // namespace

bool isOwnUser(int fd, pid_t* pid) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  if (pid != nullptr) *pid = peer.pid;
  return peer.uid == geteuid();
}

Result<UniqueFd> listenUnix(const std::string& path, int backlog) {
  LOCKSTEP_ASSIGN(const sockaddr_un address, addressOf(path));
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener) return systemError(errno, "cannot create a socket");
  unlink(path.c_str());
  // The folder is 0700; the socket's own mode comes on top, before anyone can connect.
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      chmod(path.c_str(), 0600) != 0 || listen(listener.get(), backlog) != 0)
    return systemError(errno, message("cannot serve at {}", path));
  return listener;
}

struct UnixServer::State {
  std::string path;
  int listener = -1, wake = -1;
  std::unique_ptr<grpc::Server> server;
  std::thread thread;
  mutable std::mutex mutex;
  mutable std::set<ino_t> sockets;  // accepted; gRPC closes them, so they are looked for by inode

  void acceptLoop() {
    for (;;) {
      std::array<pollfd, 2> fds = {{{listener, POLLIN, 0}, {wake, POLLIN, 0}}};
      if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
      if (fds[1].revents != 0) return;
      if (fds[0].revents == 0) continue;
      const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) {  // as where no descriptor is left: the next attempt may have one
        poll(&fds[1], 1, kPauseMs);
        continue;
      }
      pid_t pid = 0;
      if (!isOwnUser(fd, &pid)) {
        logWarning("refused a connection of another user's process {} at {}", pid, path);
        ::close(fd);
        continue;
      }
      struct stat info {};
      if (fstat(fd, &info) == 0) {
        std::lock_guard lock(mutex);
        sockets.insert(info.st_ino);
      }
      grpc::AddInsecureChannelFromFd(server.get(), fd);
    }
  }
};

UnixServer::UnixServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<UnixServer>> UnixServer::start(const std::string& path,
                                                      grpc::Service& service) {
  auto state = std::make_unique<State>();
  state->path = path;
  LOCKSTEP_ASSIGN(UniqueFd listener, listenUnix(path, 64));
  state->listener = listener.release();
  state->wake = eventfd(0, EFD_CLOEXEC);

  // Not undone: gRPC would end with its last object, and wait up to 10 s for a thread that polls.
  // Who is asked to leave has less time.
  grpc_init();
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.SetSyncServerOption(grpc::ServerBuilder::CQ_TIMEOUT_MSEC, 10000);
  builder.SetMaxReceiveMessageSize(64 << 20);
  builder.SetMaxSendMessageSize(64 << 20);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 900);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  state->server = builder.BuildAndStart();
  if (!state->server) return makeError(Code::kInternal, "gRPC did not start at {}", path);
  state->thread = std::thread([raw = state.get()] { raw->acceptLoop(); });
  return std::unique_ptr<UnixServer>(new UnixServer(std::move(state)));
}

void UnixServer::close() {
  if (!state_->thread.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(state_->wake, &one, sizeof one);
  state_->thread.join();
  unlink(state_->path.c_str());
  ::close(state_->listener);
}

UnixServer::~UnixServer() {
  close();
  state_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
  state_->server->Wait();
  ::close(state_->wake);
}

int UnixServer::connections() const {
  std::set<ino_t> open;
  for (const auto& entry : listFolder("/proc/self/fd")) {
    struct stat info {};
    if (stat(entry.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) open.insert(info.st_ino);
  }
  std::lock_guard lock(state_->mutex);
  std::erase_if(state_->sockets, [&](ino_t inode) { return !open.contains(inode); });
  return static_cast<int>(state_->sockets.size());
}

Result<int> connectUnix(const std::string& path, pid_t* peer) {
  LOCKSTEP_ASSIGN(const sockaddr_un address, addressOf(path));
  // A server that is frozen accepts nothing: connecting would wait as long.
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return systemError(errno, "cannot create a socket");
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int why = errno;
    Error error = systemError(why, message("cannot connect to {}", path));
    if (why == ECONNREFUSED) error.next = "no process serves it";
    ::close(fd);
    return error;
  }
  if (!isOwnUser(fd, peer)) {
    ::close(fd);
    Error error = makeError(Code::kPermissionDenied, "{} belongs to another user", path);
    return error;
  }
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

}  // namespace lockstep::agent
