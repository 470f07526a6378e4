// RunPage: one run, live or from the history: curves, measured and predicted step time, load of the
// nodes, logs of all ranks, heat map and timeline of steps, traffic, and the straggler.
#pragma once

#include <QElapsedTimer>
#include <QTimer>
#include <map>
#include <stop_token>

#include "app/runs/energy.h"
#include "app/runs/relaunch.h"
#include "ui/pages/page.h"
#include "ui/studio/run_document.h"

class QGridLayout;
class QLabel;
class QProgressBar;
class QPushButton;
class QSlider;
class QStackedWidget;
class QTabWidget;
class QTableView;
class QToolButton;

namespace lockstep::ui {

class BreakdownBars;
class BreakdownModel;
class Card;
class CostsPanel;
class DashboardView;
class DocumentsPanel;
class Figure;
class PlotGroup;
class PlotView;
class RunLogs;
class StateBadge;
class StepsPanel;
class StragglerPanel;
class TrafficPanel;
class WhatIfPanel;

class RunPage : public Page {
  Q_OBJECT

 public:
  RunPage(std::unique_ptr<RunDocument> document, QWidget* parent = nullptr);
  ~RunPage() override;

  QString title() const override;
  QString titleDetail() const override { return document_->run(); }
  bool canFind() const override { return true; }
  void find() override;              // in the logs
  QUndoStack* undoStack() override;  // of the dashboard, while it is shown
  const char* iconName() const override { return "run"; }
  QVector<InspectorRow> inspectorRows() const override;
  Place place() const override;
  void go(const Place& place) override;
  QVariantMap view() const override;  // place and zooms
  void restoreView(const QVariantMap& view) override;
  RunDocument* document() const { return document_; }
  PlotView* lossPlot() const { return loss_; }
  QString straggler() const;
  void debugRank(int rank = -1);  // −1: the straggler, or the first
  // Asks whether; "": the straggler's node, and why it is slow.
  void excludeNode(const QString& node = {}, const QString& why = {});
  void rebalance();
  void restartRanks();

 Q_SIGNALS:
  void relaunchWanted(lockstep::app::RelaunchKind kind);
  void cloneWanted();

 protected:
  void retranslate() override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void buildHead();
  void buildPlotTools();
  void fitTools();
  static constexpr int kSliderWidth = 110, kLeastSlider = 36;  // pixels
  void buildTabs();
  QWidget* buildOverview();
  QWidget* buildBreakdown(QWidget* page);
  QWidget* buildNodes();
  void connectButtons();
  void connectDocument();
  void addPart(const char* name, QWidget* widget);
  void placeSeries(const QString& name);
  void placeAllSeries();
  QVector<PlotGroup*> groups() const { return {stepGroup_, timeGroup_, epochGroup_}; }
  void addToGroup(PlotGroup* group, PlotView* plot);
  void placeEvaluations(const std::vector<app::EpochRow>& tested);
  void buildGpuPlots();
  void nameGpuPlots();
  void placeGpuSeries(const QString& name);
  void showReach(std::int64_t sinceNs);
  void showEnd();
  void showStep(int rank, qint64 step);
  void showProfiled();
  void shareZoom();
  void showMoment(int rank, qint64 step);  // rank -1: none
  QString nodeOfRank(int rank) const;      // as launched; "": not known
  void refreshRow();
  void readEnergy();
  QVector<InspectorRow> changeRows() const;
  QVector<InspectorRow> fileRows() const;
  void refreshBreakdown();
  void refreshFollow();
  void showXMenu();
  void setXSeries(const std::string& series);
  void showAlert(const app::AlertEvent& event);
  void alertError(Tone tone, const Error& error);
  QString restartKey() const { return key() + ":restart"; }  // of its alert
  void showRestart(const app::RunRestart& restart);
  void showAsProgram();  // only what is known of a program of the user's own
  static QString sourceName(const std::string& name);
  void showStepsOfProgram();
  void placeValue(const std::string& name);
  void refreshSlow();
  void refreshFigures();
  void nameMetric();
  void restyle();

