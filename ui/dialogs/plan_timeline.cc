#include "ui/dialogs/plan_timeline.h"

#include <QLabel>
#include <QToolButton>
#include <QVBoxLayout>
#include <utility>

#include "app/runs/step_timeline.h"
#include "ui/dialogs/timeline_stack.h"
#include "ui/plots/timeline_view.h"
#include "ui/studio/background.h"
#include "ui/theme/format.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

PlanTimeline::PlanTimeline(QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, kSpaceS, 0, 0);
  phases_ = makeLabel("planPhases", this);
  phases_->setTextFormat(Qt::RichText);
  phases_->setWordWrap(true);
  stack_ = new TimelineStack("planTimeline", this);
  timeline_ = stack_->view();
  text_ = new ElidedLabel("planSpan", this, "muted");
  auto* head = new QHBoxLayout;
  head->addWidget(phases_, 1);
  head->addWidget(stack_->button(), 0, Qt::AlignTop);
  column->addLayout(head);
  column->addWidget(stack_, 1);
  column->addWidget(text_);
  connect(timeline_, &TimelineView::spanChosen, this, &PlanTimeline::refreshText);
  connect(&Theme::instance(), &Theme::changed, this, &PlanTimeline::refreshPhases);
}

// What was drawn stays until the new one is there, so that its zoom can be kept.
void PlanTimeline::setPreview(Preview preview) {
  if (preview == preview_) return;
  preview_ = std::move(preview);
  built_ = false;
  if (!preview_ || !isVisible()) timeline_->setTimelines(nullptr, nullptr);
  if (isVisible()) build();
}

void PlanTimeline::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  build();
}

void PlanTimeline::build() {
  if (built_ || !preview_) return;
  built_ = true;
  runInBackground(
      this,
      [preview = preview_] {
        return std::make_shared<const app::StepTimeline>(app::simulatedStep(*preview));
      },
      [this, of = std::weak_ptr(preview_)](TimelineView::Timeline timeline) {
        if (!preview_ || of.lock() != preview_) return;
        timeline_->setTimelines(std::move(timeline), nullptr);
        nameRanks();
      });
}

void PlanTimeline::nameRanks() {
  if (!timeline_->measured()) return;
  std::vector<QString> names;
  for (std::size_t rank = 0; rank < timeline_->measured()->lanes.size(); ++rank)
    names.push_back(tr("rank %1").arg(rank));
  timeline_->setNames(std::move(names));
}

void PlanTimeline::refreshText() {
  if (const QString text = timeline_->chosenText(); !text.isEmpty()) return text_->setText(text);
  if (!preview_ || !timeline_->measured()) return text_->clear();
  QStringList parts{
      tr("bubble: %1 of the step").arg(formatPercent(app::bubbleShare(*preview_), 0))};
  const app::RankPreview mean = app::meanOfWorkers(*preview_);
  if (const double all = mean.transfer + mean.hidden; all > 0)
    parts << tr("%1 of the communication is hidden").arg(formatPercent(mean.hidden / all, 0));
  parts << tr("click a span for its details");
  text_->setText(parts.join(QString::fromUtf8(" · ")));
}

void PlanTimeline::refreshPhases() {
  phases_->setText(phaseLegend());
  phases_->setFont(Theme::instance().small());
}

void PlanTimeline::retranslate() {
  timeline_->setAccessibleName(tr("Timeline of the predicted step"));
  timeline_->setEmptyText(tr("No step is predicted for these settings."));
  stack_->retranslate();
  nameRanks();
  refreshPhases();
  refreshText();
}

}  // namespace lockstep::ui
