#include "ui/studio/deploy_job.h"

#include <algorithm>
#include <utility>

namespace lockstep::ui {

DeployJob::DeployJob(JobTracker& jobs, std::function<void()> cancel)
    : jobs_(jobs), cancel_(std::move(cancel)) {}

DeployJob::~DeployJob() { end(); }

void DeployJob::end() {
  if (job_ != 0) jobs_.finish(std::exchange(job_, 0));
  uploads_.clear();
}

// What was copied to a node counts until the last node is done: the job does not fall back.
void DeployJob::take(int node, const app::NodeStatus& status, const QString& title) {
  if (status.uploadSize > 0) {
    if (job_ == 0) job_ = jobs_.start(title, cancel_);
    uploads_[node] = {status.uploaded, status.uploadSize, true};
  } else if (const auto known = uploads_.find(node); known != uploads_.end()) {
    known->second.isUnderWay = false;
    known->second.done = known->second.size;
  } else {
    return;
  }
  if (std::none_of(uploads_.begin(), uploads_.end(),
                   [](const auto& one) { return one.second.isUnderWay; }))
    return end();
  double done = 0, size = 0;
  for (const auto& [index, upload] : uploads_) {
    done += static_cast<double>(upload.done);
    size += static_cast<double>(upload.size);
  }
  jobs_.progress(job_, done / size);
}

}  // namespace lockstep::ui
