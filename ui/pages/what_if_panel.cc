#include "ui/pages/what_if_panel.h"

#include <QCheckBox>
#include <QComboBox>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QSlider>
#include <QStackedWidget>
#include <QVBoxLayout>
#include <cmath>
#include <set>
#include <utility>

#include "app/whatif/what_if.h"
#include "engine/plan/traffic.h"
#include "ui/studio/background.h"
#include "ui/studio/run_document.h"
#include "ui/theme/error_text.h"
#include "ui/theme/format.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kRateSteps = 100;                    // of the slider
constexpr double kSlowest = 1e7, kFastest = 4e11;  // bit/s

QString bitRate(double bytesPerSecond) {
  const double bits = 8 * bytesPerSecond;
  return bits >= 1e9 ? QString("%1 Gbit/s").arg(formatNumber(bits / 1e9, 3))
                     : QString("%1 Mbit/s").arg(formatNumber(bits / 1e6, 3));
}

}  // namespace

struct WhatIfPanel::Studied {
  app::MeasuredRun run;
  app::Replayed replayed;
  std::vector<std::pair<std::string, std::string>> links;  // between nodes that exchange something
};

struct WhatIfPanel::Answer {
  bool isOfNothing = true;  // nothing is changed
  app::WhatIfAnswer what;
  std::optional<Error> problem;
};

WhatIfPanel::WhatIfPanel(RunDocument* document, QWidget* parent)
    : QWidget(parent), document_(document) {
  setObjectName("whatIfPanel");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, kSpaceM, 0, 0);
  card_ = new Card("whatIfCard", this);
  stack_ = new QStackedWidget(this);
  empty_ = makeLabel("whatIfEmpty", this, "muted");
  empty_->setAlignment(Qt::AlignCenter);
  empty_->setWordWrap(true);
  stack_->addWidget(empty_);
  auto* page = new QWidget(this);
  auto* column = new QVBoxLayout(page);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(kSpaceXl);
  column->addWidget(buildChanges());
  auto* figures = new QHBoxLayout;
  figures->setSpacing(kSpaceXl);
  measured_ = new Figure("whatIfMeasured", this);
  changedStep_ = new Figure("whatIfStep", this);
  throughput_ = new Figure("whatIfThroughput", this);
  error_ = new Figure("whatIfError", this);
  for (Figure* figure : {measured_, changedStep_, throughput_, error_})
    figures->addWidget(figure, 1);
  column->addLayout(figures);
  note_ = makeLabel("whatIfNote", this, "muted");
  note_->setWordWrap(true);
  column->addWidget(note_);
  stack_->addWidget(page);
  card_->body()->addWidget(stack_, 1);
  layout->addWidget(card_, 1);
  QObject::connect(document_, &RunDocument::dataChanged, this, [this] { changed_ = true; });
  QObject::connect(document_, &RunDocument::rowChanged, this, [this] {
    if (isVisible() && document_->loaded() && !studied_) read();
  });
  retranslate();
}

WhatIfPanel::~WhatIfPanel() { stop_.request_stop(); }

QWidget* WhatIfPanel::buildChanges() {
  auto* box = new QWidget(this);
  auto* grid = new QGridLayout(box);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(kSpaceM);
  grid->setVerticalSpacing(kSpaceM);
  rankLabel_ = makeLabel("whatIfRankLabel", this);
  rank_ = new QComboBox(this);
  rank_->setObjectName("whatIfRank");
  linkLabel_ = makeLabel("whatIfLinkLabel", this);
  link_ = new QComboBox(this);
  link_->setObjectName("whatIfLink");
  rate_ = new QSlider(Qt::Horizontal, this);
  rate_->setObjectName("whatIfRate");
  rate_->setRange(0, kRateSteps);
  rate_->setValue(kRateSteps * 2 / 3);
  rateText_ = makeLabel("whatIfRateText", this);
  ideal_ = new QCheckBox(this);
  ideal_->setObjectName("whatIfIdealNetwork");
  noBubble_ = new QCheckBox(this);
  noBubble_->setObjectName("whatIfNoBubble");
  grid->addWidget(rankLabel_, 0, 0);
  grid->addWidget(rank_, 0, 1);
  grid->addWidget(linkLabel_, 1, 0);
  grid->addWidget(link_, 1, 1);
  grid->addWidget(rate_, 1, 2);
  grid->addWidget(rateText_, 1, 3);
  grid->addWidget(ideal_, 2, 0, 1, 4);
  grid->addWidget(noBubble_, 3, 0, 1, 4);
  grid->setColumnStretch(2, 1);
  rankLabel_->setBuddy(rank_);
  linkLabel_->setBuddy(link_);
  for (QComboBox* choice : {rank_, link_})
    QObject::connect(choice, &QComboBox::currentIndexChanged, this, [this] { ask(); });
  QObject::connect(rate_, &QSlider::valueChanged, this, [this] { ask(); });
  for (QCheckBox* choice : {ideal_, noBubble_})
    QObject::connect(choice, &QCheckBox::toggled, this, [this] { ask(); });
  return box;
}

void WhatIfPanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (document_->loaded() && changed_) read();
}

void WhatIfPanel::read() {
  if (std::exchange(reading_, true)) return;
  changed_ = false;
  showProblem();
  runInBackground(
      this,
      [folder = document_->historyFolder(), run = document_->run().toStdString(),
       stop = stop_.get_token()]() -> Result<std::shared_ptr<const Studied>> {
        LOCKSTEP_ASSIGN(const auto history, app::History::open(folder));
        LOCKSTEP_ASSIGN(const app::RunRow row, history->row(run));
        auto out = std::make_shared<Studied>();
        LOCKSTEP_ASSIGN(out->run, app::readMeasuredRun(*history, row, 0, stop));
        out->replayed = app::replayOf(out->run, stop);
        LOCKSTEP_TRY(app::unlessStopped(stop));
        std::set<std::pair<std::string, std::string>> links;
        if (!out->run.nodes.empty())
          for (const plan::Traffic& sent : plan::stepTraffic(out->run.plan)) {
            const std::string& from = out->run.nodes[static_cast<std::size_t>(sent.from)];
            const std::string& to = out->run.nodes[static_cast<std::size_t>(sent.to)];
            if (from != to) links.insert(std::minmax(from, to));
          }
        out->links.assign(links.begin(), links.end());
        return std::shared_ptr<const Studied>(std::move(out));
      },
      [this](Result<std::shared_ptr<const Studied>> studied) {
        reading_ = false;
        problem_.reset();
        if (studied.ok())
          take(std::move(*studied));
        else
          problem_ = studied.error();
        showProblem();
      });
}

void WhatIfPanel::take(std::shared_ptr<const Studied> studied) {
  studied_ = std::move(studied);
  fillChoices();
  ask();
}

void WhatIfPanel::fillChoices() {
  filling_ = true;
  const int rank = std::max(rank_->currentIndex(), 0);
  const int link = std::max(link_->currentIndex(), 0);
  rank_->clear();
  link_->clear();
  rank_->addItem(tr("No rank"));
  link_->addItem(tr("No link"));
  if (studied_) {
    const app::MeasuredRun& run = studied_->run;
    for (std::size_t r = 0; r < run.ranks.size(); ++r)
      rank_->addItem(run.nodes.empty()
                         ? tr("Rank %1").arg(r)
                         : tr("Rank %1 (%2)").arg(r).arg(QString::fromStdString(run.nodes[r])));
    for (const auto& [a, b] : studied_->links)
      link_->addItem(QString("%1 – %2").arg(QString::fromStdString(a), QString::fromStdString(b)));
    ideal_->setEnabled(!run.exchanges.empty());
    noBubble_->setEnabled(run.plan.mesh.servers() == 0 && run.plan.mesh.stages() > 1);
  }
  rank_->setCurrentIndex(rank < rank_->count() ? rank : 0);
  link_->setCurrentIndex(link < link_->count() ? link : 0);
  link_->setEnabled(link_->count() > 1);
  filling_ = false;
}

double WhatIfPanel::bytesPerSecond() const {
  const double share = static_cast<double>(rate_->value()) / kRateSteps;
  const double bits = kSlowest * std::pow(kFastest / kSlowest, share);
  const double unit = std::pow(10.0, std::floor(std::log10(bits)) - 1);  // two digits
  return std::round(bits / unit) * unit / 8;
}

