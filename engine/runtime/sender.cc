#include "engine/runtime/sender.h"

namespace lockstep::runtime {
namespace {

// Tickets go round: a difference tells which is later.
bool reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

}  // namespace

Sender::Sender(comm::Communicator& group) : group_(group), thread_([this] { run(); }) {}

Sender::~Sender() {
  if (sent_.load() != posted_.load()) group_.abort();
  ending_.store(true);
  posted_.fetch_add(1);
  posted_.notify_all();
  thread_.join();
}

void Sender::run() {
  for (std::uint32_t at = 0;; ++at) {
    posted_.wait(at);
    if (ending_.load()) return;
    const Message& message = *queue_[at % kCapacity];
    if (!failed_.load()) {
      Status status = group_.send(message.data, message.bytes, message.peer, 0);
      if (!status.ok()) {
        const std::lock_guard lock(mutex_);
        error_ = std::move(status);
        failed_.store(true);
      }
    }
    sent_.store(at + 1);
    sent_.notify_all();
  }
}

Status Sender::post(Message& message) {
  const std::uint32_t at = posted_.load(std::memory_order_relaxed);
  if (at >= kCapacity) LOCKSTEP_TRY(waitFor(at - kCapacity + 1));
  queue_[at % kCapacity] = &message;
  message.ticket = at + 1;
  posted_.store(at + 1);
  posted_.notify_all();
  return {};
}

Status Sender::wait(const Message& message) {
  return message.ticket == 0 ? Status() : waitFor(message.ticket);
}

Status Sender::drain() { return waitFor(posted_.load(std::memory_order_relaxed)); }

Status Sender::waitFor(std::uint32_t ticket) {
  for (std::uint32_t sent = sent_.load(); !reached(sent, ticket); sent = sent_.load()) {
    sent_.wait(sent);
  }
  if (!failed_.load()) return {};
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace lockstep::runtime
