// HeatMapView: a heat map of rank × step with a selectable cell.
#pragma once

#include <functional>
#include <vector>

#include "app/runs/heat_map.h"
#include "ui/plots/grid_view.h"

namespace lockstep::ui {

class HeatMapView : public GridView {
  Q_OBJECT

 public:
  // The map outlives the view.
  HeatMapView(const QString& objectName, const app::HeatMap& map, QWidget* parent = nullptr);

  // Call after the map has changed. `order` has the rank of each row; `names` is by rank.
  void refresh(std::vector<int> order, std::vector<QString> names, double scale);
  // rank -1: none. Emits cellChosen on changes.
  void chooseCell(int rank, std::int64_t step, bool comesIntoView = true);
  int chosenRank() const { return rank_; }
  std::int64_t chosenStep() const { return step_; }
  QPoint centreOf(int rank, std::int64_t step) const;  // in this widget
  // Returns the tool tip of a cell, also the accessible description of the selected one.
  void setDescription(std::function<QString(int rank, std::int64_t step)> text);

 Q_SIGNALS:
  void cellChosen(int rank, qint64 step);

 protected:
  double leastSpan() const override { return 4; }
  double leastTick() const override { return 1; }
  QString rowName(int row) const override;
  bool isMarked(int row) const override;
  QString tickText(double x, double largest, double step) const override;
  void drawCells(QImage& image) const override;
  void drawOver(QPainter& painter) const override;
  void choose(double x, double row) override;
  void chooseNothing() override { chooseCell(-1, 0); }
  void moveChosen(int dx, int dy, bool far) override;
  double chosenX() const override;
  QString tipAt(double x, double row) const override;

 private:
  int rowOf(int rank) const;  // -1: none
  void describe();

  const app::HeatMap& map_;
  std::vector<int> order_;
  std::vector<QString> names_;
  double scale_ = 1;
  int rank_ = -1;
  std::int64_t step_ = 0;
  std::function<QString(int, std::int64_t)> description_;
};

}  // namespace lockstep::ui
