#include "ui/pages/history_page.h"

#include <QComboBox>
#include <QDir>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QPushButton>
#include <QSplitter>
#include <QStackedLayout>
#include <QTableView>
#include <QToolButton>

#include "ui/models/run_table_model.h"
#include "ui/models/spec_diff_model.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
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

constexpr int kColumnWidths[RunTableModel::kNotes] = {124, 100, 150, 160, 84, 62,
                                                      64,  68,  92,  92,  84};
constexpr int kLeastNotes = 90;
constexpr std::size_t kMostCurves = 24;

// Opens the history, does one thing, and hands the status on; run off the GUI thread.
template <typename Work>
auto withHistory(const std::string& folder, Work work)
    -> decltype(work(std::declval<app::History&>())) {
  auto history = app::History::open(folder);
  if (!history) return history.error();
  return work(**history);
}

}  // namespace

HistoryPage::HistoryPage(Workspace& workspace, QWidget* parent)
    : Page("historyPage", "history", parent), workspace_(workspace) {
  buildHead();
  buildTable();
  buildComparison();
  auto* splitter = new QSplitter(Qt::Vertical, this);
  splitter->setObjectName("historySplitter");
  splitter->addWidget(tableCard_);
  splitter->addWidget(plotCard_);
  splitter->setChildrenCollapsible(false);
  splitter->setSizes({360, 320});
  body()->addWidget(splitter, 1);
  connectParts();
  retranslate();
  reload();
}

void HistoryPage::buildHead() {
  auto* head = new QHBoxLayout;
  head->setSpacing(kSpaceS);
  heading_ = makeLabel("historyHeading", this);
  heading_->setFont(Theme::instance().title());
  search_ = new QLineEdit(this);
  search_->setObjectName("historySearch");
  search_->setClearButtonEnabled(true);
  search_->setMaximumWidth(320);
  open_ = makeButton("openRunButton", "open", this, "primary");
  export_ = makeButton("exportCsvButton", "export", this);
  delete_ = makeButton("deleteRunButton", "delete", this, "danger");
  head->addWidget(heading_);
  head->addSpacing(kSpaceL);
  head->addWidget(search_, 3);
  head->addStretch(1);
  again_ = makeButton("relaunchButton", "refresh", this);
  buildRelaunchMenu();
  for (QPushButton* button : {delete_, export_, again_, open_}) head->addWidget(button);
  body()->addLayout(head);
}

void HistoryPage::buildRelaunchMenu() {
  againMenu_ = new QMenu(this);
  againMenu_->setObjectName("relaunchMenu");
  const auto action = [&](QAction*& slot, const char* name, const char* icon, auto call) {
    slot = againMenu_->addAction(Theme::instance().icon(icon), QString());
    slot->setObjectName(name);
    connect(slot, &QAction::triggered, this, call);
  };
  action(resume_, "historyResume", "play",
         [this] { Q_EMIT relaunchWanted(selectedRun(), app::RelaunchKind::kResume); });
  action(rerun_, "historyRerun", "refresh",
         [this] { Q_EMIT relaunchWanted(selectedRun(), app::RelaunchKind::kRerun); });
  action(clone_, "historyClone", "copy", [this] { Q_EMIT cloneWanted(selectedRun()); });
  again_->setMenu(againMenu_);
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
  table_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  table_->setContextMenuPolicy(Qt::CustomContextMenu);
  connect(table_, &QTableView::customContextMenuRequested, this, [this](const QPoint& at) {
    if (again_->isEnabled()) againMenu_->popup(table_->viewport()->mapToGlobal(at));
  });
  table_->setEditTriggers(QAbstractItemView::DoubleClicked | QAbstractItemView::EditKeyPressed);
  for (int column = 0; column < RunTableModel::kNotes; ++column)
    table_->setColumnWidth(column, kColumnWidths[column]);
  // Columns that do not fit beside a run's name and results are left to the inspector.
  new ColumnFitter(table_,
                   {RunTableModel::kRanks, RunTableModel::kCluster, RunTableModel::kSteps,
                    RunTableModel::kThroughput, RunTableModel::kStepTime, RunTableModel::kStrategy},
                   kLeastNotes);
  empty_ = new EmptyState("historyEmpty", "history", this);
  stack_->addWidget(table_);
  stack_->addWidget(empty_);
  tableCard_->body()->addWidget(holder, 1);
}

