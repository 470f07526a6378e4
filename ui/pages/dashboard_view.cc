#include "ui/pages/dashboard_view.h"

#include <QComboBox>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QPushButton>
#include <QScrollArea>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QStackedWidget>
#include <QToolButton>
#include <QUndoCommand>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

#include "ui/dialogs/metric_dialog.h"
#include "ui/dialogs/name_dialog.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
#include "ui/studio/run_document.h"
#include "ui/studio/workspace.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kRowHeight = 208;  // of a plot with its frame

class Edit : public QUndoCommand {
 public:
  Edit(DashboardView& view, const QString& text, Dashboard before, Dashboard after)
      : QUndoCommand(text), view_(view), before_(std::move(before)), after_(std::move(after)) {}
  void undo() override { view_.apply(before_); }
  void redo() override { view_.apply(after_); }

 private:
  DashboardView& view_;
  const Dashboard before_, after_;
};

}  // namespace

DashboardView::DashboardView(RunDocument& document, const PlotGroups& groups, QWidget* parent)
    : QWidget(parent),
      document_(document),
      groups_(groups),
      store_(document.workspace().settings().store()) {
  setObjectName("dashboardView");
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, kSpaceM, 0, 0);
  column->setSpacing(kSpaceM);
  makeTools();
  stacked_ = new QStackedWidget(this);
  empty_ = new EmptyState("dashboardEmpty", "chart", this);
  page_ = new QWidget(this);
  page_->setObjectName("dashboardPage");
  page_->setAutoFillBackground(false);
  grid_ = new QGridLayout(page_);
  grid_->setContentsMargins(0, 0, 0, 0);
  grid_->setSpacing(kSpaceM);
  area_ = new QScrollArea(this);
  area_->setObjectName("dashboardScroll");
  area_->setWidget(page_);
  area_->setWidgetResizable(true);
  area_->setFrameShape(QFrame::NoFrame);
  area_->setFocusPolicy(Qt::NoFocus);
  area_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  area_->viewport()->setAutoFillBackground(false);
  drop_ = new QWidget(page_);
  drop_->setObjectName("dashboardDrop");
  drop_->setAttribute(Qt::WA_TransparentForMouseEvents);
  drop_->hide();
  stacked_->addWidget(area_);
  stacked_->addWidget(empty_);
  column->addWidget(stacked_, 1);
  connect(empty_->button(), &QPushButton::clicked, this, [this] { choosePlot(-1); });
  connect(&document_, &RunDocument::metricAdded, this, [this](const QString& series) {
    for (DashboardCard* card : cards_) card->offer(series);
  });
}

DashboardView::~DashboardView() = default;

void DashboardView::makeTools() {
  auto* row = new QHBoxLayout;
  row->setSpacing(kSpaceS);
  chooser_ = new QComboBox(this);
  chooser_->setObjectName("dashboardChooser");
  chooser_->setMinimumContentsLength(16);
  chooser_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  add_ = makeButton("dashboardAdd", "add", this);
  columnsLabel_ = makeLabel("dashboardColumnsLabel", this, "muted");
  columns_ = new QSpinBox(this);
  columns_->setObjectName("dashboardColumns");
  columns_->setRange(1, Dashboard::kMostColumns);
  columnsLabel_->setBuddy(columns_);
  menu_ = makeToolButton("dashboardOptions", "more", this);
  row->addWidget(chooser_);
  row->addWidget(menu_);
  row->addStretch(1);
  row->addWidget(columnsLabel_);
  row->addWidget(columns_);
  row->addWidget(add_);
  static_cast<QVBoxLayout*>(layout())->addLayout(row);
  connect(chooser_, &QComboBox::activated, this,
          [this](int index) { open(chooser_->itemData(index).toString()); });
  connect(add_, &QPushButton::clicked, this, [this] { choosePlot(-1); });
  connect(columns_, &QSpinBox::valueChanged, this, [this](int columns) {
    if (columns == shown_.columns) return;
    Dashboard changed = shown_;
    changed.columns = columns;
    edit(tr("columns"), std::move(changed));
  });
  connect(menu_, &QToolButton::clicked, this, &DashboardView::showMenu);
}

// Another page may have changed it since.
void DashboardView::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  const QString current = store_.current();
  const auto stored = store_.find(current);
  if (opened_ && current == shown_.name && (!stored || *stored == shown_)) {
    fillChooser();
    return;
  }
  open(current);
}

