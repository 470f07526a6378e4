#include "ui/dialogs/what_if_panel.h"

#include <QCheckBox>
#include <QComboBox>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QSlider>
#include <QSpinBox>
#include <QStackedWidget>
#include <QVBoxLayout>
#include <cmath>
#include <utility>

#include "engine/base/shell_text.h"
#include "ui/studio/background.h"
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

WhatIfSource whatIfOfRun(const std::string& historyFolder, const QString& run) {
  WhatIfSource out;
  out.read = [historyFolder,
              run = run.toStdString()](const std::stop_token& stop) -> Result<app::WhatIfSubject> {
    LOCKSTEP_ASSIGN(const auto history, app::History::open(historyFolder));
    LOCKSTEP_ASSIGN(const app::RunRow row, history->row(run));
    return app::subjectOf(*history, row, 0, stop);
  };
  out.command = [run](const QStringList& change) {
    std::vector<std::string> words{"lockstep", "whatif", run.toStdString()};
    for (const QString& word : change) words.push_back(word.toStdString());
    return QString::fromStdString(shellLine(words));
  };
  return out;
}

struct WhatIfPanel::Answer {
  bool isOfNothing = true;  // nothing is changed
  bool isPlannedAnew = false;
  double stepSeconds = 0, samplesPerSecond = 0, error = 0;
  std::optional<Error> problem;
};

WhatIfPanel::Answer WhatIfPanel::replayed(const app::WhatIfSubject& subject,
                                          const app::WhatIfChanges& changes, std::stop_token stop) {
  Answer out;
  out.isOfNothing = changes.empty();
  const auto answer = app::whatIf(subject.steps, subject.replayed, changes, std::move(stop));
  if (!answer.ok()) {
    out.problem = answer.error();
    return out;
  }
  out.stepSeconds = answer->stepSeconds;
  out.samplesPerSecond = answer->samplesPerSecond;
  out.error = subject.replayed.error();
  return out;
}