void HistoryPage::buildComparison() {
  plotCard_ = new Card("overlayCard", this);
  group_ = new PlotGroup(this);
  plot_ = new PlotView("overlayPlot", this);
  group_->add(plot_);
  curve_ = new QComboBox(this);
  curve_->setObjectName("overlayCurve");
  plotCard_->head()->addWidget(curve_);
  diff_ = new SpecDiffModel(this);
  diffTable_ = new QTableView(this);
  diffTable_->setObjectName("specDifferences");
  diffTable_->setModel(diff_);
  applyTableStyle(diffTable_);
  diffTable_->horizontalHeader()->setStretchLastSection(false);
  differences_ = makeToolButton("differencesButton", "compare", this);
  differences_->setCheckable(true);
  plotCard_->head()->addWidget(differences_);
  auto* compared = new QWidget(this);
  compareStack_ = new QStackedLayout(compared);
  compareStack_->addWidget(plot_);
  compareStack_->addWidget(diffTable_);
  plotCard_->body()->addWidget(compared, 1);
  connect(differences_, &QToolButton::toggled, this, [this](bool on) {
    compareStack_->setCurrentIndex(on ? 1 : 0);
    curve_->setEnabled(!on);
  });
}

void HistoryPage::connectParts() {
  searchDelay_.setSingleShot(true);
  searchDelay_.setInterval(150);
  connect(&searchDelay_, &QTimer::timeout, this, &HistoryPage::reload);
  connect(search_, &QLineEdit::textChanged, this, [this] { searchDelay_.start(); });
  connect(&workspace_, &Workspace::historyChanged, this, [this] {
    if (isVisible()) reload();  // else with the next show
  });
  connect(runs_, &RunTableModel::notesEdited, this, &HistoryPage::writeNotes);
  connect(curve_, &QComboBox::currentIndexChanged, this, &HistoryPage::refreshOverlay);
  connect(table_->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] {
    if (restoring_) return;
    if (deleteAsked_) message()->clear();
    deleteAsked_ = false;
    refreshButtons();
    refreshOverlay();
    Q_EMIT inspectorChanged();
  });
  connect(table_, &QTableView::doubleClicked, this, [this](const QModelIndex& index) {
    if (index.column() != RunTableModel::kNotes)
      Q_EMIT openRun(index.data(RunTableModel::kRunRole).toString());
  });
  connect(open_, &QPushButton::clicked, this, [this] {
    for (const QString& run : selectedRuns()) Q_EMIT openRun(run);
  });
  connect(export_, &QPushButton::clicked, this, &HistoryPage::askExport);
  connect(delete_, &QPushButton::clicked, this, &HistoryPage::askDelete);
  connect(message(), &MessagePanel::actionTriggered, this, [this] {
    if (deleteAsked_) removeSelected();
  });
}

