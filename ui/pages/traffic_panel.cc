#include "ui/pages/traffic_panel.h"

#include <QHBoxLayout>
#include <QHash>
#include <QHeaderView>
#include <QLabel>
#include <QStackedWidget>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "app/runs/node_traffic.h"
#include "ui/models/traffic_model.h"
#include "ui/studio/run_document.h"
#include "ui/studio/step_reader.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr std::size_t kLastSamples = 600;  // that a measured rate is the mean of: five minutes
constexpr int kRefreshMs = 500;
constexpr std::size_t kMostNodes = 16;  // whose links, each a curve, are read

// Returns the mean of the last samples; nullopt: no samples.
std::optional<double> meanRate(RunDocument& document, const std::string& name) {
  if (!document.curves().names().contains(name)) return std::nullopt;
  const auto line = document.series(name);
  const Pyramid& samples = line->raw();
  if (samples.size() == 0) return std::nullopt;
  const std::size_t count = std::min(samples.size(), kLastSamples);
  double sum = 0;
  for (std::size_t i = samples.size() - count; i < samples.size(); ++i) sum += samples.y(i);
  return sum / static_cast<double>(count);
}

QTableView* makeMatrix(const char* objectName, TrafficModel* model, QWidget* parent) {
  auto* table = new QTableView(parent);
  table->setObjectName(objectName);
  table->setModel(model);
  applyMatrixStyle(table);
  return table;
}

QLabel* makeEmptyText(const char* objectName, QWidget* parent) {
  QLabel* label = makeLabel(objectName, parent, "muted");
  label->setAlignment(Qt::AlignCenter);
  label->setWordWrap(true);
  return label;
}

}  // namespace

TrafficPanel::TrafficPanel(RunDocument* document, StepReader* reader, QWidget* parent)
    : QWidget(parent), document_(document), reader_(reader) {
  setObjectName("trafficPanel");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, kSpaceM, 0, 0);
  layout->setSpacing(kSpaceM);
  auto* matrices = new QHBoxLayout;
  matrices->setSpacing(kSpaceM);
  matrices->addWidget(buildRanks(), 1);
  matrices->addWidget(buildLinks(), 1);
  layout->addLayout(matrices, 3);
  layout->addWidget(buildNodes(), 2);
  refresh_.setSingleShot(true);
  refresh_.setInterval(kRefreshMs);
  const auto refreshSoon = [this] {
    if (!refresh_.isActive()) refresh_.start();
  };
  connect(&refresh_, &QTimer::timeout, this, &TrafficPanel::refreshMeasured);
  connect(reader_, &StepReader::changed, this, &TrafficPanel::refreshPlan);
  connect(document_, &RunDocument::breakdownChanged, this, refreshSoon);
  connect(&document_->curves(), &RunCurves::changed, this, refreshSoon);
}

Card* TrafficPanel::buildRanks() {
  ranksCard_ = new Card("trafficCard", this);
  ranks_ = new TrafficModel(this);
  rankTable_ = makeMatrix("trafficTable", ranks_, this);
  empty_ = makeEmptyText("trafficEmpty", this);
  stack_ = new QStackedWidget(this);
  stack_->addWidget(empty_);
  stack_->addWidget(rankTable_);
  ranksCard_->body()->addWidget(stack_, 1);
  return ranksCard_;
}

Card* TrafficPanel::buildLinks() {
  linksCard_ = new Card("linkTrafficCard", this);
  links_ = new TrafficModel(this);
  linkTable_ = makeMatrix("linkTrafficTable", links_, this);
  linksEmpty_ = makeEmptyText("linkTrafficEmpty", this);
  linkStack_ = new QStackedWidget(this);
  linkStack_->addWidget(linksEmpty_);
  linkStack_->addWidget(linkTable_);
  linksCard_->body()->addWidget(linkStack_, 1);
  return linksCard_;
}

Card* TrafficPanel::buildNodes() {
  nodesCard_ = new Card("nodeTrafficCard", this);
  nodes_ = new NodeTrafficModel(this);
  nodeTable_ = new QTableView(this);
  nodeTable_->setObjectName("nodeTrafficTable");
  nodeTable_->setModel(nodes_);
  applyTableStyle(nodeTable_);
  nodeTable_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  nodesCard_->body()->addWidget(nodeTable_, 1);
  note_ = makeLabel("trafficNote", this, "muted");
  note_->setWordWrap(true);
  nodesCard_->body()->addWidget(note_);
  return nodesCard_;
}

void TrafficPanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (!reader_->planRead() && !reader_->reading()) reader_->read(0);
  refreshMeasured();
}

void TrafficPanel::refreshPlan() {
  if (!reader_->planRead() || planShown_) return;
  planShown_ = true;
  int ranks = document_->row().world;
  for (const plan::Traffic& link : reader_->traffic())
    ranks = std::max({ranks, link.from + 1, link.to + 1});
  ranks_->setTraffic(reader_->traffic(), ranks);
  stack_->setCurrentIndex(ranks_->most() > 0 ? 1 : 0);
  retranslate();
  refreshMeasured();
}

