#include "app/ssh/sftp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "app/ssh/wake.h"

namespace lockstep::app {
namespace {

using Clock = std::chrono::steady_clock;

// draft-ietf-secsh-filexfer-02, the version every server speaks, and OpenSSH's PROTOCOL file.
enum Packet : std::uint8_t {
  kInit = 1,
  kVersion = 2,
  kOpen = 3,
  kClose = 4,
  kWrite = 6,
  kOpenDir = 11,
  kReadDir = 12,
  kRemove = 13,
  kMakeDir = 14,
  kRemoveDir = 15,
  kRename = 18,
  kStatusReply = 101,
  kHandleReply = 102,
  kNameReply = 104,
  kExtended = 200,
};
enum StatusCode : std::uint32_t { kOkStatus = 0, kEof = 1, kNoSuchFile = 2, kNoPermission = 3 };
constexpr std::uint32_t kOpenWrite = 0x02, kOpenCreate = 0x08, kOpenExclusive = 0x20;
constexpr std::uint32_t kAttrSize = 1, kAttrIds = 2, kAttrMode = 4, kAttrTimes = 8;
constexpr std::uint32_t kAttrExtended = 0x80000000;
constexpr std::size_t kWriteBytes = 32 * 1024;  // every server takes packets of this size
constexpr std::size_t kInFlight = 64;           // 2 MiB: one channel window
constexpr std::uint32_t kLargestPacket = 1 << 20;

class Writer {
 public:
  Writer& u8(std::uint8_t value) { return bytes_.push_back(static_cast<char>(value)), *this; }
  Writer& u32(std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) u8(static_cast<std::uint8_t>(value >> shift));
    return *this;
  }
  Writer& u64(std::uint64_t value) {
    return u32(static_cast<std::uint32_t>(value >> 32)).u32(static_cast<std::uint32_t>(value));
  }
  Writer& text(std::string_view value) {
    u32(static_cast<std::uint32_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  Writer& mode(int value) { return u32(kAttrMode).u32(static_cast<std::uint32_t>(value)); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads past the end give zeros and make good() false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  std::uint8_t u8() {
    if (bytes_.empty()) return good_ = false, std::uint8_t{0};
    const auto value = static_cast<std::uint8_t>(bytes_[0]);
    bytes_.remove_prefix(1);
    return value;
  }
  std::uint32_t u32() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | u8();
    return value;
  }
  std::uint64_t u64() {
    const std::uint64_t high = u32();
    return high << 32 | u32();
  }
  std::string text() {
    const std::uint32_t size = u32();
    if (size > bytes_.size()) return good_ = false, bytes_ = {}, "";
    std::string value(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return value;
  }
  bool good() const { return good_; }
  bool done() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool good_ = true;
};

struct Reply {
  std::uint8_t type = 0;
  std::string body;  // after the request's number
};

}  // namespace

class SftpClient::Impl {
 public:
  Impl(UniqueFd stream, std::stop_token stop, std::chrono::milliseconds timeout)
      : stream_(std::move(stream)),
        stop_(std::move(stop)),
        timeout_(timeout),
        onStop_(stop_, [this] { wake_.notify(); }) {
    ::fcntl(stream_.get(), F_SETFL, ::fcntl(stream_.get(), F_GETFL) | O_NONBLOCK);
  }

  Status handshake() {
    Writer init;
    init.u8(kInit).u32(3);
    queue(init.bytes());
    LOCKSTEP_TRY(pumpUntil([&] { return version_.has_value(); }));
    if (*version_ < 3) return broken("the server speaks an SFTP older than version 3");
    return {};
  }

  std::uint32_t send(Packet type, const std::string& body) {
    const std::uint32_t id = ++lastId_;
    Writer packet;
    packet.u8(type).u32(id);
    queue(packet.bytes() + body);
    waiting_.insert(id);
    return id;
  }
  Result<Reply> receive(std::uint32_t id) {
    LOCKSTEP_TRY(pumpUntil([&] { return replies_.count(id) > 0; }));
    Reply reply = std::move(replies_[id]);
    replies_.erase(id);
    return reply;
  }
  Result<Reply> call(Packet type, const std::string& body) { return receive(send(type, body)); }
  Status callForStatus(Packet type, const std::string& body, const Message& what) {
    LOCKSTEP_ASSIGN(const Reply reply, call(type, body));
    return statusOf(reply, what);
  }

  Status statusOf(const Reply& reply, const Message& what) const {
    Reader reader(reply.body);
    if (reply.type != kStatusReply) return broken("an answer of the wrong kind");
    const std::uint32_t status = reader.u32();
    const std::string words = reader.text();
    if (status == kOkStatus) return {};
    Error error = makeError(status == kNoSuchFile     ? Code::kNotFound
                            : status == kNoPermission ? Code::kPermissionDenied
                                                      : Code::kUnavailable,
                            "{} failed on the node", what);
    error.why = words.empty() ? message("SFTP status {}", status) : Message(words);
    return error;
  }
  Result<std::string> handleOf(const Reply& reply, const std::string& what) const {
    if (reply.type != kHandleReply) {
      LOCKSTEP_TRY(statusOf(reply, what));
      return broken("no handle in an answer").error();
    }
    return Reader(reply.body).text();
  }
  bool has(const std::string& extension) const { return extensions_.count(extension) > 0; }

  Status upload(const std::string& local, const std::string& remote, int mode,
                const std::function<void(std::uint64_t)>& progress) {
    UniqueFd file(::open(local.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return systemError(errno, message("cannot read {}", local));
    const Message what = message("writing {}", remote);
    LOCKSTEP_ASSIGN(const Reply opened,
                    call(kOpen, Writer()
                                    .text(remote)
                                    .u32(kOpenWrite | kOpenCreate | kOpenExclusive)
                                    .mode(mode)
                                    .bytes()));
    LOCKSTEP_ASSIGN(const std::string handle, handleOf(opened, what));
    Status status = writeAll(file.get(), local, handle, what, progress);
    if (status.ok() && has("fsync@openssh.com"))
      status =
          callForStatus(kExtended, Writer().text("fsync@openssh.com").text(handle).bytes(), what);
    if (!dead_) {
      Status closed = callForStatus(kClose, Writer().text(handle).bytes(), what);
      if (status.ok()) status = std::move(closed);
    }
    return status;
  }

 private:
  Status writeAll(int file, const std::string& local, const std::string& handle,
                  const std::string& what, const std::function<void(std::uint64_t)>& progress) {
    struct InFlight {
      std::uint32_t id;
      std::size_t bytes;
    };
    std::deque<InFlight> inFlight;
    std::uint64_t offset = 0;
    bool ended = false;
    Status first;  // the first failure; those in flight are still awaited
    std::string bytes(kWriteBytes, '\0');
    while (!ended || !inFlight.empty()) {
      while (!ended && inFlight.size() < kInFlight) {
        const ssize_t n = ::pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (n < 0) {
          first = systemError(errno, message("cannot read {}", local));
        }
        if (n <= 0) {
          ended = true;
          break;
        }
        const auto size = static_cast<std::size_t>(n);
        const std::uint32_t id = send(kWrite, Writer()
                                                  .text(handle)
                                                  .u64(offset)
                                                  .text(std::string_view(bytes).substr(0, size))
                                                  .bytes());
        inFlight.push_back({id, size});
        offset += size;
      }
      if (inFlight.empty()) break;
      LOCKSTEP_ASSIGN(const Reply reply, receive(inFlight.front().id));
      Status status = statusOf(reply, what);
      if (!status.ok()) {
        if (first.ok()) first = std::move(status);
        ended = true;
      } else if (progress) {
        progress(inFlight.front().bytes);
      }
      inFlight.pop_front();
    }
    return first;
  }

  Status broken(const Message& why) const {
    Error error = makeError(Code::kDataLoss, "the SFTP subsystem does not answer as it should");
    error.why = why;
    error.next = "check that the account's login files print nothing for non-interactive shells";
    return error;
  }

  void queue(const std::string& packet) {
    Writer size;
    size.u32(static_cast<std::uint32_t>(packet.size()));
    out_ += size.bytes();
    out_ += packet;
  }

  // Moves bytes both ways until the condition holds. After an error the stream is dead.
  template <typename Condition>
  Status pumpUntil(Condition condition) {
    Status status = pump(condition);
    dead_ = dead_ || !status.ok();
    return status;
  }
  template <typename Condition>
  Status pump(Condition condition) {
    auto deadline = Clock::now() + timeout_;
    char bytes[64 * 1024];
    for (;;) {
      if (condition()) return {};
      if (stop_.stop_requested()) return makeError(Code::kCancelled, "the copy was cancelled");
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) {
        Error error =
            makeError(Code::kDeadlineExceeded, "SFTP made no progress for {} ms", timeout_.count());
        error.next = "check the network to the node, then connect again";
        return error;
      }
      pollfd fds[] = {
          {stream_.get(), static_cast<short>(POLLIN | (sent_ < out_.size() ? POLLOUT : 0)), 0},
          {wake_.fd(), POLLIN, 0}};
      ::poll(fds, 2, static_cast<int>(std::min<long long>(left + 1, 60000)));
      if (fds[0].revents & POLLOUT) {
        const ssize_t n =
            ::send(stream_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
        if (n > 0) {
          sent_ += static_cast<std::size_t>(n);
          deadline = Clock::now() + timeout_;
        }
        if (sent_ == out_.size()) out_.clear(), sent_ = 0;
      }
      if (fds[0].revents & (POLLIN | POLLHUP | POLLERR)) {
        const ssize_t n = ::recv(stream_.get(), bytes, sizeof bytes, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
          Error error = makeError(Code::kUnavailable, "the SFTP connection ended");
          if (!version_) error.next = "check that sshd has the sftp subsystem";
          return error;
        }
        if (n > 0) {
          in_.append(bytes, static_cast<std::size_t>(n));
          deadline = Clock::now() + timeout_;
          LOCKSTEP_TRY(takePackets());
        }
      }
    }
  }
  Status takePackets() {
    std::size_t at = 0;
    while (in_.size() - at >= 4) {
      const std::uint32_t size = Reader(std::string_view(in_).substr(at)).u32();
      if (size < 5 || size > kLargestPacket) return broken("a packet of an impossible size");
      if (in_.size() - at < 4 + std::size_t{size}) break;
      Reader reader(std::string_view(in_).substr(at + 4, size));
      const std::uint8_t type = reader.u8();
      const std::uint32_t number = reader.u32();
      if (type == kVersion && !version_) {
        version_ = number;
        while (!reader.done() && reader.good()) {
          extensions_.insert(reader.text());
          reader.text();
        }
      } else {
        if (waiting_.erase(number) == 0) return broken("an answer to no question");
        replies_[number] = {type, in_.substr(at + 9, size - 5)};
      }
      at += 4 + std::size_t{size};
    }
    in_.erase(0, at);
    return {};
  }

  UniqueFd stream_;
  std::stop_token stop_;
  const std::chrono::milliseconds timeout_;
  Wake wake_;
  std::stop_callback<std::function<void()>> onStop_;
  std::optional<std::uint32_t> version_;
  std::set<std::string> extensions_;
  std::uint32_t lastId_ = 0;
  std::set<std::uint32_t> waiting_;
  std::map<std::uint32_t, Reply> replies_;
  std::string out_, in_;
  std::size_t sent_ = 0;
  bool dead_ = false;
};

SftpClient::SftpClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SftpClient::~SftpClient() = default;

Result<std::unique_ptr<SftpClient>> SftpClient::start(UniqueFd stream, std::stop_token stop,
                                                      std::chrono::milliseconds timeout) {
  auto impl = std::make_unique<Impl>(std::move(stream), std::move(stop), timeout);
  LOCKSTEP_TRY(impl->handshake());
  return std::unique_ptr<SftpClient>(new SftpClient(std::move(impl)));
}

Status SftpClient::makeFolder(const std::string& path, int mode) {
  return impl_->callForStatus(kMakeDir, Writer().text(path).mode(mode).bytes(), "making " + path);
}

Result<std::vector<SftpClient::Entry>> SftpClient::list(const std::string& path) {
  const Message what = message("listing {}", path);
  LOCKSTEP_ASSIGN(const Reply opened, impl_->call(kOpenDir, Writer().text(path).bytes()));
  LOCKSTEP_ASSIGN(const std::string handle, impl_->handleOf(opened, what));
  std::vector<Entry> entries;
  Status status;
  for (;;) {
    LOCKSTEP_ASSIGN(const Reply reply, impl_->call(kReadDir, Writer().text(handle).bytes()));
    Reader reader(reply.body);
    if (reply.type != kNameReply) {
      if (reader.u32() != kEof) status = impl_->statusOf(reply, what);
      break;
    }
    for (std::uint32_t left = reader.u32(); left > 0 && reader.good(); --left) {
      Entry entry;
      entry.name = reader.text();
      reader.text();  // the line for people
      const std::uint32_t flags = reader.u32();
      if (flags & kAttrSize) entry.size = reader.u64();
      if (flags & kAttrIds) reader.u64();
      if (flags & kAttrMode) entry.folder = S_ISDIR(reader.u32());
      if (flags & kAttrTimes) reader.u64();
      if (flags & kAttrExtended)
        for (std::uint32_t n = reader.u32(); n > 0 && reader.good(); --n)
          reader.text(), reader.text();
      if (reader.good() && entry.name != "." && entry.name != "..")
        entries.push_back(std::move(entry));
    }
  }
  Status closed = impl_->callForStatus(kClose, Writer().text(handle).bytes(), what);
  if (!status.ok()) return status.error();
  if (!closed.ok()) return closed.error();
  return entries;
}

Status SftpClient::upload(const std::string& local, const std::string& remote, int mode,
                          const std::function<void(std::uint64_t)>& progress) {
  return impl_->upload(local, remote, mode, progress);
}

Status SftpClient::remove(const std::string& path) {
  return impl_->callForStatus(kRemove, Writer().text(path).bytes(), "removing " + path);
}

Status SftpClient::removeFolder(const std::string& path) {
  return impl_->callForStatus(kRemoveDir, Writer().text(path).bytes(), "removing " + path);
}

Status SftpClient::removeTree(const std::string& path) {
  LOCKSTEP_ASSIGN(const std::vector<Entry> entries, list(path));
  for (const Entry& entry : entries) {
    const std::string inner = path + "/" + entry.name;
    LOCKSTEP_TRY(entry.folder ? removeTree(inner) : remove(inner));
  }
  return removeFolder(path);
}

Status SftpClient::rename(const std::string& from, const std::string& to) {
  const std::string what = fmt::format("renaming {} to {}", from, to);
  if (impl_->has("posix-rename@openssh.com"))
    return impl_->callForStatus(
        kExtended, Writer().text("posix-rename@openssh.com").text(from).text(to).bytes(), what);
  return impl_->callForStatus(kRename, Writer().text(from).text(to).bytes(), what);
}

}  // namespace lockstep::app
