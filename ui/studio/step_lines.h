// StepLines: lines of the series that a StepMatrix keeps ("rank/3/forward"). They are filled from
// the matrix in slices that leave the window free. Threads: GUI.
#pragma once

#include <QObject>
#include <QTimer>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/runs/step_matrix.h"
#include "ui/studio/sample_room.h"

namespace lockstep::ui {

class StepLines : public QObject {
  Q_OBJECT

 public:
  StepLines(const app::StepMatrix& steps, SampleRoom& room, QObject* parent);

  static bool has(const std::string& name);
  // Returns a line of its own. It is filled, and continued, as long as it is held.
  std::shared_ptr<Series> pin(const std::string& name);
  // Says that the matrix has all steps of that series up to the last of these. Those of a preview,
  // which come before others, are not told.
  void took(const app::RunBatch::Series& points);
  // As RunCurves::refine().
  void refine(const std::vector<std::shared_ptr<Series>>& lines, double from, double to,
              int pixels);

 Q_SIGNALS:
  void changed();

 private:
  struct Window {
    double from = 0, to = 0;
    int pixels = 0;
  };
  struct Line {
    std::string name;
    app::StepMeasure measure = app::StepMeasure::kStep;
    int rank = 0;
    std::weak_ptr<Series> line;
    std::int64_t filled = 0;       // the last step that was looked for
    std::optional<Window> window;  // to be read more closely
  };

  void wake();
  void work();              // for one slice
  bool workOn(Line& line);  // false: nothing is left to do
  void fill(Line& line, Series& series, std::int64_t last) const;
  void look(const Line& line, Series& series, const Window& window) const;

  const app::StepMatrix& steps_;
  SampleRoom& room_;
  std::map<std::string, std::int64_t> known_;  // by series: the last step without a gap before it
  std::vector<Line> lines_;
  std::size_t at_ = 0;  // where the next slice begins
  QTimer next_;
};

}  // namespace lockstep::ui
