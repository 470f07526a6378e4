#include "ui/pages/cluster_page.h"

#include <QAction>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QSplitter>
#include <QStackedLayout>
#include <QStackedWidget>
#include <QTabBar>
#include <QTabWidget>
#include <QTableView>
#include <QToolButton>
#include <QUndoStack>
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

#include "app/specs/cluster_edits.h"
#include "app/ssh/config_hosts.h"
#include "engine/base/shell_text.h"
#include "ui/dialogs/add_host_dialog.h"
#include "ui/dialogs/debug_dialog.h"
#include "ui/dialogs/deploy_dialog.h"
#include "ui/dialogs/preflight_dialog.h"
#include "ui/models/gpu_text.h"
#include "ui/models/node_table_model.h"
#include "ui/pages/field_form.h"
#include "ui/pages/host_panel.h"
#include "ui/pages/node_leds.h"
#include "ui/plots/frame_clock.h"
#include "ui/plots/plot_view.h"
#include "ui/studio/deploy_job.h"
#include "ui/studio/workspace.h"
#include "ui/theme/error_text.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/delegates.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"
#include "ui/widgets/yaml_editor.h"

namespace lockstep::ui {
namespace {

// Limits the rows of a text with wrong, huge ranges; no valid cluster has more nodes.
constexpr int kMostRows = 4096;

}  // namespace

ClusterPage::ClusterPage(std::unique_ptr<SpecDocument> document, Workspace& workspace,
                         QWidget* parent)
    : SpecPage("clusterPage", "cluster:", std::move(document), parent),
      workspace_(workspace),
      deploy_(std::make_unique<DeployJob>(workspace.jobs(), [this] { disconnectAll(); })) {
  buildHead();
  buildNodes();
  buildLoad();
  buildHost();
  placeParts();
  connectParts();
  retranslate();
}

void ClusterPage::buildHead() {
  auto* head = new QHBoxLayout;
  head->setSpacing(kSpaceXs);
  heading_ = makeHeading("clusterHeading", this);
  badge_ = new StateBadge("clusterState", this);
  connect_ = makeButton("connectButton", "connect", this, "primary");
  disconnect_ = makeButton("disconnectButton", "disconnect", this);
  add_ = makeButton("addHostButton", "add", this);
  remove_ = makeButton("removeHostButton", "delete", this);
  launch_ = makeButton("clusterLaunchButton", "play", this);
  head->addWidget(heading_);
  head->addWidget(badge_);
  head->addStretch(1);
  for (QPushButton* button : {add_, remove_, disconnect_, connect_}) head->addWidget(button);
  head->addWidget(launch_);
  body()->addLayout(head);
}

void ClusterPage::buildNodes() {
  nodeCard_ = new Card("nodeCard", this);
  preflight_ = makeToolButton("preflightButton", "chart", this);
  debug_ = makeToolButton("debugNodeButton", "debug", this);
  edit_ = makeToolButton("editHostButton", "edit", this);
  nodes_ = new NodeTableModel(this);
  auto* holder = new QWidget(this);
  stack_ = new QStackedLayout(holder);
  table_ = new QTableView(this);
  table_->setObjectName("nodeTable");
  table_->setModel(nodes_);
  applyTableStyle(table_);
  table_->setItemDelegateForColumn(NodeTableModel::kState,
                                   new ToneDelegate(NodeTableModel::kToneRole, table_));
  for (int column : {NodeTableModel::kCpu, NodeTableModel::kMemory}) {
    table_->setItemDelegateForColumn(column,
                                     new BarDelegate(NodeTableModel::kFractionRole, table_));
  }
  for (int column = NodeTableModel::kGpu; column <= NodeTableModel::kGpuPower; ++column) {
    table_->setItemDelegateForColumn(column, new GpuDelegate(NodeTableModel::kFractionsRole,
                                                             NodeTableModel::kTonesRole, table_));
  }
  setColumns(table_, {72, 166, 66, 122, 236, 96, 132, 84, 92, 132, 184, 104, 52, 106, 96});
  columns_ = new ColumnFitter(
      table_, {NodeTableModel::kAgent, NodeTableModel::kRanks, NodeTableModel::kDisk,
               NodeTableModel::kTarget, NodeTableModel::kNetwork});
  table_->hideColumn(NodeTableModel::kGpuClock);  // the grid shows it
  empty_ = new EmptyState("clusterEmpty", "node", this);
  stack_->addWidget(table_);
  stack_->addWidget(empty_);
  nodeCard_->body()->addWidget(holder);
  leds_ = new NodeLeds(nodes_, table_->selectionModel(), this);
  nodeCard_->head()->addWidget(leds_, 20);  // nearly all the room of the head
  nodeCard_->head()->addWidget(edit_);
  nodeCard_->head()->addWidget(debug_);
  nodeCard_->head()->addWidget(preflight_);
}

void ClusterPage::buildHost() {
  host_ = new HostPanel(document(), this);
  editAction_ = new QAction(this);
  editAction_->setObjectName("hostEdit");
  editAction_->setShortcut(Qt::Key_F2);
  editAction_->setShortcutContext(Qt::WidgetShortcut);
  table_->addAction(editAction_);
  table_->setContextMenuPolicy(Qt::ActionsContextMenu);
}

// The nodes across the page, whose columns are many; below them their load, or the settings of one,
// beside the text.
void ClusterPage::placeParts() {
  auto* below = new QSplitter(Qt::Horizontal, this);
  below->setObjectName("clusterLowerSplitter");
  views_ = new QTabWidget(this);
  views_->setObjectName("clusterViews");
  views_->setDocumentMode(true);
  views_->addTab(loadCard_, {});
  views_->addTab(host_, {});
  below->addWidget(views_);
  below->addWidget(textSide());
  below->setStretchFactor(0, 5);
  below->setStretchFactor(1, 3);
  below->setChildrenCollapsible(false);
  below->setSizes({540, 350});
  setTabOrder(table_, views_->tabBar());
  setTabOrder(host_->form()->table(), editor());
  loadCard_->setMinimumWidth(505);  // the plots' titles are whole
  loadCard_->layout()->setContentsMargins(kSpaceL, kSpaceXs, kSpaceL, kSpaceXs);
  textSide()->setMinimumWidth(220);
  auto* splitter = new QSplitter(Qt::Vertical, this);
  splitter->setObjectName("clusterSplitter");
  splitter->addWidget(nodeCard_);
  splitter->addWidget(below);
  splitter->setStretchFactor(0, 3);
  splitter->setStretchFactor(1, 4);
  splitter->setChildrenCollapsible(false);
  splitter->setSizes({300, 380});
  body()->addWidget(splitter, 1);
}

void ClusterPage::connectParts() {
  connect(connect_, &QPushButton::clicked, this, &ClusterPage::connectAll);
  connect(disconnect_, &QPushButton::clicked, this, &ClusterPage::disconnectAll);
  connect(add_, &QPushButton::clicked, this, &ClusterPage::addHost);
  connect(empty_->button(), &QPushButton::clicked, this, &ClusterPage::addHost);
  connect(gpuButton_, &QToolButton::toggled, this,
          [this](bool on) { loadStack_->setCurrentIndex(on ? 1 : 0); });
  connect(nodes_, &QAbstractItemModel::modelReset, this, &ClusterPage::showGpus);
  connect(remove_, &QPushButton::clicked, this, &ClusterPage::removeSelected);
  connect(preflight_, &QToolButton::clicked, this, &ClusterPage::preflight);
  connect(debug_, &QToolButton::clicked, this, &ClusterPage::debugNode);
  connect(edit_, &QToolButton::clicked, this, &ClusterPage::editHost);
  connect(editAction_, &QAction::triggered, this, &ClusterPage::editHost);
  connect(host_, &HostPanel::refused, this,
          [this](const Error& error) { message()->showError(error); });
  connect(launch_, &QPushButton::clicked, this, &ClusterPage::launchWanted);
  connect(table_->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] {
    showHost();
    refreshState();
    Q_EMIT inspectorChanged();
  });
  connect(table_, &QTableView::doubleClicked, this, [this](const QModelIndex& index) {
    if (auto cluster = live()) {
      const int node = cluster->session().find(nodes_->rows()[index.row()].name.toStdString());
      if (node >= 0) cluster->session().connect(node);
    }
  });
  connect(&FrameClock::instance(), &FrameClock::paint, this, [this] { nodes_->flush(); });
}

