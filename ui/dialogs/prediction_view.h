// PredictionView: the prediction of a launch: key figures, placement, step time, the predicted step
// as a timeline, the plan's text, a comparison of strategies, the fastest ones, what the step would
// take, had something been otherwise, and a summary of all that would be run.
#pragma once

#include <QWidget>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/runs/launch_summary.h"
#include "app/runs/preview.h"
#include "ui/models/candidate_model.h"

class QLabel;
class QPlainTextEdit;
class QPushButton;
class QScrollArea;
class QTabWidget;
class QTableView;
class QToolButton;

namespace lockstep::ui {

class AdvicePanel;
class BreakdownBars;
class BreakdownModel;
class ColumnFitter;
class Figure;
class PlacementModel;
class PlanTimeline;
class SummaryModel;
class WhatIfPanel;

class PredictionView : public QWidget {
  Q_OBJECT

 public:
  explicit PredictionView(QWidget* parent);

  // `told` is false if the step time is an estimate that would stand beside measured ones.
  void show(const std::shared_ptr<const app::Preview>& shown, bool told);
  void setSummary(std::vector<app::SummaryRow> rows);
  // Of a program of the user's own placement and summary are shown: nothing else is known before.
  void showKind(bool ofProgram);
  void clear();
  void setCandidates(std::vector<Candidate> candidates);
  // Sets the chosen strategy and the benchmarked step times by strategy.
  void setChosen(const std::string& strategy, const std::map<std::string, double>& benchmarks);
  bool comparing() const;  // the comparison is looked at
  bool choosing() const;   // a table of strategies has the keyboard
  QPushButton* benchmarkButton() const { return benchmark_; }
  QPushButton* preflightButton() const { return preflight_; }
  AdvicePanel* advice() const { return advice_; }
  WhatIfPanel* whatIf() const { return whatIf_; }
  QTabWidget* tabs() const { return tabs_; }
  void retranslate();

 Q_SIGNALS:
  void compareWanted();
  void strategyChosen(const std::string& strategy);

 private:
  void showEnergy(const app::Preview& preview, bool told);
  QWidget* buildPlacement();
  QWidget* buildBars();
  QWidget* buildCandidates();
  QWidget* buildSummary();

  Figure* stepTime_ = nullptr;
  Figure* throughput_ = nullptr;
  Figure* memory_ = nullptr;
  Figure* wire_ = nullptr;
  Figure* energy_ = nullptr;
  Figure* ranks_ = nullptr;
  QLabel* source_ = nullptr;
  QPushButton* benchmark_ = nullptr;
  QPushButton* preflight_ = nullptr;
  QTabWidget* tabs_ = nullptr;
  QTableView* placement_ = nullptr;
  ColumnFitter* placementColumns_ = nullptr;
  PlacementModel* placementModel_ = nullptr;
  QLabel* remarks_ = nullptr;
  QScrollArea* remarksArea_ = nullptr;
  BreakdownBars* bars_ = nullptr;
  BreakdownModel* barsModel_ = nullptr;
  QTableView* barsTable_ = nullptr;
  QToolButton* barsAsTable_ = nullptr;
  PlanTimeline* timeline_ = nullptr;
  QPlainTextEdit* plan_ = nullptr;
  QTableView* candidates_ = nullptr;
  CandidateModel* candidateModel_ = nullptr;
  AdvicePanel* advice_ = nullptr;
  WhatIfPanel* whatIf_ = nullptr;
  QTableView* summary_ = nullptr;
  SummaryModel* summaryModel_ = nullptr;
};

}  // namespace lockstep::ui