void DashboardView::open(const QString& name) {
  opened_ = true;
  bool damaged = false;
  auto found = store_.find(name, &damaged);
  if (!name.isEmpty() && (damaged || !found)) {
    Error error = makeError(Code::kDataLoss, "the dashboard {} in the settings is damaged",
                            name.toStdString());
    error.why = found ? "some of its plots cannot be read" : "none of it can be read";
    error.next = found ? "check its plots" : "remove it, or add its plots again";
    Q_EMIT problem(error);
  }
  if (!found) {
    found = defaultDashboard();
    if (damaged) found->name = name;  // so that it can be removed
  }
  store_.setCurrent(found->name);
  stack_.clear();
  show(*found);
}

void DashboardView::fillChooser() {
  const QSignalBlocker blocker(chooser_);
  chooser_->clear();
  chooser_->addItem(tr("Default dashboard"), QString());
  for (const QString& name : store_.names()) chooser_->addItem(name, name);
  chooser_->setCurrentIndex(std::max(0, chooser_->findData(shown_.name)));
}

void DashboardView::apply(const Dashboard& dashboard) {
  if (dashboard.name != shown_.name) store_.remove(shown_.name);
  store_.save(dashboard);
  store_.setCurrent(dashboard.name);
  show(dashboard);
  write();
}

void DashboardView::write() {
  if (const Status written = store_.write(); !written.ok()) Q_EMIT problem(written.error());
}

// Cards of plots that stay are kept, with what they show.
void DashboardView::show(const Dashboard& dashboard) {
  shown_ = dashboard;
  QVector<DashboardCard*> before = std::exchange(cards_, {});
  const auto isSame = [](const DashboardPlot& a, const DashboardPlot& b) {
    return a.title == b.title && a.patterns == b.patterns && a.logY == b.logY;
  };
  for (const DashboardPlot& plot : shown_.plots) {
    const auto known = std::find_if(before.begin(), before.end(), [&](DashboardCard* card) {
      return card != nullptr && isSame(card->plot(), plot);
    });
    if (known != before.end()) {
      cards_ << std::exchange(*known, nullptr);
      continue;
    }
    auto* card = new DashboardCard(plot, document_, groups_, page_);
    connectCard(card);
    for (const std::string& series : document_.metrics())
      card->offer(QString::fromStdString(series));
    card->retranslate();
    cards_ << card;
  }
  for (DashboardCard* card : before) {
    if (card == nullptr) continue;
    card->hide();
    card->deleteLater();  // it may be what asked for this
  }
  lay();
  fillChooser();
  const QSignalBlocker blocker(columns_);
  columns_->setValue(shown_.columns);
}

void DashboardView::lay() {
  for (DashboardCard* card : cards_) grid_->removeWidget(card);
  const QVector<DashboardPlace> places = placesOf(shown_);
  int rows = 0;
  for (qsizetype i = 0; i < cards_.size(); ++i) {
    const DashboardPlot& plot = shown_.plots[i];
    const DashboardPlace& at = places[i];
    cards_[i]->setPlace(static_cast<int>(i), plot.width, plot.height);
    cards_[i]->setMinimumHeight(kRowHeight * at.rows + kSpaceM * (at.rows - 1));
    grid_->addWidget(cards_[i], at.row, at.column, at.rows, at.columns);
    cards_[i]->show();
    rows = std::max(rows, at.row + at.rows);
  }
  for (int c = 0; c < std::max(grid_->columnCount(), shown_.columns); ++c)
    grid_->setColumnStretch(c, c < shown_.columns ? 1 : 0);
  for (int r = 0; r < std::max(grid_->rowCount(), rows); ++r)
    grid_->setRowStretch(r, r < rows ? 1 : 0);
  QWidget* last = add_;
  for (DashboardCard* card : cards_)
    for (QWidget* part : card->findChildren<QWidget*>())
      if (part->focusPolicy() & Qt::TabFocus) {
        QWidget::setTabOrder(last, part);
        last = part;
      }
  stacked_->setCurrentWidget(cards_.isEmpty() ? static_cast<QWidget*>(empty_) : area_);
  drop_->raise();
}

