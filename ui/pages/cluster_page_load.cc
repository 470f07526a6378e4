// The load of the cluster page: the plots of its nodes and their GPUs, and the GPUs' alerts.
#include <QHBoxLayout>
#include <QStackedWidget>
#include <QTableView>
#include <QToolButton>

#include "ui/models/gpu_text.h"
#include "ui/models/node_table_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr Nanoseconds kCalm = 10'000'000'000;  // what was not seen for this long is over

QWidget* pageOf(QHBoxLayout* row, QWidget* parent) {
  auto* page = new QWidget(parent);
  row->setContentsMargins(0, 0, 0, 0);
  page->setLayout(row);
  return page;
}

}  // namespace

void ClusterPage::buildLoad() {
  loadCard_ = new Card("loadCard", this);
  group_ = new PlotGroup(this);
  auto* plots = new QHBoxLayout;
  plots->setSpacing(kSpaceL);
  cpuPlot_ = new PlotView("clusterCpuPlot", this);
  cpuPlot_->setUnit(PlotView::Unit::kPercent);
  memoryPlot_ = new PlotView("clusterMemoryPlot", this);
  memoryPlot_->setUnit(PlotView::Unit::kBytes);
  memoryPlot_->setFromZero(true);
  networkPlot_ = new PlotView("clusterNetworkPlot", this);
  networkPlot_->setUnit(PlotView::Unit::kByteRate);
  networkPlot_->setFromZero(true);
  for (PlotView* plot : {cpuPlot_, memoryPlot_, networkPlot_}) {
    plot->setXAxis(PlotView::XAxis::kTime);
    group_->add(plot);
    plots->addWidget(plot, 1);
  }
  loadStack_ = new QStackedWidget(this);
  loadStack_->addWidget(pageOf(plots, loadStack_));
  loadCard_->body()->addWidget(loadStack_, 1);
  gpuButton_ = makeToolButton("clusterGpuButton", "chart", this);
  gpuButton_->setCheckable(true);
  gpuButton_->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  loadCard_->head()->addWidget(gpuButton_);
}

// With the first GPU: most clusters need none of it.
void ClusterPage::buildGpuPlots() {
  auto* row = new QHBoxLayout;
  row->setSpacing(kSpaceL);
  gpuPlot_ = new PlotView("clusterGpuPlot", this);
  gpuPlot_->setUnit(PlotView::Unit::kPercent);
  temperaturePlot_ = new PlotView("clusterTemperaturePlot", this);
  powerPlot_ = new PlotView("clusterPowerPlot", this);
  powerPlot_->setFromZero(true);
  for (PlotView* plot : {gpuPlot_, temperaturePlot_, powerPlot_}) {
    plot->setXAxis(PlotView::XAxis::kTime);
    group_->add(plot);
    row->addWidget(plot, 1);
  }
  loadStack_->addWidget(pageOf(row, loadStack_));
  nameGpuPlots();
}

void ClusterPage::nameGpuPlots() {
  if (!gpuPlot_) return;
  const QString empty = tr("No data yet. Connect the nodes.");
  gpuPlot_->setTexts(tr("GPU use"), {}, {}, empty);
  temperaturePlot_->setTexts(tr("Temperature"), {}, QString::fromUtf8("°C"), empty);
  powerPlot_->setTexts(tr("Power"), {}, "W", empty);
}

void ClusterPage::showGpus() {
  const bool some = nodes_->anyGpu();
  if (some && !gpuPlot_) buildGpuPlots();
  for (int column = NodeTableModel::kGpu; column <= NodeTableModel::kGpuPower; ++column)
    table_->setColumnHidden(column, !some);
  columns_->fit();
  gpuButton_->setVisible(some);
  if (!some) gpuButton_->setChecked(false);
}

void ClusterPage::takeLoad(int node) {
  const app::NodeStatus& status = live_->session().status(node);
  showLoad(QString::fromStdString(status.name), status.load);
}

