#include "ui/pages/straggler_panel.h"

#include <QHBoxLayout>
#include <QToolButton>
#include <QVBoxLayout>
#include <cmath>

#include "ui/studio/run_document.h"
#include "ui/studio/without_reader.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/breakdown_bars.h"

namespace lockstep::ui {
namespace {

constexpr std::int64_t kLeastSteps = 10;  // of a straggler, for a replay

}  // namespace

StragglerPanel::StragglerPanel(RunDocument* document, QWidget* parent)
    : Card("stragglerPanel", parent),
      document_(document),
      without_(new WithoutReader(document->historyFolder(), document->run().toStdString(), this)) {
  who_ = makeLabel("stragglerWho", this);
  evidence_ = makeLabel("stragglerEvidence", this, "muted");
  for (QLabel* label : {who_, evidence_}) {
    label->setWordWrap(true);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  }
  profile_ = makeToolButton("profileButton", "record", this);
  restart_ = makeToolButton("restartRanksButton", "refresh", this);
  debug_ = makeToolButton("debugRankButton", "debug", this);
  exclude_ = makeToolButton("excludeNodeButton", "disconnect", this);
  rebalance_ = makeToolButton("rebalanceButton", "balance", this);
  faster_ = makeToolButton("fasterButton", "faster", this);
  auto* first = new QHBoxLayout;
  first->setSpacing(kSpaceS);
  first->addWidget(who_, 1);
  for (QToolButton* button : {profile_, restart_, rebalance_, faster_, exclude_, debug_})
    first->addWidget(button, 0, Qt::AlignTop);
  body()->addLayout(first);
  body()->addWidget(evidence_);
  // As high with a straggler as without: nothing moves when one comes or goes.
  layout()->setContentsMargins(kSpaceL, kSpaceXs, kSpaceL, kSpaceS);
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Maximum);
  who_->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Maximum);
  evidence_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  evidence_->setMinimumHeight(2 * evidence_->fontMetrics().lineSpacing());
  QObject::connect(without_, &WithoutReader::changed, this, &StragglerPanel::refresh);
}

QString StragglerPanel::diskText(const app::SlowEvidence& evidence) const {
  QStringList lines;
  if (evidence.reading.own > 0)
    lines << tr("It waited %1 a step for its data files, the others %2.")
                 .arg(formatSeconds(evidence.reading.own), formatSeconds(evidence.reading.others));
  if (const auto& busy = evidence.diskBusy)
    lines << tr("Its node's disk was busy %1 of the time, the others' %2.")
                 .arg(formatPercent(busy->own, 0), formatPercent(busy->others, 0));
  return lines.join(' ');
}

QString StragglerPanel::gpuText(const app::SlowEvidence& evidence) const {
  const QString share = formatPercent(evidence.share, 0);
  QStringList lines;
  if (evidence.cause == app::SlowCause::kGpuHeat)
    lines << tr("Its GPU %1 was thermally throttled %2 of the time.").arg(evidence.gpu).arg(share);
  if (evidence.cause == app::SlowCause::kGpuPower)
    lines << tr("Its GPU %1 was held at its power limit %2 of the time.")
                 .arg(evidence.gpu)
                 .arg(share);
  if (evidence.clock.own > 0 && evidence.clock.others > 0)
    lines << tr("Its GPU %1 ran at %2 MHz, the others' at %3 MHz.")
                 .arg(evidence.gpu)
                 .arg(formatNumber(evidence.clock.own), formatNumber(evidence.clock.others));
  return lines.join(' ');
}

QString StragglerPanel::evidenceText(const app::SlowEvidence& evidence) const {
  const QString share = formatPercent(evidence.share, 0);
  switch (evidence.cause) {
    case app::SlowCause::kStopped:
      return tr("Its process was suspended %1 of the time.").arg(share);
    case app::SlowCause::kThrottled:
      return tr("A CPU quota throttled it %1 of the time.").arg(share);
    case app::SlowCause::kCrowded:
      return tr("Other processes used its cores %1 of the time.").arg(share);
    case app::SlowCause::kFrozen:
      return tr("Its process did not run %1 of the time.").arg(share);
    case app::SlowCause::kPaging:
      return tr("It read %1 pages a second from a disk (swap or mapped files).")
          .arg(formatCount(static_cast<std::int64_t>(evidence.diskFaults)));
    case app::SlowCause::kDisk:
      return diskText(evidence);
    case app::SlowCause::kMoreData:
      return tr("Its batches had %1 elements, the others' %2.")
          .arg(formatCount(std::llround(evidence.elements.own)),
               formatCount(std::llround(evidence.elements.others)));
    case app::SlowCause::kGpuHeat:
    case app::SlowCause::kGpuPower:
    case app::SlowCause::kGpuClock:
      return gpuText(evidence);
    case app::SlowCause::kGpuLink:
      return tr("The PCIe link of its GPU %1 has %2 of %3 lanes.")
          .arg(evidence.gpu)
          .arg(evidence.lanes)
          .arg(evidence.lanesMax);
    case app::SlowCause::kUnknown:
      break;
  }
  return evidence.cores > 0 ? tr("It had %1 cores.").arg(formatNumber(evidence.cores, 2))
                            : QString();
}

void StragglerPanel::retranslate() {
  setTexts(profile_, tr("Record all events of the next 20 steps (lockstep profile)"));
  setTexts(exclude_, tr("Exclude a node from the run"));
  setTexts(rebalance_, tr("Divide the batch by the speed of the ranks (lockstep rebalance)"));
  setTexts(faster_, tr("Faster strategy: find one for the nodes and links as measured, and resume "
                       "with it (lockstep advise --run --apply)"));
  setTexts(debug_, tr("Debug a rank: stacks, processes, kernel messages, a debugger"));
}