ClusterPage::~ClusterPage() {
  if (live_) live_->disconnect(this);
}

std::shared_ptr<LiveCluster> ClusterPage::live() {
  const app::SpecText& spec = document()->spec();
  if (live_ && liveText_ == spec.text()) return live_;
  auto complete = app::completeClusterSpec(spec.text(), document()->path().toStdString());
  if (!complete) {
    message()->showError(complete.error());
    return nullptr;
  }
  dropLive();
  live_ = workspace_.makeCluster(complete->spec, std::exchange(start_, std::nullopt));
  liveText_ = spec.text();
  connect(live_.get(), &LiveCluster::nodeChanged, this, &ClusterPage::takeStatus);
  connect(live_.get(), &LiveCluster::loadChanged, this, &ClusterPage::takeLoad);
  rebuildRows();
  return live_;
}

// Whether each run asks a scheduler for nodes.
bool ClusterPage::isScheduled() const {
  return document()->spec().value("placement.kind").has_value();
}

int ClusterPage::connectedCount() const {
  int count = 0;
  for (const auto& row : nodes_->rows()) count += row.phase == app::NodeState::CONNECTED;
  return count;
}

void ClusterPage::connectAll() {
  message()->clear();
  if (auto cluster = live()) cluster->session().connect();
}

void ClusterPage::disconnectAll() {
  if (live_) live_->session().disconnect();
}

