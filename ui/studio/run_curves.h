// RunCurves: the curves of a run that views show. A curve is read from the history when it is first
// asked for, and continued by the recorder's updates; of the others only the names are kept.
//
// All curves together have about kMostSamples samples. Longer ones are thinned; where a view shows
// a part of one more closely, refine() reads that part again. Threads: GUI.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/history/run_data.h"
#include "ui/plots/series.h"

namespace lockstep::ui {

bool isTimeSeries(const std::string& name);  // x is the wall clock

class RunCurves : public QObject {
  Q_OBJECT

 public:
  static constexpr std::size_t kMostSamples = 2'000'000;
  // A recorder tells of points before the history has them. For so long they are kept for curves
  // that nobody has asked for yet.
  static constexpr int kRecentMs = 5000;

  RunCurves(std::string historyFolder, std::string run, QObject* parent);

  // Names the curves that the history has. Those in `given` follow by load().
  void begin(const std::vector<std::string>& names, const std::set<std::string>& given);
  void load(const app::RunBatch::Series& points, bool last);
  // The wall clock, in seconds, at which x of series over time is 0.
  void setOrigin(double wallSeconds) { origin_ = wallSeconds; }

  const std::set<std::string>& names() const { return names_; }
  // Returns the curve of that name, empty if the run has none or until it is read.
  std::shared_ptr<Series> series(const std::string& name);
  // Returns a line of its own with the same samples. Later ones are added as long as it is held.
  std::shared_ptr<Series> pin(const std::string& name);
  // Replaces the samples of a curve that is made here, of none of the run's.
  void replace(const std::string& name, const std::vector<app::Point>& points);
  bool reading() const { return reading_ || !wanted_.empty(); }

  // New points, from a recorder. Those of a preview come again, after others that are missing.
  void append(const app::RunBatch::Series& points);
  void preview(const app::RunBatch::Series& points);
  // Reads more of the thinned ones of `lines` if [from, to], `pixels` wide, shows too few samples.
  void refine(const std::vector<std::shared_ptr<Series>>& lines, double from, double to,
              int pixels);

 Q_SIGNALS:
  void added(const QString& name);
  void changed();  // curves were read
  void failed(const lockstep::Error& error);

 private:
  struct Use {
    std::shared_ptr<Series> line;
    std::vector<std::weak_ptr<Series>> pins;
    double lastX = -std::numeric_limits<double>::infinity();
    bool reading = false;
    std::vector<app::Point> waiting;  // came while it is read
    std::vector<app::Point> ahead;    // from a preview, after lastX
    std::vector<std::shared_ptr<Series>> lines() const;
  };
  struct Window {
    std::vector<std::string> names;
    double from = 0, to = 0;  // for the plots' x
    int pixels = 0;
  };
  struct Read;

  void note(const std::string& name);
  Use& use(const std::string& name);
  void want(const std::string& name);
  void startReading();
  void take(Read read);
  void takeDetail(const Read& read, double from, double to);
  void addFresh(const std::string& name, Use& use, const std::vector<app::Point>& points);
  void extend(const std::string& name, Use& use, const std::vector<app::Point>& points);
  void share();  // the samples among the curves
  double originOf(const std::string& name) const { return isTimeSeries(name) ? origin_ : 0; }
  std::size_t limit() const;

  const std::string folder_, run_;
  double origin_ = 0;
  std::set<std::string> names_;
  std::set<std::string> stored_;  // of which the history has points that are not in recent_
  std::map<std::string, Use> used_;
  struct Recent {
    qint64 ms;
    std::vector<app::Point> points;
  };
  std::map<std::string, std::deque<Recent>> recent_;  // of curves that are not used
  QElapsedTimer clock_;
  bool reading_ = false;
  std::vector<std::string> wanted_;
  std::optional<Window> window_;  // asked for while reading
};

}  // namespace lockstep::ui