void DashboardView::connectCard(DashboardCard* card) {
  connect(card, &DashboardCard::editWanted, this, [this, card] { choosePlot(card->index()); });
  connect(card, &DashboardCard::removeWanted, this, [this, card] { removePlot(card->index()); });
  connect(card, &DashboardCard::logYChosen, this, [this, card](bool on) {
    DashboardPlot plot = shown_.plots[card->index()];
    plot.logY = on;
    editPlot(card->index(), tr("logarithmic y axis"), plot);
  });
  connect(card, &DashboardCard::moveWanted, this,
          [this, card](int by) { move(card->index(), card->index() + by); });
  connect(card, &DashboardCard::resizeWanted, this,
          [this, card](int columns, int rows) { resizePlot(card->index(), columns, rows); });
  connect(card, &DashboardCard::dragged, this, &DashboardView::showDrop);
  connect(card, &DashboardCard::dropped, this, [this, card](const QPoint& at, bool kept) {
    drop_->hide();
    if (!kept) return;
    const int to = placeAt(at);
    move(card->index(), to > card->index() ? to - 1 : to);
  });
}

// Before the plot under the pointer where that is in its left half, else after it; below all plots
// at the end.
int DashboardView::placeAt(const QPoint& global) const {
  const QPoint at = page_->mapFromGlobal(global);
  for (qsizetype i = 0; i < cards_.size(); ++i) {
    const QRect frame = cards_[i]->geometry();
    if (!frame.contains(at)) continue;
    return static_cast<int>(at.x() < frame.center().x() ? i : i + 1);
  }
  // Between plots: before the first that begins after the pointer, row by row.
  for (qsizetype i = 0; i < cards_.size(); ++i) {
    const QRect frame = cards_[i]->geometry();
    if (at.y() < frame.top() || (at.y() <= frame.bottom() && at.x() < frame.left()))
      return static_cast<int>(i);
  }
  return static_cast<int>(cards_.size());
}

void DashboardView::showDrop(const QPoint& global) {
  const QPoint inside = area_->viewport()->mapFromGlobal(global);
  area_->ensureVisible(inside.x() - page_->x(), inside.y() - page_->y(), 0, kSpaceXl);
  const int to = placeAt(global);
  const bool isLast = to >= cards_.size();
  if (cards_.isEmpty()) return;
  const QRect frame = cards_[isLast ? cards_.size() - 1 : to]->geometry();
  constexpr int kWidth = 4;
  const int x =
      isLast ? frame.right() + kSpaceM / 2 - kWidth / 2 : frame.left() - kSpaceM / 2 - kWidth / 2;
  drop_->setGeometry(std::clamp(x, 0, page_->width() - kWidth), frame.top(), kWidth,
                     frame.height());
  drop_->setStyleSheet(
      QString("background: %1; border-radius: 2px").arg(Theme::instance().color("accent").name()));
  drop_->show();
  drop_->raise();
}

QString DashboardView::freeName() const {
  const QStringList taken = store_.names();
  QString name = tr("My dashboard");
  for (int number = 2; taken.contains(name); ++number) name = tr("My dashboard %1").arg(number);
  return name;
}

void DashboardView::edit(const QString& text, Dashboard changed) {
  if (changed.name.isEmpty()) changed.name = freeName();
  if (changed == shown_) return;
  stack_.push(new Edit(*this, text, shown_, std::move(changed)));
}

void DashboardView::editPlot(int index, const QString& text, const DashboardPlot& plot) {
  Dashboard changed = shown_;
  changed.plots[index] = plot;
  if (changed.plots != shown_.plots) edit(text, std::move(changed));
}

void DashboardView::choosePlot(int index) {
  const bool isNew = index < 0;
  if (isNew && shown_.plots.size() >= Dashboard::kMostPlots) return;
  QStringList series;
  for (const std::string& name : document_.metrics()) series << QString::fromStdString(name);
  auto* dialog =
      new MetricDialog(series, isNew ? DashboardPlot() : shown_.plots.value(index), this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, this, [this, dialog, index, isNew] {
    if (!isNew) {
      if (index < shown_.plots.size()) editPlot(index, tr("edit of a plot"), dialog->plot());
      return;
    }
    Dashboard changed = shown_;
    changed.plots << dialog->plot();
    edit(tr("new plot"), std::move(changed));
    if (!cards_.isEmpty()) {
      cards_.back()->takeFocus();
      grid_->activate();
      area_->ensureWidgetVisible(cards_.back());
    }
  });
  dialog->open();
}

