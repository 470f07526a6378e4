#include "ui/pages/traffic_panel.h"

#include <QHeaderView>
#include <QLabel>
#include <QStackedWidget>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/models/traffic_model.h"
#include "ui/studio/run_document.h"
#include "ui/studio/step_reader.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr std::size_t kLastSamples = 600;  // that a measured rate is the mean of: five minutes

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

}  // namespace

TrafficPanel::TrafficPanel(RunDocument* document, StepReader* reader, QWidget* parent)
    : QWidget(parent), document_(document), reader_(reader) {
  setObjectName("trafficPanel");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, kSpaceM, 0, 0);
  layout->setSpacing(kSpaceM);
  ranksCard_ = new Card("trafficCard", this);
  ranks_ = new TrafficModel(this);
  rankTable_ = new QTableView(this);
  rankTable_->setObjectName("trafficTable");
  rankTable_->setModel(ranks_);
  applyMatrixStyle(rankTable_);
  empty_ = makeLabel("trafficEmpty", this, "muted");
  empty_->setAlignment(Qt::AlignCenter);
  empty_->setWordWrap(true);
  stack_ = new QStackedWidget(this);
  stack_->addWidget(empty_);
  stack_->addWidget(rankTable_);
  ranksCard_->body()->addWidget(stack_, 1);
  layout->addWidget(ranksCard_, 3);
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
  layout->addWidget(nodesCard_, 2);
  connect(reader_, &StepReader::changed, this, &TrafficPanel::refreshPlan);
  connect(document_, &RunDocument::breakdownChanged, this, &TrafficPanel::refreshNodes);
  connect(&document_->curves(), &RunCurves::changed, this, &TrafficPanel::refreshNodes);
}

void TrafficPanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (!reader_->planRead() && !reader_->reading()) reader_->read(0);
  refreshNodes();
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
  refreshNodes();
}

void TrafficPanel::refreshNodes() {
  if (!isVisible()) return;
  const std::vector<std::string> nodeOf = document_->nodesOfRanks();
  std::vector<NodeTraffic> rows;
  const auto rowOf = [&](int rank) -> NodeTraffic* {
    if (static_cast<std::size_t>(rank) >= nodeOf.size()) return nullptr;
    const QString node = QString::fromStdString(nodeOf[static_cast<std::size_t>(rank)]);
    for (NodeTraffic& row : rows)
      if (row.node == node) return &row;
    rows.push_back({node});
    return &rows.back();
  };
  for (int rank = 0; rank < static_cast<int>(nodeOf.size()); ++rank) rowOf(rank);
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
  empty_->setText(planShown_
                      ? tr("No traffic: the plan has one rank, or its ranks exchange nothing.")
                      : tr("The history does not have the plan of this run yet."));
  note_->setText(
      tr("Measured: the mean rate over all network interfaces of the node in the last five "
         "minutes, times the step time. Nodes on the same machine use the loopback interface or "
         "shared memory; traffic in shared memory is not counted."));
  rankTable_->setAccessibleName(tr("Planned traffic between ranks, bytes per step"));
  nodeTable_->setAccessibleName(tr("Traffic with other nodes, bytes per step"));
  ranks_->retranslate();
  nodes_->retranslate();
}

}  // namespace lockstep::ui
