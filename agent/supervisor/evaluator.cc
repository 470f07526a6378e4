#include "agent/supervisor/evaluator.h"

#include <sys/wait.h>

#include <filesystem>
#include <utility>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/checkpoint_fetch.h"
#include "engine/base/file.h"
#include "engine/weights/checkpoint_files.h"

namespace lockstep::agent {
namespace {

// A node that cannot be reached for a moment, or a file that was damaged on its way.
constexpr int kMostTries = 10;
constexpr Nanoseconds kTryAgain = 1'000'000'000;

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
  *alive_ = false;
  loop_.cancel(nextTry_);
  fetching_ = {};
  worker_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_.checkpoints(), ignored);
}

Status Evaluator::start() {
  std::error_code ignored;  // what a supervisor that was killed has left
  std::filesystem::remove_all(folder_.checkpoints(), ignored);
  return writeFileAtomically(planPath(), request_.evaluation_plan(), 0600);
}

std::string Evaluator::checkpoint() const {
  return weights::checkpointAt(folder_.checkpoints(), step());
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
  tries_ = 0;
  fetch();
}

void Evaluator::fetch() {
  ++tries_;
  fetching_ =
      std::jthread([this, alive = alive_, request = request_, generation = handlers_.generation(),
                    at = *at_, folder = checkpoint()](const std::stop_token& stop) {
        const Status fetched = fetchWeights(request, generation, at, folder, stop);
        loop_.post([this, alive, fetched] {
          if (*alive) onFetched(fetched);
        });
      });
}

void Evaluator::onFetched(const Status& fetched) {
  if (fetched.ok()) {
    if (Status status = evaluate(); !status.ok()) end(status.error());
    return;
  }
  const bool isGone = fetched.code() == Code::kNotFound;
  const bool mayPass = fetched.code() == Code::kUnavailable || fetched.code() == Code::kDataLoss;
  if (waiting_ && (isGone || mayPass)) return passOver();
  if (mayPass && tries_ < kMostTries) {
    nextTry_ = loop_.after(kTryAgain, [this] {
      nextTry_ = 0;
      fetch();
    });
    return;
  }
  Error error = fetched.error();
  if (isGone) {
    error = makeError(Code::kNotFound, "the checkpoint of step {} is not there any more", step());
    error.why = fetched.error().what;
  }
  end(std::move(error));
}

void Evaluator::passOver() {
  passed_.push_back(step());
  std::error_code ignored;
  std::filesystem::remove_all(checkpoint(), ignored);
  at_.reset();
  next();
}

void Evaluator::onJoin() {
  if (told_) handlers_.tell(*told_);
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
  std::error_code ignored;
  std::filesystem::remove_all(checkpoint(), ignored);
  at_.reset();
  handlers_.tell(*told_);
  next();
}

}  // namespace lockstep::agent
