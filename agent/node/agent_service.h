// The gRPC services of the agent.
#pragma once

#include <memory>
#include <string>

#include "agent/base/event_loop.h"
#include "agent/base/paths.h"

namespace grpc {
class Service;
}

namespace lockstep::agent {

class AgentService {
 public:
  AgentService(EventLoop& loop, Workdir workdir, std::string version, double prepareSeconds);
  ~AgentService();
  grpc::Service& service();
  void reapSupervisors();  // loop's thread
  bool hasRuns();          // a supervisor holds a run that has not ended
  void leave();            // streams end

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::agent
