// CostsPanel: the ranks and nodes of a run by the time that the others waited for them, with what a
// step would take without the late ones, and one of them beside its peers. Reads and replays in the
// background while it is in sight.
#pragma once

#include <QElapsedTimer>
#include <QTimer>
#include <QWidget>
#include <memory>
#include <vector>

#include "app/runs/rank_costs.h"

class QComboBox;
class QLabel;
class QStackedWidget;
class QTableView;
class QToolButton;

namespace lockstep::ui {

class Card;
class CostModel;
class PeerModel;
class RunDocument;
class WithoutReader;

class CostsPanel : public QWidget {
  Q_OBJECT

 public:
  CostsPanel(RunDocument* document, QWidget* parent = nullptr);
  ~CostsPanel() override;

  void retranslate();
  int chosenRank() const;  // −1: none; of a node: its costliest rank

 Q_SIGNALS:
  void shown(int rank, qint64 step);  // wants to be seen in the heat map
  void debugWanted(int rank);
  // Of a node, "" where it is not known, and what it costs.
  void excludeWanted(const QString& node, const QString& reason);

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  struct Answer;
  void connectParts();
  void read();
  void take(Answer answer);
  const std::vector<app::RankCost>& shownCosts() const;  // of ranks or nodes
  void showCosts();
  void showSummary();
  void showEmpty();
  void choose();

  RunDocument* document_;
  WithoutReader* without_;
  QTimer again_;  // while data arrive
  QElapsedTimer took_;
  bool reading_ = false, readAgain_ = false, changed_ = true, taking_ = false;
  Card* costCard_ = nullptr;
  QComboBox* rows_ = nullptr;
  QComboBox* span_ = nullptr;
  QToolButton* find_ = nullptr;
  QToolButton* exclude_ = nullptr;
  QToolButton* debug_ = nullptr;
  QStackedWidget* stack_ = nullptr;
  QLabel* empty_ = nullptr;
  QLabel* summary_ = nullptr;
  CostModel* costs_ = nullptr;
  QTableView* costTable_ = nullptr;
  Card* peerCard_ = nullptr;
  PeerModel* peers_ = nullptr;
  QTableView* peerTable_ = nullptr;
  std::unique_ptr<Answer> answer_;  // the last one
};

}  // namespace lockstep::ui
