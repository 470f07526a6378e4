#include "engine/runtime/sender.h"

namespace lockstep::runtime {

Sender::~Sender() {
  for (const auto& [peer, lane] : lanes_) {
    if (!lane->isDone(lane->posted())) group_.abort();
  }
}

void Sender::prepare(const Message& message) {
  std::unique_ptr<Lane<Message>>& lane = lanes_[message.peer];
  if (!lane) {
    lane = std::make_unique<Lane<Message>>([this](const Message& one) {
      if (!failed_.isSet()) failed_.set(group_.send(one.data, one.bytes, one.peer, 0));
    });
  }
  lane->reserve();
}

void Sender::post(Message& message) {
  message.ticket = lanes_.find(message.peer)->second->post(message);
}

bool Sender::isSent(const Message& message) const {
  return message.ticket == 0 || lanes_.find(message.peer)->second->isDone(message.ticket);
}

Status Sender::wait(const Message& message) {
  if (message.ticket == 0) return {};
  lanes_.find(message.peer)->second->wait(message.ticket);
  return failed_.status();
}

Status Sender::drain() {
  for (auto& [peer, lane] : lanes_) {
    lane->wait(lane->posted());
    LOCKSTEP_TRY(failed_.status());
  }
  return {};
}

void Sender::giveUp(const Message& message) {
  if (isSent(message)) return;
  group_.abort();
  lanes_.find(message.peer)->second->wait(message.ticket);
}

}  // namespace lockstep::runtime
