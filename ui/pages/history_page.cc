#include "ui/pages/history_page.h"

#include <QAbstractItemDelegate>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QPointer>
#include <QPushButton>
#include <QScrollArea>
#include <QSplitter>
#include <QStackedLayout>
#include <QTableView>
#include <QToolButton>
#include <algorithm>
#include <vector>

#include "app/runs/preview.h"
#include "ui/dialogs/what_if_dialog.h"
#include "ui/models/run_table_model.h"
#include "ui/pages/with_history.h"
#include "ui/studio/background.h"
#include "ui/studio/run_document.h"
#include "ui/studio/workspace.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/delegates.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kColumnWidths[RunTableModel::kNotes] = {124, 100, 150, 160, 84, 62, 64,
                                                      80,  92,  92,  84,  84, 120};
constexpr qsizetype kMostOpened = 20;  // at once
constexpr int kLeastNotes = 90;
constexpr int kLeastTable = 150, kLeastPlot = 270;
constexpr int kDetailsAfterMs = 120;                  // the selection may go on
constexpr qint64 kLeastPauseMs = 5000, kPauses = 20;  // as of a run's page

}  // namespace

HistoryPage::HistoryPage(Workspace& workspace, QWidget* parent)
    : Page("historyPage", "history", parent), workspace_(workspace) {
  buildHead();
  buildFilter();
  buildTable();
  buildComparison();
  auto* splitter = new QSplitter(Qt::Vertical, this);
  splitter->setObjectName("historySplitter");
  splitter->addWidget(tableCard_);
  splitter->addWidget(plotCard_);
  splitter->setChildrenCollapsible(false);
  splitter->setSizes({360, 320});
  tableCard_->setMinimumHeight(kLeastTable);
  plotCard_->setMinimumHeight(kLeastPlot);
  body()->addWidget(scrolled(splitter, this), 1);  // in a low window
  connectParts();
  retranslate();
  reload();
}

HistoryPage::~HistoryPage() {
  overlayStop_.request_stop();
  detailsStop_.request_stop();
}

void HistoryPage::buildHead() {
  auto* head = new QHBoxLayout;
  head->setSpacing(kSpaceXs + 2);  // five buttons in a narrow window
  heading_ = makeLabel("historyHeading", this);
  heading_->setFont(Theme::instance().title());
  open_ = makeButton("openRunButton", "open", this, "primary");
  export_ = makeButton("exportButton", "export", this);
  delete_ = makeButton("deleteRunButton", "delete", this, "danger");
  tags_ = makeButton("tagsButton", "tag", this);
  again_ = makeButton("relaunchButton", "refresh", this);
  head->addWidget(heading_);
  head->addStretch(1);
  for (QPushButton* button : {delete_, tags_, export_, again_, open_}) head->addWidget(button);
  body()->addLayout(head);
  buildMenus();
}

void HistoryPage::buildMenus() {
  const auto action = [&](const char* name, const char* icon, auto call) {
    auto* out = new QAction(Theme::instance().icon(icon), QString(), this);
    out->setObjectName(name);
    connect(out, &QAction::triggered, this, call);
    return out;
  };
  resume_ = action("historyResume", "play",
                   [this] { Q_EMIT relaunchWanted(selectedRun(), app::RelaunchKind::kResume); });
  rerun_ = action("historyRerun", "refresh",
                  [this] { Q_EMIT relaunchWanted(selectedRun(), app::RelaunchKind::kRerun); });
  clone_ = action("historyClone", "copy", [this] { Q_EMIT cloneWanted(selectedRun()); });
  openAction_ = action("historyOpen", "open", [this] { open_->click(); });
  openAction_->setShortcuts({Qt::Key_Return, Qt::Key_Enter});  // in the table
  openAction_->setShortcutContext(Qt::WidgetShortcut);
  whatIf_ = action("historyWhatIf", "chart", [this] { askWhatIf(); });
  faster_ = action("historyFaster", "faster",
                   [this] { Q_EMIT relaunchWanted(selectedRun(), app::RelaunchKind::kFaster); });
  tagsAction_ = action("historyTags", "tag", [this] { askTags(); });
  exportCsv_ = action("historyExportCsv", "table", [this] { askWhereTo(ExportKind::kCsv); });
  exportReport_ =
      action("historyExportReport", "export", [this] { askWhereTo(ExportKind::kReport); });
  exportTensorBoard_ =
      action("historyExportTensorBoard", "chart", [this] { askWhereTo(ExportKind::kTensorBoard); });
  exportOtlp_ = action("historyExportOtlp", "export", [this] { askWhereTo(ExportKind::kOtlp); });
  const auto menu = [&](const char* name, const QList<QAction*>& actions) {
    auto* out = new QMenu(this);
    out->setObjectName(name);
    for (QAction* one : actions)
      if (one)
        out->addAction(one);
      else
        out->addSeparator();
    return out;
  };
  againMenu_ = menu("relaunchMenu", {resume_, rerun_, clone_});
  exportMenu_ = menu("exportMenu", {exportCsv_, exportReport_, exportTensorBoard_, exportOtlp_});
  contextMenu_ = menu("runMenu", {openAction_, whatIf_, faster_, nullptr, resume_, rerun_, clone_,
                                  nullptr, tagsAction_, nullptr, exportCsv_, exportReport_,
                                  exportTensorBoard_, exportOtlp_});
  again_->setMenu(againMenu_);
  export_->setMenu(exportMenu_);
}

