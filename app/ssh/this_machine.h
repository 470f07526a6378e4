// This machine as a host: its commands are processes, each in a group of its own.
#pragma once

#include <memory>
#include <string>

#include "app/ssh/host.h"

namespace lockstep::app {

class ThisMachine final : public Host {
 public:
  explicit ThisMachine(std::string node);  // the name, for errors
  ~ThisMachine() override;                 // closes

  Status connect(std::stop_token stop = {}) override;
  Status waitConnected(std::chrono::milliseconds timeout, std::stop_token stop = {}) override;
  LinkStatus status() const override;
  Result<ExecResult> exec(const std::string& command, ExecOptions options = {},
                          std::stop_token stop = {}) override;
  Result<UniqueFd> openSubsystem(const std::string& name, std::stop_token stop = {}) override;
  // A socket of this machine is its own forward. Commands write their errors nowhere.
  Result<std::string> forward(const std::string& remoteSocket,
                              const std::string& bridgeCommand) override;
  void stopForward(const std::string& localSocket) override;
  void close() override;
  bool here() const override { return true; }

 private:
  class Forwarding;
  const std::string node_;
  std::unique_ptr<Forwarding> forwarding_;
};

}  // namespace lockstep::app
