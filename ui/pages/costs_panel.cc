#include "ui/pages/costs_panel.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QStackedWidget>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <utility>

#include "app/history/history.h"
#include "app/runs/rank_costs.h"
#include "ui/models/cost_model.h"
#include "ui/studio/background.h"
#include "ui/studio/run_document.h"
#include "ui/studio/without_reader.h"
#include "ui/theme/format.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kEveryMs = 1000;
constexpr int kRest = 5;  // times as long as the last reading took
constexpr int kAllSteps = 0;

// Columns as wide as their texts, but for one that takes the rest; so many rows in sight at least.
void fitColumns(QTableView* table, int rest, int rows) {
  QHeaderView* header = table->horizontalHeader();
  header->setSectionResizeMode(QHeaderView::ResizeToContents);
  header->setStretchLastSection(false);
  header->setSectionResizeMode(rest, QHeaderView::Stretch);
  table->setMinimumHeight((rows + 1) * table->verticalHeader()->defaultSectionSize());
}

}  // namespace

struct CostsPanel::Answer {
  app::RankCosts costs;
  int rank = -1;
  std::vector<app::PeerFigure> figures;  // of `rank`
};

CostsPanel::CostsPanel(RunDocument* document, QWidget* parent)
    : QWidget(parent),
      document_(document),
      without_(new WithoutReader(document->historyFolder(), document->run().toStdString(), this)) {
  setObjectName("costsPanel");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, kSpaceM, 0, 0);
  layout->setSpacing(kSpaceM);
  costCard_ = new Card("costCard", this);
  rows_ = new QComboBox(this);
  rows_->setObjectName("costRows");
  span_ = new QComboBox(this);
  span_->setObjectName("costSpan");
  for (int i = 0; i < 2; ++i) rows_->addItem({});
  for (const int steps : {100, 1000, kAllSteps}) span_->addItem({}, steps);
  span_->setCurrentIndex(2);
  find_ = makeToolButton("costFind", "search", this);
  auto* tools = new QHBoxLayout;
  tools->setSpacing(kSpaceS);
  tools->addWidget(rows_);
  tools->addWidget(span_);
  summary_ = makeLabel("costSummary", this, "muted");
  summary_->setWordWrap(true);
  tools->addWidget(summary_, 1);
  exclude_ = makeToolButton("costExclude", "disconnect", this);
  debug_ = makeToolButton("costDebug", "debug", this);
  for (QToolButton* button : {find_, exclude_, debug_}) tools->addWidget(button);
  costCard_->body()->addLayout(tools);
  costs_ = new CostModel(this);
  costTable_ = new QTableView(this);
  costTable_->setObjectName("costTable");
  costTable_->setModel(costs_);
  applyTableStyle(costTable_);
  costTable_->setSelectionMode(QAbstractItemView::SingleSelection);
  fitColumns(costTable_, CostModel::kNode, 4);
  empty_ = makeLabel("costEmpty", this, "muted");
  empty_->setAlignment(Qt::AlignCenter);
  empty_->setWordWrap(true);
  stack_ = new QStackedWidget(this);
  stack_->addWidget(empty_);
  stack_->addWidget(costTable_);
  costCard_->body()->addWidget(stack_, 1);
  layout->addWidget(costCard_, 1);
  peerCard_ = new Card("peerCard", this);
  peers_ = new PeerModel(this);
  peerTable_ = new QTableView(this);
  peerTable_->setObjectName("peerTable");
  peerTable_->setModel(peers_);
  applyTableStyle(peerTable_);
  fitColumns(peerTable_, PeerModel::kFigure, 9);
  peerCard_->body()->addWidget(peerTable_, 1);
  layout->addWidget(peerCard_, 1);
  connectParts();
  retranslate();
}

CostsPanel::~CostsPanel() = default;

