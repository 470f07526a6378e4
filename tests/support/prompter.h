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
    if (holdSecrets)
      heldSecrets_.push_back(std::move(answer));
    else
      give(answer);
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
    heldSecrets_.clear();
  }
  // Answers what is held, and from now on at once.
  void release() {
    const std::lock_guard lock(mutex_);
    holdHostKeys = holdSecrets = false;
    for (const auto& answer : held_) answer(acceptHostKeys);
    for (const auto& answer : heldSecrets_) give(answer);
    held_.clear();
    heldSecrets_.clear();
  }

  bool acceptHostKeys = true;
  bool holdHostKeys = false;  // keep the answer functions until dropHeld or release
  bool holdSecrets = false;
  std::deque<std::string> answers;

 private:
  using SecretAnswer = std::function<void(std::optional<app::Secret>)>;
  void give(const SecretAnswer& answer) {
    if (answers.empty()) return answer(std::nullopt);
    answer(app::Secret(answers.front()));
    answers.pop_front();
  }
  mutable std::mutex mutex_;
  std::vector<app::HostKeyQuestion> hostKeys_;
  std::vector<app::SecretQuestion> secrets_;
  std::vector<std::function<void(bool)>> held_;
  std::vector<SecretAnswer> heldSecrets_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::test
