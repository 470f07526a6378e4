#include "app/runs/forward.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "app/deploy/node_link.h"
#include "app/runs/preview.h"
#include "engine/plan/inputs.h"
#include "engine/planner/forward_plan.h"
#include "engine/specs/planned.h"
#include "lockstep/node/v1/worker.pb.h"

extern char** environ;

namespace lockstep::app {
namespace {

node::v1::WorkerStart startOf(const spec::v1::RunSpec& spec, const ForwardWeights& weights) {
  node::v1::WorkerStart start;
  *start.mutable_spec() = spec;
  auto& init = *start.mutable_spec()->mutable_model()->mutable_init_from();
  init.Clear();
  const std::string path = std::filesystem::absolute(weights.path).string();
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {
    init.set_checkpoint(path);
  } else {
    init.set_file(path);
    init.set_names(weights.names);
    (*start.mutable_data_paths())[std::string(specs::kInitFile)] = path;
  }
  start.set_world(1);
  start.set_threads(usableCores());
  const std::string backend = specs::backendOn("cpu", spec.training());
  start.set_backend(backend == "cuda" ? "onednn" : backend);
  return start;
}

std::string withLength(const std::string& text) {
  const std::uint64_t size = text.size();
  std::string out(sizeof size, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  return out + text;
}

// The error that the process wrote: its code, and what it says.
Error saidBy(std::string_view text) {
  const std::size_t colon = text.find(": ");
  const auto code = codeFromName(text.substr(0, colon));
  if (colon == std::string_view::npos || !code) return makeError(Code::kAborted, "{}", text);
  return makeError(*code, "{}", text.substr(colon + 2));
}

}  // namespace

Result<std::unique_ptr<Forward>> Forward::start(const spec::v1::RunSpec& spec,
                                                const ForwardWeights& weights, std::int64_t batch,
                                                std::function<bool()> isStopped) {
  const node::v1::WorkerStart start = startOf(spec, weights);
  LOCKSTEP_ASSIGN(const plan::Plan plan, specs::makeForwardPlan(spec, batch, start.threads()));
  std::unique_ptr<Forward> out(new Forward);
  out->isStopped_ = std::move(isStopped);
  const plan::Body& body = plan.programs.front().bodies.front();
  for (const plan::Buffer* input : plan::sampleInputs(body))
    out->inputs_.push_back({input->name, input->type,
                            std::vector<std::byte>(static_cast<std::size_t>(input->type.bytes()))});
  for (const plan::ResultSlot& result : body.results)
    if (result.name == planner::kModelOutput)
      out->output_ = {result.name, body.buffers[static_cast<std::size_t>(result.buffer)].type, {}};
  const DType dtype = out->output_.type.dtype;
  if (out->output_.name.empty() || (dtype != DType::kF32 && dtype != DType::kF64))
    return makeError(Code::kInternal, "the forward pass of {} gives no numbers", plan.name);
  out->output_.bytes.resize(static_cast<std::size_t>(out->output_.type.bytes()));
  out->metricName_ = plan.metric();
  LOCKSTEP_TRY(out->spawn());
  for (const std::string& text : {start.SerializeAsString(), plan::text(plan)}) {
    const std::string sent = withLength(text);
    LOCKSTEP_TRY(out->send(sent.data(), sent.size()));
  }
  return out;
}

Forward::~Forward() {
  if (socket_ >= 0) close(socket_);
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (errors_ >= 0) close(errors_);
}

Status Forward::spawn() {
  LOCKSTEP_ASSIGN(const std::string agent, findLocalAgent());
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return systemError(errno, "cannot create a socket");
  socket_ = ends[0];
  errors_ = ::memfd_create("errors", MFD_CLOEXEC);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, errors_, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Ctrl-C at the terminal is the command's alone, which then ends the process.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::string words[] = {agent, "forward"};
  char* argv[] = {words[0].data(), words[1].data(), nullptr};
  const int spawned = ::posix_spawn(&pid_, argv[0], &actions, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (spawned == 0) return {};
  pid_ = -1;
  return systemError(spawned, message("cannot run {}", agent));
}

Status Forward::await(short events) const {
  constexpr int kLookMs = 100;
  for (;;) {
    if (isStopped_ && isStopped_())
      return makeError(Code::kCancelled, "the forward pass was cancelled");
    pollfd ready{socket_, events, 0};
    if (::poll(&ready, 1, kLookMs) > 0) return {};
  }
}

Status Forward::send(const void* from, std::size_t size) {
  for (std::size_t at = 0; at < size;) {
    LOCKSTEP_TRY(await(POLLOUT));
    const ssize_t count = ::send(socket_, static_cast<const char*>(from) + at, size - at,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return ended();
    at += static_cast<std::size_t>(count);
  }
  return {};
}

Status Forward::receive(void* to, std::size_t size) {
  for (std::size_t at = 0; at < size;) {
    LOCKSTEP_TRY(await(POLLIN));
    const ssize_t count = ::recv(socket_, static_cast<char*>(to) + at, size - at, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return ended();
    at += static_cast<std::size_t>(count);
  }
  return {};
}

Error Forward::ended() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  std::string text(4096, '\0');
  const off_t size = ::lseek(errors_, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(text.size()));
  const ssize_t count = ::pread(errors_, text.data(), text.size(), from);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  while (text.ends_with('\n')) text.pop_back();
  constexpr std::string_view kPrefix = "lockstep-agent forward: ";
  const std::size_t said = text.rfind(kPrefix);
  if (WIFEXITED(status) && said != std::string::npos)
    return saidBy(text.substr(said + kPrefix.size()));
  Error error = makeError(Code::kAborted, "the process that runs the model ended");
  error.why = WIFSIGNALED(status) ? message("signal {}", WTERMSIG(status)) : message("{}", text);
  return error;
}

Forward::Operand* Forward::find(std::string_view name) {
  const auto at = std::find_if(inputs_.begin(), inputs_.end(),
                               [&](const Operand& input) { return input.name == name; });
  return at == inputs_.end() ? nullptr : &*at;
}

const ir::TensorType* Forward::type(std::string_view input) const {
  const Operand* const found = const_cast<Forward*>(this)->find(input);
  return found == nullptr ? nullptr : &found->type;
}

std::span<std::byte> Forward::input(std::string_view name) {
  Operand* const found = find(name);
  return found == nullptr ? std::span<std::byte>() : std::span(found->bytes);
}

Status Forward::run() {
  for (const Operand& input : inputs_) LOCKSTEP_TRY(send(input.bytes.data(), input.bytes.size()));
  LOCKSTEP_TRY(receive(output_.bytes.data(), output_.bytes.size()));
  return receive(found_, sizeof found_);
}

std::vector<double> Forward::row(std::int64_t index) const {
  std::vector<double> out(static_cast<std::size_t>(columns()));
  const std::size_t size = sizeOf(output_.type.dtype);
  const std::byte* const from =
      output_.bytes.data() + static_cast<std::size_t>(index) * out.size() * size;
  if (output_.type.dtype == DType::kF64) {
    std::memcpy(out.data(), from, out.size() * size);
    return out;
  }
  std::vector<float> narrow(out.size());
  std::memcpy(narrow.data(), from, narrow.size() * size);
  std::copy(narrow.begin(), narrow.end(), out.begin());
  return out;
}

}  // namespace lockstep::app
