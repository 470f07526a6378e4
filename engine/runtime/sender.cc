#include "engine/runtime/sender.h"

namespace lockstep::runtime {

Sender::~Sender() {
  ending_.store(true);
  for (auto& [peer, lane] : lanes_) {
    if (lane->sent.load() != lane->posted.load()) group_.abort();
    lane->posted.fetch_add(1);
    lane->posted.notify_all();
  }
  for (auto& [peer, lane] : lanes_) lane->thread.join();
}

void Sender::prepare(const Message& message) {
  std::unique_ptr<Lane>& lane = lanes_[message.peer];
  if (!lane) {
    lane = std::make_unique<Lane>();
    lane->thread = std::thread([this, &own = *lane] { run(own); });
  }
  // The ring grows while it is empty; its thread looks at it after the next posting.
  static_cast<void>(waitFor(*lane, lane->posted.load()));
  lane->queue.resize(lane->queue.size() + 1);
}

void Sender::run(Lane& lane) {
  for (std::uint64_t at = 0;; ++at) {
    lane.posted.wait(at);
    if (ending_.load()) return;
    const Message message = lane.queue[at % lane.queue.size()];
    if (!failed_.load()) {
      Status status = group_.send(message.data, message.bytes, message.peer, 0);
      const std::lock_guard lock(mutex_);
      if (!status.ok() && !failed_.load()) {
        error_ = std::move(status);
        failed_.store(true);
      }
    }
    lane.sent.store(at + 1);
    lane.sent.notify_all();
  }
}

void Sender::post(Message& message) {
  Lane& to = *lanes_.find(message.peer)->second;
  const std::uint64_t at = to.posted.load(std::memory_order_relaxed);
  to.queue[at % to.queue.size()] = message;
  message.ticket = at + 1;
  to.posted.store(at + 1);
  to.posted.notify_all();
}

Status Sender::wait(const Message& message) {
  return message.ticket == 0 ? Status()
                             : waitFor(*lanes_.find(message.peer)->second, message.ticket);
}

Status Sender::drain() {
  for (auto& [peer, lane] : lanes_) LOCKSTEP_TRY(waitFor(*lane, lane->posted.load()));
  return {};
}

void Sender::giveUp(const Message& message) {
  const auto lane = lanes_.find(message.peer);
  if (lane == lanes_.end() || lane->second->sent.load() >= message.ticket) return;
  group_.abort();
  static_cast<void>(waitFor(*lane->second, message.ticket));
}

Status Sender::waitFor(Lane& lane, std::uint64_t ticket) {
  for (std::uint64_t sent = lane.sent.load(); sent < ticket; sent = lane.sent.load()) {
    lane.sent.wait(sent);
  }
  if (!failed_.load()) return {};
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace lockstep::runtime
