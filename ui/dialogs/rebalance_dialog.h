// RebalanceDialog: a division of a run's batch by which its ranks would compute equally long, and
// whether the run is to continue with it.
#pragma once

#include <optional>
#include <vector>

#include "app/runs/rebalance.h"
#include "ui/dialogs/dialog.h"

class QLabel;
class QTableView;

namespace lockstep::ui {

class RebalanceModel;
class RunDocument;

class RebalanceDialog : public Dialog {
  Q_OBJECT

 public:
  RebalanceDialog(RunDocument& document, QWidget* parent);
  // Precondition: accepted.
  const std::vector<double>& shares() const { return (*answer_)->shares; }

 protected:
  void retranslate() override;

 private:
  void take(Result<app::Rebalance> answer);
  void showOutcome();

  const QString run_;
  RebalanceModel* model_ = nullptr;
  QLabel* outcome_ = nullptr;
  QTableView* table_ = nullptr;
  std::optional<Result<app::Rebalance>> answer_;  // none: it is computed
};

}  // namespace lockstep::ui