void HistoryPage::writeNotes(const QString& run, const QString& notes) {
  runInBackground(
      this,
      [folder = workspace_.home().historyFolder(), run, notes] {
        return withHistory(folder, [&](app::History& history) -> Status {
          return history.setNotes(run.toStdString(), notes.toStdString());
        });
      },
      [this](Status status) {
        if (!status.ok()) message()->showError(status.error());
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
  QItemSelection rows;
  for (const QString& run : runs) {
    if (const int row = runs_->find(run); row >= 0)
      rows.select(runs_->index(row, 0), runs_->index(row, 0));
  }
  table_->selectionModel()->select(rows,
                                   QItemSelectionModel::ClearAndSelect | QItemSelectionModel::Rows);
}

void HistoryPage::selectRun(const QString& run) {
  const int row = runs_->find(run);
  if (row >= 0) table_->selectRow(row);
}

void HistoryPage::reload() {
  const int generation = ++generation_;
  runInBackground(
      this,
      [folder = workspace_.home().historyFolder(), text = search_->text().toStdString()] {
        return withHistory(folder, [&](app::History& history) -> Result<std::vector<app::RunRow>> {
          (void)history.expireAbandoned();
          return history.list(text);
        });
      },
      [this, generation](Result<std::vector<app::RunRow>> rows) {
        // Notes that are being written stay in their cell.
        if (generation != generation_ || table_->viewport()->findChild<QLineEdit*>()) return;
        if (!rows) {
          message()->showError(rows.error());
          return;
        }
        const QStringList chosen = selectedRuns();
        restoring_ = true;
        runs_->setRuns(std::move(*rows));
        selectRuns(chosen);
        restoring_ = false;
        if (selectedRuns() != chosen) refreshOverlay();
        const bool none = runs_->rowCount() == 0 && search_->text().isEmpty();
        stack_->setCurrentWidget(none ? static_cast<QWidget*>(empty_) : table_);
        refreshButtons();
        Q_EMIT inspectorChanged();
      });
}

void HistoryPage::find() {
  search_->setFocus(Qt::ShortcutFocusReason);
  search_->selectAll();
}

bool HistoryPage::canRelaunch() const {
  const int row = runs_->find(selectedRun());
  return row >= 0 && app::isFinal(runs_->runs()[static_cast<std::size_t>(row)].phase);
}

void HistoryPage::refreshButtons() {
  const QStringList chosen = selectedRuns();
  open_->setEnabled(!chosen.isEmpty());
  export_->setEnabled(!chosen.isEmpty());
  again_->setEnabled(canRelaunch());
  delete_->setEnabled(
      !chosen.isEmpty() && std::all_of(chosen.begin(), chosen.end(), [&](const QString& run) {
        const app::RunRow& row = runs_->runs()[static_cast<std::size_t>(runs_->find(run))];
        return app::isFinal(row.phase) || row.unreachableNs != 0;
      }));
}

void HistoryPage::askExport() {
  const bool several = selectedRuns().size() > 1;
  auto* dialog = several ? new QFileDialog(this, tr("Folder for the CSV files"))
                         : new QFileDialog(this, tr("Export as CSV"), QString(), tr("CSV (*.csv)"));
  dialog->setObjectName("exportCsvDialog");
  if (several) {
    dialog->setFileMode(QFileDialog::Directory);
  } else {
    dialog->setAcceptMode(QFileDialog::AcceptSave);
    dialog->setDefaultSuffix("csv");
    dialog->selectFile(selectedRun() + ".csv");
  }
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QFileDialog::fileSelected, this, &HistoryPage::exportTo);
  dialog->open();
}

void HistoryPage::exportTo(const QString& path) {
  const QStringList chosen = selectedRuns();
  if (chosen.isEmpty()) return;
  const auto job = workspace_.jobs().start(tr("Exporting %1").arg(path));
  runInBackground(
      this,
      [folder = workspace_.home().historyFolder(), chosen, path] {
        return withHistory(folder, [&](app::History& history) -> Status {
          for (const QString& run : chosen) {
            const QString file = chosen.size() == 1 ? path : QDir(path).filePath(run + ".csv");
            LOCKSTEP_TRY(history.exportCsv(run.toStdString(), file.toStdString()));
          }
          return {};
        });
      },
      [this, job, path](Status status) {
        workspace_.jobs().finish(job);
        if (!status.ok()) {
          message()->showError(status.error());
        } else {
          message()->showNote(Tone::kGood, [path] {
            return MessagePanel::Note{tr("Exported to %1").arg(path), {}, {}, {}};
          });
        }
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

void HistoryPage::refreshOverlay() {
  const int generation = ++overlayGeneration_;
  const std::string curve = curve_->currentData().toString().toStdString();
  struct Curve {
    QString name;
    std::vector<app::Point> points;
    std::map<std::string, std::string> fields;
  };
  std::vector<std::pair<std::string, QString>> wanted;
  for (const QString& run : selectedRuns()) {
    if (wanted.size() == kMostCurves) break;
    const auto& row = runs_->runs()[static_cast<std::size_t>(runs_->find(run))];
    wanted.emplace_back(row.run, runTitle(row));
  }
  runInBackground(
      this,
      [folder = workspace_.home().historyFolder(), wanted, curve]() -> std::vector<Curve> {
        std::vector<Curve> out;
        auto history = app::History::open(folder);
        if (!history) return out;
        for (const auto& [run, name] : wanted) {
          auto store = (*history)->openRun(run);
          if (!store) continue;
          auto points = (*store)->readAll(curve);
          const auto documents = (*history)->documents(run);
          out.push_back({name, points ? std::move(*points) : std::vector<app::Point>(),
                         documents.ok()
                             ? specFields(documents->specResolved.empty() ? documents->specYaml
                                                                          : documents->specResolved)
                             : std::map<std::string, std::string>()});
        }
        return out;
      },
      [this, generation, curve](std::vector<Curve> curves) {
        if (generation != overlayGeneration_) return;
        plot_->clearSeries();
        int color = 0;
        for (const Curve& one : curves) {
          auto line = std::make_shared<Series>(one.name, color++, !curve.starts_with("epoch/"));
          line->dots = curve.starts_with("epoch/");
          for (const auto& point : one.points) line->append(point.x, point.y);
          line->setSmoothing(0.9);
          plot_->addSeries(line);
        }
        QStringList names;
        std::vector<std::map<std::string, std::string>> fields;
        for (Curve& one : curves) {
          names << one.name;
          fields.push_back(std::move(one.fields));
        }
        diff_->setRuns(std::move(names), std::move(fields));
        diffTable_->resizeColumnsToContents();
        plot_->setPercent(curve == "accuracy" || curve == "epoch/eval_accuracy");
        group_->follow();
      });
}

QVector<InspectorRow> HistoryPage::inspectorRows() const {
  QVector<InspectorRow> out;
  const int at = runs_->find(selectedRun());
  if (at < 0) {
    out << InspectorRow{tr("History"), {}, true}
        << InspectorRow{tr("Runs"), QString::number(runs_->rowCount())}
        << InspectorRow{tr("Selected"), QString::number(selectedRuns().size())};
    return out;
  }
  const app::RunRow& row = runs_->runs()[static_cast<std::size_t>(at)];
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
  add(tr("Evaluation loss"),
      row.figures.evalLoss != 0 ? formatNumber(row.figures.evalLoss) : QString());
  add(tr("Plan"), QString::fromStdString(row.planHash).left(16));
  add(tr("Weights"), QString::fromStdString(row.figures.weightsSha256).left(16));
  add(tr("Model file"), formatPath(QString::fromStdString(row.modelFile)));
  add(tr("Notes"), QString::fromStdString(row.notes));
  return out;
}

void HistoryPage::retranslate() {
  heading_->setText(tr("History"));
  search_->setPlaceholderText(tr("Find by name, notes, strategy or cluster"));
  search_->setAccessibleName(tr("Find runs"));
  setTexts(open_, tr("Open"));
  setTexts(export_, tr("Export CSV…"));
  setTexts(delete_, tr("Delete…"));
  setTexts(again_, tr("Launch again"), tr("Resume, rerun or clone the selected run"));
  resume_->setText(tr("Resume…"));
  rerun_->setText(tr("Rerun…"));
  clone_->setText(tr("Clone…"));
  tableCard_->setTitle(tr("Runs"));
  plotCard_->setTitle(tr("Compare selected runs"));
  table_->setAccessibleName(tr("Runs"));
  empty_->setTexts(tr("No runs yet"),
                   tr("Every run is recorded here with its spec, plan, metrics and curves."));
  const int index = curve_->currentIndex();
  QSignalBlocker blocker(curve_);
  curve_->clear();
  curve_->addItem(tr("Loss"), "loss");
  curve_->addItem(tr("Accuracy"), "accuracy");
  curve_->addItem(tr("AUC"), "auc");
  curve_->addItem(tr("Perplexity"), "perplexity");
  curve_->addItem(tr("Throughput"), "samples_per_second");
  curve_->addItem(tr("Loss scale"), "loss_scale");
  curve_->addItem(tr("Evaluation loss by epoch"), "epoch/eval_loss");
  curve_->addItem(tr("Evaluation accuracy by epoch"), "epoch/eval_accuracy");
  curve_->addItem(tr("Evaluation AUC by epoch"), "epoch/eval_auc");
  curve_->addItem(tr("Evaluation perplexity by epoch"), "epoch/eval_perplexity");
  curve_->setCurrentIndex(std::max(0, index));
  curve_->setAccessibleName(tr("Curve"));
  setTexts(differences_, tr("Compare the specs of the selected runs"));
  diffTable_->setAccessibleName(tr("Spec differences"));
  diff_->retranslate();
  plot_->setTexts(tr("Curves"), tr("step"), {}, tr("Select runs to overlay their curves."));
  runs_->retranslate();
  setAccessibleName(title());
}

}  // namespace lockstep::ui
