#include "ui/pages/run_logs.h"

#include <QComboBox>
#include <QDateTime>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLineEdit>
#include <QPushButton>
#include <QScrollBar>
#include <QSignalBlocker>
#include <QTableView>
#include <QTimer>
#include <algorithm>
#include <cmath>
#include <utility>

#include "ui/studio/log_reader.h"
#include "ui/theme/format.h"
#include "ui/theme/theme.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

RunLogs::RunLogs(LogModel* tail, std::string historyFolder, std::string run, QWidget* parent)
    : QWidget(parent),
      tail_(tail),
      found_(new LogModel(this)),
      filter_(new LogFilter(this)),
      reader_(new LogReader(std::move(historyFolder), std::move(run), this)) {
  setObjectName("runLogs");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, kSpaceM, 0, 0);
  layout->setSpacing(kSpaceS);
  layout->addLayout(makeFilters());
  layout->addLayout(makeState());
  filter_->setLines(tail_);
  table_ = new QTableView(this);
  table_->setObjectName("logTable");
  table_->setModel(filter_);
  applyTableStyle(table_);
  table_->setFont(Theme::instance().monospace());
  table_->verticalHeader()->setDefaultSectionSize(22);
  setColumns(table_, {120, 140, 400});
  layout->addWidget(table_, 1);
  connectFilters();
  connect(reader_, &LogReader::found, this, &RunLogs::take);
  connect(reader_, &LogReader::failed, this, &RunLogs::giveUp);
  connect(filter_, &QAbstractItemModel::rowsInserted, this, [this] {
    const QScrollBar* bar = table_->verticalScrollBar();
    if (filter_->lines() == tail_ && bar->value() >= bar->maximum() - 2)
      QTimer::singleShot(0, table_, &QTableView::scrollToBottom);
  });
  connect(tail_, &QAbstractItemModel::rowsInserted, this, [this] {
    hasNoError_ = false;
    refreshState();
  });
}

QHBoxLayout* RunLogs::makeFilters() {
  auto* row = new QHBoxLayout;
  search_ = new QLineEdit(this);
  search_->setObjectName("logSearch");
  search_->setClearButtonEnabled(true);
  rank_ = new QComboBox(this);
  rank_->setObjectName("logRank");
  rank_->setMinimumContentsLength(14);  // a node may have a long name
  rank_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  level_ = new QComboBox(this);
  level_->setObjectName("logLevel");
  firstError_ = makeButton("logFirstError", "error", this);
  row->addWidget(search_, 1);
  row->addWidget(rank_);
  row->addWidget(level_);
  row->addWidget(firstError_);
  return row;
}

// Which lines are shown, and the way back to the tail.
QHBoxLayout* RunLogs::makeState() {
  auto* row = new QHBoxLayout;
  state_ = new ElidedLabel("logShown", this, "muted");
  newest_ = makeButton("logNewest", "down", this, "link");
  QSizePolicy policy = newest_->sizePolicy();
  policy.setRetainSizeWhenHidden(true);
  newest_->setSizePolicy(policy);
  newest_->hide();
  row->addWidget(state_, 1);
  row->addWidget(newest_);
  return row;
}

void RunLogs::connectFilters() {
  connect(search_, &QLineEdit::textChanged, this, &RunLogs::search);
  connect(level_, &QComboBox::currentIndexChanged, this, &RunLogs::search);
  connect(rank_, &QComboBox::currentIndexChanged, this, [this] { showFrom(stored_); });
  connect(firstError_, &QPushButton::clicked, this, &RunLogs::showFirstError);
  connect(newest_, &QPushButton::clicked, this, &RunLogs::showTail);
}

void RunLogs::setRanks(int world, const std::vector<std::string>& nodes) {
  if (world_ == world && nodes_ == nodes) return;
  world_ = world;
  nodes_ = nodes;
  fillRanks();
}

// Keeps the choice where it is still there.
void RunLogs::fillRanks() {
  const QVariant chosen = rank_->currentData();
  {
    const QSignalBlocker blocker(rank_);
    rank_->clear();
    rank_->addItem(tr("All ranks"), LogQuery::kAllRanks);
    rank_->addItem(tr("Supervisors"), -1);
    for (int i = 0; i < world_; ++i) rank_->addItem(tr("rank %1").arg(i), i);
    if (nodes_.size() > 1) {
      for (const std::string& node : nodes_) {
        const QString name = QString::fromStdString(node);
        rank_->addItem(tr("node %1").arg(name), name);
      }
    }
    rank_->setCurrentIndex(std::max(0, rank_->findData(chosen)));
  }
  if (chosen.isValid() && rank_->currentData() != chosen) showFrom(stored_);
}

LogQuery RunLogs::query() const {
  LogQuery out;
  out.text = search_->text();
  out.level = level_->currentData().toInt();
  const QVariant chosen = rank_->currentData();
  if (chosen.typeId() == QMetaType::QString)
    out.node = chosen.toString();
  else if (chosen.isValid())
    out.rank = chosen.toInt();
  return out;
}

void RunLogs::find() {
  search_->setFocus(Qt::ShortcutFocusReason);
  search_->selectAll();
}