void ClusterPage::dropLive() {
  if (!live_) return;
  live_->disconnect(this);
  live_.reset();
  deploy_->end();
  endFailures();
}

bool ClusterPage::canDeploy() const {
  return !isScheduled() && !nodes_->rows().empty() && document()->spec().ok();
}

void ClusterPage::deployAgents() {
  if (!canDeploy()) return;
  auto* dialog = new DeployDialog(document()->path(), this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, this, [this, dialog] {
    start_ = dialog->start();
    if (start_) dropLive();  // a session starts agents in one way
    connectAll();
  });
  dialog->open();
}

void ClusterPage::addHost() {
  if (!add_->isEnabled()) return;
  const app::SpecText& spec = document()->spec();
  QStringList taken, hosts;
  for (const std::string& host : app::sshConfigHosts(workspace_.sshConfig().toStdString()))
    hosts << QString::fromStdString(host);
  const int nodes = spec.count("nodes");
  for (int n = 0; n < nodes && taken.size() < kMostRows; ++n) {
    const std::string path = "nodes[" + std::to_string(n) + "]";
    for (const std::string& name : spec.nodeNames(path + ".name"))
      taken << QString::fromStdString(name);
    for (const std::string& host : spec.nodeNames(path + ".ssh.host"))
      hosts.removeAll(QString::fromStdString(host));
  }
  auto* dialog = new AddHostDialog(hosts, taken, document()->path(), this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, this, [this, dialog] {
    showStatus(addNode(QString::fromStdString(app::nodeYaml(dialog->node()))));
  });
  dialog->open();
}

Status ClusterPage::addNode(const QString& yaml) {
  return document()->insertItem("nodes", document()->spec().count("nodes"), yaml, tr("Add host"));
}

void ClusterPage::removeSelected() {
  const QModelIndexList chosen = table_->selectionModel()->selectedRows();
  if (chosen.isEmpty()) return;
  const NodeRow& row = nodes_->rows()[chosen.first().row()];
  const std::string path = "nodes[" + std::to_string(row.item) + "]";
  if (document()->spec().nodeNames(path + ".name").size() <= 1)
    return showStatus(document()->removeItem("nodes", row.item, tr("Remove host")));
  showStatus(leaveOut(row.item, static_cast<std::size_t>(row.part)));
}

// One of several nodes that an entry stands for. All fields are changed, or none.
Status ClusterPage::leaveOut(int item, std::size_t part) {
  LOCKSTEP_ASSIGN(const app::FieldValues fields, app::withoutPart(document()->spec(), item, part));
  if (fields.empty()) return {};
  document()->undoStack()->beginMacro(tr("Remove host"));
  Status status;
  for (const auto& [field, left] : fields)
    if (status.ok())
      status = document()->setField(field, QString::fromStdString(left), tr("Remove host"));
  document()->undoStack()->endMacro();
  if (!status.ok()) document()->undoStack()->undo();
  return status;
}