void CostsPanel::connectParts() {
  again_.setInterval(kEveryMs);
  connect(&again_, &QTimer::timeout, this, [this] {
    if (isVisible() && std::exchange(changed_, false)) read();
  });
  again_.start();
  connect(document_, &RunDocument::dataChanged, this, [this] { changed_ = true; });
  connect(rows_, &QComboBox::currentIndexChanged, this, [this] {
    if (answer_) take(Answer(*answer_));
    choose();
  });
  connect(span_, &QComboBox::currentIndexChanged, this, [this] {
    without_->forget();
    read();
  });
  connect(without_, &WithoutReader::changed, this, [this] {
    showCosts();
    showSummary();
  });
  connect(costTable_->selectionModel(), &QItemSelectionModel::selectionChanged, this,
          &CostsPanel::choose);
  const auto showInMap = [this] {
    const app::RankCost* cost = costs_->at(costTable_->currentIndex().row());
    if (cost != nullptr && cost->lateSteps > 0) Q_EMIT shown(chosenRank(), cost->lastLate);
  };
  connect(find_, &QToolButton::clicked, this, showInMap);
  connect(debug_, &QToolButton::clicked, this, [this] { Q_EMIT debugWanted(chosenRank()); });
  connect(exclude_, &QToolButton::clicked, this, [this] {
    if (const app::RankCost* cost = costs_->at(costTable_->currentIndex().row()))
      Q_EMIT excludeWanted(QString::fromStdString(cost->node),
                           tr("The others waited for it %1, %2 of the time.")
                               .arg(formatSeconds(cost->seconds), formatPercent(cost->share, 1)));
  });
  connect(document_, &RunDocument::rowChanged, this, &CostsPanel::showSummary);
  connect(costTable_, &QTableView::activated, this, showInMap);
}

int CostsPanel::chosenRank() const {
  const app::RankCost* cost = costs_->at(costTable_->currentIndex().row());
  if (cost == nullptr || !answer_) return -1;
  if (cost->rank >= 0) return cost->rank;
  for (const app::RankCost& one : answer_->costs.ranks)
    if (one.node == cost->node) return one.rank;
  return -1;
}

void CostsPanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  showEmpty();
  read();
}

void CostsPanel::read() {
  if (document_->plan().isAsynchronous) return;
  if (std::exchange(reading_, true)) {
    readAgain_ = true;
    return;
  }
  took_.start();
  const app::StepMatrix& matrix = document_->steps();
  const int span = span_->currentData().toInt();
  const std::int64_t first =
      std::max(span == kAllSteps ? 1 : matrix.steps() - span + 1, document_->plan().sharesFrom);
  auto times = std::make_shared<app::StepTimes>(matrix, first, matrix.steps());
  runInBackground(
      this,
      [times, rank = chosenRank(), world = document_->row().world,
       nodes = document_->nodesOfRanks(), shares = document_->plan().shares,
       folder = document_->historyFolder(), run = document_->run().toStdString()] {
        Answer out;
        out.costs = app::rankCosts(*times, world, nodes, shares);
        if (out.costs.steps == 0) return out;
        out.rank = rank >= 0 ? rank : out.costs.ranks.front().rank;
        app::MeanOf meanOf = [](const std::string&) { return std::optional<double>(); };
        const auto history = app::History::open(folder);
        const auto store = history.ok() ? (*history)->openRun(run) : history.error();
        if (store.ok()) meanOf = app::storedMeans(**store, *times);
        out.figures = app::peerFigures(*times, out.rank, nodes, meanOf);
        return out;
      },
      [this](Answer answer) {
        reading_ = false;
        again_.setInterval(std::max<int>(kEveryMs, kRest * static_cast<int>(took_.elapsed())));
        take(std::move(answer));
        if (std::exchange(readAgain_, false)) read();
      });
}

