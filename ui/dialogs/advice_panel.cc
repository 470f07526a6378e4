#include "ui/dialogs/advice_panel.h"

#include <QAction>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QItemSelectionModel>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QProgressBar>
#include <QPushButton>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>
#include <utility>

#include "app/runs/plan_figures.h"
#include "app/specs/spec_text.h"
#include "ui/models/advice_model.h"
#include "ui/models/field_model.h"
#include "ui/studio/background.h"
#include "ui/theme/error_text.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/theme/theme.h"
#include "ui/widgets/delegates.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kProgressInterval = 100;  // ms

// What a search takes as given, besides what it is told to keep.
std::vector<std::string> settingsOfTask(const LaunchInputs& inputs) {
  std::vector<std::string> out;
  for (const std::string& set : inputs.sets)
    if (!set.starts_with("strategy.") && !set.starts_with("training.precision="))
      out.push_back(set);
  return out;
}

bool isSameTask(const LaunchInputs& a, const LaunchInputs& b) {
  return a.specYaml == b.specYaml && a.clusterYaml == b.clusterYaml && a.comm == b.comm &&
         a.ranks == b.ranks && a.localNodes == b.localNodes &&
         settingsOfTask(a) == settingsOfTask(b);
}

PlanDialog::Shown shown(Message name, std::shared_ptr<const app::Preview> preview) {
  PlanDialog::Shown out{std::move(name), std::move(preview), {}};
  if (out.preview) out.figures = app::planFigures(*out.preview);
  return out;
}

void addChecked(QMenu* menu, const std::string& value, const QString& text = {}) {
  QAction* action = menu->addAction(text);
  action->setData(QString::fromStdString(value));
  action->setCheckable(true);
}

std::vector<std::string> checkedOf(const QMenu* menu) {
  std::vector<std::string> out;
  for (const QAction* action : menu->actions())
    if (action->isChecked()) out.push_back(action->data().toString().toStdString());
  return out;
}

QString problemText(const Error& error) {
  const ErrorText text = describeError(error);
  QStringList lines{text.what, text.why, text.next};
  lines.removeAll(QString());
  return lines.join('\n');
}

QString lineOf(const Error& error) {
  const ErrorText text = describeError(error);
  return text.why.isEmpty() ? text.what : QString("%1: %2").arg(text.what, text.why);
}

}  // namespace

AdvicePanel::AdvicePanel(QWidget* parent) : QWidget(parent) {
  setObjectName("advicePanel");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, kSpaceS, 0, 0);
  layout->setSpacing(kSpaceS);
  layout->addWidget(makeSearchRow());
  layout->addWidget(makeTable(), 1);
  note_ = makeLabel("adviceNote", this, "muted");
  note_->setWordWrap(true);
  note_->setTextFormat(Qt::PlainText);
  layout->addWidget(note_);
  layout->addWidget(makeChoiceRow());
  tick_.setInterval(kProgressInterval);
  connect(&tick_, &QTimer::timeout, this, &AdvicePanel::refresh);
  retranslate();
}

AdvicePanel::~AdvicePanel() { stop_.request_stop(); }

QWidget* AdvicePanel::makeSearchRow() {
  auto* out = new QWidget(this);
  auto* row = new QHBoxLayout(out);
  row->setContentsMargins({});
  search_ = makeButton("adviceSearch", "search", out);
  connect(search_, &QPushButton::clicked, this, [this] { planned_ ? stop() : search(); });
  keep_ = makeMenuButton("adviceKeep", "ok", options_, out);
  for (const std::string& path : app::searchedOptions()) addChecked(options_, path);
  also_ = makeMenuButton("adviceAlso", "add", precisions_, out);
  for (const auto& field : app::SpecText::fields(app::SpecKind::kRun, "training"))
    for (const std::string& choice : field.choices)
      if (field.name == "precision" && !choice.empty())
        addChecked(precisions_, choice, QString::fromStdString(choice));
  progress_ = new QProgressBar(out);
  progress_->setObjectName("adviceProgress");
  progress_->setRange(0, 0);
  progress_->setTextVisible(false);
  progress_->setFixedWidth(100);
  progressText_ = new ElidedLabel("adviceProgressText", out, "muted");
  for (QWidget* part : std::initializer_list<QWidget*>{search_, keep_, also_, progress_})
    row->addWidget(part);
  row->addWidget(progressText_, 1);
  return out;
}

// A button with a menu of what can be checked.
QToolButton* AdvicePanel::makeMenuButton(const QString& name, const char* icon, QMenu*& menu,
                                         QWidget* parent) {
  QToolButton* out = makeToolButton(name, icon, parent);
  out->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  out->setPopupMode(QToolButton::InstantPopup);
  menu = new QMenu(out);
  menu->setObjectName(name + "Menu");
  connect(menu, &QMenu::triggered, this, &AdvicePanel::showCommand);
  out->setMenu(menu);
  return out;
}

