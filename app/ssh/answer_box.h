// The answer to a question, as a session waits for it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "app/ssh/wake.h"

namespace lockstep::app {

// An answer that arrives later, from any thread, once; or never, when its function is dropped.
template <typename T>
struct AnswerBox {
  Wake wake;
  std::mutex mutex;
  bool done = false;
  std::optional<T> value;
  void set(std::optional<T> given) {
    const std::lock_guard lock(mutex);
    if (done) return;
    done = true;
    value = std::move(given);
    wake.notify();
  }
};
template <typename T>
struct Responder {
  explicit Responder(std::shared_ptr<AnswerBox<T>> answer) : box(std::move(answer)) {}
  Responder(const Responder&) = delete;
  ~Responder() { box->set(std::nullopt); }
  std::shared_ptr<AnswerBox<T>> box;
};

}  // namespace lockstep::app