void ClusterPage::showLoad(const QString& name, const app::NodeLoad& load) {
  NodeRow* row = nodes_->row(name);
  if (!row) return;
  row->sampled = true;
  row->cpu = load.cpu;
  row->memoryUsed = load.memoryUsed;
  row->memoryTotal = load.memoryTotal;
  row->networkIn = load.networkIn;
  row->networkOut = load.networkOut;
  row->loopback = load.loopback;
  row->diskRead = load.diskRead;
  row->diskWrite = load.diskWrite;
  row->diskFree = load.diskFree;
  row->diskBusy = load.diskBusy;
  const bool some = !load.gpus.empty(), had = !row->gpus.empty();
  row->gpus = load.gpus;
  if (some != had) showGpus();
  nodes_->touched(name);
  if (!series_.contains(name)) addSeries();
  NodeSeries& series = series_[name];
  const double now = static_cast<double>(load.receivedNs - openedNs_) * 1e-9;
  series.cpu->append(now, load.cpu);
  series.memory->append(now, load.memoryUsed);
  series.network->append(now, load.networkIn + load.networkOut + load.loopback);
  if (some) takeGpus(name, load.gpus, now);
  alertGpus(name, load);
  group_->dataChanged();
}

// Adds the series of every node in the cluster's order, whichever reports first.
void ClusterPage::addSeries() {
  for (const NodeRow& row : nodes_->rows()) {
    if (series_.contains(row.name)) continue;
    const int color = static_cast<int>(series_.size());
    NodeSeries& series = series_[row.name];
    series = {std::make_shared<Series>(row.name, color), std::make_shared<Series>(row.name, color),
              std::make_shared<Series>(row.name, color)};
    for (const auto& line : {series.cpu, series.memory, series.network}) room_.add(line);
    cpuPlot_->addSeries(series.cpu);
    memoryPlot_->addSeries(series.memory);
    networkPlot_->addSeries(series.network);
  }
}

void ClusterPage::takeGpus(const QString& name, const std::vector<app::GpuLoad>& gpus, double now) {
  const struct {
    PlotView* plot;
    std::optional<double> app::GpuLoad::*figure;
  } lines[] = {{gpuPlot_, &app::GpuLoad::utilisation},
               {temperaturePlot_, &app::GpuLoad::temperature},
               {powerPlot_, &app::GpuLoad::power}};
  for (const app::GpuLoad& gpu : gpus) {
    for (const auto& line : lines) {
      if (!(gpu.*line.figure)) continue;
      auto& series =
          gpuSeries_[QString("%1/%2/%3")
                         .arg(line.plot->objectName(), name, QString::number(gpu.index))];
      if (!series) {
        series = std::make_shared<Series>(
            gpus.size() == 1 ? name : QString("%1:%2").arg(name, QString::number(gpu.index)),
            static_cast<int>(line.plot->series().size()));
        room_.add(series);
        line.plot->addSeries(series);
      }
      series->append(now, *(gpu.*line.figure));
    }
  }
}

void ClusterPage::alertGpus(const QString& node, const app::NodeLoad& load) {
  for (const app::GpuLoad& gpu : load.gpus) {
    for (const app::GpuTrouble trouble : app::troublesOf(gpu)) {
      if (trouble == app::GpuTrouble::kPower) continue;  // so it is under heavy load
      const QString alert =
          key() + QString(":gpu:%1:%2:%3")
                      .arg(node, QString::number(gpu.index), QString::number(int(trouble)));
      GpuAlert& known = gpuAlerts_[node][alert];
      known.seen = load.receivedNs;
      const Message text =
          lockstep::message("GPU {}: {}", gpu.index, app::troubleText(gpu, trouble));
      if (text == known.text) continue;
      known.text = text;
      Q_EMIT alertRaised(
          {alert, app::isBad(trouble) ? Tone::kBad : Tone::kWarning, node, text, {}, true, {}});
    }
  }
  endGpuAlerts(node, load.receivedNs - kCalm);
}

void ClusterPage::endGpuAlerts(const QString& node, Nanoseconds by) {
  QHash<QString, GpuAlert>& lasting = gpuAlerts_[node];
  for (auto it = lasting.begin(); it != lasting.end();) {
    if (it->seen > by) {
      ++it;
      continue;
    }
    Q_EMIT alertOver(it.key());
    it = lasting.erase(it);
  }
}

}  // namespace lockstep::ui