// The one place that decides what is shown. Until lines from the store are there, the filter
// applies to those that are.
void RunLogs::showFrom(const std::optional<Target>& stored) {
  stored_ = stored;
  hasNoError_ = false;
  filter_->setQuery(query());
  if (stored_) {
    reader_->read({query(), stored_->wallNs});
  } else {
    reader_->cancel();
    filter_->setLines(tail_);
    found_->clear();
  }
  refreshState();
}

// Over the whole run, where the tail is not all of it.
void RunLogs::search() {
  const bool isNarrow = !search_->text().isEmpty() || level_->currentData().toInt() > 0;
  if (isNarrow && !tail_->isComplete())
    showFrom(Target{LogRequest::kNewest});
  else
    showFrom({});
}

void RunLogs::showTail() {
  showFrom({});
  table_->scrollToBottom();
}

void RunLogs::show(const Target& target) {
  showFrom({});
  const bool isInTail = target.wallNs > tail_->missingUntil() && rowOf(target) >= 0;
  if (isInTail || tail_->isComplete())
    select(target);
  else
    showFrom(target);
}

void RunLogs::showMoment(int rank, double seconds) {
  stored_.reset();
  rank_->setCurrentIndex(std::max(0, rank_->findData(rank)));
  if (std::isnan(seconds))
    showFrom({});
  else
    show({static_cast<qint64>(std::max(0.0, seconds) * 1e9)});
}

void RunLogs::showAllRanks() {
  stored_.reset();
  rank_->setCurrentIndex(0);
  search();
}

// Of the chosen rank or node, whatever was searched.
void RunLogs::showFirstError() {
  search_->clear();
  showFrom({});
  LogQuery errors = query();
  errors.level = LogQuery::kErrors;
  reader_->read({errors, LogRequest::kOldest, 1});
  refreshState();
}

void RunLogs::take(const LogResult& result) {
  if (!stored_) {  // the first error was wanted
    hasNoError_ = result.lines.isEmpty();
    if (hasNoError_) return refreshState();
    return show({result.lines.front().wallNs, result.lines.front()});
  }
  found_->clear();
  found_->append(result.lines);
  filter_->setLines(found_);
  isCut_ = result.isCut;
  select(*stored_);
  refreshState();
}

void RunLogs::giveUp(const Error& error) {
  showFrom({});
  Q_EMIT failed(error);
}

int RunLogs::rowOf(const Target& target) const {
  int first = 0, last = filter_->rowCount();
  while (first < last) {
    const int middle = (first + last) / 2;
    if (filter_->line(middle).wallNs <= target.wallNs)
      first = middle + 1;
    else
      last = middle;
  }
  int row = first - 1;
  if (!target.line) return row;
  while (row >= 0 && filter_->line(row).wallNs == target.wallNs) {
    if (filter_->line(row) == *target.line) return row;
    --row;
  }
  return -1;
}

void RunLogs::select(const Target& target) {
  int row = rowOf(target);
  if (row < 0) row = rowOf({target.wallNs});
  const QModelIndex at = filter_->index(std::max(0, row), 0);
  table_->setCurrentIndex(at);
  table_->scrollTo(at, QAbstractItemView::PositionAtCenter);
}

void RunLogs::refreshState() {
  newest_->setVisible(filter_->lines() == found_ || reader_->isReading());
  state_->setText(stateText());
}

QString RunLogs::stateText() const {
  if (reader_->isReading()) return tr("Reading the log of the whole run…");
  if (hasNoError_ && rank_->currentIndex() > 0)
    return tr("No error in the lines of %1").arg(rank_->currentText());
  if (hasNoError_) return tr("No error in the log of the run");
  if (filter_->lines() == tail_) {
    if (tail_->isComplete()) return tr("All lines of the run");
    return tr("The newest %1 lines of the run").arg(formatCount(tail_->rowCount()));
  }
  const QString count = formatCount(found_->rowCount());
  if (stored_ && stored_->wallNs != LogRequest::kNewest) {
    const QDateTime moment = QDateTime::fromMSecsSinceEpoch(stored_->wallNs / 1'000'000);
    return tr("Lines around %1, from the run's history").arg(moment.toString("HH:mm:ss.zzz"));
  }
  if (isCut_)
    return tr("Search of the whole run: the newest %1 matching lines; older ones are not shown")
        .arg(count);
  return tr("Search of the whole run: matching lines: %1").arg(count);
}

void RunLogs::retranslate() {
  search_->setPlaceholderText(tr("Find in logs"));
  search_->setAccessibleName(tr("Find in logs"));
  rank_->setAccessibleName(tr("Rank or node"));
  fillRanks();
  level_->setAccessibleName(tr("Level"));
  const int level = level_->currentIndex();
  {
    const QSignalBlocker blocker(level_);
    level_->clear();
    level_->addItem(tr("All lines"), 0);
    level_->addItem(tr("Warnings and errors"), 2);
    level_->addItem(tr("Errors"), LogQuery::kErrors);
    level_->setCurrentIndex(std::max(0, level));
  }
  setTexts(firstError_, tr("First error"),
           tr("Go to the first error in the log of the run, or of the chosen rank or node"));
  setTexts(newest_, tr("Newest lines"), tr("Show the newest lines, and new ones as they arrive"));
  table_->setAccessibleName(tr("Log lines"));
  tail_->retranslate();
  found_->retranslate();
  refreshState();
}

}  // namespace lockstep::ui
