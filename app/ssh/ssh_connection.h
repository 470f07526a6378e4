// A lasting connection to one host over SSH: it connects through any jump hosts, carries commands,
// subsystems and forwards at once, notices a dead link, and connects anew.
//
// States: idle → connecting → connected ⇄ reconnecting; failed from connecting and reconnecting;
// closed at the end. The first connect is tried once: its failure is `failed`, with the reason.
// After a loss it is tried again with growing pauses until it succeeds, or until only a person can
// help (key refused, host key changed, secret needed): then `failed`. Questions are asked only in
// an attempt that start() began, never while reconnecting; what was answered once is kept in memory
// (`shared`) and serves reconnects, and the connections that share it: each waits for an answer
// that another asks for, and asks itself only where that does not serve.
//
// Gates: the connections that share `shared` have one session to each jump host. The first that
// needs it opens it, the others wait; it lasts while one of them uses it, also between two attempts
// to reach a host behind it. One that is closed or cancelled leaves it to the others. Once it is
// lost, they reconnect, and the first of them opens it anew.
//
// Threads: all functions from any thread, except that the blocking ones (connect, waitConnected,
// exec, openSubsystem, close, the destructor) must not be called from onState or from a prompter.
// Errors: of connecting: kUnavailable (unreachable, closed), kDeadlineExceeded, kPermissionDenied
// (host key or authentication), kInvalidArgument, kFailedPrecondition, kCancelled; `node` is set.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "app/ssh/host.h"
#include "app/ssh/link_state.h"
#include "app/ssh/prompter.h"
#include "app/ssh/ssh_config.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app {

struct SshShared;

struct SshConnectionOptions {
  std::string node;                       // the node's name, for errors
  std::string configFile;                 // --ssh-config; "": the user's own
  std::shared_ptr<SshPrompter> prompter;  // null: nothing is ever asked
  std::shared_ptr<SshShared> shared;      // by a cluster's connections; null: its own
  // On the connection's thread, in order, each after status() shows it; must not block.
  std::function<void(const LinkStatus&)> onState;
  std::string runtimeFolder;                    // for the sockets of forwards; "": runtimeFolder()
  std::chrono::milliseconds connectTimeout{0};  // per hop; 0: ConnectTimeout, or 10 s
  std::chrono::milliseconds keepaliveInterval{2500};
  std::chrono::milliseconds keepaliveLimit{8000};  // silence that counts as a dead link
  std::chrono::milliseconds firstPause{200};       // of reconnecting; doubles, with jitter
  std::chrono::milliseconds longestPause{1500};
  // For an address to accept a reconnect, so that TCP's pauses between retransmissions stay short.
  std::chrono::milliseconds dialTimeout{2000};
};

class SshConnection final : public Host {
 public:
  SshConnection(SshTarget target, SshConnectionOptions options);
  ~SshConnection() override;  // closes

  // Begins to connect, or to connect again after `failed`; while reconnecting, tries at once.
  // Questions may be asked in this attempt. Returns at once; does nothing where connected.
  void start();
  // Until connected. Failure: the reason of `failed`; kDeadlineExceeded, kCancelled (the
  // connection itself goes on trying). Call start() first.
  Status waitConnected(std::chrono::milliseconds timeout, std::stop_token stop = {}) override;
  // start() and wait for as long as a person needs to answer. kCancelled ends the attempt.
  Status connect(std::stop_token stop = {}) override;
  LinkStatus status() const override;

  // The user's login shell runs it.
  Result<ExecResult> exec(const std::string& command, ExecOptions options = {},
                          std::stop_token stop = {}) override;
  // The local end of a stream socket wired to a subsystem ("sftp"); closed on loss.
  Result<UniqueFd> openSubsystem(const std::string& name, std::stop_token stop = {}) override;

  // direct-streamlocal, and where that fails, `bridgeCommand`. The listener stays through losses:
  // connections made while the link is down wait for it, as do those whose channel was not open yet
  // when it was lost; in `failed` they are closed. Needs no connection yet.
  Result<std::string> forward(const std::string& remoteSocket,
                              const std::string& bridgeCommand) override;
  void stopForward(const std::string& localSocket) override;

  // Cancels, disconnects, removes the listeners, joins. Idempotent.
  void close() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::app
