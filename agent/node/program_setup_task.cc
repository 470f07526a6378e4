#include "agent/node/program_setup_task.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "agent/base/grpc_status.h"
#include "agent/worker/worker_process.h"
#include "engine/specs/workload.h"

namespace lockstep::agent {
namespace {

constexpr std::chrono::milliseconds kLook{50};   // whether the client is there
constexpr Nanoseconds kTellEvery = 400'000'000;  // where there is nothing new

class Setup {
 public:
  Setup(EventLoop& loop, const SetupFolder& folder) : loop_(loop), folder_(folder) {}
  ~Setup() {
    loop_.callInAnyCase([this] { process_.reset(); });
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  Status start(const node::v1::SetUpRequest& request) {
    Status started;
    if (!loop_.call([&] { started = spawn(request); }))
      return makeError(Code::kUnavailable, "the agent is leaving");
    return started;
  }

  Status await(const SetupClient& client) {
    Nanoseconds told = 0;
    bool gone = false;
    std::unique_lock lock(mutex_);
    while (!over_) {
      changed_.wait_for(lock, kLook);
      const bool isDue = isNew_ || monotonicNow() - told > kTellEvery;
      node::v1::SetUpReply reply = isDue ? take() : node::v1::SetUpReply();
      lock.unlock();
      gone = gone || client.gone() || (isDue && !client.tell(reply));
      if (isDue) told = monotonicNow();
      // Ends what it leaves behind, too. Each time anew: a loop that has ended tells no end.
      if (gone && !loop_.call([this] { process_->signal(SIGKILL); }))
        return makeError(Code::kUnavailable, "the agent is leaving");
      lock.lock();
    }
    if (gone) return makeError(Code::kCancelled, "the launch was cancelled");
    for (isNew_ = true; isNew_;)
      if (!client.tell(take())) break;
    return failed_ ? Status(*failed_) : Status();
  }

 private:
  Status spawn(const node::v1::SetUpRequest& request) {
    WorkerOptions options;
    options.run = fmt::format("setup-{}-{}", getpid(), monotonicNow());
    WorkerProcess::Handlers handlers;
    handlers.onMessage = [this](node::v1::FromWorker& message) { onMessage(message); };
    handlers.onLines = [this](std::vector<std::string> lines, std::uint64_t dropped) {
      const std::lock_guard lock(mutex_);
      for (std::string& line : lines) lines_.push_back(std::move(line));
      now_.set_dropped(now_.dropped() + dropped);
      isNew_ = true;
    };
    handlers.onExit = [this](int status) { onExit(status); };
    LOCKSTEP_ASSIGN(process_, WorkerProcess::spawn(loop_, options, std::move(handlers)));
    node::v1::ToWorker message;
    node::v1::WorkerStart& start = *message.mutable_start();
    start.set_mode("setup");
    start.set_run(request.run());
    start.set_node(request.node());
    *start.mutable_spec() = request.spec();
    start.set_code_folder(folder_.path);
    (*start.mutable_data_paths())[std::string(specs::kCodeFile)] = request.code();
    *start.mutable_secret_env() = request.secret_env();
    process_->send(message);
    return {};
  }

  void onMessage(node::v1::FromWorker& message) {
    const std::lock_guard lock(mutex_);
    if (message.has_failed()) failed_ = fromInfo(message.failed());
    if (!message.has_setting_up()) return;
    now_.set_command(message.setting_up().command());
    now_.set_index(message.setting_up().index());
    isNew_ = true;
  }

  void onExit(int status) {
    const std::lock_guard lock(mutex_);
    over_ = true;
    const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!clean && !failed_)
      failed_ = makeError(Code::kAborted, "the process that sets the program up {}",
                          process_->exitText(status));
    if (failed_) failed_->rank = -1;
    changed_.notify_all();
  }

  // What is new, as much as a message holds. The command stays.
  node::v1::SetUpReply take() {
    constexpr std::size_t kMost = std::size_t{1} << 20;
    node::v1::SetUpReply out = now_;
    now_.clear_dropped();
    for (std::size_t bytes = 0; !lines_.empty() && bytes < kMost; lines_.pop_front()) {
      bytes += lines_.front().size();
      out.add_lines(std::move(lines_.front()));
    }
    isNew_ = !lines_.empty();
    return out;
  }

  EventLoop& loop_;
  const SetupFolder folder_;
  std::unique_ptr<WorkerProcess> process_;  // on the loop's thread
  std::mutex mutex_;
  std::condition_variable changed_;
  node::v1::SetUpReply now_;  // mutex_, as those below
  std::deque<std::string> lines_;
  bool isNew_ = false, over_ = false;
  std::optional<Error> failed_;
};

}  // namespace

Status setProgramUp(EventLoop& loop, const node::v1::SetUpRequest& request,
                    const SetupFolder& folder, const SetupClient& client) {
  Setup setup(loop, folder);
  LOCKSTEP_TRY(setup.start(request));
  return setup.await(client);
}

}  // namespace lockstep::agent