  RunDocument* document_;
  QLabel* heading_ = nullptr;
  StateBadge* badge_ = nullptr;
  QLabel* runId_ = nullptr;
  QPushButton* stop_ = nullptr;
  QPushButton* kill_ = nullptr;
  QPushButton* resume_ = nullptr;
  QPushButton* rerun_ = nullptr;
  QPushButton* clone_ = nullptr;
  QProgressBar* progress_ = nullptr;
  Figure* step_ = nullptr;
  Figure* lossFigure_ = nullptr;
  Figure* metricFigure_ = nullptr;
  Figure* throughputFigure_ = nullptr;
  Figure* stepTime_ = nullptr;
  Figure* time_ = nullptr;
  QTabWidget* tabs_ = nullptr;
  QStringList parts_;  // names of the tabs, in links
  QWidget* tools_ = nullptr;
  QLabel* smoothLabel_ = nullptr;
  QSlider* smooth_ = nullptr;
  QToolButton* pause_ = nullptr;
  QToolButton* logX_ = nullptr;
  QToolButton* xAxis_ = nullptr;
  std::string xSeries_;  // that steps are labelled by; "": by their numbers
  QToolButton* follow_ = nullptr;
  PlotGroup* stepGroup_ = nullptr;
  PlotGroup* timeGroup_ = nullptr;
  PlotGroup* epochGroup_ = nullptr;
  PlotView* loss_ = nullptr;
  PlotView* metric_ = nullptr;
  std::string shownMetric_;
  PlotView* throughput_ = nullptr;
  PlotView* rate_ = nullptr;          // learning rate
  PlotView* gradientNorm_ = nullptr;  // with the update ratio
  DashboardView* dashboard_ = nullptr;
  PlotView* cpu_ = nullptr;
  PlotView* memory_ = nullptr;
  PlotView* network_ = nullptr;
  PlotView* disk_ = nullptr;
  // GPU plots by suffix of the series name; created when there are data.
  struct GpuPlot {
    const char* figure;
    PlotView* plot;
    Card* card;
  };
  QVector<GpuPlot> gpuPlots_;
  QGridLayout* nodeGrid_ = nullptr;
  QGridLayout* overviewGrid_ = nullptr;
  std::map<std::string, PlotView*> values_;  // of a program, by series
  bool asProgram_ = false;
  Card* breakdownCard_ = nullptr;
  BreakdownBars* bars_ = nullptr;
  BreakdownModel* breakdownModel_ = nullptr;
  QTableView* breakdownTable_ = nullptr;
  QStackedWidget* breakdownStack_ = nullptr;
  QLabel* breakdownEmpty_ = nullptr;
  QToolButton* breakdownAsTable_ = nullptr;
  StragglerPanel* straggler_ = nullptr;
  bool nodesOpened_ = false;        // the tab of the nodes' curves
  std::int64_t unreachableNs_ = 0;  // since when, as shown; 0: it is not
  int restartShown_ = 0;            // the generation
  RunLogs* logs_ = nullptr;
  StepsPanel* steps_ = nullptr;
  DocumentsPanel* documentsPanel_ = nullptr;
  CostsPanel* costs_ = nullptr;
  WhatIfPanel* whatIf_ = nullptr;
  struct Profiled {
    qint64 first = 0, last = 0;  // steps
    bool isWritten = false;      // the steps after them have come a while ago
    bool isTold = true;          // false: an error has taken the place of its note
    QElapsedTimer asked = {};
  };
  bool checkpointAsked_ = false;          // and neither saved nor failed since
  std::optional<Profiled> profiled_;      // that the page waits for
  std::optional<app::RunEnergy> energy_;  // none: not read, or not known
  std::stop_source energyStop_;           // of its reading, when the page goes
  std::optional<double> energyReadFor_;   // the joules of the ended run's row, when it was
  bool energyReading_ = false;
  QElapsedTimer energyPause_;  // since it was last read
  qint64 energyPauseMs_ = 0;   // until it is read again, while the run is under way
  TrafficPanel* traffic_ = nullptr;
  QTimer second_;
};

}  // namespace lockstep::ui