WhatIfPanel::Answer WhatIfPanel::plannedAnew(const app::WhatIfSubject& subject,
                                             const app::OtherSettings& settings,
                                             const std::stop_token& stop) {
  Answer out;
  out.isOfNothing = false;
  out.isPlannedAnew = true;
  const auto answer = [&]() -> Result<app::PlannedAnew> {
    if (!subject.launched.ok()) return subject.launched.error();
    return app::plannedAnew(*subject.launched, subject.steps, subject.replayed, settings, stop);
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

WhatIfPanel::WhatIfPanel(QWidget* parent) : QWidget(parent) {
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

void WhatIfPanel::setSource(WhatIfSource source) {
  stop_.request_stop();
  asking_.request_stop();
  stop_ = std::stop_source();
  ++generation_;
  source_ = std::move(source);
  subject_.reset();
  answer_.reset();
  problem_.reset();
  reading_ = answering_ = askAgain_ = false;
  changed_ = true;
  showCommand();
  showProblem();
  if (isVisible()) read();
}

void WhatIfPanel::noteChange() { changed_ = true; }

void WhatIfPanel::retry() {
  if (isVisible() && !subject_) read();
}

void WhatIfPanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (changed_) read();
}

void WhatIfPanel::keyPressEvent(QKeyEvent* event) {
  if (event->key() != Qt::Key_Return && event->key() != Qt::Key_Enter)
    QWidget::keyPressEvent(event);
}

void WhatIfPanel::read() {
  if (!source_.read || std::exchange(reading_, true)) return;
  changed_ = false;
  showProblem();
  runInBackground(
      this,
      [read = source_.read, stop = stop_.get_token()]() -> Result<Subject> {
        LOCKSTEP_ASSIGN(app::WhatIfSubject subject, read(stop));
        return std::make_shared<const app::WhatIfSubject>(std::move(subject));
      },
      [this, generation = generation_](Result<Subject> subject) {
        if (generation != generation_) return;
        reading_ = false;
        problem_.reset();
        if (subject.ok())
          take(std::move(*subject));
        else
          problem_ = subject.error();
        showProblem();
      });
}

void WhatIfPanel::take(Subject subject) {
  subject_ = std::move(subject);
  fillChoices();
  ask();
}

void WhatIfPanel::fillChoices() {
  filling_ = true;
  const int rank = std::max(rank_->currentIndex(), 0);
  const QString link = link_->currentText();  // with other settings it is another one of them
  rank_->clear();
  link_->clear();
  rank_->addItem(tr("No rank"));
  link_->addItem(tr("No link"));
  if (subject_) {
    const app::MeasuredRun& run = subject_->steps;
    for (std::size_t r = 0; r < run.ranks.size(); ++r)
      rank_->addItem(run.nodes.empty()
                         ? tr("Rank %1").arg(r)
                         : tr("Rank %1 (%2)").arg(r).arg(QString::fromStdString(run.nodes[r])));
    for (const auto& [a, b] : subject_->links)
      link_->addItem(QString("%1 – %2").arg(QString::fromStdString(a), QString::fromStdString(b)));
  }
  rank_->setCurrentIndex(rank < rank_->count() ? rank : 0);
  link_->setCurrentIndex(std::max(link_->findText(link), 0));
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
  ideal_->setEnabled(replays && subject_ && !subject_->steps.exchanges.empty());
  noBubble_->setEnabled(replays && subject_ && subject_->steps.plan.mesh.servers() == 0 &&
                        subject_->steps.plan.mesh.stages() > 1);
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
  if (subject_ && link_->currentIndex() > 0) {
    const auto [a, b] = subject_->links[static_cast<std::size_t>(link_->currentIndex() - 1)];
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

QStringList WhatIfPanel::changeWords() const {
  QStringList words;
  const app::OtherSettings anew = settings();
  if (anew.ranks > 0) words << "--with" << QString("ranks=%1").arg(anew.ranks);
  for (const std::string& set : anew.sets) words << "--with" << QString::fromStdString(set);
  if (!anew.empty()) return words;
  const app::WhatIfChanges asked = changes();
  for (const int rank : asked.without) words << "--without" << QString::number(rank);
  for (const app::LinkRate& link : asked.links)
    words << "--link"
          << QString::fromStdString(
                 fmt::format("{}-{}={:g}Gbit/s", link.a, link.b, 8e-9 * link.bytesPerSecond));
  if (asked.idealNetwork) words << "--ideal-network";
  if (asked.noBubble) words << "--no-bubble";
  return words;
}

void WhatIfPanel::showCommand() {
  command_->setText(source_.command ? source_.command(changeWords()) : QString());
}

void WhatIfPanel::ask() {
  if (filling_) return;
  enableChanges();
  showCommand();
  if (!subject_) return;
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
      [subject = subject_, changes = changes(), settings = settings(), stop = asking_.get_token()] {
        return settings.empty() ? replayed(*subject, changes, stop)
                                : plannedAnew(*subject, settings, stop);
      },
      [this, generation = generation_](Answer answer) {
        if (generation != generation_) return;
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

QString WhatIfPanel::noteText() const {
  if (answer_ && answer_->problem) {
    const ErrorText text = describeError(*answer_->problem);
    return text.why.isEmpty() ? text.what : QString("%1: %2").arg(text.what, text.why);
  }
  const bool isAnew = answer_ && answer_->isPlannedAnew;
  if (subject_->isPredicted())
    return isAnew ? tr("Planned anew with the costs of the prediction.")
                  : tr("The predicted step is simulated with the change. How good the prediction "
                       "is, the run tells.");
  if (isAnew)
    return tr(
        "Planned anew with the costs that were measured. The error is that of what did "
        "happen, simulated with them.");
  const std::vector<std::int64_t>& steps = subject_->steps.steps;
  return tr("Steps %1 to %2, of which %3 were replayed with their measured durations. The error is "
            "that of a replay of what did happen.")
      .arg(formatCount(steps.front()), formatCount(steps.back()),
           formatCount(static_cast<std::int64_t>(steps.size())));
}

void WhatIfPanel::refresh() {
  const bool isPredicted = subject_ && subject_->isPredicted();
  measured_->setName(isPredicted ? tr("Predicted step") : tr("Measured step"));
  error_->setVisible(!isPredicted);
  if (!subject_) return;
  const app::Replayed& replayed = subject_->replayed;
  const double measured = replayed.measuredSeconds();
  measured_->setValue(formatSeconds(measured));
  const bool isAnew = answer_ && !answer_->problem && answer_->isPlannedAnew;
  error_->setValue(
      formatPercent(isAnew ? answer_->error : replayed.error(), 1),
      isAnew ? QString() : tr("%1 in a single step").arg(formatPercent(replayed.spread(), 1)));
  if (answer_ && answer_->problem) {
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
  note_->setText(noteText());
}

void WhatIfPanel::showProblem() {
  stack_->setCurrentIndex(subject_ && !problem_ ? 1 : 0);
  if (!problem_) {
    empty_->setText(source_.read ? tr("The steps are being read.")
                                 : tr("The predicted step is not known yet."));
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
  rank_->setToolTip(tr("The step with this rank as fast as others that do the same"));
  link_->setToolTip(tr("The two nodes whose link has another rate"));
  rate_->setToolTip(tr("What the link carries"));
  ideal_->setText(tr("An ideal network: nothing takes time to travel"));
  noBubble_->setText(tr("No bubble: the stages of a pipeline do not wait for each other"));
  changedStep_->setName(tr("Step with the change"));
  throughput_->setName(tr("Samples per second"));
  error_->setName(tr("Error of the replay"));
  ranksLabel_->setText(tr("Another number of ranks:"));
  ranks_->setAccessibleName(tr("Another number of ranks"));
  ranks_->setToolTip(tr("Planned anew for as many ranks"));
  ranks_->setSpecialValueText(tr("Unchanged"));
  bf16_->setText(tr("Compute in bf16"));
  command_->setAccessibleName(tr("Command"));
  fillChoices();
  showCommand();
  showProblem();
  refresh();
}

}  // namespace lockstep::ui
