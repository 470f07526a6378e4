#include "ui/dialogs/rebalance_dialog.h"

#include <QLabel>
#include <QPushButton>
#include <QTableView>
#include <QVBoxLayout>
#include <memory>
#include <utility>

#include "ui/models/rebalance_model.h"
#include "ui/studio/background.h"
#include "ui/studio/run_document.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
RebalanceDialog::RebalanceDialog(RunDocument& document, QWidget* parent)
    : Dialog("rebalanceDialog", parent), run_(document.run()) {
  outcome_ = makeLabel("rebalanceOutcome", this);
  outcome_->setWordWrap(true);
  outcome_->setTextFormat(Qt::PlainText);
  model_ = new RebalanceModel(this);
  table_ = new QTableView(this);
  table_->setObjectName("rebalanceTable");
  table_->setModel(model_);
  applyTableStyle(table_);
  table_->setSelectionMode(QAbstractItemView::NoSelection);
  setColumns(table_, {60, 110, 140, 125, 125, 160, 170});
  table_->setMinimumSize(900, 220);
  content()->addWidget(outcome_);
  content()->addWidget(table_, 1);
  acceptButton()->setEnabled(false);
  const app::PlanFacts& plan = document.plan();
  const app::StepMatrix& steps = document.steps();
  auto times = std::make_shared<app::StepTimes>(
      steps, std::max(steps.steps() - app::kRebalanceWindow + 1, plan.sharesFrom), steps.steps());
  runInBackground(
      this,
      [times, world = document.row().world, nodes = document.nodesOfRanks(), plan] {
        return app::rebalanceOf(*times, world, nodes, plan, app::kRebalanceSteps);
      },
      [this](Result<app::Rebalance> answer) { take(std::move(answer)); });
  retranslate();
}

void RebalanceDialog::take(Result<app::Rebalance> answer) {
  answer_.emplace(std::move(answer));
  if (answer_->ok()) {
    model_->setRanks((*answer_)->ranks);
    acceptButton()->setEnabled((*answer_)->changes());
    acceptButton()->setFocus();
  }
  showOutcome();
}

void RebalanceDialog::showOutcome() {
  QString text;
  if (!answer_)
    text = tr("Computing…");
  else if (!answer_->ok())
    text = messageText(answer_->error().message());
  else if (!(*answer_)->changes())
    text = tr("Steps %1 to %2 show a good division: all ranks compute for about the same time.")
               .arg(formatCount((*answer_)->first), formatCount((*answer_)->last));
  else
    text = tr("Over steps %1 to %2 a step took %3. With this division it would take about %4.")
               .arg(formatCount((*answer_)->first), formatCount((*answer_)->last),
                    formatSeconds((*answer_)->stepSeconds),
                    formatSeconds((*answer_)->proposedSeconds));
  outcome_->setText(text);
}

void RebalanceDialog::retranslate() {
  setHeading(tr("Divide the batch by speed"),
             tr("Ranks that compute a sample faster get more of the batch. The run saves a "
                "checkpoint and continues from it with this division."));
  setButtons(tr("Divide"), tr("Cancel"));
  table_->setAccessibleName(tr("Samples of each rank"));
  showCommand({"rebalance", run_, "--apply"});
  model_->retranslate();
  showOutcome();
}

}  // namespace lockstep::ui