void StragglerPanel::askWithout(const app::Straggler& slow) {
  const std::int64_t step = document_->lastStep(), steps = step - slow.sinceStep + 1;
  if (isVisible() && steps >= kLeastSteps) without_->ask({{{slow.rank}}, steps, step});
}

// By a replay of its steps, where there is one. Of a gain that the two times do not show, one time.
QString StragglerPanel::withoutText(const app::Straggler& slow) const {
  const app::StepsWithout* replayed = slow.link ? nullptr : without_->answer();
  const double seconds = replayed ? replayed->without({slow.rank}) : std::nan("");
  if (std::isnan(seconds) || replayed->last < slow.sinceStep)  // of an earlier time
    return liveWithoutText(slow);
  const QString with = formatSeconds(replayed->measuredSeconds), without = formatSeconds(seconds);
  const QString first = formatCount(replayed->first), last = formatCount(replayed->last),
                error = formatPercent(replayed->error, 1);
  if (seconds >= replayed->measuredSeconds || with == without)
    return tr("Without this rank a step would still take %1 (steps %2 to %3 replayed, "
              "with an error of %4).")
        .arg(with, first, last, error);
  return tr("Without this rank a step would take %1 instead of %2 (steps %3 to %4 replayed, "
            "with an error of %5).")
      .arg(without, with, first, last, error);
}

// As the run tells it: where several ranks are slow, without all of them.
QString StragglerPanel::liveWithoutText(const app::Straggler& slow) const {
  const QString with = formatSeconds(slow.stepSeconds),
                without = formatSeconds(slow.withoutSeconds), count = formatCount(slow.slowRanks);
  if (slow.withoutSeconds >= slow.stepSeconds || with == without) {
    if (slow.slowRanks > 1)
      return tr("Without the %1 slow ranks a step would still take %2.").arg(count, with);
    return (slow.link ? tr("At its usual rate a step would still take %1.")
                      : tr("Without this rank a step would still take %1."))
        .arg(with);
  }
  if (slow.slowRanks > 1)
    return tr("Without the %1 slow ranks a step would take %2 instead of %3.")
        .arg(count, without, with);
  return (slow.link ? tr("At its usual rate a step would take %1 instead of %2.")
                    : tr("Without this rank a step would take %1 instead of %2."))
      .arg(without, with);
}

void StragglerPanel::refresh() {
  const RunDocument& run = *document_;
  debug_->setEnabled(run.canDebug());
  exclude_->setEnabled(run.canExclude());
  for (QToolButton* button : {profile_, restart_}) button->setEnabled(run.canProfile());
  rebalance_->setEnabled(run.canRebalance());
  faster_->setEnabled(run.canAdvise());
  for (QToolButton* button : {profile_, rebalance_, faster_}) button->setVisible(!run.ofProgram());
  setTexts(restart_,
           run.ofProgram()
               ? tr("Start the program again on all ranks (lockstep restart)")
               : tr("Take a checkpoint and restart all ranks from it (lockstep restart)"));
  const auto& slow = run.slow();
  wasLive_ = wasLive_ || (run.loaded() && !app::isFinal(run.row().phase));
  evidence_->setVisible(slow || wasLive_);
  if (!slow) {
    who_->setText(!run.measuresSteps() ? tr("How long the ranks of this program wait is not known.")
                  : run.row().world > 1 ? tr("No straggler: all ranks are near the median.")
                                        : tr("A run of one rank has no stragglers."));
    who_->setStyleSheet({});
    evidence_->setText(QString(QChar(0xa0)));
    return;
  }
  who_->setText(messageText(stragglerHeadline(*slow)));
  who_->setStyleSheet(
      QString("color: %1; font-weight: 600;").arg(Theme::instance().color("bad").name()));
  QStringList lines;
  static const char* const phases[] = {"data",    "forward",  "backward",
                                       "waiting", "transfer", "optimizer"};
  QString phase = QString::fromStdString(slow->phase);
  for (int i = 0; i < kPhaseCount; ++i) {
    if (slow->phase == phases[i]) phase = phaseName(i);
  }
  if (slow->link) {
    lines << tr("Since step %1: %2 instead of %3, round trip %4 instead of %5.")
                 .arg(formatCount(slow->sinceStep), formatRate(slow->link->rate),
                      formatRate(slow->link->usualRate), formatSeconds(slow->link->roundTrip),
                      formatSeconds(slow->link->usualTrip));
    if (losesPackets(*slow->link))
      lines << tr("%1 % of its packets are sent again.").arg(100 * slow->link->resent, 0, 'g', 2);
    if (!slow->link->common.empty())
      lines << tr("All slow links are %1's.").arg(QString::fromStdString(slow->link->common));
  } else if (slow->halted) {
    lines << tr("No step has completed since step %1.").arg(formatCount(slow->sinceStep));
  } else {
    lines << tr("Since step %1, mostly in %2.").arg(formatCount(slow->sinceStep), phase);
    if (const QString why = evidenceText(slow->evidence); !why.isEmpty()) lines << why;
  }
  if (slow->withoutSeconds > 0) {
    if (!slow->link) askWithout(*slow);
    lines << withoutText(*slow);
  }
  evidence_->setText(lines.join(' '));
}

}  // namespace lockstep::ui
