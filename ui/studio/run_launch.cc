#include "ui/studio/run_launch.h"

#include <QStringList>
#include <utility>

#include "app/runs/allocated_launch.h"
#include "ui/studio/scheduler_job.h"
#include "ui/studio/workspace.h"
#include "ui/theme/message_text.h"

namespace lockstep::ui {
namespace {

QString stageText(app::LaunchProgress::Stage stage) {
  using Stage = app::LaunchProgress::Stage;
  switch (stage) {
    case Stage::kMakingData:
      return RunLaunch::tr("Making data");
    case Stage::kConnecting:
      return RunLaunch::tr("Connecting");
    case Stage::kMeasuring:
      return RunLaunch::tr("Benchmarking the nodes");
    case Stage::kCopying:
      return RunLaunch::tr("Copying data");
    case Stage::kFetching:
      return RunLaunch::tr("Fetching data");
    case Stage::kCheckingData:
      return RunLaunch::tr("Checking data");
    case Stage::kSettingUp:
      return RunLaunch::tr("Setting up");
    case Stage::kPreparing:
      return RunLaunch::tr("Preparing");
    case Stage::kStarting:
      return RunLaunch::tr("Starting");
    case Stage::kEnding:
      return RunLaunch::tr("Cleaning up");
  }
  return {};
}

QString progressText(const app::LaunchProgress& progress) {
  const QString stage = stageText(progress.stage);
  QStringList nodes;
  for (const auto& node : progress.awaited) nodes << QString::fromStdString(node);
  if (progress.seconds == 0) return RunLaunch::tr("%1: %2").arg(stage, nodes.join(", "));
  QString text = progress.bytesTotal > 0 ? RunLaunch::tr("%1: waiting for %2 (%3 s, %4 of %5 MB)")
                                               .arg(stage, nodes.join(", "))
                                               .arg(progress.seconds)
                                               .arg(progress.bytesDone / 1000000)
                                               .arg(progress.bytesTotal / 1000000)
                                         : RunLaunch::tr("%1: waiting for %2 (%3 s)")
                                               .arg(stage, nodes.join(", "))
                                               .arg(progress.seconds);
  for (const app::DataActivity& activity : progress.data)
    text += "; " + messageText(activity.text());
  for (const auto& [node, command] : progress.commands)
    text += "; " + RunLaunch::tr("%1 runs %2")
                       .arg(QString::fromStdString(node), QString::fromStdString(command));
  return text;
}

}  // namespace

RunLaunch::RunLaunch(app::LaunchRequest request, std::shared_ptr<LiveCluster> cluster,
                     Workspace& workspace, QObject* parent)
    : QObject(parent),
      request_(std::move(request)),
      cluster_(std::move(cluster)),
      workspace_(workspace) {
  job_ = workspace_.jobs().start(tr("Launching"), [this] { cancel(); });
  if (cluster_)
    launch();
  else
    allocate();
}

RunLaunch::~RunLaunch() {
  const bool underWay = job_ != 0;
  end();
  if (allocation_) {
    allocation_->end();
    destroyAsync(workspace_.teardownPool(), std::move(allocation_));
  }
  if (launch_) {
    launch_->end();
    destroyAsync(workspace_.teardownPool(), std::move(launch_), cluster_->sessionRef());
    if (underWay) endJob(workspace_, cluster_->session().cluster());
  }
}

void RunLaunch::allocate() {
  app::AllocationObserver observer;
  observer.onState = [this](const app::QueueState& state) { tell(messageText(state.text())); };
  observer.onDone = [this](const Result<std::shared_ptr<const spec::v1::ClusterSpec>>& done) {
    if (!done.ok()) return fail(done.error());
    request_ = app::onAllocated(std::move(request_), *done);
    cluster_ = workspace_.makeCluster(request_.cluster);
    launch();
  };
  allocation_ = std::make_unique<app::Allocation>(request_.cluster, app::clusterNameOf(request_),
                                                  schedulerOptions(workspace_), workspace_.inbox(),
                                                  std::move(observer));
}

void RunLaunch::launch() {
  app::LaunchObserver observer;
  observer.onProgress = [this](const app::LaunchProgress& progress) {
    tell(progressText(progress),
         progress.bytesTotal > 0
             ? static_cast<double>(progress.bytesDone) / static_cast<double>(progress.bytesTotal)
             : -1);
  };
  observer.onDone = [this](const Result<std::string>& done) {
    if (!done.ok()) {
      endJob(workspace_, cluster_->session().cluster());
      return fail(done.error());
    }
    end();
    const QString run = QString::fromStdString(*done);
    workspace_.keepForRun(run, cluster_);
    if (app::mayBeQueuedAgain(*request_.cluster))
      workspace_.keepLaunch(run, std::make_shared<const app::LaunchRequest>(request_));
    Q_EMIT launched(run);
    Q_EMIT workspace_.historyChanged();
  };
  launch_ = std::make_unique<app::Launch>(request_, cluster_->session(), workspace_.home(),
                                          workspace_.inbox(), std::move(observer));
}

void RunLaunch::cancel() {
  if (launch_)
    launch_->cancel();
  else if (allocation_)
    allocation_->cancel();
  tell(tr("Cancelling"));
}

void RunLaunch::tell(const QString& text, double fraction) {
  workspace_.jobs().progress(job_, fraction, text);
  Q_EMIT progressed(text);
}

void RunLaunch::end() {
  if (job_ != 0) workspace_.jobs().finish(std::exchange(job_, 0));
}

void RunLaunch::fail(const Error& error) {
  end();
  Q_EMIT failed(error);
}

}  // namespace lockstep::ui
