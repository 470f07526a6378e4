#include "ui/dialogs/alert_rules_dialog.h"

#include <QCheckBox>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QTableView>
#include <QTimer>

#include "app/alerts/alert_actions.h"
#include "ui/models/alert_rule_model.h"
#include "ui/studio/background.h"
#include "ui/studio/workspace.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

AlertRulesDialog::AlertRulesDialog(Workspace& workspace, QWidget* parent)
    : Dialog("alertRulesDialog", parent), workspace_(workspace) {
  makeTable();
  makeForm();
  const app::AlertSettings& settings = workspace_.alertSettings();
  model_->setSettings(settings);
  notification_->setChecked(settings.notification);
  command_.text->setText(QString::fromStdString(settings.command));
  webhook_.text->setText(QString::fromStdString(settings.webhook));
  disconnect(acceptButton(), &QPushButton::clicked, this, &QDialog::accept);
  connect(acceptButton(), &QPushButton::clicked, this, &AlertRulesDialog::save);
  table_->setCurrentIndex(model_->index(0, AlertRuleModel::kRule));
  table_->setFocus();
  retranslate();
  check();
  resize(860, 720);
}

AlertRulesDialog::~AlertRulesDialog() { stop_.request_stop(); }

void AlertRulesDialog::makeTable() {
  model_ = new AlertRuleModel(this);
  table_ = new QTableView(this);
  table_->setObjectName("alertRules");
  table_->setModel(model_);
  applyTableStyle(table_);
  table_->setSelectionBehavior(QAbstractItemView::SelectItems);
  table_->setEditTriggers(QAbstractItemView::DoubleClicked | QAbstractItemView::EditKeyPressed |
                          QAbstractItemView::AnyKeyPressed);
  table_->verticalHeader()->setDefaultSectionSize(28);
  table_->setMinimumHeight(28 * model_->rowCount() + 40);
  setColumns(table_, {180, 140, 110, 100, 80, 95, 90});
  help_ = makeLabel("alertRuleHelp", this, "muted");
  help_->setWordWrap(true);
  content()->addWidget(table_, 1);
  content()->addSpacing(kSpaceXs);
  content()->addWidget(help_);
  content()->addSpacing(kSpaceS);
  connect(table_->selectionModel(), &QItemSelectionModel::currentChanged, this,
          &AlertRulesDialog::showRule);
  connect(model_, &AlertRuleModel::edited, this, &AlertRulesDialog::check);
  connect(model_, &AlertRuleModel::refused, this, [this](const Error& error) {
    showProblem(messageText(error.what));
    // The click that ends the editing may be one on Save: it would leave with what was before.
    if (!acceptButton()->isEnabled()) return;
    acceptButton()->setEnabled(false);
    QTimer::singleShot(0, acceptButton(), [this] { acceptButton()->setEnabled(true); });
  });
}

AlertRulesDialog::ActionField AlertRulesDialog::makeField(const QString& name,
                                                          app::AlertAction action) {
  ActionField out;
  out.label = makeLabel(name + "Label", this);
  out.text = new QLineEdit(this);
  out.text->setObjectName(name);
  out.label->setBuddy(out.text);
  out.test = makeButton(name + "Test", nullptr, this);
  connect(out.text, &QLineEdit::textChanged, this, &AlertRulesDialog::check);
  connect(out.test, &QPushButton::clicked, this, [this, action] { test(action); });
  return out;
}

void AlertRulesDialog::makeForm() {
  auto* form = new QFormLayout;
  form->setHorizontalSpacing(kSpaceL);
  form->setVerticalSpacing(kSpaceS);
  notification_ = new QCheckBox(this);
  notification_->setObjectName("alertNotification");
  form->addRow(notification_);
  command_ = makeField("alertCommand", app::AlertAction::kCommand);
  webhook_ = makeField("alertWebhook", app::AlertAction::kWebhook);
  for (const ActionField& field : {command_, webhook_}) {
    auto* row = new QHBoxLayout;
    row->setSpacing(kSpaceS);
    row->addWidget(field.text, 1);
    row->addWidget(field.test);
    form->addRow(field.label, row);
  }
  problem_ = makeLabel("alertRulesProblem", this);
  tested_ = makeLabel("alertTested", this, "muted");
  for (QLabel* label : {problem_, tested_}) {
    label->setWordWrap(true);
    label->setTextFormat(Qt::PlainText);
    label->hide();
  }
  defaults_ = makeButton("alertDefaults", nullptr, this);
  connect(defaults_, &QPushButton::clicked, this, [this] {
    model_->setSettings({});
    check();
  });
  auto* below = new QHBoxLayout;
  below->addWidget(defaults_);
  below->addStretch(1);
  content()->addLayout(form);
  content()->addWidget(tested_);
  content()->addWidget(problem_);
  content()->addLayout(below);
}

