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

// Actions are performed one after another on a thread of its own. Used on the inbox's thread. The
// destructor cancels those under way.
class AlertActions {
 public:
  // `failed` is called on the inbox's thread: once for a command or webhook until it works again.
  AlertActions(Inbox& inbox, std::function<void(const Error&)> failed);
  ~AlertActions();
  AlertActions(const AlertActions&) = delete;
  AlertActions& operator=(const AlertActions&) = delete;

  // Performs the command and the webhook that the alert's rule has.
  void act(const AlertEvent& event, const AlertSettings& settings);
  bool idle() const { return pending_ == 0; }

 private:
  struct Job {
    AlertAction action;
    AlertSettings settings;
    AlertEvent event;
  };
  void work(const std::stop_token& stop);
  void done(AlertAction action, const Status& status);
  void fail(AlertAction action, const Error& error);

  Inbox& inbox_;
  std::function<void(const Error&)> failed_;
  std::array<bool, kAlertActions.size()> told_{};  // its failure
  std::size_t pending_ = 0;
  std::mutex mutex_;
  std::condition_variable_any added_;
  std::deque<Job> jobs_;                                   // guarded by mutex_
  std::shared_ptr<void> alive_ = std::make_shared<int>();  // calls posted to the inbox need it
  std::jthread thread_;                                    // last: it uses the others
};

}  // namespace lockstep::app
