#include "ui/pages/what_if_panel.h"

#include <QCheckBox>
#include <QComboBox>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QSlider>
#include <QSpinBox>
#include <QStackedWidget>
#include <QVBoxLayout>
#include <cmath>
#include <set>
#include <utility>

#include "app/whatif/what_if.h"
#include "engine/plan/traffic.h"
#include "ui/dialogs/command_dialog.h"
#include "ui/studio/background.h"
#include "ui/studio/run_document.h"
#include "ui/theme/error_text.h"
#include "ui/theme/format.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kRateSteps = 100;                    // of the slider
constexpr double kSlowest = 1e7, kFastest = 4e11;  // bit/s
constexpr int kPatience = 500;  // ms: a question that takes longer gives way to the next one

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
  bool isPlannedAnew = false;
  double stepSeconds = 0, samplesPerSecond = 0, error = 0;
  std::optional<Error> problem;
};

WhatIfPanel::Answer WhatIfPanel::replayed(const Studied& studied, const app::WhatIfChanges& changes,
                                          std::stop_token stop) {
  Answer out;
  out.isOfNothing = changes.empty();
  const auto answer = app::whatIf(studied.run, studied.replayed, changes, std::move(stop));
  if (!answer.ok()) {
    out.problem = answer.error();
    return out;
  }
  out.stepSeconds = answer->stepSeconds;
  out.samplesPerSecond = answer->samplesPerSecond;
  out.error = studied.replayed.error();
  return out;
}

WhatIfPanel::Answer WhatIfPanel::plannedAnew(const Studied& studied,
                                             const app::OtherSettings& settings,
                                             const std::string& folder,
                                             const std::stop_token& stop) {
  Answer out;
  out.isOfNothing = false;
  out.isPlannedAnew = true;
  const auto answer = [&]() -> Result<app::PlannedAnew> {
    LOCKSTEP_ASSIGN(const auto history, app::History::open(folder));
    return app::plannedAnew(*history, studied.run, studied.replayed, settings, stop);
  }();
  if (!answer.ok()) {
    out.problem = answer.error();
    return out;
  }
  out.stepSeconds = answer->stepSeconds;
  out.samplesPerSecond = answer->samplesPerSecond;
  out.error = answer->error;
  return out;
}

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
  command_ = makeLabel("whatIfCommand", this, "muted");
  command_->setTextFormat(Qt::PlainText);
  command_->setWordWrap(true);
  command_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  column->addWidget(command_);
  stack_->addWidget(page);
  card_->body()->addWidget(stack_, 1);
  layout->addWidget(card_, 1);
  QObject::connect(document_, &RunDocument::dataChanged, this, [this] { changed_ = true; });
  QObject::connect(document_, &RunDocument::rowChanged, this, [this] {
    if (isVisible() && document_->loaded() && !studied_) read();
  });
  retranslate();
}

WhatIfPanel::~WhatIfPanel() {
  stop_.request_stop();
  asking_.request_stop();
}

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
  ranksLabel_ = makeLabel("whatIfRanksLabel", this);
  ranks_ = new QSpinBox(this);
  ranks_->setObjectName("whatIfRanks");
  ranks_->setRange(0, app::kMostRanks);
  ranks_->setKeyboardTracking(false);  // a number that is typed is asked about once
  bf16_ = new QCheckBox(this);
  bf16_->setObjectName("whatIfBf16");
  grid->addWidget(ranksLabel_, 4, 0);
  grid->addWidget(ranks_, 4, 1);
  grid->addWidget(bf16_, 4, 2, 1, 2);
  ranksLabel_->setBuddy(ranks_);
  grid->setColumnStretch(2, 1);
  rankLabel_->setBuddy(rank_);
  linkLabel_->setBuddy(link_);
  for (QComboBox* choice : {rank_, link_})
    QObject::connect(choice, &QComboBox::currentIndexChanged, this, [this] { ask(); });
  QObject::connect(rate_, &QSlider::valueChanged, this, [this] { ask(); });
  QObject::connect(ranks_, &QSpinBox::valueChanged, this, [this] { ask(); });
  for (QCheckBox* choice : {ideal_, noBubble_, bf16_})
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
  }
  rank_->setCurrentIndex(rank < rank_->count() ? rank : 0);
  link_->setCurrentIndex(link < link_->count() ? link : 0);
  filling_ = false;
  enableChanges();
}