app::AlertSettings AlertRulesDialog::settings() const {
  app::AlertSettings out = model_->settings();
  out.notification = notification_->isChecked();
  out.command = command_.text->text().trimmed().toStdString();
  out.webhook = webhook_.text->text().trimmed().toStdString();
  return out;
}

void AlertRulesDialog::showRule() {
  const QModelIndex current = table_->currentIndex();
  help_->setText(current.isValid() ? current.data(Qt::ToolTipRole).toString() : QString());
}

void AlertRulesDialog::showProblem(const QString& text) {
  problem_->setText(text);
  problem_->setVisible(!text.isEmpty());
}

void AlertRulesDialog::check() {
  const app::AlertSettings edited = settings();
  const auto command = app::commandWords(edited.command);
  const Status webhook = app::checkWebhook(edited.webhook);
  QString problem;
  if (!command.ok()) problem = messageText(command.error().what);
  if (!webhook.ok()) problem = messageText(webhook.error().what);
  if (problem.isEmpty() && !workspace_.alertFileProblem().empty())
    problem = tr("%1. Saving replaces this file.").arg(messageText(workspace_.alertFileProblem()));
  showProblem(problem);
  command_.test->setEnabled(!testing_ && command.ok() && !edited.command.empty());
  webhook_.test->setEnabled(!testing_ && webhook.ok() && !edited.webhook.empty());
  acceptButton()->setEnabled(command.ok() && webhook.ok());
  nameCommand(edited);
}

// What saving does; without a change, what lists the rules.
void AlertRulesDialog::nameCommand(const app::AlertSettings& edited) {
  QStringList words{"alerts"};
  for (const std::string& change : app::alertChanges(workspace_.alertSettings(), edited)) {
    if (words.size() == 1) words << "set";
    words << QString::fromStdString(change);
  }
  showCommand(words);
}

void AlertRulesDialog::test(app::AlertAction action) {
  testing_ = true;
  check();
  tested_->setText(tr("Testing…"));
  tested_->show();
  const auto rule = static_cast<app::AlertRule>(std::max(0, table_->currentIndex().row()));
  runInBackground(
      this,
      [action, rule, edited = settings(), stop = stop_.get_token()] {
        return app::performAlertAction(action, edited, app::sampleAlert(rule), stop);
      },
      [this](const Status& done) {
        testing_ = false;
        tested_->setText(done.ok() ? tr("The test alert was delivered.")
                                   : messageText(done.error().message()));
        check();
      });
}

void AlertRulesDialog::save() {
  const Status saved = workspace_.saveAlertSettings(settings());
  if (saved.ok()) return accept();
  showProblem(messageText(saved.error().message()));
}

void AlertRulesDialog::retranslate() {
  setHeading(tr("Alert rules"),
             tr("An alert is raised once its threshold has been exceeded for the hold time, and "
                "is over once the value is back. Alerts appear in the messages."));
  table_->setAccessibleName(tr("Alert rules"));
  notification_->setText(tr("Desktop notifications"));
  command_.label->setText(tr("Command"));
  command_.text->setAccessibleName(tr("Command"));
  command_.text->setPlaceholderText(
      tr("Program and arguments; the alert is a line of JSON on its input"));
  webhook_.label->setText(tr("Webhook"));
  webhook_.text->setAccessibleName(tr("Webhook"));
  webhook_.text->setPlaceholderText(tr("https://… that the same JSON is posted to"));
  setTexts(command_.test, tr("Test command"));
  setTexts(webhook_.test, tr("Test webhook"));
  setTexts(defaults_, tr("Restore defaults"), tr("Restores the rules; the actions stay"));
  setButtons(tr("Save"), tr("Cancel"));
  model_->retranslate();
  showRule();
  check();
}

}  // namespace lockstep::ui
