#include "app/alerts/alert_actions.h"

#include <algorithm>
#include <utility>

#include "app/alerts/webhook.h"
#include "app/ssh/run_process.h"
#include "engine/base/utf8.h"

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
  constexpr std::size_t kMostSaid = 200;
  const std::string line =
      validUtf8(ran->errorOutput.substr(0, std::min(ran->errorOutput.find('\n'), kMostSaid)));
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

AlertActions::~AlertActions() {
  for (Queue& queue : queues_) queue.thread.request_stop();  // all, before one is waited for
}

void AlertActions::act(const AlertEvent& event, const AlertSettings& settings) {
  for (Queue& queue : queues_) {
    if (!settings.acts(event.rule, queue.action)) continue;
    if (queue.pending >= kMostPending) {
      fail(queue, makeError(Code::kResourceExhausted,
                            "alerts come faster than their actions are performed"));
      continue;
    }
    ++queue.pending;
    {
      const std::lock_guard lock(queue.mutex);
      queue.jobs.push_back({settings, event});
    }
    queue.added.notify_one();
    if (!queue.thread.joinable())
      queue.thread =
          std::jthread([this, &queue](const std::stop_token& stop) { work(queue, stop); });
  }
}

bool AlertActions::idle() const {
  return std::all_of(queues_.begin(), queues_.end(),
                     [](const Queue& queue) { return queue.pending == 0; });
}

std::size_t AlertActions::pending(AlertAction action) const {
  for (const Queue& queue : queues_)
    if (queue.action == action) return queue.pending;
  return 0;
}

void AlertActions::work(Queue& queue, const std::stop_token& stop) {
  const std::weak_ptr<void> alive = alive_;
  for (;;) {
    std::unique_lock lock(queue.mutex);
    if (!queue.added.wait(lock, stop, [&] { return !queue.jobs.empty(); }) || stop.stop_requested())
      return;
    const Job job = std::move(queue.jobs.front());
    queue.jobs.pop_front();
    lock.unlock();
    Status status = performAlertAction(queue.action, job.settings, job.event, stop);
    inbox_.post(alive, [this, &queue, status = std::move(status)] { done(queue, status); });
  }
}

void AlertActions::done(Queue& queue, const Status& status) {
  --queue.pending;
  if (status.ok())
    queue.told = false;
  else
    fail(queue, status.error());
}

void AlertActions::fail(Queue& queue, const Error& error) {
  if (!std::exchange(queue.told, true)) failed_(error);
}

}  // namespace lockstep::app