// A run that is planned anew is not replayed.
void WhatIfPanel::enableChanges() {
  const bool replays = settings().empty();
  const bool hasLink = link_->currentIndex() > 0 && !ideal_->isChecked();
  rank_->setEnabled(replays);
  link_->setEnabled(replays && link_->count() > 1);
  rate_->setEnabled(replays && hasLink);
  rateText_->setEnabled(replays && hasLink);
  rateText_->setText(bitRate(bytesPerSecond()));
  ideal_->setEnabled(replays && studied_ && !studied_->run.exchanges.empty());
  noBubble_->setEnabled(replays && studied_ && studied_->run.plan.mesh.servers() == 0 &&
                        studied_->run.plan.mesh.stages() > 1);
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

app::OtherSettings WhatIfPanel::settings() const {
  app::OtherSettings out;
  out.ranks = ranks_->value();
  if (bf16_->isChecked()) out.sets.emplace_back("training.precision=bf16");
  return out;
}

QString WhatIfPanel::command() const {
  QStringList words{"lockstep", "whatif", document_->run()};
  const app::OtherSettings anew = settings();
  if (!anew.empty()) {
    if (anew.ranks > 0) words << "--ranks" << QString::number(anew.ranks);
    for (const std::string& set : anew.sets) words << "--set" << QString::fromStdString(set);
    return words.join(' ');
  }
  const app::WhatIfChanges asked = changes();
  for (const int rank : asked.without) words << "--without" << QString::number(rank);
  for (const app::LinkRate& link : asked.links)
    words << "--link"
          << CommandDialog::quoted(QString::fromStdString(
                 fmt::format("{}-{}={:g}Gbit/s", link.a, link.b, 8e-9 * link.bytesPerSecond)));
  if (asked.idealNetwork) words << "--ideal-network";
  if (asked.noBubble) words << "--no-bubble";
  return words.join(' ');
}

void WhatIfPanel::ask() {
  if (filling_) return;
  enableChanges();
  command_->setText(command());
  if (!studied_) return;
  if (answering_) {
    askAgain_ = true;
    if (sinceAsked_.elapsed() > kPatience) asking_.request_stop();
    return;
  }
  answering_ = true;
  asking_ = std::stop_source();
  sinceAsked_.start();
  runInBackground(
      this,
      [studied = studied_, changes = changes(), settings = settings(),
       folder = document_->historyFolder(), stop = asking_.get_token()] {
        return settings.empty() ? replayed(*studied, changes, stop)
                                : plannedAnew(*studied, settings, folder, stop);
      },
      [this](Answer answer) {
        answering_ = false;
        const bool isCancelled = answer.problem && answer.problem->code == Code::kCancelled;
        if (!isCancelled) take(std::move(answer));
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
  const bool isAnew = answer_ && !answer_->problem && answer_->isPlannedAnew;
  error_->setValue(
      formatPercent(isAnew ? answer_->error : replayed.error(), 1),
      isAnew ? QString() : tr("%1 in a single step").arg(formatPercent(replayed.spread(), 1)));
  QString note =
      isAnew ? tr("Planned anew with the costs that were measured. The error is that of what did "
                  "happen, simulated with them.")
             : tr("Steps %1 to %2, of which %3 were replayed with their measured durations. The "
                  "error is that of a replay of what did happen.")
                   .arg(formatCount(studied_->run.steps.front()),
                        formatCount(studied_->run.steps.back()),
                        formatCount(static_cast<std::int64_t>(studied_->run.steps.size())));
  if (answer_ && answer_->problem) {
    const ErrorText text = describeError(*answer_->problem);
    note = text.why.isEmpty() ? text.what : QString("%1: %2").arg(text.what, text.why);
    changedStep_->setValue(QString("—"));
    throughput_->setValue(QString("—"));
  } else if (answer_) {
    const double seconds = answer_->stepSeconds;
    const double share = measured > 0 ? seconds / measured - 1 : 0;
    changedStep_->setValue(
        formatSeconds(seconds),
        answer_->isOfNothing ? QString() : (share > 0 ? "+" : "") + formatPercent(share, 1));
    throughput_->setValue(formatCount(std::llround(answer_->samplesPerSecond)));
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
  ranksLabel_->setText(tr("Another number of ranks:"));
  ranks_->setAccessibleName(tr("Another number of ranks"));
  ranks_->setSpecialValueText(tr("As in the run"));
  bf16_->setText(tr("Compute in bf16"));
  command_->setAccessibleName(tr("Command"));
  fillChoices();
  command_->setText(command());
  showProblem();
  refresh();
}

}  // namespace lockstep::ui
