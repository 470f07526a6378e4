#include "app/alerts/alert_actions.h"

#include "app/alerts/webhook.h"
#include "app/ssh/run_process.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::seconds kLimit{10};
constexpr std::size_t kMostPending = 100;

Status runCommand(const AlertSettings& settings, const std::string& json,
                  const std::stop_token& stop) {
  LOCKSTEP_ASSIGN(const std::vector<std::string> words, commandWords(settings.command));
  if (words.empty()) return {};
  const auto ran = runProcess(words, kLimit, stop, {.input = json, .ownGroup = true});
  const auto failed = [&](Code code, Message why) {
    Error error = makeError(code, "the alert command {} failed", words[0]);
    error.why = std::move(why);
    error.next = "see actions.command of the alert rules";
    return error;
  };
  if (!ran.ok()) return failed(ran.error().code, ran.error().message());
  if (ran->exitStatus == 0) return {};
  const std::string line = ran->errorOutput.substr(0, ran->errorOutput.find('\n'));
  return failed(Code::kFailedPrecondition,
                line.empty() ? message("it ended with status {}", ran->exitStatus)
                             : message("it ended with status {}: {}", ran->exitStatus, line));
}

}  // namespace

Status performAlertAction(AlertAction action, const AlertSettings& settings,
                          const AlertEvent& event, const std::stop_token& stop) {
  const std::string json = alertJson(event) + "\n";
  if (action == AlertAction::kCommand) return runCommand(settings, json, stop);
  if (action == AlertAction::kWebhook) return postJson(settings.webhook, json, kLimit, stop);
  return {};
}

AlertActions::AlertActions(Inbox& inbox, std::function<void(const Error&)> failed)
    : inbox_(inbox), failed_(std::move(failed)) {}

AlertActions::~AlertActions() = default;

void AlertActions::act(const AlertEvent& event, const AlertSettings& settings) {
  for (const AlertAction action : {AlertAction::kCommand, AlertAction::kWebhook}) {
    if (!settings.acts(event.rule, action)) continue;
    if (pending_ >= kMostPending) {
      fail(action, makeError(Code::kResourceExhausted,
                             "alerts come faster than their actions are performed"));
      continue;
    }
    ++pending_;
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back({action, settings, event});
    }
    added_.notify_one();
    if (!thread_.joinable())
      thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }
}

void AlertActions::work(const std::stop_token& stop) {
  const std::weak_ptr<void> alive = alive_;
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!added_.wait(lock, stop, [this] { return !jobs_.empty(); }) || stop.stop_requested())
      return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Status status = performAlertAction(job.action, job.settings, job.event, stop);
    inbox_.post(alive,
                [this, action = job.action, status = std::move(status)] { done(action, status); });
  }
}

void AlertActions::done(AlertAction action, const Status& status) {
  --pending_;
  if (status.ok())
    told_[static_cast<std::size_t>(action)] = false;
  else
    fail(action, status.error());
}

void AlertActions::fail(AlertAction action, const Error& error) {
  if (!std::exchange(told_[static_cast<std::size_t>(action)], true)) failed_(error);
}

}  // namespace lockstep::app
