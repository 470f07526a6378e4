// TrafficPanel: the bytes per step that ranks exchange as planned; and between
// nodes, and per node, as measured.
#pragma once

#include <QTimer>
#include <QWidget>
#include <vector>

#include "engine/plan/traffic.h"

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
  Card* buildRanks();
  Card* buildLinks();
  Card* buildNodes();
  void refreshPlan();
  void refreshMeasured();
  void refreshLinks();
  void refreshNodes();
  QString whyNoLinks() const;
  std::vector<plan::Traffic> measuredLinks(const std::vector<std::string>& nodes) const;

  RunDocument* document_;
  StepReader* reader_;
  bool planShown_ = false;
  QTimer refresh_;  // of what is measured
  Card* ranksCard_ = nullptr;
  QStackedWidget* stack_ = nullptr;
  QLabel* empty_ = nullptr;
  TrafficModel* ranks_ = nullptr;
  QTableView* rankTable_ = nullptr;
  Card* linksCard_ = nullptr;
  QStackedWidget* linkStack_ = nullptr;
  QLabel* linksEmpty_ = nullptr;
  TrafficModel* links_ = nullptr;
  QTableView* linkTable_ = nullptr;
  Card* nodesCard_ = nullptr;
  NodeTrafficModel* nodes_ = nullptr;
  QTableView* nodeTable_ = nullptr;
  QLabel* note_ = nullptr;
};

}  // namespace lockstep::ui
