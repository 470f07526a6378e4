// One SSH session over one transport, from TCP (a gate's channel, a ProxyCommand) to its end.
// A thread of its own makes every libssh call of the session, since libssh sessions are not
// thread-safe; other threads hand it work through a queue. There is no way back from an ended
// session.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/ssh/answer_store.h"
#include "app/ssh/prompter.h"
#include "app/ssh/ssh_config.h"
#include "app/ssh/stream_outcome.h"
#include "app/ssh/stream_request.h"
#include "app/ssh/wake.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app {

class SshSession;

struct SshSessionParams {
  SshConfig config;
  std::string node;
  std::shared_ptr<SshPrompter> prompter;  // null: nothing is asked
  std::shared_ptr<AnswerStore> answers;   // of the person, to any connection
  std::string route;  // the account, and the hops to it: names its secrets in `answers`
  // An open session whose channel is the transport, kept as long as this one; null: ProxyCommand,
  // else TCP.
  std::shared_ptr<SshSession> gate;
  std::chrono::milliseconds connectTimeout{10000};
  std::chrono::milliseconds dialTimeout{10000};  // for an address to accept
  std::chrono::milliseconds keepaliveInterval{2500};
  std::chrono::milliseconds keepaliveLimit{8000};
};

class SshSession {
 public:
  explicit SshSession(SshSessionParams params);  // begins at once
  ~SshSession();                                 // closes and joins
  SshSession(const SshSession&) = delete;
  SshSession& operator=(const SshSession&) = delete;

  // Notifies `wake` when the session opens or ends, for as long as somebody owns it.
  void watch(std::shared_ptr<const Wake> wake);
  bool hasPrompter() const;
  bool opened() const;
  std::optional<Error> ended() const;
  bool asked() const;         // it waited for a person: for an answer, or to ask
  bool hungUpInLine() const;  // the server did, while another connection asked
  void cancelOpening();       // ends it unless it is open
  // Nobody has answered in its opening: it was cancelled, or its question dropped. Others may try.
  bool abandoned() const;

  // Wires `local` (a stream socket) to a new channel, and the channel's stderr to `localError`,
  // without which it is dropped. Half-closes pass through both ways; the outcome ends when the
  // channel is closed. Returns at once.
  std::shared_ptr<StreamOutcome> attach(StreamRequest request, UniqueFd local,
                                        UniqueFd localError = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::app