void CostsPanel::take(Answer answer) {
  const int rank = chosenRank();
  const bool byNode = rows_->currentIndex() == 1;
  answer_ = std::make_unique<Answer>(std::move(answer));
  without_->ask({app::lateRanks(answer_->costs, shownCosts()), span_->currentData().toInt(),
                 document_->steps().steps()});
  taking_ = true;
  showCosts();
  int row = byNode ? 0 : std::max(0, costs_->rowOf(rank));
  if (byNode)
    for (const app::RankCost& one : answer_->costs.ranks)
      if (one.rank == rank)
        for (int r = 0; r < costs_->rowCount(); ++r)
          if (costs_->at(r)->node == one.node) row = r;
  costTable_->setCurrentIndex(costs_->index(row, 0));
  taking_ = false;
  stack_->setCurrentIndex(costs_->rowCount() > 0 && answer_->costs.steps > 0 ? 1 : 0);
  peers_->setFigures(answer_->figures, std::max(answer_->rank, 0));
  showSummary();
  showEmpty();
}

const std::vector<app::RankCost>& CostsPanel::shownCosts() const {
  return rows_->currentIndex() == 1 ? answer_->costs.nodes : answer_->costs.ranks;
}

void CostsPanel::showCosts() {
  if (!answer_) return;
  std::vector<double> replayed;
  if (const app::StepsWithout* steps = without_->answer())
    for (const app::RankCost& cost : shownCosts())
      replayed.push_back(steps->without(app::ranksOf(answer_->costs, cost)));
  if (std::all_of(replayed.begin(), replayed.end(), [](double one) { return std::isnan(one); }))
    replayed.clear();
  costs_->setCosts(shownCosts(), std::move(replayed));
}

void CostsPanel::showEmpty() {
  empty_->setText(document_->plan().isAsynchronous
                      ? tr("The ranks of asynchronous training do not wait for each other.")
                  : document_->loaded() && document_->row().world <= 1
                      ? tr("A run of one rank has no stragglers.")
                      : tr("Ranks are compared after the first steps."));
}

void CostsPanel::choose() {
  if (taking_) return;
  showSummary();
  if (chosenRank() >= 0 && chosenRank() != answer_->rank) read();
}

void CostsPanel::showSummary() {
  const app::RankCost* cost = costs_->at(costTable_->currentIndex().row());
  find_->setEnabled(cost != nullptr && cost->lateSteps > 0);
  exclude_->setEnabled(cost != nullptr && document_->canExclude());
  debug_->setEnabled(chosenRank() >= 0 && document_->canDebug());
  summary_->clear();
  if (!answer_ || answer_->costs.steps == 0) return;
  const app::RankCosts& all = answer_->costs;
  QString text =
      (all.atMost ? tr("Steps %1 to %2: a step takes at most %3.")
                  : tr("Steps %1 to %2: a step takes %3."))
          .arg(formatCount(all.first), formatCount(all.last), formatSeconds(all.stepSeconds));
  if (const app::StepsWithout* replayed = costs_->isReplayed() ? without_->answer() : nullptr)
    text +=
        ' ' + tr("Steps %1 to %2 replayed: %3, with an error of %4.")
                  .arg(formatCount(replayed->first), formatCount(replayed->last),
                       formatSeconds(replayed->measuredSeconds), formatPercent(replayed->error, 1));
  summary_->setText(text);
}

void CostsPanel::retranslate() {
  costCard_->setTitle(tr("Time that the others waited"));
  peerCard_->setTitle(tr("Beside its peers"));
  rows_->setItemText(0, tr("Ranks"));
  rows_->setItemText(1, tr("Nodes"));
  rows_->setAccessibleName(tr("Rows"));
  span_->setItemText(0, tr("Last 100 steps"));
  span_->setItemText(1, tr("Last 1,000 steps"));
  span_->setItemText(2, tr("All steps"));
  span_->setAccessibleName(tr("Steps"));
  setTexts(find_, tr("Show its last late step in the heat map"));
  setTexts(exclude_, tr("Exclude its node from the run"));
  setTexts(debug_, tr("Debug it: stacks, processes, kernel messages, a debugger"));
  showEmpty();
  costTable_->setAccessibleName(tr("Time that the others waited"));
  peerTable_->setAccessibleName(tr("Beside its peers"));
  costs_->retranslate();
  peers_->retranslate();
  showSummary();
}

}  // namespace lockstep::ui