QWidget* AdvicePanel::makeTable() {
  model_ = new AdviceModel(this);
  table_ = new QTableView(this);
  table_->setObjectName("adviceTable");
  table_->setModel(model_);
  applyTableStyle(table_);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSelectionMode(QAbstractItemView::SingleSelection);
  table_->setWordWrap(true);
  table_->setItemDelegate(new WrapDelegate(table_));
  table_->verticalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  setColumns(table_, {170, 76, 66, 80, 80, 80, 70, 96, 180});
  table_->setColumnHidden(AdviceModel::kCost, true);
  fitter_ = new ColumnFitter(table_,
                             {AdviceModel::kEnergy, AdviceModel::kWire, AdviceModel::kBubble,
                              AdviceModel::kLink, AdviceModel::kMemory},
                             180);
  connect(table_->horizontalHeader(), &QHeaderView::sectionResized, table_,
          &QTableView::resizeRowsToContents);
  connect(table_->selectionModel(), &QItemSelectionModel::selectionChanged, this,
          &AdvicePanel::refresh);
  connect(table_, &QTableView::activated, this,
          [this](const QModelIndex& index) { choose(index.row()); });
  return table_;
}

QWidget* AdvicePanel::makeChoiceRow() {
  auto* out = new QWidget(this);
  auto* row = new QHBoxLayout(out);
  row->setContentsMargins({});
  command_ = new QLineEdit(out);
  command_->setObjectName("adviceCommand");
  command_->setReadOnly(true);
  command_->setFont(Theme::instance().monospace());
  QSizePolicy kept = command_->sizePolicy();
  kept.setRetainSizeWhenHidden(true);  // the buttons stay where they are
  command_->setSizePolicy(kept);
  row->addWidget(command_, 1);
  open_ = makeButton("adviceOpen", "open", out);
  compare_ = makeButton("adviceCompare", "compare", out);
  choose_ = makeButton("adviceChoose", "ok", out);
  connect(open_, &QPushButton::clicked, this, [this] { open(false); });
  connect(compare_, &QPushButton::clicked, this, [this] { open(true); });
  connect(choose_, &QPushButton::clicked, this, [this] { choose(this->row()); });
  for (QPushButton* button : {open_, compare_, choose_}) row->addWidget(button);
  return out;
}

std::vector<std::string> AdvicePanel::pins() const { return checkedOf(options_); }

std::vector<std::string> AdvicePanel::precisions() const { return checkedOf(precisions_); }

void AdvicePanel::showCommand() {
  QStringList more;
  for (const std::string& path : pins()) more << "--pin" << QString::fromStdString(path);
  for (const std::string& one : precisions()) more << "--precision" << QString::fromStdString(one);
  const QString text = sources_.command ? sources_.command(more) : QString();
  command_->setVisible(!text.isEmpty());
  if (command_->text() == text) return;
  command_->setText(text);
  command_->setCursorPosition(0);
}

void AdvicePanel::search() {
  if (!sources_.inputs) return;
  problem_.reset();
  outcome_.reset();
  model_->setStrategies({});
  LaunchInputs in = sources_.inputs();
  stop_ = std::stop_source();
  in.stop = stop_.get_token();
  searched_ = in;
  planned_ = std::make_shared<std::atomic<std::size_t>>(0);
  tick_.start();
  runInBackground(
      this,
      [in = std::move(in), kept = pins(), also = precisions(), planned = planned_] {
        return adviseLaunch(in, kept, also, [planned](std::size_t count) {
          if (count > 0) *planned = count;
        });
      },
      [this, generation = ++generation_](Result<app::Advice> found) {
        if (generation == generation_) take(std::move(found));
      });
  refresh();
}

void AdvicePanel::stop() { stop_.request_stop(); }

void AdvicePanel::take(Result<app::Advice> found) {
  planned_.reset();
  tick_.stop();
  outcome_.emplace(std::move(found));
  if (outcome_->ok()) {
    model_->setStrategies((*outcome_)->best);
    table_->setColumnHidden(AdviceModel::kCost, !model_->hasCosts());
    fitter_->fit();
    table_->selectRow(0);
  }
  refresh();
}

void AdvicePanel::follow() {
  if (!searched_ || isSameTask(*searched_, sources_.inputs())) return refresh();
  stop_.request_stop();
  ++generation_;
  planned_.reset();
  tick_.stop();
  searched_.reset();
  outcome_.reset();
  problem_.reset();
  model_->setStrategies({});
  refresh();
}

bool AdvicePanel::choosing() const { return table_->hasFocus(); }

int AdvicePanel::row() const {
  const QModelIndexList rows = table_->selectionModel()->selectedRows();
  return rows.isEmpty() ? -1 : rows.front().row();
}

LaunchInputs AdvicePanel::inputsOf(int row) const {
  LaunchInputs out = *searched_;
  out.stop = {};
  for (const auto& [path, value] : model_->strategies()[static_cast<std::size_t>(row)].settings)
    out.sets.push_back(path + '=' + value);
  return out;
}

