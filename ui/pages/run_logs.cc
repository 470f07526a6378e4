#include "ui/pages/run_logs.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLineEdit>
#include <QScrollBar>
#include <QTableView>
#include <QTimer>
#include <cmath>

#include "ui/studio/log_model.h"
#include "ui/theme/theme.h"
#include "ui/widgets/tables.h"

namespace lockstep::ui {
namespace {

constexpr int kAllRanks = -2;

}  // namespace

RunLogs::RunLogs(LogModel* logs, QWidget* parent) : QWidget(parent), logs_(logs) {
  setObjectName("runLogs");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, kSpaceM, 0, 0);
  layout->setSpacing(kSpaceS);
  auto* row = new QHBoxLayout;
  search_ = new QLineEdit(this);
  search_->setObjectName("logSearch");
  search_->setClearButtonEnabled(true);
  rank_ = new QComboBox(this);
  rank_->setObjectName("logRank");
  level_ = new QComboBox(this);
  level_->setObjectName("logLevel");
  row->addWidget(search_, 1);
  row->addWidget(rank_);
  row->addWidget(level_);
  layout->addLayout(row);
  filter_ = new LogFilter(this);
  filter_->setSourceModel(logs);
  table_ = new QTableView(this);
  table_->setObjectName("logTable");
  table_->setModel(filter_);
  applyTableStyle(table_);
  table_->setFont(Theme::instance().monospace());
  table_->verticalHeader()->setDefaultSectionSize(22);
  setColumns(table_, {120, 140, 400});
  layout->addWidget(table_, 1);
  connect(search_, &QLineEdit::textChanged, filter_, &LogFilter::setText);
  connect(rank_, &QComboBox::currentIndexChanged, this, [this] {
    filter_->setRank(rank_->currentData().isValid() ? rank_->currentData().toInt() : kAllRanks);
  });
  connect(level_, &QComboBox::currentIndexChanged, this,
          [this] { filter_->setLowestLevel(level_->currentData().toInt()); });
  connect(filter_, &QAbstractItemModel::rowsInserted, this, [this] {
    const QScrollBar* bar = table_->verticalScrollBar();
    if (bar->value() >= bar->maximum() - 2)
      QTimer::singleShot(0, table_, &QTableView::scrollToBottom);
  });
}

void RunLogs::setRanks(int world) {
  if (rank_->count() == world + 2) return;
  const QString rank = rank_->currentText();
  rank_->clear();
  rank_->addItem(tr("All ranks"), kAllRanks);
  rank_->addItem(tr("Supervisors"), -1);
  for (int i = 0; i < world; ++i) rank_->addItem(tr("rank %1").arg(i), i);
  rank_->setCurrentText(rank);
}

void RunLogs::find() {
  search_->setFocus(Qt::ShortcutFocusReason);
  search_->selectAll();
}

void RunLogs::showMoment(int rank, double seconds) {
  rank_->setCurrentIndex(std::max(0, rank_->findData(rank)));
  const int rows = filter_->rowCount();
  if (std::isnan(seconds) || rows == 0) return;
  // The last line before that moment, or the first one: lines are in the order of time.
  const auto wallNs = static_cast<qint64>(seconds * 1e9);
  int first = 0, last = rows;
  while (first < last) {
    const int middle = (first + last) / 2;
    if (filter_->index(middle, 0).data(LogModel::kTimeRole).toLongLong() <= wallNs)
      first = middle + 1;
    else
      last = middle;
  }
  const QModelIndex at = filter_->index(std::max(0, first - 1), 0);
  table_->setCurrentIndex(at);
  table_->scrollTo(at, QAbstractItemView::PositionAtCenter);
}

void RunLogs::showAllRanks() { rank_->setCurrentIndex(0); }

void RunLogs::retranslate() {
  search_->setPlaceholderText(tr("Find in logs"));
  search_->setAccessibleName(tr("Find in logs"));
  rank_->setAccessibleName(tr("Rank"));
  const int world = rank_->count() - 2, rank = rank_->currentIndex();
  rank_->clear();
  if (world >= 0) setRanks(world);
  rank_->setCurrentIndex(std::max(0, rank));
  level_->setAccessibleName(tr("Level"));
  const int level = level_->currentIndex();
  level_->clear();
  level_->addItem(tr("All lines"), 0);
  level_->addItem(tr("Warnings and errors"), 2);
  level_->addItem(tr("Errors"), 3);
  level_->setCurrentIndex(std::max(0, level));
  table_->setAccessibleName(tr("Log lines"));
  logs_->retranslate();
}

}  // namespace lockstep::ui
