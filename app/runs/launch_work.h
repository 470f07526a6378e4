// What Launch and MeasuredPreview do on their threads.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/runs/launch_data.h"
#include "app/runs/launcher.h"
#include "app/runs/participant.h"
#include "app/runs/stage_progress.h"

namespace lockstep::node::v1 {
class PrepareRequest;
}

namespace lockstep::app {

class LaunchWork {
 public:
  // On the inbox's thread; preview() and launch() on another.
  LaunchWork(LaunchRequest request, ClusterSession& session, const Home& home);
  Tell progress = [](const LaunchProgress&) {};
  std::function<void(const std::string&)> tellAddresses = [](const std::string&) {};

  // Connects the nodes that have ranks and predicts, measured where asked.
  Result<Preview> preview(std::stop_token stop, Costs costs = Costs::kBenchmark);
  // Returns the run's id once it has started.
  Result<std::string> launch(const std::string& run, std::stop_token stop);

 private:
  void findParticipants(const Preview& preview);
  Status connectAll(std::stop_token stop);
  // Remarks on nodes whose clocks differ from this machine's by a day or more. A run does not
  // depend on them, but the times in its log do. The ranks report smaller differences themselves.
  std::vector<Message> clockRemarks() const;

  // Finds the address of each node, and checks that the others can connect to it there.
  Status findAddresses(std::stop_token stop);
  // Copies data where asked. Then all nodes check their data, the coordinator's node prepares the
  // run, and after it all others do so concurrently.
  Status prepareAll(const std::string& run, const Preview& preview, std::stop_token stop);
  // Reading data may take longer than a prepared node waits for the others.
  Status checkAll(const std::vector<node::v1::PrepareRequest>& requests, const DataHashes& copied,
                  const std::stop_token& stop);
  node::v1::PrepareRequest requestFor(const Participant& participant, const std::string& run,
                                      const Preview& preview) const;
  Status commit(const std::string& run, std::stop_token stop);
  // A Commit whose answer was lost may have started the run: told as failed, it must not go on.
  Status endCommitted(const std::string& run);

  // For the history.
  RunRow newRow(const std::string& run, const Preview& preview) const;
  std::string nodesJson() const;

  LaunchRequest request_;
  Home home_;
  std::vector<NodeAccess*> access_;  // of all nodes of the session
  Participants participants_;
  std::string code_;  // of a program: what was copied, in words
};

}  // namespace lockstep::app
