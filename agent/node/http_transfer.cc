#include "agent/node/http_transfer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <utility>
#include <vector>

#include "engine/base/unique_fd.h"

namespace lockstep::agent {
namespace {

constexpr int kLookMs = 200;  // whether it was cancelled
constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr std::size_t kMostText = std::size_t{64} << 10;  // of what curl says
constexpr std::size_t kMostHead = std::size_t{1} << 20;   // curl before 8.3 has no limit
constexpr int kReceiveError = 56;                         // curl's exit code
constexpr int kHeadFd = 3;

struct Pipe {
  UniqueFd read, write;
};
Result<Pipe> makePipe() {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return systemError(errno, "cannot create a pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Returns a file in memory, without a name, that is read from its start.
Result<UniqueFd> inMemory(std::string_view text) {
  UniqueFd file(memfd_create("curl", MFD_CLOEXEC));
  if (!file || pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return systemError(errno, "cannot pass the URL to curl");
  return file;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string quoted(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ') out += c;
  }
  return out + "\"";
}

// What curl reads from its standard input.
std::string configOf(const HttpRequest& request) {
  const bool secure = request.url.starts_with("https:");
  std::string out = fmt::format(
      "url = {}\nsilent\nshow-error\ngloboff\npath-as-is\ndisallow-username-in-url\n"
      "suppress-connect-headers\nuser-agent = \"lockstep\"\nproto = \"={}\"\n"
      "connect-timeout = 30\nspeed-limit = 1\nspeed-time = 60\ndump-header = \"/dev/fd/{}\"\n",
      quoted(request.url), secure ? "https" : "http", kHeadFd);
  if (request.followRedirects)
    out += fmt::format("location\nmax-redirs = 5\nproto-redir = \"={}\"\n",
                       secure ? "https" : "http,https");
  for (const auto& [name, value] : request.headers)
    out += fmt::format("header = {}\n", quoted(fmt::format("{}: {}", name, value)));
  return out;
}

class Curl {
 public:
  ~Curl() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    (void)await();
  }
  Curl() = default;
  Curl(const Curl&) = delete;
  Curl& operator=(const Curl&) = delete;

  Status start(const std::string& config) {
    LOCKSTEP_ASSIGN(const UniqueFd in, inMemory(config));
    LOCKSTEP_ASSIGN(Pipe body, makePipe());
    LOCKSTEP_ASSIGN(Pipe head, makePipe());
    LOCKSTEP_ASSIGN(Pipe said, makePipe());
    (void)fcntl(body.read.get(), F_SETPIPE_SZ, 1 << 20);
    LOCKSTEP_TRY(spawn({in.get(), body.write.get(), said.write.get(), head.write.get()}));
    body_ = std::move(body.read);
    head_ = std::move(head.read);
    said_ = std::move(said.read);
    return {};
  }

  Result<HttpEnd> receive(const HttpReceiver& receiver, HttpHeadParser parser) {
    std::string said;
    bool begun = false;
    while (body_ || head_) {
      if (receiver.cancelled()) return makeError(Code::kCancelled, "the launch was cancelled");
      // The body waits for the head.
      const bool reading = parser.complete() || !head_;
      std::array<pollfd, 3> waits{{{reading ? body_.get() : -1, POLLIN, 0},
                                   {head_.get(), POLLIN, 0},
                                   {said_.get(), POLLIN, 0}}};
      if (poll(waits.data(), waits.size(), kLookMs) <= 0) continue;
      if (waits[2].revents != 0) {
        const std::string text = take(said_);
        if (said.size() < kMostText) said += text;
      }
      if (waits[1].revents != 0) parser.add(take(head_));
      if (parser.tooLong()) return HttpEnd{kReceiveError, "too large response headers"};
      if (parser.complete() && !std::exchange(begun, true))
        LOCKSTEP_TRY(receiver.head(parser.head()));
      if (waits[0].revents == 0) continue;
      const std::string piece = take(body_);
      if (!piece.empty() && begun) LOCKSTEP_TRY(receiver.body(piece));
    }
    while (said_) said += take(said_);
    return HttpEnd{await(), lastLine(said)};
  }

 private:
  Status spawn(const std::array<int, 4>& fds) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    for (int to = 0; to < 4; ++to)
      posix_spawn_file_actions_adddup2(&files, fds[static_cast<std::size_t>(to)], to);
    posix_spawn_file_actions_addclosefrom_np(&files, kHeadFd + 1);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    std::array<std::string, 4> words{"curl", "-q", "--config", "-"};
    std::array<char*, 5> arguments{};
    for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
    const int failure = posix_spawnp(&pid_, "curl", &files, &attributes, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (failure == 0) return {};
    pid_ = -1;
    if (failure != ENOENT) return systemError(failure, "cannot start curl");
    Error error = makeError(Code::kNotFound, "there is no curl on the node");
    error.why = "data files with a URL are fetched by it";
    error.next = "install the package curl there";
    return error;
  }

  // What there is to read; closes the pipe at its end.
  std::string take(UniqueFd& from) {
    std::string out(kPiece, '\0');
    ssize_t count = -1;
    do count = read(from.get(), out.data(), out.size());
    while (count < 0 && errno == EINTR);
    if (count <= 0) from.reset();
    out.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return out;
  }

  int await() {
    int status = 0;
    pid_t ended = -1;
    do ended = waitpid(pid_, &status, 0);
    while (ended < 0 && errno == EINTR);
    pid_ = -1;
    return ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // "curl: (18) transfer closed with 5 bytes remaining to read", without its beginning.
  static std::string lastLine(std::string said) {
    while (said.ends_with('\n')) said.pop_back();
    said.erase(0, said.rfind('\n') + 1);
    if (const std::size_t end = said.find(") "); said.starts_with("curl: (") && end < said.size())
      said.erase(0, end + 2);
    return said;
  }

  pid_t pid_ = -1;
  UniqueFd body_, head_, said_;
};

}  // namespace

std::string HttpHead::field(const std::string& name) const {
  const auto at = fields.find(name);
  return at == fields.end() ? std::string() : at->second;
}

std::int64_t HttpHead::number(const std::string& name) const {
  const std::string text = field(name);
  std::int64_t out = -1;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failed == std::errc() && end == text.data() + text.size() && out >= 0 ? out : -1;
}

bool HttpHeadParser::tooLong() const { return bytes_ > kMostHead; }

void HttpHeadParser::add(std::string_view piece) {
  if (complete_) return;
  bytes_ += piece.size();
  std::size_t begin = 0, end = rest_.size();  // of a line
  rest_ += piece;
  while (!complete_ && (end = rest_.find('\n', end)) != std::string::npos) {
    std::string_view line = std::string_view(rest_).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    addLine(line);
    begin = ++end;
  }
  rest_.erase(0, begin);
}

void HttpHeadParser::addLine(std::string_view line) {
  if (line.starts_with("HTTP/")) {
    head_ = {};
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos)
      std::from_chars(line.data() + space + 1, line.data() + line.size(), head_.status);
    return;
  }
  if (line.empty()) {
    const bool redirect = head_.status / 100 == 3 && !head_.field("location").empty();
    complete_ = head_.status >= 200 && !(redirect && follows_);
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::size_t start = line.find_first_not_of(' ', colon + 1);
  head_.fields[lower(std::string(line.substr(0, colon)))] =
      start == std::string_view::npos ? std::string_view() : line.substr(start);
}

Result<HttpEnd> httpGet(const HttpRequest& request, const HttpReceiver& receiver) {
  Curl curl;
  LOCKSTEP_TRY(curl.start(configOf(request)));
  return curl.receive(receiver, HttpHeadParser(request.followRedirects));
}

}  // namespace lockstep::agent