void HistoryPage::buildTable() {
  runs_ = new RunTableModel(this);
  tableCard_ = new Card("runsCard", this);
  auto* holder = new QWidget(this);
  stack_ = new QStackedLayout(holder);
  table_ = new QTableView(this);
  table_->setObjectName("runTable");
  table_->setModel(runs_);
  applyTableStyle(table_);
  table_->setItemDelegateForColumn(RunTableModel::kState,
                                   new ToneDelegate(RunTableModel::kToneRole, table_));
  table_->setItemDelegateForColumn(RunTableModel::kTags,
                                   new TagDelegate(RunTableModel::kTagsRole, table_));
  table_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  table_->setContextMenuPolicy(Qt::CustomContextMenu);
  table_->addAction(openAction_);
  connect(table_, &QTableView::customContextMenuRequested, this, [this](const QPoint& at) {
    if (!selectedRuns().isEmpty()) contextMenu_->popup(table_->viewport()->mapToGlobal(at));
  });
  table_->setEditTriggers(QAbstractItemView::DoubleClicked | QAbstractItemView::EditKeyPressed);
  for (int column = 0; column < RunTableModel::kNotes; ++column)
    table_->setColumnWidth(column, kColumnWidths[column]);
  // Columns that do not fit beside a run's name and results are left to the inspector.
  new ColumnFitter(table_,
                   {RunTableModel::kRanks, RunTableModel::kCluster, RunTableModel::kSteps,
                    RunTableModel::kEnergy, RunTableModel::kThroughput, RunTableModel::kStepTime,
                    RunTableModel::kStrategy, RunTableModel::kTags},
                   kLeastNotes);
  empty_ = new EmptyState("historyEmpty", "history", this);
  stack_->addWidget(table_);
  stack_->addWidget(empty_);
  tableCard_->body()->addWidget(holder, 1);
}

