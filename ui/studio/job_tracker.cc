#include "ui/studio/job_tracker.h"

#include <QStringList>
#include <algorithm>

#include "ui/theme/format.h"

namespace lockstep::ui {

JobTracker::JobId JobTracker::start(const QString& title, std::function<void()> cancel) {
  const int row = static_cast<int>(jobs_.size());
  beginInsertRows({}, row, row);
  Job job{.id = next_, .title = title, .cancel = std::move(cancel)};
  job.left.moved(0, monotonicNow());
  jobs_.push_back(std::move(job));
  endInsertRows();
  return next_++;
}

void JobTracker::progress(JobId job, double fraction, const QString& detail) {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (jobs_[i].id != job) continue;
    jobs_[i].fraction = fraction;
    jobs_[i].left.moved(fraction, monotonicNow());
    jobs_[i].detail = detail;
    const QModelIndex at = index(static_cast<int>(i));
    Q_EMIT dataChanged(at, at);
    return;
  }
}

void JobTracker::finish(JobId job) {
  const auto it =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& j) { return j.id == job; });
  if (it == jobs_.end()) return;
  const int row = static_cast<int>(it - jobs_.begin());
  beginRemoveRows({}, row, row);
  jobs_.erase(it);
  endRemoveRows();
}

void JobTracker::cancel(JobId job) {
  for (int row = 0; row < rowCount(); ++row) {
    if (jobAt(row) != job || !cancellable(row)) continue;
    const auto cancel = jobs_[static_cast<std::size_t>(row)].cancel;  // may finish the job
    return cancel();
  }
}
JobTracker::JobId JobTracker::jobAt(int row) const {
  return jobs_[static_cast<std::size_t>(row)].id;
}
bool JobTracker::cancellable(int row) const {
  return row >= 0 && row < rowCount() && jobs_[static_cast<std::size_t>(row)].cancel != nullptr;
}

int JobTracker::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(jobs_.size());
}

QVariant JobTracker::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const Job& job = jobs_[static_cast<std::size_t>(index.row())];
  if (role == Qt::DisplayRole) {
    QStringList parts{job.title, job.detail, timeLeftText(job.left.seconds())};
    parts.removeAll(QString());
    return parts.join(QString::fromUtf8(" · "));
  }
  if (role == kProgressRole) return job.fraction;
  return {};
}

}  // namespace lockstep::ui
