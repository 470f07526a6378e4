// A pod of a job in Kubernetes as a host: its commands run through `kubectl exec`. What it had goes
// with the pod.
#pragma once

#include <memory>
#include <string>

#include "app/kubernetes/kubectl.h"

namespace lockstep::app {

class PodNode final : public JobHost {
 public:
  // `host` has kubectl.
  PodNode(std::unique_ptr<Host> host, std::shared_ptr<const spec::v1::PlacementSpec> placement,
          std::string pod);

  Result<JobState> look(std::stop_token stop) override;

 private:
  const std::shared_ptr<const spec::v1::PlacementSpec> placement_;
  const std::string pod_;
};

}  // namespace lockstep::app
