// TrafficPanel: the bytes per step that ranks exchange as planned, and per node as measured.
#pragma once

#include <QWidget>

class QLabel;
class QStackedWidget;
class QTableView;

namespace lockstep::ui {

class Card;
class NodeTrafficModel;
class RunDocument;
class StepReader;
class TrafficModel;

class TrafficPanel : public QWidget {
  Q_OBJECT

 public:
  TrafficPanel(RunDocument* document, StepReader* reader, QWidget* parent = nullptr);

  void retranslate();

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void refreshPlan();
  void refreshNodes();

  RunDocument* document_;
  StepReader* reader_;
  bool planShown_ = false;
  Card* ranksCard_ = nullptr;
  QStackedWidget* stack_ = nullptr;
  QLabel* empty_ = nullptr;
  TrafficModel* ranks_ = nullptr;
  QTableView* rankTable_ = nullptr;
  Card* nodesCard_ = nullptr;
  NodeTrafficModel* nodes_ = nullptr;
  QTableView* nodeTable_ = nullptr;
  QLabel* note_ = nullptr;
};

}  // namespace lockstep::ui
