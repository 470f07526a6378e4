// What Launch and MeasuredPreview do on their threads.
#pragma once

#include <google/protobuf/map.h>

#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "app/history/run_data.h"
#include "app/runs/launch_data.h"
#include "app/runs/launcher.h"
#include "app/runs/participant.h"
#include "app/runs/stage_progress.h"

namespace lockstep::node::v1 {
class PrepareRequest;
}

namespace lockstep::app {

using SecretVariables = google::protobuf::Map<std::string, std::string>;

class LaunchWork {
 public:
  // On the inbox's thread; preview() and launch() on another.
  LaunchWork(LaunchRequest request, ClusterSession& session, const Home& home);
  Tell progress = [](const LaunchProgress&) {};
  std::function<void(const std::string&)> tellAddresses = [](const std::string&) {};
  TellSetup tellSetup = [](const SetupOutput&) {};

  // Connects the nodes that have ranks and predicts, measured where asked.
  Result<Preview> preview(std::stop_token stop, Costs costs = Costs::kBenchmark);
  // Returns the run's id once it has started.
  Result<std::string> launch(const std::string& run, std::stop_token stop);

 private:
  Status findParticipants(const Preview& preview);
  Status connectAll(std::stop_token stop);
  // Remarks on nodes whose clocks differ from this machine's by a day or more. A run does not
  // depend on them, but the times in its log do. The ranks report smaller differences themselves.
  std::vector<Message> clockRemarks() const;

  // Finds the address of each node, and checks that the others can connect to it there.
  Status findAddresses(std::stop_token stop);
  // Copies data where asked. Then all nodes check their data, the coordinator's node prepares the
  // run, and after it all others do so concurrently.
  Status prepareAll(const std::string& run, const Preview& preview, std::stop_token stop);
  // Runs workload.setup on all nodes at once. What it prints is in the log of a launch that fails;
  // later the nodes tell it.
  Status setUpAll(const std::string& run, const SecretVariables& secrets,
                  const std::stop_token& stop);
  void noteSetup(const SetupOutput& output);
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
  std::vector<std::string> sources_;  // "code: …", "data.train.text: …": what was copied or fetched
  std::string codePatch_;             // of a program: as CopiedCode
  std::mutex setupMutex_;
  std::vector<LogRow> setupLog_;  // setupMutex_
};

}  // namespace lockstep::app
