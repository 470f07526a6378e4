// LogReader: reads lines of a run's log from its store in the background, over the whole run. Works
// for live runs too, because their recorder writes the store. Threads: GUI.
#pragma once

#include <QObject>
#include <QVector>
#include <limits>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "ui/studio/log_model.h"

namespace lockstep::app {
struct LogRow;
}

namespace lockstep::ui {

// Of the lines that `query` accepts, the `limit` nearest in time to `nearNs`, on the wall clock.
struct LogRequest {
  static constexpr qint64 kOldest = 0, kNewest = std::numeric_limits<qint64>::max();

  LogQuery query;
  qint64 nearNs = kNewest;
  int limit = LogModel::kKept;
};

struct LogResult {
  LogRequest request;
  QVector<LogRow> lines;  // in the order of time
  bool isCut = false;     // there are more than the limit
};

class LogReader : public QObject {
  Q_OBJECT

 public:
  LogReader(std::string historyFolder, std::string run, QObject* parent = nullptr);
  ~LogReader() override;

  // Cancels the read in progress: only the newest call is answered.
  void read(const LogRequest& request);
  void cancel();
  bool isReading() const { return reading_; }

 Q_SIGNALS:
  void found(const lockstep::ui::LogResult& result);
  void failed(const lockstep::Error& error);

 private:
  static Result<LogResult> work(const std::string& folder, const std::string& run,
                                const LogRequest& request, const std::stop_token& stop);

  std::string folder_, run_;
  bool reading_ = false;
  std::stop_source stop_;
};

// The lines of a store, with the time and level that they say themselves, where they do.
QVector<LogRow> logRows(const std::vector<app::LogRow>& rows);

}  // namespace lockstep::ui
