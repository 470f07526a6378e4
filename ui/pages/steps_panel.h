// StepsPanel: shows why steps are slow: the heat map of rank × step, and below it the timeline of
// the sampled step nearest to the selected cell. Each can be shown as a table.
#pragma once

#include <QDeadlineTimer>
#include <QTimer>
#include <QWidget>
#include <optional>

#include "app/runs/heat_map.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QStackedWidget;
class QTableView;
class QToolButton;

namespace lockstep::ui {

class Card;
class ColorLegend;
class ElidedLabel;
class GridView;
class HeatMapView;
class RunDocument;
class StepReader;
class StepTableModel;
class TimelineStack;
class TimelineView;

class StepsPanel : public QWidget {
  Q_OBJECT

 public:
  StepsPanel(RunDocument* document, StepReader* reader, QWidget* parent = nullptr);

  void retranslate();
  // The selected cell; rank -1: none.
  // As soon as it is read.
  void choose(int rank, qint64 step, bool comesIntoView = true);
  int chosenRank() const;
  qint64 chosenStep() const;
  GridView* map() const;

 Q_SIGNALS:
  void cellChosen(int rank, qint64 step);  // rank -1: none

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  Card* buildMap();
  Card* buildTimeline();
  void connectParts();
  void dataChanged();
  void measureChanged();
  void offerClocks();  // as soon as the run has some
  void readMore();     // reads a slice of the matrix
  void refreshMap();
  void refreshLegend(double scale);
  void refreshUnits();
  void refreshTimeline();
  void refreshPhases();
  void refreshSpan();
  app::StepMeasure measure() const;
  QString rankName(int rank) const;
  QString cellText(int rank, std::int64_t step) const;
  void chooseAwaited();

  RunDocument* document_;
  StepReader* reader_;
  struct Cell {
    int rank = -1;
    qint64 step = 0;
    bool comesIntoView = true;
  };
  std::optional<Cell> awaited_;  // chosen before it was read
  app::HeatMap map_;
  QTimer more_;  // runs while there are data to read
  QDeadlineTimer nextLook_{0};
  Card* mapCard_ = nullptr;
  QComboBox* measure_ = nullptr;
  QComboBox* relative_ = nullptr;
  QComboBox* order_ = nullptr;
  ColorLegend* legend_ = nullptr;
  QToolButton* asTable_ = nullptr;
  QToolButton* fit_ = nullptr;
  QStackedWidget* stack_ = nullptr;
  HeatMapView* view_ = nullptr;
  StepTableModel* tableModel_ = nullptr;
  QTableView* table_ = nullptr;
  ElidedLabel* cell_ = nullptr;
  Card* timelineCard_ = nullptr;
  QLabel* phases_ = nullptr;
  QCheckBox* withMedian_ = nullptr;
  QCheckBox* withPrediction_ = nullptr;
  QToolButton* timelineFit_ = nullptr;
  TimelineStack* timelineStack_ = nullptr;
  TimelineView* timeline_ = nullptr;  // in it
  ElidedLabel* span_ = nullptr;
};

}  // namespace lockstep::ui
