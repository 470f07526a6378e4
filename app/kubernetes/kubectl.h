// kubectl, run on a host, with its configuration there. Its JSON is checked. Errors name the
// command, its exit status and what it said: kFailedPrecondition (it refused, or is not there),
// kDataLoss (output that is not understood), kUnavailable, kDeadlineExceeded, kCancelled.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "app/ssh/job_host.h"
#include "engine/base/status.h"

namespace lockstep::spec::v1 {
class PlacementSpec;
}

namespace lockstep::app {

struct Pod {
  std::string name;
  int index = 0;       // in the job: its node rank
  std::string phase;   // "Pending", "Running", "Succeeded", "Failed"
  std::string reason;  // why it waits or failed: "Unschedulable: 0/3 nodes are available"; "": none
  std::string address;  // "": none yet
  bool ready = false;   // its container runs
};

struct KubernetesJob : JobState {
  std::vector<Pod> pods;  // by index
  // By its time limit or its queue, or since pods failed, were evicted or preempted.
  bool stopped = false;
};

class Kubectl {
 public:
  Kubectl(Host& host, const spec::v1::PlacementSpec& placement);

  // Creates the job's objects, or none of them; an error says where some may be left.
  Status create(std::int64_t job, const std::string& name, std::stop_token stop);
  Result<KubernetesJob> job(std::int64_t job, std::stop_token stop);
  // Returns what was last noted of the job, where it has no pods: "exceeded quota …"; "": nothing.
  std::string lastEvent(std::int64_t job, std::stop_token stop);
  // Returns the last lines that a pod printed; "": none.
  std::string log(const std::string& pod, std::stop_token stop);
  // Deletes exactly this job and what belongs to it. Idempotent.
  Status remove(std::int64_t job, std::stop_token stop);
  // What a person can do where remove() fails.
  Message howToRemove(std::int64_t job) const;

 private:
  Result<std::string> run(const std::string& arguments, const std::string& input,
                          std::stop_token stop);
  Host& host_;
  const spec::v1::PlacementSpec& placement_;
};

// Parse what kubectl prints. Errors: kDataLoss.
Result<std::string> parseUid(std::string_view printed);  // of an object that was created
Result<KubernetesJob> parsePods(std::string_view printed, int expected);  // of get jobs,pods
Result<std::string> parseLastEvent(std::string_view printed);             // of get events

// Returns kubectl with the context and namespace of the placement, quoted for a shell.
std::string kubectlWords(const spec::v1::PlacementSpec& placement);
// Returns what runs a command, whose words follow, in a pod. Standard input and output are passed
// on unchanged.
std::string podPrefix(const spec::v1::PlacementSpec& placement, const std::string& pod);
// Returns the words of the command that runs a shell in a pod, for a terminal.
std::vector<std::string> podShell(const spec::v1::PlacementSpec& placement, const std::string& pod);

}  // namespace lockstep::app
