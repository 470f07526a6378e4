// JobTracker: running background jobs with progress, the time left where it can be told, and
// cancel, as a model for the status bar.
#pragma once

#include <QAbstractListModel>
#include <functional>
#include <vector>

#include "app/core/time_left.h"

namespace lockstep::ui {

class JobTracker : public QAbstractListModel {
  Q_OBJECT

 public:
  using JobId = int;
  static constexpr int kProgressRole = Qt::UserRole + 1;  // 0…1, below 0 unknown

  using QAbstractListModel::QAbstractListModel;

  JobId start(const QString& title, std::function<void()> cancel = {});
  void progress(JobId job, double fraction, const QString& detail = {});
  void finish(JobId job);
  void cancel(JobId job);
  JobId jobAt(int row) const;
  bool cancellable(int row) const;

  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;

 private:
  struct Job {
    JobId id;
    QString title, detail;
    double fraction = -1;
    app::TimeLeft left;
    std::function<void()> cancel;
  };
  std::vector<Job> jobs_;
  JobId next_ = 1;
};

}  // namespace lockstep::ui
