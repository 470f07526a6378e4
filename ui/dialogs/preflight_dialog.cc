#include "ui/dialogs/preflight_dialog.h"

#include <QHeaderView>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QTableView>
#include <QVBoxLayout>

#include "ui/models/preflight_model.h"
#include "ui/studio/background.h"
#include "ui/studio/workspace.h"
#include "ui/theme/error_text.h"
#include "ui/widgets/delegates.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

PreflightDialog::PreflightDialog(Workspace& workspace, std::shared_ptr<LiveCluster> cluster,
                                 std::string name, QStringList words, QWidget* parent)
    : Dialog("preflightDialog", parent),
      workspace_(workspace),
      cluster_(std::move(cluster)),
      name_(std::move(name)),
      words_(std::move(words)) {
  outcome_ = makeLabel("preflightOutcome", this);
  outcome_->setWordWrap(true);
  outcome_->setTextFormat(Qt::PlainText);
  outcome_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  progress_ = new QProgressBar(this);
  progress_->setObjectName("preflightProgress");
  progress_->setTextVisible(false);
  model_ = new PreflightModel(this);
  table_ = new QTableView(this);
  table_->setObjectName("preflightTable");
  table_->setModel(model_);
  applyTableStyle(table_);
  table_->setItemDelegateForColumn(PreflightModel::kGrade,
                                   new ToneDelegate(PreflightModel::kToneRole, table_));
  setColumns(table_, {170, 110, 110, 120, 120, 190});
  table_->setMinimumSize(840, 320);
  content()->addWidget(outcome_);
  content()->addWidget(progress_);
  content()->addWidget(table_, 1);
  connect(cluster_.get(), &LiveCluster::nodeChanged, this, &PreflightDialog::nodeChanged);
  connectAndMeasure();
  retranslate();
}

PreflightDialog::~PreflightDialog() { stop_.request_stop(); }

void PreflightDialog::retranslate() {
  setHeading(tr("Pre-flight"), tr("Nodes and links are measured and compared with earlier results "
                                  "on this cluster."));
  setButtons(tr("Measure again"), tr("Close"));
  showCommand(QStringList{"cluster", "preflight"} + words_);
  table_->setAccessibleName(tr("Measured values"));
  progress_->setAccessibleName(tr("Progress"));
  model_->retranslate();
  showOutcome();
}

void PreflightDialog::accept() {
  if (!measuring_) connectAndMeasure();
}

void PreflightDialog::connectAndMeasure() {
  measuring_ = connecting_ = true;
  acceptButton()->setEnabled(false);
  progress_->setRange(0, 0);
  progress_->setVisible(true);
  awaited_.clear();
  const app::ClusterSession& session = cluster_->session();
  for (int node = 0; node < session.size(); ++node)
    if (session.status(node).phase != app::NodeState::CONNECTED) awaited_.insert(node);
  cluster_->session().connect();
  showOutcome();
  measureWhenConnected();
}

// Each node is given one attempt: one that is out of reach goes on reconnecting without an end.
void PreflightDialog::nodeChanged(int node) {
  const app::NodeState phase = cluster_->session().status(node).phase;
  if (phase == app::NodeState::CONNECTED || phase == app::NodeState::UNAVAILABLE ||
      phase == app::NodeState::RECONNECTING)
    awaited_.erase(node);
  measureWhenConnected();
}

void PreflightDialog::measureWhenConnected() {
  if (!connecting_ || !awaited_.empty()) return;
  connecting_ = false;
  measure();
}

void PreflightDialog::measure() {
  showOutcome();
  app::PreflightOptions options;
  app::Inbox& inbox = workspace_.inbox();
  options.progress = [this, &inbox, owner = std::weak_ptr<void>(alive_)](int done, int total,
                                                                         const std::string& what) {
    inbox.post(owner, [this, done, total, text = QString::fromStdString(what)] {
      showProgress(done, total, text);
    });
  };
  runInBackground(
      this,
      [nodes = preflightNodes(cluster_->session()), keep = cluster_->sessionRef(), options,
       home = workspace_.home(), name = name_,
       stop = stop_.get_token()] { return runPreflight(nodes, home, name, options, stop); },
      [this](Result<app::PreflightResult> result) { take(std::move(result)); },
      workspace_.teardownPool());  // it uses the inbox
}

void PreflightDialog::showProgress(int done, int total, const QString& what) {
  if (!measuring_) return;  // the result has come meanwhile
  progress_->setRange(0, total);
  progress_->setValue(done);
  outcome_->setText(tr("Measured %1.").arg(what));
}

void PreflightDialog::take(Result<app::PreflightResult> result) {
  measuring_ = false;
  acceptButton()->setEnabled(true);
  progress_->setVisible(false);
  errors_.clear();
  if (!result.ok()) {
    errors_.push_back(result.error());
    return showOutcome();
  }
  errors_ = result->errors;
  const app::ClusterSession& session = cluster_->session();
  for (int node = 0; node < session.size(); ++node)
    if (const auto& status = session.status(node); status.error) errors_.push_back(*status.error);
  model_->setResult(std::move(*result));
  showOutcome();
}

void PreflightDialog::showOutcome() {
  if (measuring_)
    return outcome_->setText(connecting_ ? tr("Connecting the nodes…") : tr("Measuring…"));
  const int weak = model_->result().weak();
  QStringList lines;
  if (model_->rowCount() > 0) {
    lines << (weak == 0 ? tr("Nothing is weak.") : tr("Weak values: %1.").arg(weak));
    lines << (model_->result().earlier == 0
                  ? tr("Compared among each other: there are no earlier results.")
                  : tr("Compared with earlier results: %1.").arg(model_->result().earlier));
  }
  QString text = lines.join(' ');
  for (const Error& error : errors_) {
    const ErrorText said = describeError(error);
    text +=
        (text.isEmpty() ? "" : "\n") +
        (error.node.empty() ? said.what
                            : QString("%1: %2").arg(QString::fromStdString(error.node), said.what));
    if (!said.why.isEmpty()) text += ": " + said.why;
  }
  outcome_->setText(text);
}

}  // namespace lockstep::ui
