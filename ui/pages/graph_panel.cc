#include "ui/pages/graph_panel.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QToolButton>
#include <QVBoxLayout>

#include "ui/models/layer_table_model.h"
#include "ui/pages/layer_graph_view.h"
#include "ui/studio/background.h"
#include "ui/studio/spec_document.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/theme/tool_tip.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kMostRanks = 1024, kPlanAfterMs = 300;

}  // namespace

GraphPanel::GraphPanel(SpecDocument* document, LayerTableModel* layers,
                       QItemSelectionModel* selection, QWidget* parent)
    : QWidget(parent), document_(document), layers_(layers) {
  setObjectName("graphPanel");
  view_ = new LayerGraphView(layers, selection, this);
  buildTools();
  later_.setSingleShot(true);
  later_.setInterval(kPlanAfterMs);
  connect(&later_, &QTimer::timeout, this, &GraphPanel::plan);
  connect(document_, &SpecDocument::changed, this, &GraphPanel::documentChanged);
  connect(layers_, &LayerTableModel::totalsChanged, this, &GraphPanel::showStatus);
  connect(ranks_, &QSpinBox::valueChanged, this, [this] {
    chosen_ = true;
    later_.start();
  });
  connect(search_, &QLineEdit::textEdited, view_, &LayerGraphView::find);
  connect(previous_, &QToolButton::clicked, this, [this] { view_->goToFound(-1); });
  connect(next_, &QToolButton::clicked, this, [this] { view_->goToFound(1); });
  connect(view_, &LayerGraphView::foundChanged, this, &GraphPanel::showFound);
  connect(closer_, &QToolButton::clicked, this, [this] { view_->setZoom(view_->zoom() * 1.25); });
  connect(farther_, &QToolButton::clicked, this, [this] { view_->setZoom(view_->zoom() / 1.25); });
  connect(fit_, &QToolButton::clicked, view_, &LayerGraphView::fit);
  connect(view_, &LayerGraphView::zoomChanged, this,
          [this] { zoom_->setText(formatPercent(view_->zoom(), view_->zoom() < 0.05 ? 1 : 0)); });
  search_->installEventFilter(this);
  showFound();
}

void GraphPanel::buildTools() {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins({});
  column->setSpacing(kSpaceXs);
  auto* tools = new QHBoxLayout;
  tools->setContentsMargins(kSpaceS, kSpaceXs, kSpaceXs, 0);
  tools->setSpacing(kSpaceXs);
  search_ = new QLineEdit(this);
  search_->setObjectName("graphSearch");
  search_->setClearButtonEnabled(true);
  search_->setMinimumWidth(60);
  found_ = makeLabel("graphFound", this, "muted");
  previous_ = makeToolButton("graphPrevious", "up", this);
  next_ = makeToolButton("graphNext", "down", this);
  farther_ = makeToolButton("graphZoomOut", "zoom-out", this);
  zoom_ = makeLabel("graphZoom", this, "muted");
  zoom_->setMinimumWidth(34);
  zoom_->setAlignment(Qt::AlignCenter);
  closer_ = makeToolButton("graphZoomIn", "add", this);
  fit_ = makeToolButton("graphFit", "fit", this);
  tools->addWidget(search_, 1);
  for (QWidget* widget :
       std::initializer_list<QWidget*>{found_, previous_, next_, farther_, zoom_, closer_, fit_})
    tools->addWidget(widget);
  column->addLayout(tools);
  column->addWidget(view_, 1);
  auto* foot = new QHBoxLayout;
  foot->setContentsMargins(kSpaceS, 0, kSpaceS, kSpaceXs);
  foot->setSpacing(kSpaceS);
  ranksLabel_ = makeLabel("graphRanksLabel", this);
  ranks_ = new QSpinBox(this);
  ranks_->setObjectName("graphRanks");
  ranks_->setRange(1, kMostRanks);
  ranksLabel_->setBuddy(ranks_);
  status_ = new ElidedLabel("graphStatus", this, "muted");
  foot->addWidget(ranksLabel_);
  foot->addWidget(ranks_);
  foot->addWidget(status_, 1);
  column->addLayout(foot);
  const QWidgetList order{search_, previous_, next_, farther_, closer_, fit_, view_, ranks_};
  for (qsizetype i = 1; i < order.size(); ++i) setTabOrder(order[i - 1], order[i]);
}

