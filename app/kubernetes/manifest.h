// The objects of a job in Kubernetes: an Indexed Job with a pod for each node, and a headless
// Service, which gives the pods names: lockstep-J-0.lockstep-J, ….
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lockstep::spec::v1 {
class PlacementSpec;
}

namespace lockstep::app {

// Returns the name of job J's objects, "lockstep-J", which are all that have the label
// `lockstep-job: "J"`.
std::string kubernetesName(std::int64_t job);
std::string kubernetesSelector(std::int64_t job);

// `name` is the run's, for people. A pod waits until the agent is sent, starts it, and ends with
// it.
nlohmann::json jobManifest(const spec::v1::PlacementSpec& placement, std::int64_t job,
                           const std::string& name);
// `jobUid` is that of the Job, with which the Service is removed; "": not created yet.
nlohmann::json serviceManifest(std::int64_t job, const std::string& jobUid);

// The folder for all files of Lockstep in the pods, and the work folder F of the agent of pod
// `index`. The pod starts the agent of the version that the link F.agent leads to.
std::string podWorkdir(const spec::v1::PlacementSpec& placement);
std::string podFolder(const spec::v1::PlacementSpec& placement, std::int64_t job, int index);
// The folder for checkpoints that outlive the job; "": there is none.
std::string podCheckpoints(const spec::v1::PlacementSpec& placement, std::int64_t job);

}  // namespace lockstep::app
