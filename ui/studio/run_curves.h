// RunCurves: the curves of a run that views show. A curve is read from the history when it is first
// asked for, and continued by the recorder's updates; of the others only the names are kept.
//
// All curves together have about SampleRoom::kMostSamples samples. Longer ones are thinned; where a
// view shows a part of one more closely, refine() reads that part again. What could not be read is
// tried again. Threads: GUI.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "app/history/run_data.h"
#include "ui/studio/sample_room.h"

namespace lockstep::ui {

bool isTimeSeries(const std::string& name);  // x is the wall clock
// The extremes of spans as points, in the order of x.
std::vector<app::Point> pointsOf(const std::vector<app::Span>& spans);

class RunCurves : public QObject {
  Q_OBJECT

 public:
  // A recorder tells of points before the history has them. For so long they are kept for curves
  // that nobody has asked for yet.
  static constexpr int kRecentMs = 5000;
  // Until what could not be read is tried again; each time twice as long.
  static constexpr int kFirstRetryMs = 1000, kLongestRetryMs = 60'000;

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
  SampleRoom& room() { return room_; }  // also for lines that others make of the run's series

  // New points, from a recorder. Those of a preview come again, after others that are missing.
  void append(const app::RunBatch::Series& points);
  void preview(const app::RunBatch::Series& points);
  // Reads more of the thinned ones of `lines`, which are a plot's, if [from, to], `pixels` wide,
  // shows too few samples. Of one plot only the newest call is answered.
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
    bool noted = false;  // among names_
    bool reading = false;
    bool unread = false;              // the history could not be read; what came since is there
    std::vector<app::Point> waiting;  // came while it is read
    std::vector<app::Point> ahead;    // from a preview, after lastX
    std::vector<std::shared_ptr<Series>> lines() const;
  };
  struct Window {
    const Series* plot = nullptr;  // the first of its lines, which tells plots apart
    std::vector<std::string> names;
    double from = 0, to = 0;  // for the plots' x
    int pixels = 0;
  };
  struct Read;

  void note(const std::string& name);
  Use& use(const std::string& name);
  void want(const std::string& name);
  void startReading();
  void readMore(const Window& window);
  void take(const std::shared_ptr<Read>& read);  // in slices that leave the window free
  void takeSome(Read& read);
  void takeAgain(const std::string& name, Use& use);
  void takeDetail(const Read& read);
  void end(const Read& read);
  void tryAgain(const Read& failed);
  void addFresh(const std::string& name, Use& use, const std::vector<app::Point>& points);
  void extend(const std::string& name, Use& use, const std::vector<app::Point>& points);
  double originOf(const std::string& name) const { return isTimeSeries(name) ? origin_ : 0; }

  const std::string folder_, run_;
  SampleRoom room_;
  double origin_ = 0;
  std::set<std::string> names_;
  std::set<std::string> stored_;  // of which the history has points that are not in recent_
  std::unordered_map<std::string, Use> used_;
  struct Recent {
    qint64 ms;
    std::vector<app::Point> points;
  };
  std::unordered_map<std::string, std::deque<Recent>> recent_;  // of curves that are not used
  QElapsedTimer clock_;
  bool reading_ = false;
  std::vector<std::string> wanted_;
  std::deque<Window> windows_;  // asked for while reading; one of each plot
  std::string told_;            // the last failure
  int retryMs_ = kFirstRetryMs;
};

}  // namespace lockstep::ui
