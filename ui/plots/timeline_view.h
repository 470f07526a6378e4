// TimelineView: what each rank did in one step, one lane per rank: measured, and optionally
// predicted below it; above them, optionally, the median rank of each stage. Zoomed out, a pixel
// has the colour of the phase that takes most of it. A measured span can be selected, of the median
// rank too; the arrivals of all ranks at its collective, or its messages, are then marked. The
// arrow of a message selects the span of its receive.
#pragma once

#include <QLineF>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "app/runs/step_timeline.h"
#include "ui/plots/grid_view.h"

namespace lockstep::ui {

class TimelineView : public GridView {
  Q_OBJECT

 public:
  explicit TimelineView(const QString& objectName, QWidget* parent = nullptr);

  using Timeline = std::shared_ptr<const app::StepTimeline>;
  // Null: none. Keeps the zoom if the new timeline has the same length.
  void setTimelines(Timeline measured, Timeline predicted, bool withMedians = false);
  const Timeline& measured() const { return measured_; }
  const Timeline& predicted() const { return predicted_; }
  // By row, of measured(), or of predicted() without it; null: the row has none.
  std::vector<const app::StepTimeline::Lane*> lanes() const;
  void setNames(std::vector<QString> names);  // by rank
  int rowOf(int rank) const { return rank + medianRows(); }
  int rankOf(int row) const { return row - medianRows(); }  // below 0: a median rank
  int medianRows() const { return static_cast<int>(medianStages_.size()); }
  QString nameOf(int rank) const;  // below 0: a median rank
  void markRank(int rank);         // highlights a rank; -1: none
  // Hides what comes after `ns`, as the step is played; nullopt: shows all of it.
  void showUntil(std::optional<double> ns);
  struct Place {
    int row = -1;  // -1: none
    bool asynchronous = false;
    std::size_t index = 0;  // in StepTimeline::Lane
  };
  void chooseSpan(const Place& place);
  const Place& chosenPlace() const { return chosen_; }
  const app::TimelineSpan* chosenSpan() const;   // null: none
  int chosenRow() const { return chosen_.row; }  // -1: none
  QString chosenText() const;                    // spanText() of the chosen span; empty: none
  QString spanText(int rank, const app::TimelineSpan& span, bool predicted) const;
  using Flows = std::vector<const app::StepTimeline::Flow*>;
  // Returns the measured messages that are drawn: those of the chosen span, and all in view if
  // there is room to tell them apart.
  Flows shownFlows() const;

 Q_SIGNALS:
  void spanChosen();

 protected:
  double leastSpan() const override { return 1000; }  // ns
  QString rowName(int row) const override;
  bool isMarked(int row) const override { return marked_ >= 0 && row == rowOf(marked_); }
  QString tickText(double x, double largest, double step) const override;
  void drawCells(QImage& image) const override;
  void drawOver(QPainter& painter) const override;
  void choose(double x, double row) override;
  void chooseNothing() override;
  void moveChosen(int dx, int dy, bool far) override;
  double chosenX() const override;
  QString tipAt(double x, double row) const override;

 private:
  // Lines of pixels that show spans of rows [first, last).
  struct Band {
    int top = 0, bottom = 0, first = 0, last = 0;
  };
  struct Hit {
    const app::TimelineSpan* span = nullptr;
    Place place;
    bool predicted = false;
  };
  void drawBand(QImage& image, const Band& band, const app::StepTimeline& timeline,
                bool asynchronous, bool pale) const;
  // The parts of a lane of `height` pixels: measured, asynchronous transfers, predicted.
  struct Parts {
    double measured = 1, asynchronous = 1, predicted = 1;  // where each ends, of the lane
  };
  Parts parts() const;
  bool isInView(const app::StepTimeline::Flow& flow) const;
  QLineF arrowOf(const app::StepTimeline::Flow& flow) const;  // in pixels
  void drawFlows(QPainter& painter) const;
  void drawVeil(QPainter& painter) const;
  void drawArrivals(QPainter& painter, const app::StepTimeline::Collective& collective) const;
  void drawChosen(QPainter& painter, const app::TimelineSpan& span) const;
  QStringList flowTexts(const app::StepTimeline& timeline, int rank,
                        const app::TimelineSpan& span) const;
  // Null: the timeline has none for this row.
  const app::StepTimeline::Lane* laneOf(const app::StepTimeline& timeline, int row) const;
  Hit spanAt(double x, double row, double slack) const;
  const app::StepTimeline::Flow* flowAt(QPointF pixel) const;  // null: no arrow is there
  Hit receiveOf(const app::StepTimeline::Flow& flow) const;
  // Returns the span, or the receive of the message whose arrow is drawn over it.
  Hit hitAt(double x, double row) const;
  Hit nearestAt(int row, double x) const;

  Timeline measured_, predicted_;
  std::vector<QString> names_;
  std::vector<int> medianStages_;  // of the first rows
  int marked_ = -1;
  std::optional<double> until_;
  Place chosen_;
  bool hasAsynchronous_ = false;
};

}  // namespace lockstep::ui
