// PlanDialog: a plan with its figures and its text, alone or beside another one with what differs
// marked, as `lockstep plan --diff` shows it. Accepted: the plan is chosen.
#pragma once

#include <memory>
#include <vector>

#include "app/runs/plan_figures.h"
#include "app/runs/preview.h"
#include "ui/dialogs/dialog.h"

class QPlainTextEdit;
class QPushButton;
class QTableView;
class QTabWidget;

namespace lockstep::ui {

class MessagePanel;
class PlanFigureModel;

class PlanDialog : public Dialog {
  Q_OBJECT

 public:
  struct Shown {
    Message name;  // of its strategy
    std::shared_ptr<const app::Preview> preview;
    std::vector<app::PlanFigure> figures;
  };
  // `other` without a preview: the plan alone.
  PlanDialog(Shown plan, Shown other, QWidget* parent);

 protected:
  void retranslate() override;

 private:
  QWidget* makeTexts();
  void askSave();

  const Shown plan_, other_;
  QTabWidget* tabs_ = nullptr;
  PlanFigureModel* model_ = nullptr;
  QTableView* figures_ = nullptr;
  QPlainTextEdit* planText_ = nullptr;
  QPlainTextEdit* otherText_ = nullptr;  // null: none
  QPushButton* copy_ = nullptr;
  QPushButton* save_ = nullptr;
  MessagePanel* message_ = nullptr;
};

}  // namespace lockstep::ui
