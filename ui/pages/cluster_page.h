// ClusterPage: the nodes of a cluster as they are now, their load, and the cluster's text.
#pragma once

#include <QHash>
#include <memory>
#include <optional>

#include "engine/base/clock.h"
#include "ui/pages/spec_page.h"
#include "ui/studio/live_cluster.h"
#include "ui/studio/sample_room.h"

class QAction;
class QLabel;
class QPushButton;
class QStackedLayout;
class QStackedWidget;
class QTabWidget;
class QTableView;
class QToolButton;

namespace lockstep::ui {

class Card;
class ColumnFitter;
class DeployJob;
class EmptyState;
class HostPanel;
class NodeLeds;
class NodeTableModel;
class PlotGroup;
class PlotView;
class Series;
class StateBadge;
class Workspace;
struct NodeRow;

class ClusterPage : public SpecPage {
  Q_OBJECT

 public:
  ClusterPage(std::unique_ptr<SpecDocument> document, Workspace& workspace,
              QWidget* parent = nullptr);
  ~ClusterPage() override;

  const char* iconName() const override { return "cluster"; }
  QVector<InspectorRow> inspectorRows() const override;
  NodeTableModel* nodes() const { return nodes_; }
  // Returns the session of the current text; null if the text is not a valid cluster.
  std::shared_ptr<LiveCluster> live();
  std::shared_ptr<LiveCluster> liveIfAny() const { return live_; }
  int connectedCount() const;

  void connectAll();
  void disconnectAll();
  bool canDeploy() const;
  void deployAgents();  // asks how they start, and connects all nodes
  void addHost();       // asks
  Status addNode(const QString& yaml);
  void removeSelected();
  void editHost();  // the selected one, or else the first: its settings get the keyboard
  HostPanel* host() const { return host_; }
  bool isScheduled() const;
  void nameEmpty();
  void addPlacement(QVector<InspectorRow>& rows) const;
  Status leaveOut(int item, std::size_t part);
  void preflight();  // measures the connected nodes
  void debugNode();  // the selected one
  // Returns the state of a node from its session.
  void showLoad(const QString& node, const app::NodeLoad& load);

 Q_SIGNALS:
  void launchWanted();
  void stateChanged();

 protected:
  void retranslate() override;
  void documentChanged() override;
  void endAlerts() override;
  void problemChosen(const app::SpecProblem& problem) override;

 private:
  void buildHead();
  void buildNodes();
  void buildHost();
  void buildLoad();
  void placeParts();
  void connectParts();
  void dropLive();
  void rebuildRows();
  void showHost();  // the settings of the selected one
  void addRows(NodeRow row, const std::string& path, QVector<NodeRow>& rows) const;
  void takeStatus(int node);
  void takeLoad(int node);
  void addSeries();
  void takeGpus(const QString& name, const std::vector<app::GpuLoad>& gpus, double now);
  void alertGpus(const QString& node, const app::NodeLoad& load);
  void showFailure(const app::NodeStatus& status);
  void endFailure(const QString& node);  // it is connected, or gone
  void endFailures();
  void endGpuAlerts(const QString& node, Nanoseconds by);  // those last seen by then
  void buildGpuPlots();
  void nameGpuPlots();
  void showGpus();  // or hides what is of them
  void refreshState();
  QString nodeToDebug() const;  // "": none is connected and selected

  Workspace& workspace_;
  std::shared_ptr<LiveCluster> live_;
  std::string liveText_;                  // the text live_ was made of
  std::optional<app::AgentStart> start_;  // of the next session
  std::unique_ptr<DeployJob> deploy_;
  NodeTableModel* nodes_ = nullptr;
  QLabel* heading_ = nullptr;
  StateBadge* badge_ = nullptr;
  QPushButton* connect_ = nullptr;
  QPushButton* disconnect_ = nullptr;
  QPushButton* add_ = nullptr;
  QPushButton* remove_ = nullptr;
  QToolButton* preflight_ = nullptr;
  QToolButton* debug_ = nullptr;
  QToolButton* edit_ = nullptr;
  QAction* editAction_ = nullptr;
  QPushButton* launch_ = nullptr;
  Card* nodeCard_ = nullptr;
  Card* loadCard_ = nullptr;
  HostPanel* host_ = nullptr;
  QTabWidget* views_ = nullptr;  // the load, and the settings
  QTableView* table_ = nullptr;
  NodeLeds* leds_ = nullptr;
  ColumnFitter* columns_ = nullptr;
  EmptyState* empty_ = nullptr;
  QStackedLayout* stack_ = nullptr;
  PlotGroup* group_ = nullptr;
  PlotView* cpuPlot_ = nullptr;
  PlotView* memoryPlot_ = nullptr;
  PlotView* networkPlot_ = nullptr;
  // Shown if a node has GPUs.
  QStackedWidget* loadStack_ = nullptr;
  QToolButton* gpuButton_ = nullptr;
  PlotView* gpuPlot_ = nullptr;
  PlotView* temperaturePlot_ = nullptr;
  PlotView* powerPlot_ = nullptr;
  struct NodeSeries {
    std::shared_ptr<Series> cpu, memory, network;
  };
  SampleRoom room_;  // of all lines: the page may be open for days
  QHash<QString, NodeSeries> series_;
  QHash<QString, std::shared_ptr<Series>> gpuSeries_;  // by plot, node and GPU
  // Active alerts by node: its GPUs' with the time last seen, and why it failed.
  struct GpuAlert {
    Nanoseconds seen = 0;
    Message text;
  };
  QHash<QString, QHash<QString, GpuAlert>> gpuAlerts_;
  QHash<QString, std::string> failures_;
  const Nanoseconds openedNs_ = monotonicNow();  // where the plots' time begins
};

}  // namespace lockstep::ui
