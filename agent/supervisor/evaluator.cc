#include "agent/supervisor/evaluator.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "agent/base/grpc_status.h"
#include "engine/base/file.h"
#include "engine/runtime/checkpoint.h"

namespace lockstep::agent {
namespace {

std::string stepList(const std::vector<std::int64_t>& steps) {
  return fmt::format("{} {}", steps.size() == 1 ? "step" : "steps", fmt::join(steps, ", "));
}

}  // namespace

Evaluator::Evaluator(EventLoop& loop, const RunFolder& folder,
                     const node::v1::PrepareRequest& request, const specs::RankDevice& device,
                     Handlers handlers)
    : loop_(loop),
      folder_(folder),
      request_(request),
      device_(device),
      handlers_(std::move(handlers)) {}

Evaluator::~Evaluator() {
  worker_.reset();
  if (file_ >= 0) close(file_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_.checkpoints(), ignored);
}

Status Evaluator::start() {
  return writeFileAtomically(planPath(), request_.evaluation_plan(), 0600);
}

std::string Evaluator::checkpoint() const {
  return fmt::format("{}/step-{:09}", folder_.checkpoints(), step());
}

void Evaluator::onNewest(const node::v1::Evaluate& newest) {
  const std::int64_t told = newest.epoch().step();
  if ((at_ && told <= step()) || (waiting_ && told <= waiting_->epoch().step())) return;
  if (told_ && told <= told_->epoch().step()) return;
  if (waiting_) passed_.push_back(waiting_->epoch().step());
  waiting_ = newest;
  next();
}

void Evaluator::next() {
  if (at_ || !waiting_) return;
  at_ = std::exchange(waiting_, std::nullopt);
  if (!passed_.empty())
    handlers_.say(fmt::format(
        "evaluates the weights after step {}; those after {} were passed over: it was still "
        "at work",
        step(), stepList(std::exchange(passed_, {}))));
  std::error_code error;
  std::filesystem::create_directories(checkpoint(), error);
  file_ = open(weights::stateFile(checkpoint()).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
               0600);
  fetched_ = 0;
  if (file_ < 0) {
    end(systemError(errno, message("cannot write the checkpoint to {}", checkpoint())));
    return;
  }
  ask();
}

void Evaluator::ask() {
  node::v1::CheckpointGet get;
  get.set_step(step());
  get.set_offset(fetched_);
  handlers_.ask(get);
}

void Evaluator::onJoin() {
  if (told_) handlers_.tell(*told_);
  if (at_ && file_ >= 0) ask();
}

void Evaluator::onPart(const node::v1::CheckpointPart& part) {
  if (!at_ || file_ < 0 || part.step() != step() || part.offset() != fetched_) return;
  if (part.data().empty()) {
    if (waiting_) {  // a newer one took its place before it could be fetched
      passed_.push_back(step());
      close(std::exchange(file_, -1));
      std::error_code ignored;
      std::filesystem::remove_all(checkpoint(), ignored);
      at_.reset();
      next();
      return;
    }
    end(makeError(Code::kNotFound, "the checkpoint of step {} is not there any more", step()));
    return;
  }
  if (Status status = write(part.data()); !status.ok()) {
    end(status.error());
    return;
  }
  if (fetched_ < at_->bytes()) {
    ask();
    return;
  }
  close(std::exchange(file_, -1));
  if (Status status = evaluate(); !status.ok()) end(status.error());
}

Status Evaluator::write(const std::string& data) {
  for (std::size_t at = 0; at < data.size();) {
    const ssize_t count = ::write(file_, data.data() + at, data.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return systemError(errno, message("cannot write the checkpoint to {}", checkpoint()));
    at += static_cast<std::size_t>(count);
  }
  fetched_ += static_cast<std::int64_t>(data.size());
  return {};
}

Status Evaluator::evaluate() {
  result_.reset();
  failed_.reset();
  WorkerOptions options;
  options.run = request_.run();
  options.threads = device_.threads;
  options.logPath = folder_.logs() + "/evaluation.log";
  options.folder = folder_.path;
  WorkerProcess::Handlers handlers;
  handlers.onMessage = [this](node::v1::FromWorker& message) { onMessage(message); };
  handlers.onLines = [this](std::vector<std::string> lines, std::uint64_t) {
    for (std::string& line : lines) handlers_.say(std::move(line));
  };
  handlers.onExit = [this](int status) { onExit(status); };
  LOCKSTEP_ASSIGN(worker_, WorkerProcess::spawn(loop_, options, std::move(handlers)));
  node::v1::ToWorker message;
  node::v1::WorkerStart* start = message.mutable_start();
  start->set_mode("evaluate");
  start->set_run(request_.run());
  start->set_generation(request_.generation());
  start->set_node(request_.node());
  start->set_world(1);
  start->set_plan_path(planPath());
  *start->mutable_spec() = request_.spec();
  *start->mutable_data_paths() = request_.data_paths();
  start->set_threads(device_.threads);
  start->set_backend(device_.backend);
  start->set_device(device_.number);
  start->set_resume_from(checkpoint());
  worker_->send(message);
  return {};
}

void Evaluator::onMessage(const node::v1::FromWorker& message) {
  if (message.has_evaluated()) result_ = message.evaluated();
  if (message.has_failed()) failed_ = fromInfo(message.failed());
}

void Evaluator::onExit(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && result_) {
    end(std::nullopt);
  } else if (failed_) {
    end(*failed_);
  } else {
    Error error = makeError(Code::kAborted, "its worker {}", worker_->exitText(status));
    error.why = worker_->tail();
    end(std::move(error));
  }
}

void Evaluator::end(std::optional<Error> error) {
  told_.emplace();
  run::v1::EpochInfo* epoch = told_->mutable_epoch();
  *epoch = at_->epoch();
  if (error) {
    *told_->mutable_error() = toInfo(*error);
  } else {
    epoch->set_eval_loss(result_->eval_loss());
    epoch->set_eval_metric(result_->eval_metric());
  }
  worker_.reset();
  if (file_ >= 0) close(std::exchange(file_, -1));
  std::error_code ignored;
  std::filesystem::remove_all(checkpoint(), ignored);
  at_.reset();
  handlers_.tell(*told_);
  next();
}

}  // namespace lockstep::agent