void HistoryPage::connectParts() {
  connect(&workspace_, &Workspace::historyChanged, this, [this] {
    if (isVisible()) reload();  // else with the next show
  });
  connect(runs_, &RunTableModel::notesEdited, this, &HistoryPage::writeNotes);
  // What has changed while notes were being written is shown when they are given up; written, they
  // are a change themselves.
  connect(table_->itemDelegate(), &QAbstractItemDelegate::closeEditor, this,
          [this](QWidget*, QAbstractItemDelegate::EndEditHint hint) {
            if (hint == QAbstractItemDelegate::RevertModelCache) reload();
          });
  connect(table_->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] {
    if (restoring_) return;
    if (deleteAsked_) message()->clear();
    deleteAsked_ = false;
    refreshButtons();
    refreshOverlay();
    detailsStop_.request_stop();
    detailsOf_.reset();
    detailsDelay_.start();
    Q_EMIT inspectorChanged();
  });
  connect(table_, &QTableView::doubleClicked, this, [this](const QModelIndex& index) {
    if (index.column() != RunTableModel::kNotes)
      Q_EMIT openRun(index.data(RunTableModel::kRunRole).toString());
  });
  detailsDelay_.setSingleShot(true);
  detailsDelay_.setInterval(kDetailsAfterMs);
  connect(&detailsDelay_, &QTimer::timeout, this, &HistoryPage::readDetails);
  connect(open_, &QPushButton::clicked, this, [this] {
    const QStringList runs = selectedRuns();
    for (const QString& run : runs.first(std::min(runs.size(), kMostOpened))) Q_EMIT openRun(run);
    if (runs.size() <= kMostOpened) return;
    message()->showNote(Tone::kNeutral, [count = runs.size()] {
      return MessagePanel::Note{.what = tr("The first %1 of %2 selected runs are opened.")
                                            .arg(formatCount(kMostOpened), formatCount(count))};
    });
  });
  connect(tags_, &QPushButton::clicked, this, &HistoryPage::askTags);
  connect(delete_, &QPushButton::clicked, this, &HistoryPage::askDelete);
  connect(message(), &MessagePanel::actionTriggered, this, [this] {
    if (deleteAsked_) removeSelected();
  });
}

// Sums over all steps of a long run take a while: those of an ended run are read once, what one
// under way drew is read with pauses that are long beside the reading.
void HistoryPage::readDetails() {
  const app::RunRow* row = selectedRow();
  if (!row) return;
  const bool hasEnded = app::isFinal(row->phase);
  const DetailsSource wanted{row->run, hasEnded, hasEnded ? row->figures.joules : 0};
  if (detailsOf_ == wanted &&
      (hasEnded || detailsReading_ || !detailsPause_.hasExpired(detailsPauseMs_)))
    return;
  detailsStop_.request_stop();
  detailsStop_ = {};
  detailsOf_ = wanted;
  detailsReading_ = true;
  QElapsedTimer clock;
  clock.start();
  runInBackground(
      this,
      [folder = workspace_.home().historyFolder(), run = row->run, hasEnded,
       stop = detailsStop_.get_token()] {
        return withHistory(folder, [&](app::History& history) -> Result<Details> {
          LOCKSTEP_ASSIGN(const app::RunDocuments documents, history.documents(run));
          Details out{run, {}, {}, app::environmentFields(app::nodeEnvironments(documents.nodes))};
          if (auto prediction = app::parsePrediction(documents.prediction); prediction.ok())
            out.remarks = std::move(prediction->remarks);
          auto drawn = hasEnded ? app::readRunEnergy(history, run, stop)
                                : app::readEnergySoFar(history, run);
          if (drawn.ok()) out.energy = *std::move(drawn);
          return out;
        });
      },
      [this, clock, stop = detailsStop_.get_token()](Result<Details> details) {
        if (stop.stop_requested()) return;
        detailsReading_ = false;
        detailsPauseMs_ = std::max(kLeastPauseMs, kPauses * clock.elapsed());
        detailsPause_.start();
        if (!details.ok()) return detailsOf_.reset();
        details_ = *std::move(details);
        Q_EMIT inspectorChanged();
      });
}

void HistoryPage::askDelete() {
  deleteAsked_ = true;
  message()->showNote(Tone::kWarning, [count = selectedRuns().size()] {
    return MessagePanel::Note{
        count == 1 ? tr("Delete this run?") : tr("Delete %1 runs?").arg(count),
        tr("Curves, logs and documents are removed from this computer. Nodes remove the run's "
           "files "
           "now, or once they are connected again. Checkpoints in a shared folder stay."),
        {},
        tr("Delete")};
  });
}

void HistoryPage::showEvent(QShowEvent* event) {
  Page::showEvent(event);
  reload();
}

QString HistoryPage::selectedRun() const {
  const QStringList chosen = selectedRuns();
  return chosen.size() == 1 ? chosen.first() : QString();
}

QStringList HistoryPage::selectedRuns() const {
  QModelIndexList chosen = table_->selectionModel()->selectedRows();
  std::sort(chosen.begin(), chosen.end());
  QStringList out;
  for (const QModelIndex& index : chosen) out << index.data(RunTableModel::kRunRole).toString();
  return out;
}

