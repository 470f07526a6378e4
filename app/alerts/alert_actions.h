// AlertActions: runs the command and calls the webhook of alerts, in the background.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "app/alerts/alert_rules.h"
#include "app/alerts/alert_watch.h"
#include "app/core/inbox.h"

namespace lockstep::app {

// Performs the command or the webhook of an alert and waits for it, at most 10 s. The command gets
// the alert as one line of JSON on its stdin; the webhook gets the same as the body.
Status performAlertAction(AlertAction action, const AlertSettings& settings,
                          const AlertEvent& event, const std::stop_token& stop = {});

// Commands are performed one after another, and so are webhooks, each on a thread of their own.
// Used on the inbox's thread. The destructor cancels those under way.
class AlertActions {
 public:
  // `failed` is called on the inbox's thread: once for a command or webhook until it works again.
  AlertActions(Inbox& inbox, std::function<void(const Error&)> failed);
  ~AlertActions();
  AlertActions(const AlertActions&) = delete;
  AlertActions& operator=(const AlertActions&) = delete;

  // Performs the command and the webhook that the alert's rule has.
  void act(const AlertEvent& event, const AlertSettings& settings);
  bool idle() const;
  std::size_t pending(AlertAction action) const;  // those not performed yet

 private:
  struct Job {
    AlertSettings settings;
    AlertEvent event;
  };
  struct Queue {
    explicit Queue(AlertAction kind) : action(kind) {}
    const AlertAction action;
    bool told = false;  // its failure
    std::size_t pending = 0;
    std::mutex mutex;
    std::condition_variable_any added;
    std::deque<Job> jobs;  // guarded by mutex
    std::jthread thread;   // last: it uses the others
  };
  void work(Queue& queue, const std::stop_token& stop);
  void done(Queue& queue, const Status& status);
  void fail(Queue& queue, const Error& error);

  Inbox& inbox_;
  std::function<void(const Error&)> failed_;
  std::shared_ptr<void> alive_ = std::make_shared<int>();  // calls posted to the inbox need it
  std::array<Queue, 2> queues_{Queue(AlertAction::kCommand), Queue(AlertAction::kWebhook)};
};

}  // namespace lockstep::app
