#include "ui/pages/spec_page.h"

#include <QFileInfo>
#include <QLabel>
#include <QListWidget>
#include <QVBoxLayout>

#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/theme/tool_tip.h"
#include "ui/widgets/find_bar.h"
#include "ui/widgets/widgets.h"
#include "ui/widgets/yaml_editor.h"

namespace lockstep::ui {

SpecPage::SpecPage(const QString& objectName, const QString& keyPrefix,
                   std::unique_ptr<SpecDocument> document, QWidget* parent)
    : Page(objectName, keyPrefix + document->path(), parent),
      keyPrefix_(keyPrefix),
      document_(std::move(document)) {
  textSide_ = new Card("yamlCard", this);
  auto* card = static_cast<Card*>(textSide_);
  card->body()->setContentsMargins(0, 0, 0, 0);
  readOnly_ = makeLabel("yamlReadOnly", this);
  card->head()->addWidget(readOnly_);
  editor_ = new YamlEditor("yamlEditor", this);
  find_ = new FindBar("yamlFind", editor_, this);
  card->body()->addWidget(find_);
  card->body()->addWidget(editor_, 1);
  card->setMinimumWidth(280);
  problems_ = new QListWidget(this);
  problems_->setObjectName("problemList");
  problems_->setWordWrap(true);
  problems_->setResizeMode(QListView::Adjust);  // wraps anew in another width
  problems_->setMaximumHeight(96);
  card->body()->addWidget(problems_);

  connect(editor_, &YamlEditor::edited, document_.get(), &SpecDocument::type);
  connect(editor_, &YamlEditor::undoWanted, document_->undoStack(), &QUndoStack::undo);
  connect(editor_, &YamlEditor::redoWanted, document_->undoStack(), &QUndoStack::redo);
  connect(document_.get(), &SpecDocument::changed, this, [this] { documentChanged(); });
  connect(document_.get(), &SpecDocument::modifiedChanged, this, &Page::titleChanged);
  connect(problems_, &QListWidget::itemActivated, this, [this](QListWidgetItem* item) {
    const auto& problems = document_->spec().problems();
    const auto at = static_cast<std::size_t>(problems_->row(item));
    if (at < problems.size()) problemChosen(app::SpecProblem(problems[at]));
  });
  connect(problems_, &QListWidget::itemClicked, problems_, &QListWidget::itemActivated);
}

void SpecPage::find() { find_->open(); }

QString SpecPage::titleDetail() const { return formatPath(QFileInfo(document_->path()).path()); }

SpecPage::~SpecPage() {
  document_->blockSignals(true);
  document_->undoStack()->blockSignals(true);
}

void SpecPage::problemChosen(const app::SpecProblem& problem) {
  editor_->goTo(problem.line, problem.column);
  editor_->setFocus();
}

void SpecPage::documentChanged() {
  const app::SpecText& spec = document_->spec();
  editor_->setText(document_->text());
  QVector<TextMark> marks;
  problems_->clear();
  for (const auto& problem : spec.problems()) {
    const QString text = messageText(problem.message());
    // A missing field is a step to take, not a mistake in a line.
    if (!problem.missing) marks << TextMark{problem.line, problem.column, text};
    auto* item = new QListWidgetItem(
        problem.missing ? Theme::instance().icon("info", Tone::kActive)
                        : Theme::instance().icon("error", Tone::kBad),
        problem.line > 0 && !problem.missing ? tr("Line %1: %2").arg(problem.line).arg(text) : text,
        problems_);
    item->setToolTip(toolTipText(text + '\n' + QString::fromStdString(problem.error().what)));
  }
  problems_->setVisible(!spec.problems().empty());
  editor_->setMarks(marks);
  readOnly_->setVisible(!spec.readable());
  Q_EMIT inspectorChanged();
}

void SpecPage::showStatus(const Status& status) {
  if (!status.ok()) message()->showError(status.error());
}

bool SpecPage::save() { return saveAs(document_->path()); }

bool SpecPage::saveAs(const QString& path) {
  const bool isOther = path != document_->path();
  const Status status = document_->save(path);
  showStatus(status);
  if (!status.ok()) return false;
  if (isOther) endAlerts();
  setKey(keyPrefix_ + document_->path());
  if (isOther) retranslate();  // commands name the file, and what lasts is told under the new key
  Q_EMIT titleChanged();
  return true;
}

void SpecPage::retranslate() {
  static_cast<Card*>(textSide_)->setTitle(tr("Spec text"));
  readOnly_->setText(tr("Invalid YAML: form locked"));
  editor_->setAccessibleName(tr("Spec text"));
  editor_->setAccessibleDescription(tr("Tab indents. After Escape, Tab leaves the text."));
  problems_->setAccessibleName(tr("Problems in the spec"));
  documentChanged();
}

}  // namespace lockstep::ui