void HistoryPage::selectRuns(const QStringList& runs) {
  std::vector<int> found;
  for (const QString& run : runs)
    if (const int row = runs_->find(run); row >= 0) found.push_back(row);
  std::sort(found.begin(), found.end());
  // A range for each row would make every question about the selection of many runs slow.
  QItemSelection rows;
  for (std::size_t begin = 0, end = 0; begin < found.size(); begin = end) {
    for (end = begin + 1; end < found.size() && found[end] <= found[end - 1] + 1;) ++end;
    rows.select(runs_->index(found[begin], 0), runs_->index(found[end - 1], 0));
  }
  table_->selectionModel()->select(rows,
                                   QItemSelectionModel::ClearAndSelect | QItemSelectionModel::Rows);
}

void HistoryPage::selectRun(const QString& run) {
  const int row = runs_->find(run);
  if (row >= 0) table_->selectRow(row);
}

const app::RunRow* HistoryPage::selectedRow() const {
  const int row = runs_->find(selectedRun());
  return row >= 0 ? &runs_->runs()[static_cast<std::size_t>(row)] : nullptr;
}

bool HistoryPage::canRelaunch() const {
  const app::RunRow* row = selectedRow();
  return row && app::isFinal(row->phase);
}

bool HistoryPage::canAdvise() const {
  const app::RunRow* row = selectedRow();
  return row && !app::ofProgram(*row);
}

void HistoryPage::refreshButtons() {
  const QStringList chosen = selectedRuns();
  open_->setEnabled(!chosen.isEmpty());
  export_->setEnabled(!chosen.isEmpty());
  tags_->setEnabled(!chosen.isEmpty());
  again_->setEnabled(canRelaunch());
  for (QAction* one : {resume_, rerun_, clone_}) one->setEnabled(canRelaunch());
  whatIf_->setEnabled(chosen.size() == 1);
  faster_->setEnabled(canAdvise());
  delete_->setEnabled(
      !chosen.isEmpty() && std::all_of(chosen.begin(), chosen.end(), [&](const QString& run) {
        const app::RunRow& row = runs_->runs()[static_cast<std::size_t>(runs_->find(run))];
        return app::isFinal(row.phase) || row.unreachableNs != 0;
      }));
}

void HistoryPage::askWhereTo(ExportKind kind) {
  askExport(workspace_, selectedRuns(), kind, this,
            [this](const QString& path, const Status& status) { sayExported(path, status); });
}