void GraphPanel::openSearch() {
  search_->setFocus(Qt::ShortcutFocusReason);
  search_->selectAll();
}

bool GraphPanel::eventFilter(QObject* watched, QEvent* event) {
  if (watched == search_ && event->type() == QEvent::KeyPress) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
      view_->goToFound(key->modifiers() & Qt::ShiftModifier ? -1 : 1);
      return true;
    }
    if (key->key() == Qt::Key_Escape) {
      search_->clear();
      view_->find({});
      view_->setFocus();
      return true;
    }
  }
  return QWidget::eventFilter(watched, event);
}

void GraphPanel::showFound() {
  const bool sought = !search_->text().trimmed().isEmpty();
  const int all = view_->foundCount();
  found_->setText(sought ? QString("%1/%2").arg(view_->foundIndex() + 1).arg(all) : QString());
  for (QToolButton* button : {previous_, next_}) button->setEnabled(all > 0);
}

// ---- The plan.

void GraphPanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (!layers_->plan()) documentChanged();
}

void GraphPanel::documentChanged() {
  refusal_ = {};
  showStatus();
  if (isVisible()) later_.start();
}

void GraphPanel::plan() {
  if (planning_) {
    again_ = true;
    return;
  }
  const bool isRun = document_->kind() == app::SpecKind::kRun;
  if (!isRun || !document_->spec().ok()) return showStatus();
  planning_ = true;
  struct Made {
    Result<app::LayerPlan> plan;
    int ranks;
  };
  // Unless a person has chosen, as few ranks as the strategy takes; of one that divides the batch,
  // two.
  const int wanted = chosen_ ? ranks_->value() : 0;
  runInBackground(
      this,
      [yaml = document_->spec().text(), file = document_->path().toStdString(), wanted]() -> Made {
        const auto spec = app::completeRunSpec(yaml, file);
        if (!spec.ok()) return {spec.error(), 1};
        const int least = std::clamp(app::leastRanks(*spec->spec), 1, kMostRanks);
        const int ranks = wanted > 0 ? wanted : std::max(least, 2);
        return {app::planLayers(*spec->spec, ranks), ranks};
      },
      [this, text = document_->spec().text()](const Made& made) {
        planning_ = false;
        if (std::exchange(again_, false)) later_.start();
        if (text != document_->spec().text()) return;  // of an earlier text
        if (!chosen_) {
          const QSignalBlocker blocker(ranks_);
          ranks_->setValue(made.ranks);
        }
        planned(made.plan);
      });
}

void GraphPanel::planned(const Result<app::LayerPlan>& made) {
  refusal_ = made.ok() ? Error() : made.error();
  layers_->setPlan(made);
  showStatus();
}

void GraphPanel::showStatus() {
  QString text;
  const app::LayerPlan* plan = layers_->plan();
  if (!refusal_.what.empty()) {
    text = tr("Not planned: %1").arg(messageText(refusal_.message()));
  } else if (plan != nullptr) {
    if (plan->stages > 1) text = tr("%1 stages").arg(plan->stages) + QString::fromUtf8(" · ");
    text += tr("%1 samples at a time").arg(plan->samples);
  } else if (document_->kind() == app::SpecKind::kRun && !document_->spec().ok()) {
    text = tr("Not planned: the spec has problems");
  }
  status_->setText(text);
  status_->setToolTip(plan != nullptr && refusal_.what.empty()
                          ? tr("samples per rank at a time: %1").arg(plan->samples)
                          : toolTipText(text));
}

void GraphPanel::retranslate() {
  search_->setPlaceholderText(tr("Find a layer"));
  search_->setAccessibleName(tr("Find a layer"));
  setTexts(previous_, tr("Previous match"));
  setTexts(next_, tr("Next match"));
  setTexts(closer_, tr("Zoom in"), tr("Zoom in (Ctrl++)"));
  setTexts(farther_, tr("Zoom out"), tr("Zoom out (Ctrl+-)"));
  setTexts(fit_, tr("Show everything"), tr("Show everything (Ctrl+0)"));
  ranksLabel_->setText(tr("Planned for"));
  ranks_->setSuffix(tr(" ranks"));
  ranks_->setAccessibleName(tr("Ranks that the model is planned for"));
  ranks_->setToolTip(tr("Stages and memory are those of a plan on so many CPU ranks of one node"));
  view_->retranslate();
  showStatus();
}

}  // namespace lockstep::ui