void TrafficPanel::refreshMeasured() {
  if (!isVisible()) return;
  refreshLinks();
  refreshNodes();
}

std::vector<plan::Traffic> TrafficPanel::measuredLinks(
    const std::vector<std::string>& nodes) const {
  const double step = document_->row().measuredStepSeconds;
  std::vector<plan::Traffic> out;
  for (std::size_t from = 0; from < nodes.size(); ++from) {
    for (std::size_t to = 0; to < nodes.size(); ++to) {
      const auto rate = meanRate(*document_, "node/" + nodes[from] + "/to/" + nodes[to] + "/sent");
      if (rate)
        out.push_back({static_cast<int>(from), static_cast<int>(to), std::llround(*rate * step)});
    }
  }
  return out;
}

void TrafficPanel::refreshLinks() {
  const std::vector<std::string> nodes = document_->members();
  std::vector<QString> names;
  for (const std::string& node : nodes) names.push_back(QString::fromStdString(node));
  const bool isRead = nodes.size() <= kMostNodes;
  links_->setNodeTraffic(isRead ? measuredLinks(nodes) : std::vector<plan::Traffic>(),
                         app::nodeTraffic(reader_->traffic(), document_->nodesOfRanks(), nodes),
                         std::move(names));
  linkStack_->setCurrentIndex(links_->most() > 0 ? 1 : 0);
  linksEmpty_->setText(whyNoLinks());
}

QString TrafficPanel::whyNoLinks() const {
  if (document_->members().size() < 2)
    return tr("The run has one node: it has no other to send to.");
  if (document_->members().size() > kMostNodes)
    return tr("The matrix is shown for up to %1 nodes.").arg(kMostNodes);
  if (document_->row().measuredStepSeconds <= 0)
    return tr("The measured traffic appears after the first steps.");
  return tr(
      "No traffic between nodes was recorded. TCP connections are counted; shared memory and "
      "RDMA are not.");
}

void TrafficPanel::refreshNodes() {
  const std::vector<std::string> nodeOf = document_->nodesOfRanks();
  std::vector<NodeTraffic> rows;
  std::vector<std::size_t> rowOfRank;
  QHash<QString, std::size_t> known;
  for (const std::string& one : nodeOf) {
    const QString node = QString::fromStdString(one);
    const std::size_t row = known.value(node, rows.size());
    if (row == rows.size()) {
      known.insert(node, row);
      rows.push_back({node});
    }
    rowOfRank.push_back(row);
  }
  const auto rowOf = [&](int rank) -> NodeTraffic* {
    if (static_cast<std::size_t>(rank) >= rowOfRank.size()) return nullptr;
    return &rows[rowOfRank[static_cast<std::size_t>(rank)]];
  };
  for (const plan::Traffic& link : reader_->traffic()) {
    NodeTraffic* from = rowOf(link.from);
    NodeTraffic* to = rowOf(link.to);
    if (from == to || from == nullptr || to == nullptr) continue;
    from->plannedOut += static_cast<double>(link.bytes);
    to->plannedIn += static_cast<double>(link.bytes);
  }
  const double step = document_->row().measuredStepSeconds;
  for (NodeTraffic& row : rows) {
    const auto perStep = [&](const char* what) -> std::optional<double> {
      const auto rate = meanRate(*document_, "node/" + row.node.toStdString() + "/" + what);
      return rate && step > 0 ? std::optional(*rate * step) : std::nullopt;
    };
    row.measuredOut = perStep("net_out");
    row.measuredIn = perStep("net_in");
    row.loopback = perStep("loopback");
  }
  nodes_->setRows(std::move(rows));
}

void TrafficPanel::retranslate() {
  ranksCard_->setTitle(tr("Planned traffic between ranks, bytes per step"));
  nodesCard_->setTitle(tr("Traffic with other nodes, bytes per step"));
  linksCard_->setTitle(tr("Measured traffic between nodes, bytes per step"));
  linksEmpty_->setText(whyNoLinks());
  empty_->setText(planShown_
                      ? tr("No traffic: the plan has one rank, or its ranks exchange nothing.")
                      : tr("The history does not have the plan of this run yet."));
  note_->setText(
      tr("Measured: the mean rate over all network interfaces of the node in the last five "
         "minutes, times the step time. Nodes on the same machine use the loopback interface or "
         "shared memory; traffic in shared memory is not counted."));
  rankTable_->setAccessibleName(tr("Planned traffic between ranks, bytes per step"));
  linkTable_->setAccessibleName(tr("Measured traffic between nodes, bytes per step"));
  nodeTable_->setAccessibleName(tr("Traffic with other nodes, bytes per step"));
  ranks_->retranslate();
  links_->retranslate();
  nodes_->retranslate();
}

}  // namespace lockstep::ui