void ClusterPage::editHost() {
  if (!edit_->isEnabled()) return;
  if (!table_->selectionModel()->hasSelection()) table_->selectRow(0);
  views_->setCurrentWidget(host_);
  host_->form()->enter();
}

void ClusterPage::showHost() {
  const QModelIndexList chosen = table_->selectionModel()->selectedRows();
  host_->setItem(chosen.isEmpty() ? -1 : nodes_->rows()[chosen.first().row()].item);
}

// Fields that are not in the text yet are filled in in the form.
void ClusterPage::problemChosen(const app::SpecProblem& problem) {
  constexpr std::string_view kNode = "nodes[";
  if (problem.missing && problem.path.starts_with(kNode)) {
    const int item = std::atoi(problem.path.c_str() + kNode.size());
    const auto& rows = nodes_->rows();
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const NodeRow& one) { return one.item == item; });
    if (row != rows.end()) {
      table_->selectRow(static_cast<int>(row - rows.begin()));
      views_->setCurrentWidget(host_);
      if (host_->form()->showField(problem.path)) return;
    }
  }
  SpecPage::problemChosen(problem);
}

void ClusterPage::preflight() {
  if (!live_ || connectedCount() == 0) return;
  auto* dialog = new PreflightDialog(
      workspace_, live_, document()->spec().value("name").value_or(""), {document()->path()}, this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->open();
}

QString ClusterPage::nodeToDebug() const {
  if (!live_) return {};
  const QModelIndexList chosen = table_->selectionModel()->selectedRows();
  QStringList connected;
  for (const NodeRow& row : nodes_->rows())
    if (row.phase == app::NodeState::CONNECTED) connected << row.name;
  if (chosen.isEmpty()) return connected.size() == 1 ? connected.front() : QString();
  const QString name = nodes_->rows()[chosen.first().row()].name;
  return connected.contains(name) ? name : QString();
}

void ClusterPage::debugNode() {
  const QString node = nodeToDebug();
  if (node.isEmpty()) return;
  DebugSubject subject;
  subject.cluster = live_;
  subject.node = node.toStdString();
  subject.clusterFile = document()->path().toStdString();
  auto* dialog = new DebugDialog(workspace_, std::move(subject), this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->show();
}

void ClusterPage::documentChanged() {
  SpecPage::documentChanged();
  const app::SpecText& spec = document()->spec();
  if (!nodes_ || !spec.readable()) return;
  // A session stands for one text: with another, nodes that were connected are connected anew.
  if (live_ && spec.ok() && liveText_ != spec.text()) {
    const bool wasConnected = live_->anyConnected();
    dropLive();
    if (wasConnected) {
      if (auto cluster = live()) cluster->session().connect();
    }
  }
  rebuildRows();
}

// A row for each name that an entry of the spec's nodes stands for.
void ClusterPage::addRows(NodeRow row, const std::string& path, QVector<NodeRow>& rows) const {
  const app::SpecText& spec = document()->spec();
  std::vector<std::string> names = spec.nodeNames(path + ".name");
  if (names.empty()) names.emplace_back();
  const std::vector<std::string> hosts = spec.nodeNames(path + ".ssh.host");
  const auto user = spec.value(path + ".ssh.user");
  for (std::size_t i = 0; i < names.size(); ++i) {
    row.part = static_cast<int>(i);
    row.name = QString::fromStdString(names[i]);
    row.target = tr("this machine");
    if (!hosts.empty())
      row.target = QString::fromStdString((user ? *user + "@" : std::string()) +
                                          hosts[std::min(i, hosts.size() - 1)]);
    rows << row;
  }
}

void ClusterPage::rebuildRows() {
  const app::SpecText& spec = document()->spec();
  QVector<NodeRow> rows;
  const int count = spec.count("nodes");
  for (int i = 0; i < count && rows.size() < kMostRows; ++i) {
    const std::string path = "nodes[" + std::to_string(i) + "]";
    NodeRow row;
    row.item = i;
    std::int64_t ranks = 0;
    const int devices = spec.count(path + ".devices");
    for (int d = 0; d < devices; ++d) {
      const auto each = spec.value(path + ".devices[" + std::to_string(d) + "].count");
      ranks += each ? std::max(1, atoi(each->c_str())) : 1;
    }
    row.ranks = static_cast<int>(
        std::clamp<std::int64_t>(ranks, 1, std::numeric_limits<std::int32_t>::max()));
    addRows(row, path, rows);
  }
  const QModelIndexList chosen = table_->selectionModel()->selectedRows();
  const int chosenRow = chosen.isEmpty() ? -1 : chosen.first().row();
  const QString chosenName = chosenRow < 0 ? QString() : nodes_->rows()[chosenRow].name;
  const bool isAsMany = nodes_->rows().size() == rows.size();
  nodes_->setRows(rows);
  for (const QString& node : failures_.keys()) {
    if (nodes_->find(node) < 0) endFailure(node);
  }
  for (const QString& node : gpuAlerts_.keys()) {
    if (nodes_->find(node) < 0) endGpuAlerts(node, std::numeric_limits<Nanoseconds>::max());
  }
  // Where there are as many, one may have another name now.
  const int again = isAsMany ? chosenRow : nodes_->find(chosenName);
  if (again >= 0) table_->selectRow(again);
  showHost();
  if (live_ && liveText_ == spec.text()) {
    for (int i = 0; i < live_->session().size(); ++i) {
      takeStatus(i);
      if (live_->session().status(i).load.receivedNs != 0) takeLoad(i);
    }
  }
  stack_->setCurrentWidget(count == 0 ? static_cast<QWidget*>(empty_) : table_);
  leds_->setVisible(count > 0);
  nameEmpty();
  refreshState();
  Q_EMIT inspectorChanged();
}

void ClusterPage::takeStatus(int node) {
  const app::NodeStatus& status = live_->session().status(node);
  deploy_->take(node, status, tr("Deploying agents to %1").arg(heading_->text()));
  const QString name = QString::fromStdString(status.name);
  NodeRow* row = nodes_->row(name);
  if (!row) return;
  row->phase = status.phase;
  row->ranks = status.ranks;
  if (!status.local) row->target = QString::fromStdString(status.target);
  row->detail = messageText(status.error ? status.error->message() : status.detail);
  row->asking = false;
  for (const auto& question : live_->session().questions()) {
    if (question.node == status.name) row->asking = true;
  }
  const auto& inventory = status.inventory;
  const auto join = [](const std::vector<std::string>& list) {
    QStringList out;
    for (const auto& one : list) out << QString::fromStdString(one);
    return out.join(", ");
  };
  row->version = QString::fromStdString(inventory.agentVersion);
  row->cores = inventory.cores;
  row->cpuName = QString::fromStdString(inventory.cpu);
  row->os = QString::fromStdString(inventory.os);
  row->kernel = QString::fromStdString(inventory.kernel);
  const QString workdir = QString::fromStdString(inventory.workdir);
  row->workdir = status.local ? formatPath(workdir) : workdir;
  row->addresses = join(inventory.addresses);
  row->address = QString::fromStdString(status.address);
  row->roles = join(status.roles);
  if (status.phase != app::NodeState::CONNECTED) {
    row->sampled = false;
    endGpuAlerts(name, std::numeric_limits<Nanoseconds>::max());  // nothing is known of them
  }
  if (status.phase == app::NodeState::UNAVAILABLE && status.error) showFailure(status);
  // What fails again, after it was asked for again, is told again.
  if (status.phase == app::NodeState::CONNECTED || status.phase == app::NodeState::CONNECTING ||
      status.phase == app::NodeState::DISCONNECTED)
    endFailure(name);
  nodes_->touched(name);
  refreshState();
  Q_EMIT inspectorChanged();
}

// Told once, however often the status is.
void ClusterPage::showFailure(const app::NodeStatus& status) {
  Error error = *status.error;
  if (error.node.empty()) error.node = status.name;
  const QString name = QString::fromStdString(status.name);
  std::string& told = failures_[name];
  if (told == error.text()) return;
  told = error.text();
  message()->showError(error);
  Q_EMIT alertRaised({key() + ":node:" + name, Tone::kBad, name, error.what, {}, true, {}});
}

void ClusterPage::endFailure(const QString& node) {
  const auto told = failures_.constFind(node);
  if (told == failures_.cend()) return;
  if (message()->details() == QString::fromStdString(*told)) message()->clear();
  failures_.erase(told);
  Q_EMIT alertOver(key() + ":node:" + node);
}

void ClusterPage::endFailures() {
  for (const QString& node : failures_.keys()) endFailure(node);
}

void ClusterPage::endAlerts() {
  endFailures();
  for (const QString& node : gpuAlerts_.keys())
    endGpuAlerts(node, std::numeric_limits<Nanoseconds>::max());
}

void ClusterPage::refreshState() {
  const int total = static_cast<int>(nodes_->rows().size());
  const int connected = connectedCount();
  bool busy = false, failed = false;
  for (const auto& row : nodes_->rows()) {
    failed = failed || row.phase == app::NodeState::UNAVAILABLE;
    busy = busy || row.asking || nodePhaseTone(row.phase) == Tone::kActive;
  }
  const Tone tone = failed                            ? Tone::kBad
                    : busy                            ? Tone::kActive
                    : connected == total && total > 0 ? Tone::kGood
                    : connected > 0                   ? Tone::kWarning
                                                      : Tone::kNeutral;
  badge_->setState(total == 0 ? QString() : tr("%1 of %2 connected").arg(connected).arg(total),
                   tone);
  connect_->setEnabled(total > 0 && connected < total && document()->spec().ok());
  disconnect_->setEnabled(live_ && (connected > 0 || busy));
  remove_->setEnabled(table_->selectionModel()->hasSelection() && document()->spec().readable());
  preflight_->setEnabled(live_ && connected > 0);
  debug_->setEnabled(!nodeToDebug().isEmpty());
  edit_->setEnabled(total > 0);
  launch_->setEnabled(total > 0 || isScheduled());
  add_->setEnabled(!isScheduled() && document()->spec().readable());
  Q_EMIT stateChanged();
}

QVector<InspectorRow> ClusterPage::inspectorRows() const {
  QVector<InspectorRow> out;
  const QModelIndexList chosen = table_->selectionModel()->selectedRows();
  if (chosen.isEmpty()) {
    qint64 ranks = 0;
    for (const auto& row : nodes_->rows()) ranks += row.ranks;
    out << InspectorRow{tr("Cluster"), {}, true};
    if (isScheduled()) {
      addPlacement(out);
    } else {
      out << InspectorRow{tr("Nodes"), QString::number(nodes_->rows().size())};
      out << InspectorRow{tr("Connected"), QString::number(connectedCount())};
      out << InspectorRow{tr("Ranks"), QString::number(ranks)};
    }
    out << InspectorRow{tr("File"), formatPath(document()->path())};
    return out;
  }
  const NodeRow& row = nodes_->rows()[chosen.first().row()];
  out << InspectorRow{row.name, {}, true};
  const auto add = [&](const QString& name, const QString& value) {
    if (!value.isEmpty()) out << InspectorRow{name, value};
  };
  add(tr("State"), nodePhaseText(row.phase));
  add(tr("Detail"), row.detail);
  add(tr("Connection"), row.target);
  add(tr("Roles"), row.roles);
  add(tr("Ranks"), QString::number(row.ranks));
  if (row.cores > 0) {
    out << InspectorRow{tr("Machine"), {}, true};
    add(tr("Processor"), row.cpuName);
    add(tr("Cores"), QString::number(row.cores));
    if (row.sampled) add(tr("Memory"), formatBytes(row.memoryTotal));
    if (row.sampled) add(tr("Free disk"), formatBytes(row.diskFree));
    add(tr("System"), row.os);
    add(tr("Kernel"), row.kernel);
    add(tr("Peer address"), row.address);
    add(tr("Addresses"), row.addresses);
    add(tr("Work folder"), row.workdir);
    add(tr("Agent"), row.version);
  }
  for (const app::GpuLoad& gpu : row.gpus) {
    if (!row.sampled) break;
    out << InspectorRow{tr("GPU %1").arg(gpu.index), {}, true};
    add(tr("Name"), QString::fromStdString(gpu.name));
    add(tr("Attention"), gpuNotes(gpu));
    for (const GpuDetail& detail : gpuDetails(gpu)) add(detail.name, detail.value);
  }
  return out;
}

void ClusterPage::nameEmpty() {
  if (!isScheduled())
    return empty_->setTexts(
        tr("No hosts yet"),
        tr("Add the machines to train on. Hosts from your SSH config are listed."),
        document()->spec().readable() ? tr("Add host") : QString());
  const app::SpecText& spec = document()->spec();
  const bool ofKubernetes = spec.value("placement.kind") == "kubernetes";
  const QString by = QString::fromStdString(
      spec.value(ofKubernetes ? "placement.context" : "placement.login").value_or(""));
  empty_->setTexts(
      tr("Nodes of a %1 job")
          .arg(ofKubernetes ? QStringLiteral("Kubernetes") : QStringLiteral("Slurm")),
      by.isEmpty() ? tr("Each run gets a job of its own. Its nodes are known when it starts.")
                   : tr("Each run gets a job of its own by %1. Its nodes are known when it starts.")
                         .arg(by));
}

// Of what each run asks the scheduler for.
void ClusterPage::addPlacement(QVector<InspectorRow>& rows) const {
  const auto add = [&](const QString& name, const char* path) {
    if (const auto value = document()->spec().value(path))
      rows << InspectorRow{name, QString::fromStdString(*value)};
  };
  add(tr("Login node"), "placement.login");
  add(tr("Partition"), "placement.partition");
  add(tr("Context"), "placement.context");
  add(tr("Namespace"), "placement.namespace");
  add(tr("Image"), "placement.image");
  add(tr("Queue"), "placement.queue");
  add(tr("Nodes"), "placement.nodes");
  add(tr("GPUs per node"), "placement.gpus_per_node");
  add(tr("Time limit"), "placement.time");
}

void ClusterPage::retranslate() {
  SpecPage::retranslate();
  const QString name = QString::fromStdString(document()->spec().value("name").value_or(""));
  heading_->setText(name.isEmpty() ? document()->name() : name);
  setTexts(connect_, tr("Connect"),
           tr("Connect every node; the agent is deployed where it is missing") + "\n" +
               QString::fromStdString(
                   shellLine({"lockstep", "cluster", "deploy", document()->path().toStdString()})));
  setTexts(disconnect_, tr("Disconnect"), tr("Disconnect all nodes; runs continue"));
  setTexts(add_, tr("Add host"));
  setTexts(remove_, tr("Remove"), tr("Remove the selected host from the cluster"));
  setTexts(preflight_, tr("Pre-flight: measure nodes and links"));
  setTexts(debug_, tr("Debug the selected node: processes, kernel messages, a terminal"));
  setTexts(launch_, tr("Launch here…"));
  setTexts(edit_, tr("Change the settings of the selected host"));
  editAction_->setText(tr("Edit settings"));
  views_->setTabText(views_->indexOf(loadCard_), tr("Load"));
  views_->setTabText(views_->indexOf(host_), tr("Host settings"));
  views_->setAccessibleName(tr("Load and settings"));
  host_->retranslate();
  nodeCard_->setTitle(tr("Nodes"));
  loadCard_->setAccessibleName(tr("Load"));
  table_->setAccessibleName(tr("Nodes"));
  nodes_->retranslate();
  leds_->retranslate();
  const QString empty = tr("No data yet. Connect the nodes.");
  cpuPlot_->setTexts(tr("CPU"), {}, {}, empty);
  memoryPlot_->setTexts(tr("Memory"), {}, {}, empty);
  networkPlot_->setTexts(tr("Network"), {}, {}, empty);
  nameGpuPlots();
  gpuButton_->setText(tr("GPUs"));
  gpuButton_->setToolTip(tr("Show GPU load instead"));
  gpuButton_->setAccessibleName(tr("Show GPU load instead"));
  setAccessibleName(tr("Cluster %1").arg(heading_->text()));
  rebuildRows();
}

}  // namespace lockstep::ui