void DashboardView::move(int from, int to) {
  const int last = static_cast<int>(shown_.plots.size()) - 1;
  to = std::clamp(to, 0, last);
  if (from == to || from < 0 || from > last) return;
  Dashboard changed = shown_;
  changed.plots.move(from, to);
  edit(tr("move of a plot"), std::move(changed));
  cards_[to]->takeFocus();
  grid_->activate();
  area_->ensureWidgetVisible(cards_[to]);
}

void DashboardView::resizePlot(int index, int columns, int rows) {
  DashboardPlot plot = shown_.plots[index];
  // A plot that was as wide as the grid when it had more columns begins from what it has now.
  plot.width = std::clamp(std::min(plot.width, shown_.columns) + columns, 1, shown_.columns);
  plot.height = std::clamp(plot.height + rows, 1, Dashboard::kMostRows);
  editPlot(index, tr("size of a plot"), plot);
  cards_[index]->takeFocus();
}

void DashboardView::removePlot(int index) {
  Dashboard changed = shown_;
  changed.plots.removeAt(index);
  edit(tr("removal of a plot"), std::move(changed));
  if (cards_.isEmpty())
    empty_->button()->setFocus();
  else
    cards_[std::min<qsizetype>(index, cards_.size() - 1)]->takeFocus();
}

void DashboardView::askName(const QString& heading, const QString& accept, const QString& name,
                            const std::function<void(const QString&)>& then) {
  QStringList taken = store_.names();
  taken.removeAll(name == shown_.name ? name : QString());
  const auto check = [taken](const QString& chosen) -> NameDialog::Verdict {
    if (taken.contains(chosen)) return {false, tr("There is one of this name already.")};
    if (chosen.size() > Dashboard::kMostText) return {false, tr("The name is too long.")};
    return {};
  };
  auto* dialog = new NameDialog({heading, {}, accept}, name, check, this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, this, [dialog, then] { then(dialog->name()); });
  dialog->open();
}

void DashboardView::showMenu() {
  auto* menu = new QMenu(this);
  menu->setObjectName("dashboardOptionsMenu");
  menu->setAttribute(Qt::WA_DeleteOnClose);
  const auto add = [&](const char* name, const QString& text, auto action) {
    QAction* made = menu->addAction(text, this, action);
    made->setObjectName(name);
    return made;
  };
  const auto begin = [this](Dashboard dashboard) {
    store_.save(dashboard);
    open(dashboard.name);
    write();
  };
  add("dashboardNew", tr("New dashboard…"), [this, begin] {
    askName(tr("New dashboard"), tr("Create"), freeName(), [begin](const QString& name) {
      Dashboard fresh;
      fresh.name = name;
      begin(fresh);
    });
  });
  add("dashboardCopy", tr("Duplicate…"), [this, begin] {
    askName(tr("Duplicate the dashboard"), tr("Duplicate"), freeName(),
            [this, begin](const QString& name) {
              Dashboard copy = shown_;
              copy.name = name;
              begin(copy);
            });
  });
  add("dashboardRename", tr("Rename…"), [this] {
    askName(tr("Rename the dashboard"), tr("Rename"), shown_.name, [this](const QString& name) {
      Dashboard changed = shown_;
      changed.name = name;
      edit(tr("name of a dashboard"), std::move(changed));
    });
  })->setEnabled(!shown_.name.isEmpty());
  menu->addSeparator();
  add("dashboardDelete", tr("Delete"), [this] {
    stack_.push(new Edit(*this, tr("removal of a dashboard"), shown_, defaultDashboard()));
  })->setEnabled(!shown_.name.isEmpty());
  menu->popup(menu_->mapToGlobal(QPoint(0, menu_->height())));
}

void DashboardView::retranslate() {
  chooser_->setAccessibleName(tr("Dashboard"));
  setTexts(add_, tr("Add plot…"));
  columnsLabel_->setText(tr("Columns"));
  columns_->setAccessibleName(tr("Columns"));
  setTexts(menu_, tr("New, duplicate, rename or delete dashboards"));
  empty_->setTexts(tr("This dashboard has no plots"),
                   tr("Add plots of any metric of the run: of the training, of a rank, of a node "
                      "or a GPU. The dashboard is kept by its name and shows every run."),
                   tr("Add plot…"));
  fillChooser();
  for (DashboardCard* card : cards_) card->retranslate();
}

}  // namespace lockstep::ui
