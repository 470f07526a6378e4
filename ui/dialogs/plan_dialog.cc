#include "ui/dialogs/plan_dialog.h"

#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QHash>
#include <QHeaderView>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSyntaxHighlighter>
#include <QTabWidget>
#include <QTableView>
#include <QVBoxLayout>
#include <utility>

#include "engine/base/file.h"
#include "ui/models/plan_figure_model.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/theme/theme.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

// Marks the lines of a plan that the other one lacks. A line that occurs more often than there is
// marked from there on.
class DifferenceMarks : public QSyntaxHighlighter {
 public:
  DifferenceMarks(QTextDocument* document, const QString& other) : QSyntaxHighlighter(document) {
    QHash<QString, int> left;
    for (const QString& line : other.split('\n')) ++left[line];
    for (const QString& line : document->toPlainText().split('\n')) {
      int& count = left[line];
      isMarked_ << (count <= 0);
      --count;
    }
  }

 protected:
  void highlightBlock(const QString& text) override {
    const int line = currentBlock().blockNumber();
    if (line >= isMarked_.size() || !isMarked_[line]) return;
    QColor color = Theme::instance().color("accent");
    color.setAlphaF(0.2F);
    QTextCharFormat format;
    format.setBackground(color);
    setFormat(0, static_cast<int>(text.size()), format);
  }

 private:
  QVector<bool> isMarked_;  // by line
};

QPlainTextEdit* makeText(const char* name, const app::Preview& preview, QWidget* parent) {
  auto* out = new QPlainTextEdit(parent);
  out->setObjectName(name);
  out->setReadOnly(true);
  out->setLineWrapMode(QPlainTextEdit::NoWrap);
  out->setFont(Theme::instance().monospace());
  out->setPlainText(QString::fromStdString(preview.planText));
  return out;
}

}  // namespace

PlanDialog::PlanDialog(Shown plan, Shown other, QWidget* parent)
    : Dialog("planDialog", parent), plan_(std::move(plan)), other_(std::move(other)) {
  resize(QSize(1000, 640).boundedTo(parent->window()->size()));
  tabs_ = new QTabWidget(this);
  tabs_->setObjectName("planTabs");
  tabs_->setDocumentMode(true);
  model_ = new PlanFigureModel(this);
  if (other_.preview)
    model_->setFigures(plan_.figures, other_.figures);
  else
    model_->setFigures(plan_.figures);
  figures_ = new QTableView(this);
  figures_->setObjectName("planFigures");
  figures_->setModel(model_);
  applyTableStyle(figures_);
  figures_->horizontalHeader()->setStretchLastSection(false);
  figures_->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
  tabs_->addTab(figures_, {});
  tabs_->addTab(makeTexts(), {});
  content()->addWidget(tabs_, 1);
  message_ = new MessagePanel(this);
  message_->setArea(tabs_);  // the buttons stay free
  retranslate();
}

QWidget* PlanDialog::makeTexts() {
  auto* page = new QWidget(this);
  auto* column = new QVBoxLayout(page);
  column->setContentsMargins(0, kSpaceS, 0, 0);
  column->setSpacing(kSpaceS);
  auto* head = new QHBoxLayout;
  copy_ = makeButton("planDialogCopy", "copy", page);
  save_ = makeButton("planDialogSave", "save", page);
  head->addWidget(copy_);  // on the plan's side, not that of the other
  head->addWidget(save_);
  head->addStretch(1);
  column->addLayout(head);
  auto* row = new QHBoxLayout;
  column->addLayout(row, 1);
  connect(copy_, &QPushButton::clicked, this,
          [this] { QApplication::clipboard()->setText(planText_->toPlainText()); });
  connect(save_, &QPushButton::clicked, this, &PlanDialog::askSave);
  planText_ = makeText("planDialogText", *plan_.preview, page);
  row->addWidget(planText_);
  if (!other_.preview) return page;
  otherText_ = makeText("planDialogOther", *other_.preview, page);
  row->addWidget(otherText_);
  new DifferenceMarks(planText_->document(), otherText_->toPlainText());
  new DifferenceMarks(otherText_->document(), planText_->toPlainText());
  return page;
}

void PlanDialog::askSave() {
  auto* dialog = new QFileDialog(this, tr("Save the plan"), "plan.txt", "*.txt");
  dialog->setObjectName("savePlanDialog");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setAcceptMode(QFileDialog::AcceptSave);
  dialog->setDefaultSuffix("txt");
  connect(dialog, &QFileDialog::fileSelected, this, [this](const QString& path) {
    const Status saved = writeFileAtomically(path.toStdString(), plan_.preview->planText);
    if (!saved.ok()) return message_->showError(saved.error());
    message_->showNote(Tone::kGood, [path] {
      return MessagePanel::Note{.what = tr("The plan is in %1.").arg(formatPath(path))};
    });
  });
  dialog->open();
}

void PlanDialog::retranslate() {
  const QString name = messageText(plan_.name);
  if (!other_.preview)
    setHeading(name, {});
  else if (plan_.preview->planHash == other_.preview->planHash)
    setHeading(name, tr("The plans are the same."));
  else
    setHeading(
        name,
        tr("Beside the current plan, %1. What differs is marked.").arg(messageText(other_.name)));
  setButtons(tr("Choose"), tr("Close"));
  tabs_->setTabText(0, tr("Figures"));
  tabs_->setTabText(1, tr("Plan"));
  tabs_->setAccessibleName(name);
  figures_->setAccessibleName(tr("Figures"));
  setTexts(copy_, tr("Copy"), tr("Copy the text of this plan"));
  setTexts(save_, tr("Save as…"), tr("Save the text of this plan"));
  planText_->setAccessibleName(tr("Text of the plan"));
  if (otherText_) otherText_->setAccessibleName(tr("Text of the current plan"));
  model_->retranslate();
}

}  // namespace lockstep::ui
