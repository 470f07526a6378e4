#include "ui/dialogs/preflight_dialog.h"

#include <QComboBox>
#include <QHeaderView>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QStackedWidget>
#include <QTabWidget>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/models/link_matrix_model.h"
#include "ui/models/preflight_model.h"
#include "ui/models/version_model.h"
#include "ui/plots/color_map.h"
#include "ui/studio/background.h"
#include "ui/studio/workspace.h"
#include "ui/theme/error_text.h"
#include "ui/theme/format.h"
#include "ui/theme/theme.h"
#include "ui/widgets/delegates.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

using Kind = app::PreflightValue::Kind;

enum Tab { kValues, kLinks, kVersions };
constexpr Kind kLinkKinds[] = {Kind::kBandwidth, Kind::kRoundTrip};

}  // namespace

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
  tabs_ = new QTabWidget(this);
  tabs_->setObjectName("preflightTabs");
  tabs_->addTab(buildValues(), {});
  tabs_->addTab(buildLinks(), {});
  tabs_->addTab(buildVersions(), {});
  tabs_->setMinimumSize(840, 360);
  content()->addWidget(outcome_);
  content()->addWidget(progress_);
  content()->addWidget(tabs_, 1);
  connect(cluster_.get(), &LiveCluster::nodeChanged, this, &PreflightDialog::nodeChanged);
  connectAndMeasure();
  retranslate();
}

QWidget* PreflightDialog::buildValues() {
  model_ = new PreflightModel(this);
  table_ = new QTableView(this);
  table_->setObjectName("preflightTable");
  table_->setModel(model_);
  applyTableStyle(table_);
  table_->setItemDelegateForColumn(PreflightModel::kGrade,
                                   new ToneDelegate(PreflightModel::kToneRole, table_));
  setColumns(table_, {170, 110, 110, 120, 120, 190});
  return table_;
}

QWidget* PreflightDialog::buildLinks() {
  constexpr int kCellWidth = 104;
  links_ = new LinkMatrixModel(this);
  linkKind_ = new QComboBox(this);
  linkKind_->setObjectName("preflightLinkKind");
  linkLegend_ = new ColorLegend(this);
  linkTable_ = new QTableView(this);
  linkTable_->setObjectName("preflightLinks");
  linkTable_->setModel(links_);
  applyMatrixStyle(linkTable_);
  linkTable_->horizontalHeader()->setDefaultSectionSize(kCellWidth);
  auto* row = new QHBoxLayout;
  row->addWidget(linkKind_);
  row->addStretch(1);
  row->addWidget(linkLegend_);
  auto* page = new QWidget(this);
  auto* column = new QVBoxLayout(page);
  column->setContentsMargins(0, kSpaceS, 0, 0);
  column->setSpacing(kSpaceS);
  column->addLayout(row);
  column->addWidget(linkTable_, 1);
  noLinks_ = makeLabel("preflightNoLinks", this, "muted");
  noLinks_->setAlignment(Qt::AlignCenter);
  noLinks_->setWordWrap(true);
  linkStack_ = new QStackedWidget(this);
  linkStack_->addWidget(noLinks_);
  linkStack_->addWidget(page);
  connect(linkKind_, &QComboBox::activated, this, &PreflightDialog::showLinks);
  return linkStack_;
}

QWidget* PreflightDialog::buildVersions() {
  versions_ = new VersionModel(this);
  versionTable_ = new QTableView(this);
  versionTable_->setObjectName("preflightVersions");
  versionTable_->setModel(versions_);
  applyTableStyle(versionTable_);
  for (int column = VersionModel::kAgent; column < VersionModel::kColumns; ++column)
    versionTable_->setItemDelegateForColumn(
        column, new ToneDelegate(VersionModel::kToneRole, versionTable_));
  setColumns(versionTable_, {130, 150, 210, 130, 90, 90});
  return versionTable_;
}

PreflightDialog::~PreflightDialog() { stop_.request_stop(); }

void PreflightDialog::retranslate() {
  setHeading(tr("Pre-flight"), tr("Nodes and links are measured and compared with earlier results "
                                  "on this cluster."));
  setButtons(tr("Measure again"), tr("Close"));
  showCommand(words_.isEmpty() ? words_ : QStringList{"cluster", "preflight"} + words_);
  tabs_->setTabText(kValues, tr("Values"));
  tabs_->setTabText(kLinks, tr("Links"));
  tabs_->setTabText(kVersions, tr("Versions"));
  tabs_->setAccessibleName(tr("Results"));
  table_->setAccessibleName(tr("Measured values"));
  const int kind = std::max(0, linkKind_->currentIndex());
  linkKind_->clear();
  linkKind_->addItems({tr("Bandwidth"), tr("Round trip")});
  linkKind_->setCurrentIndex(kind);
  linkKind_->setAccessibleName(tr("Measure"));
  linkTable_->setAccessibleName(tr("Links, from the node of a row to that of a column"));
  versionTable_->setAccessibleName(tr("Versions"));
  progress_->setAccessibleName(tr("Progress"));
  model_->retranslate();
  versions_->retranslate();
  showLinks();
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
  left_ = {};
  left_.moved(0, monotonicNow());
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
  left_.moved(static_cast<double>(done) / std::max(1, total), monotonicNow());
  const QString left = timeLeftText(left_.seconds());
  outcome_->setText(tr("Measured %1.").arg(what) +
                    (left.isEmpty() ? QString() : QString(" (%1)").arg(left)));
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
  versions_->setResult(*result);
  for (int column = 0; column < VersionModel::kColumns; ++column)
    versionTable_->setColumnHidden(column, !versions_->hasColumn(column));
  model_->setResult(std::move(*result));
  showLinks();
  showOutcome();
}

void PreflightDialog::showLinks() {
  const Kind kind = kLinkKinds[linkKind_->currentIndex()];
  links_->setMatrix(linkMatrix(model_->result(), kind));
  linkStack_->setCurrentIndex(links_->matrix().empty() ? 0 : 1);
  // Slower than the median is at the right.
  const QString half = QString::fromUtf8("½ ×"), twice = QString::fromUtf8("2 ×");
  const bool isMoreBetter = kind == Kind::kBandwidth;
  linkLegend_->setScale(ColorMap::Kind::kDiverging, tr("relative to the median"),
                        isMoreBetter ? twice : half, isMoreBetter ? half : twice);
}

void PreflightDialog::showOutcome() {
  noLinks_->setText(measuring_
                        ? tr("Measuring…")
                        : tr("No link was measured. That takes two nodes that reach each other."));
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
  QStringList paragraphs = versions_->warnings();
  if (!lines.isEmpty()) paragraphs.prepend(lines.join(' '));
  QString text = paragraphs.join('\n');
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