app::WhatIfChanges WhatIfPanel::changes() const {
  app::WhatIfChanges out;
  if (rank_->currentIndex() > 0) out.without.push_back(rank_->currentIndex() - 1);
  if (studied_ && link_->currentIndex() > 0) {
    const auto& [a, b] = studied_->links[static_cast<std::size_t>(link_->currentIndex() - 1)];
    out.links.push_back({a, b, bytesPerSecond()});
  }
  out.idealNetwork = ideal_->isEnabled() && ideal_->isChecked();
  out.noBubble = noBubble_->isEnabled() && noBubble_->isChecked();
  return out;
}

void WhatIfPanel::ask() {
  if (filling_) return;
  const bool hasLink = link_->currentIndex() > 0 && !ideal_->isChecked();
  rate_->setEnabled(hasLink);
  rateText_->setEnabled(hasLink);
  rateText_->setText(bitRate(bytesPerSecond()));
  if (!studied_) return;
  if (answering_) {
    askAgain_ = true;
    return;
  }
  answering_ = true;
  runInBackground(
      this,
      [studied = studied_, changes = changes(), stop = stop_.get_token()] {
        Answer out{changes.empty(), {}, {}};
        auto answer = app::whatIf(studied->run, studied->replayed, changes, stop);
        if (answer.ok())
          out.what = std::move(*answer);
        else
          out.problem = answer.error();
        return out;
      },
      [this](Answer answer) {
        answering_ = false;
        take(std::move(answer));
        if (std::exchange(askAgain_, false)) ask();
      });
}

void WhatIfPanel::take(Answer answer) {
  answer_ = std::make_unique<Answer>(std::move(answer));
  refresh();
}

void WhatIfPanel::refresh() {
  if (!studied_) return;
  const app::Replayed& replayed = studied_->replayed;
  const double measured = replayed.measuredSeconds();
  measured_->setValue(formatSeconds(measured));
  error_->setValue(formatPercent(replayed.error(), 1),
                   tr("%1 in a single step").arg(formatPercent(replayed.spread(), 1)));
  QString note =
      tr("Steps %1 to %2, of which %3 were replayed with their measured durations. The "
         "error is that of a replay of what did happen.")
          .arg(formatCount(studied_->run.steps.front()), formatCount(studied_->run.steps.back()),
               formatCount(static_cast<std::int64_t>(studied_->run.steps.size())));
  if (answer_ && answer_->problem) {
    note = describeError(*answer_->problem).what;
    changedStep_->setValue(QString("—"));
    throughput_->setValue(QString("—"));
  } else if (answer_) {
    const double seconds = answer_->what.stepSeconds;
    const double share = measured > 0 ? seconds / measured - 1 : 0;
    changedStep_->setValue(
        formatSeconds(seconds),
        answer_->isOfNothing ? QString() : (share > 0 ? "+" : "") + formatPercent(share, 1));
    throughput_->setValue(formatCount(std::llround(answer_->what.samplesPerSecond)));
  }
  note_->setText(note);
}

void WhatIfPanel::showProblem() {
  stack_->setCurrentIndex(studied_ && !problem_ ? 1 : 0);
  if (!problem_) {
    empty_->setText(tr("The run's steps are being read."));
    return;
  }
  const ErrorText text = describeError(*problem_);
  QStringList lines{text.what, text.why, text.next};
  lines.removeAll(QString());
  empty_->setText(lines.join("\n"));
}

void WhatIfPanel::retranslate() {
  card_->setTitle(tr("What if"));
  rankLabel_->setText(tr("As fast as its peers:"));
  linkLabel_->setText(tr("Another rate of link:"));
  rank_->setAccessibleName(tr("Rank that is as fast as its peers"));
  link_->setAccessibleName(tr("Link with another rate"));
  rate_->setAccessibleName(tr("Rate of the link"));
  ideal_->setText(tr("An ideal network: nothing takes time to travel"));
  noBubble_->setText(tr("No bubble: the stages of a pipeline do not wait for each other"));
  measured_->setName(tr("Measured step"));
  changedStep_->setName(tr("Step with the change"));
  throughput_->setName(tr("Samples per second"));
  error_->setName(tr("Error of the replay"));
  fillChoices();
  rateText_->setText(bitRate(bytesPerSecond()));
  rate_->setEnabled(link_->currentIndex() > 0 && !ideal_->isChecked());
  showProblem();
  refresh();
}

}  // namespace lockstep::ui