void HistoryPage::askWhatIf() {
  const app::RunRow* run = selectedRow();
  if (!run) return;
  auto* dialog = new WhatIfDialog(workspace_.home().historyFolder(), selectedRun(),
                                  QString::fromStdString(run->name), this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->open();
}

void HistoryPage::exportTo(const QString& path, ExportKind kind) {
  exportRuns(workspace_, selectedRuns(), path, kind,
             [safe = QPointer(this)](const QString& written, const Status& status) {
               if (safe) safe->sayExported(written, status);
             });
}

void HistoryPage::removeSelected() {
  const QStringList chosen = selectedRuns();
  deleteAsked_ = false;
  message()->clear();
  if (chosen.isEmpty()) return;
  runInBackground(
      this,
      [folder = workspace_.home().historyFolder(), chosen] {
        return withHistory(folder, [&](app::History& history) -> Status {
          for (const QString& run : chosen) LOCKSTEP_TRY(history.remove(run.toStdString()));
          return {};
        });
      },
      [this](Status status) {
        if (!status.ok()) message()->showError(status.error());
        workspace_.cleanUpNodes();
        Q_EMIT workspace_.historyChanged();
      });
}

QVector<InspectorRow> HistoryPage::inspectorRows() const {
  QVector<InspectorRow> out;
  const app::RunRow* selected = selectedRow();
  if (!selected) {
    out << InspectorRow{tr("History"), {}, true}
        << InspectorRow{tr("Runs"), QString::number(runs_->rowCount())}
        << InspectorRow{tr("Selected"), QString::number(selectedRuns().size())};
    return out;
  }
  const app::RunRow& row = *selected;
  const auto add = [&](const QString& name, const QString& value) {
    if (!value.isEmpty()) out << InspectorRow{name, value};
  };
  out << InspectorRow{QString::fromStdString(row.name), {}, true};
  add(tr("Run"), QString::fromStdString(row.run));
  add(tr("State"), runStateText(row));
  add(tr("Error"), messageText(row.error));
  add(tr("Started"), formatWhen(row.startedNs));
  add(tr("Finished"), formatWhen(row.finishedNs));
  add(tr("Strategy"), QString::fromStdString(row.strategy));
  add(tr("Communicator"), QString::fromStdString(row.comm));
  add(tr("Predicted step"),
      row.predictedStepSeconds > 0 ? formatSeconds(row.predictedStepSeconds) : QString());
  add(tr("Measured step"),
      row.measuredStepSeconds > 0 ? formatSeconds(row.measuredStepSeconds) : QString());
  add(tr("Lost to failures"),
      row.figures.lostSeconds > 0 ? formatSeconds(row.figures.lostSeconds) : QString());
  add(tr("Effective training time"),
      row.startedNs > 0 ? formatPercent(app::effectiveTime(row), 1) : QString());
  const bool isRead = details_.run == row.run;
  out << energyRows(row, isRead && details_.energy ? &*details_.energy : nullptr);
  add(tr("Evaluation loss"),
      row.figures.evalLoss != 0 ? formatNumber(row.figures.evalLoss) : QString());
  add(tr("Plan"), QString::fromStdString(row.planHash).left(16));
  add(tr("Weights"), QString::fromStdString(row.figures.weightsSha256).left(16));
  add(tr("Model file"), formatPath(QString::fromStdString(row.modelFile)));
  const QModelIndex at = runs_->index(runs_->find(selectedRun()), 0);
  add(tr("Tags"), at.data(RunTableModel::kTagsRole).toStringList().join(' '));
  add(tr("Notes"), QString::fromStdString(row.notes));
  if (isRead) out << remarkRows(details_.remarks) << environmentRows(details_.environment);
  return out;
}

void HistoryPage::retranslateMenus() {
  search_->setPlaceholderText(tr("Filter: words, tag:good, state:failed, since:7d …"));
  search_->setAccessibleName(tr("Filter runs"));
  search_->setToolTip(
      tr("Words are looked for in id, model, notes, strategy, cluster and tags.\n"
         "tag:x  model:x  strategy:x  cluster:x  comm:x  notes:x   (* stands for any text)\n"
         "state:failed  state:running,stopped  state:unreachable\n"
         "since:2026-11-01  before:2026-11-01T12:30  since:today  since:7d\n"
         "-tag:x  -word: without.  \"two words\": as they are."));
  setTexts(filters_, tr("Filters"), tr("Saved filters"));
  resume_->setText(tr("Resume…"));
  rerun_->setText(tr("Rerun…"));
  clone_->setText(tr("Clone…"));
  openAction_->setText(tr("Open"));
  whatIf_->setText(tr("What if…"));
  faster_->setText(tr("Faster strategy…"));
  tagsAction_->setText(tr("Tags…"));
  exportCsv_->setText(tr("Export CSV…"));
  exportReport_->setText(tr("Export report (HTML)…"));
  exportTensorBoard_->setText(tr("Export to TensorBoard…"));
  exportOtlp_->setText(tr("Export for OpenTelemetry…"));
  fillFilters();
  if (wrong_) readFilter();
}

void HistoryPage::retranslate() {
  heading_->setText(tr("History"));
  setTexts(open_, tr("Open"));
  setTexts(export_, tr("Export"), tr("Export the selected runs") + "\nlockstep history export");
  setTexts(tags_, tr("Tags…"),
           tr("Add and remove tags of the selected runs") + "\nlockstep history tag");
  setTexts(delete_, tr("Delete…"), "lockstep history delete");
  setTexts(again_, tr("Launch again"), tr("Resume, rerun or clone the selected run"));
  retranslateMenus();
  tableCard_->setTitle(tr("Runs"));
  table_->setAccessibleName(tr("Runs"));
  empty_->setTexts(tr("No runs yet"),
                   tr("Every run is recorded here with its spec, plan, metrics and curves."));
  retranslateOverlay();
  runs_->retranslate();
  setAccessibleName(title());
}

}  // namespace lockstep::ui
