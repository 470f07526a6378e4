// PlanTimeline: the predicted step of a plan, one lane per rank, with its bubble and how much of
// the communication is hidden. Built in the background while it is looked at. Threads: GUI.
#pragma once

#include <QWidget>
#include <memory>

#include "app/runs/preview.h"

class QLabel;

namespace lockstep::ui {

class ElidedLabel;
class TimelineStack;
class TimelineView;

class PlanTimeline : public QWidget {
  Q_OBJECT

 public:
  explicit PlanTimeline(QWidget* parent);

  using Preview = std::shared_ptr<const app::Preview>;
  void setPreview(Preview preview);  // null: none
  void retranslate();

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void build();
  void nameRanks();
  void refreshText();
  void refreshPhases();

  QLabel* phases_ = nullptr;
  TimelineStack* stack_ = nullptr;
  TimelineView* timeline_ = nullptr;  // in it
  ElidedLabel* text_ = nullptr;
  Preview preview_;
  bool built_ = false;  // or being built
};

}  // namespace lockstep::ui
