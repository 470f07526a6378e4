// A prompter for tests: notes the questions, and answers from a script, at once or on a thread of
// its own as a person would.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "app/ssh/prompter.h"

namespace lockstep::test {

class ScriptedPrompter : public app::SshPrompter {
 public:
  ~ScriptedPrompter() override {
    for (auto& thread : threads_) thread.join();
  }
  void askHostKey(const app::HostKeyQuestion& question, std::function<void(bool)> answer) override {
    const std::lock_guard lock(mutex_);
    hostKeys_.push_back(question);
    if (holdHostKeys) {
      held_.push_back(std::move(answer));
      return;
    }
    // Answered by another thread, later.
    threads_.emplace_back([answer, accept = acceptHostKeys] { answer(accept); });
  }
  void askSecret(const app::SecretQuestion& question,
                 std::function<void(std::optional<app::Secret>)> answer) override {
    const std::lock_guard lock(mutex_);
    secrets_.push_back(question);
    if (answers.empty()) {
      answer(std::nullopt);
      return;
    }
    answer(app::Secret(answers.front()));
    answers.pop_front();
  }
  std::vector<app::HostKeyQuestion> hostKeys() const {
    const std::lock_guard lock(mutex_);
    return hostKeys_;
  }
  std::vector<app::SecretQuestion> secrets() const {
    const std::lock_guard lock(mutex_);
    return secrets_;
  }
  void dropHeld() {
    const std::lock_guard lock(mutex_);
    held_.clear();
  }

  bool acceptHostKeys = true;
  bool holdHostKeys = false;  // keep the answer functions until dropHeld
  std::deque<std::string> answers;

 private:
  mutable std::mutex mutex_;
  std::vector<app::HostKeyQuestion> hostKeys_;
  std::vector<app::SecretQuestion> secrets_;
  std::vector<std::function<void(bool)>> held_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::test