void AdvicePanel::choose(int row) {
  if (row < 0 || row >= model_->rowCount()) return;
  QStringList sets;
  for (const std::string& set : inputsOf(row).sets) sets << QString::fromStdString(set);
  Q_EMIT chosen(sets);
}

void AdvicePanel::open(bool beside) {
  const int at = row();
  const std::shared_ptr<const app::Preview> current = beside ? sources_.current() : nullptr;
  if (at < 0 || opening_ || (beside && !current)) return;
  opening_ = true;
  problem_.reset();
  refresh();
  const app::Choice& choice = model_->strategies()[static_cast<std::size_t>(at)].choice;
  runInBackground(
      this,
      [in = inputsOf(at), name = app::textOf(choice), current]() -> Result<Plans> {
        LaunchPreview made = makeLaunchPreview(in);
        if (!made.preview) return made.preview.error();
        auto plan = std::make_shared<const app::Preview>(std::move(*made.preview));
        Message other = current ? message("{}", current->plan.strategy) : Message();
        return Plans{shown(name, std::move(plan)), shown(std::move(other), current)};
      },
      [this, at, generation = generation_](Result<Plans> plans) {
        opening_ = false;
        if (generation == generation_) {
          if (plans.ok())
            showPlans(*std::move(plans), at);
          else
            problem_ = plans.error();
        }
        refresh();
      });
}

void AdvicePanel::showPlans(Plans plans, int row) {
  auto* dialog = new PlanDialog(std::move(plans.first), std::move(plans.second), window());
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, this, [this, row, generation = generation_] {
    if (generation == generation_) choose(row);
  });
  dialog->open();
}

void AdvicePanel::refresh() {
  showCommand();
  const bool isSearching = planned_ != nullptr;
  setTexts(search_, isSearching ? tr("Cancel") : tr("Find the fastest"),
           isSearching ? tr("Ends the search with what was found")
                       : tr("Plans and simulates strategies for up to 8 seconds, as `lockstep "
                            "advise` does"));
  progress_->setVisible(isSearching);
  progressText_->setText(
      isSearching
          ? tr("%1 strategies planned").arg(formatCount(static_cast<std::int64_t>(*planned_)))
          : QString());
  const bool isSelected = row() >= 0 && !opening_;
  open_->setEnabled(isSelected);
  choose_->setEnabled(isSelected);
  compare_->setEnabled(isSelected && sources_.current && sources_.current());
  QStringList note;
  if (problem_) {
    note << problemText(*problem_);
  } else if (outcome_ && !outcome_->ok()) {
    note << problemText(outcome_->error());
  } else if (outcome_) {
    const app::Advice& found = **outcome_;
    note << tr("%1 strategies judged, %2 planned: %3 do not fit in memory, %4 are not possible "
               "here.")
                .arg(formatCount(static_cast<std::int64_t>(found.judged)),
                     formatCount(static_cast<std::int64_t>(found.planned)),
                     formatCount(static_cast<std::int64_t>(found.misfits)),
                     formatCount(static_cast<std::int64_t>(found.refused)));
    if (found.error)
      note << tr("For nodes and links as the run measured them; its own step, planned anew, is off "
                 "by %1.")
                  .arg(formatPercent(*found.error, 1));
    if (found.unmeasured)
      note << tr("For assumed costs, as those that the run measured are not known: %1.")
                  .arg(lineOf(*found.unmeasured));
    if (!found.complete) note << tr("The search ended early.");
    if (found.unknownMemory > 0) note << messageText(app::unknownMemoryText(found.unknownMemory));
  }
  note_->setText(note.join(' '));
}

void AdvicePanel::retranslate() {
  keep_->setText(tr("Keep"));
  keep_->setAccessibleName(tr("Options that the search keeps"));
  keep_->setToolTip(tr("Options that the search keeps as they are set here"));
  for (QAction* action : options_->actions())
    action->setText(fieldLabelOf(app::SpecKind::kRun, action->data().toString().toStdString()));
  also_->setText(tr("Also try"));
  also_->setAccessibleName(tr("Precisions that the search also tries"));
  also_->setToolTip(tr("Precisions that the search also tries; they change results"));
  command_->setAccessibleName(tr("Command"));
  command_->setToolTip(tr("This search as a command for a terminal; it does not connect to nodes"));
  progress_->setAccessibleName(tr("Progress"));
  table_->setAccessibleName(tr("Fastest strategies"));
  table_->setToolTip(tr("Double-click a strategy to choose it"));
  setTexts(open_, tr("Open plan"), tr("Shows the figures and the text of its plan"));
  setTexts(compare_, tr("Compare with current"),
           tr("Shows its plan beside the current one, as `lockstep plan --diff` does"));
  setTexts(choose_, tr("Choose"), tr("Sets its options for the launch"));
  model_->retranslate();
  refresh();
}

}  // namespace lockstep::ui
