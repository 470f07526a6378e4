// AlertRulesDialog: edits the alert rules and their actions, and tests the command and the webhook.
#pragma once

#include <stop_token>

#include "app/alerts/alert_rules.h"
#include "ui/dialogs/dialog.h"

class QCheckBox;
class QLabel;
class QLineEdit;
class QTableView;

namespace lockstep::ui {

class AlertRuleModel;
class Workspace;

class AlertRulesDialog : public Dialog {
  Q_OBJECT
 public:
  AlertRulesDialog(Workspace& workspace, QWidget* parent);
  ~AlertRulesDialog() override;  // cancels a test under way

  app::AlertSettings settings() const;  // as edited

 protected:
  void retranslate() override;

 private:
  // A line of the form: what an action does, and its test.
  struct ActionField {
    QLabel* label = nullptr;
    QLineEdit* text = nullptr;
    QPushButton* test = nullptr;
  };
  ActionField makeField(const QString& name, app::AlertAction action);
  void makeTable();
  void makeForm();
  void showRule();
  void check();
  void nameCommand(const app::AlertSettings& edited);
  void showProblem(const QString& text);
  void test(app::AlertAction action);
  void save();

  Workspace& workspace_;
  AlertRuleModel* model_ = nullptr;
  QTableView* table_ = nullptr;
  QLabel* help_ = nullptr;
  QCheckBox* notification_ = nullptr;
  ActionField command_, webhook_;
  QPushButton* defaults_ = nullptr;
  QLabel* problem_ = nullptr;
  QLabel* tested_ = nullptr;
  bool testing_ = false;
  std::stop_source stop_;
};

}  // namespace lockstep::ui
