// What Launch and MeasuredPreview do on their threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/runs/launcher.h"
#include "app/runs/participant.h"

namespace lockstep::node::v1 {
class PrepareRequest;
}

namespace lockstep::app {

using Stage = LaunchProgress::Stage;
using Tell = std::function<void(const LaunchProgress&)>;

class LaunchWork {
 public:
  LaunchWork(LaunchRequest request, ClusterSession& session, const Home& home);
  Tell progress = [](const LaunchProgress&) {};
  std::function<void(const std::string&)> tellAddresses = [](const std::string&) {};

  // Connects the nodes that have ranks and predicts, measured where asked.
  Result<Preview> preview(std::stop_token stop, Costs costs = Costs::kBenchmark);
  Result<std::string> launch(const std::string& run, std::stop_token stop);

 private:
  // Makes missing data of an example, if nodes read them from this machine's files.
  Status makeData(const std::stop_token& stop);
  Status connectAll(std::stop_token stop);
  // Remarks on nodes whose clocks differ from this machine's by a day or more. A run does not
  // depend on them, but the times in its log do. The ranks report smaller differences themselves.
  std::vector<Message> clockRemarks() const;

  // Before anything is begun: each node connects to each other at the address it will be reached
  // at.
  Status findAddresses(std::stop_token stop);
  std::vector<std::string> names() const;
  std::string nodesJson() const;
  void findParties(const Preview& preview);
  RunRow newRow(const std::string& run, const Preview& preview) const;
  node::v1::PrepareRequest requestFor(const Participant& participant, const std::string& run,
                                      const Preview& preview) const;

  // Where each node has the run's files, as the cluster says; the one that evaluates those it
  // reads.
  void findData();
  Status copyData(std::stop_token stop);
  Status prepare(Participant& participant, node::v1::PrepareRequest request,
                 std::string& peerAddress, std::stop_token stop);

  Status prepareAll(const std::string& run, const Preview& preview, std::stop_token stop);
  Status commit(const std::string& run, std::stop_token stop);

  // A Commit whose answer was lost may have started the run: told as failed, it must not go on.
  Status endCommitted(const std::string& run);
  Status kill(const std::string& run);

  // The coordinator's agent says so: what was prepared has expired and is gone, or the run has
  // ended.
  bool isOver(const std::string& run);

  // Best effort, everywhere at once; what cannot be reached expires by itself.
  void removePrepared(const std::string& run);

  LaunchRequest request_;
  Home home_;
  std::vector<NodeAccess*> access_;
  std::vector<Participant> participants_;
  std::map<std::string, std::string> copied_;  // "train.images" → SHA-256, where data is copied
};

}  // namespace lockstep::app
