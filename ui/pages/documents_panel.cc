#include "ui/pages/documents_panel.h"

#include <QApplication>
#include <QBoxLayout>
#include <QClipboard>
#include <QComboBox>
#include <QFileDialog>
#include <QPlainTextEdit>
#include <QPushButton>
#include <algorithm>

#include "engine/base/file.h"
#include "ui/studio/run_document.h"
#include "ui/theme/format.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"
#include "ui/widgets/yaml_editor.h"

namespace lockstep::ui {
namespace {

// Bytes. With more, the window would stand still while they are laid out, or coloured.
constexpr std::size_t kMostShown = 400'000, kMostColoured = 100'000;

// The first lines of a long text.
std::string_view shownPart(std::string_view text) {
  if (text.size() <= kMostShown) return text;
  text = text.substr(0, kMostShown);
  return text.substr(0, text.rfind('\n'));
}

// In the order of app::kRunTexts.
enum Kind { kSpec, kResolved, kCluster, kPlan, kCode };

Kind kindOf(const app::RunText& text) { return static_cast<Kind>(&text - app::kRunTexts.data()); }

QString titleOf(const app::RunText& text) {
  switch (kindOf(text)) {
    case kSpec:
      return DocumentsPanel::tr("Spec as written");
    case kResolved:
      return DocumentsPanel::tr("Spec as run");
    case kCluster:
      return DocumentsPanel::tr("Cluster");
    case kPlan:
      return DocumentsPanel::tr("Plan");
    case kCode:
      break;
  }
  return DocumentsPanel::tr("Code");
}

}  // namespace

DocumentsPanel::DocumentsPanel(RunDocument* document, QWidget* parent)
    : QWidget(parent), document_(document) {
  setObjectName("runDocuments");
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, kSpaceS, 0, 0);
  column->setSpacing(kSpaceS);
  auto* head = new QHBoxLayout;
  kind_ = new QComboBox(this);
  kind_->setObjectName("documentKind");
  about_ = new ElidedLabel("documentAbout", this, "muted");
  copy_ = makeButton("documentCopy", "copy", this);
  save_ = makeButton("documentSave", "save", this);
  head->addWidget(kind_);
  head->addWidget(about_, 1);
  head->addWidget(copy_);
  head->addWidget(save_);
  column->addLayout(head);
  text_ = new QPlainTextEdit(this);
  text_->setObjectName("documentText");
  text_->setReadOnly(true);
  text_->setLineWrapMode(QPlainTextEdit::NoWrap);
  text_->setFont(Theme::instance().monospace());
  highlighter_ = new YamlHighlighter(nullptr);
  highlighter_->setParent(this);
  column->addWidget(text_, 1);
  connect(kind_, &QComboBox::currentIndexChanged, this, &DocumentsPanel::showText);
  connect(copy_, &QPushButton::clicked, this,
          [this] { QApplication::clipboard()->setText(QString::fromStdString(text())); });
  connect(save_, &QPushButton::clicked, this, &DocumentsPanel::askSave);
  connect(&Theme::instance(), &Theme::changed, highlighter_, &QSyntaxHighlighter::rehighlight);
}

// Code without changes is told of too.
bool DocumentsPanel::has(const app::RunText& text) const {
  return !text.of(document_->documents()).empty() ||
         (kindOf(text) == kCode && !document_->codeCommit().empty());
}

const app::RunText* DocumentsPanel::chosen() const {
  const auto at = static_cast<std::size_t>(kind_->currentIndex());
  return at < kinds_.size() ? kinds_[at] : nullptr;
}

const std::string& DocumentsPanel::text() const {
  static const std::string kNone;
  const app::RunText* const one = chosen();
  return one ? one->of(document_->documents()) : kNone;
}

void DocumentsPanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  refresh();
}

void DocumentsPanel::refresh() {
  if (!isVisible() || !document_->loaded()) return;
  refreshKinds();
  showText();
}

void DocumentsPanel::refreshKinds() {
  std::vector<const app::RunText*> kinds;
  for (const app::RunText& text : app::kRunTexts)
    if (has(text)) kinds.push_back(&text);
  if (kinds == kinds_) return;
  const auto same = std::find(kinds.begin(), kinds.end(), chosen());
  const auto index = same == kinds.end() ? 0 : static_cast<int>(same - kinds.begin());
  const QSignalBlocker blocker(kind_);
  kinds_ = std::move(kinds);
  kind_->clear();
  for (const app::RunText* one : kinds_) kind_->addItem(titleOf(*one));
  kind_->setCurrentIndex(kinds_.empty() ? -1 : index);
}

void DocumentsPanel::showText() {
  const app::RunText* const one = chosen();
  const std::string_view part = shownPart(text());
  const bool isColoured = one != nullptr && one->ending == "yaml" && part.size() <= kMostColoured;
  about_->setText(about());
  if (shown_ != part) {  // keeps the place otherwise
    shown_ = part;
    highlighter_->setDocument(nullptr);
    text_->setPlainText(QString::fromStdString(shown_));
  }
  if (isColoured != (highlighter_->document() != nullptr))
    highlighter_->setDocument(isColoured ? text_->document() : nullptr);
  for (QPushButton* button : {copy_, save_}) button->setEnabled(!text().empty());
}

QString DocumentsPanel::about() const {
  const app::RunText* const one = chosen();
  if (one == nullptr) return tr("Nothing is kept of this run's launch.");
  const std::size_t all = text().size(), part = shownPart(text()).size();
  if (part < all)
    return tr("The first %1 of %2 are shown; a copy has all.")
        .arg(formatBytes(static_cast<double>(part)), formatBytes(static_cast<double>(all)));
  switch (kindOf(*one)) {
    case kSpec:
      return {};
    case kResolved:
      return tr("With defaults filled in, and what was set at the launch");
    case kCluster:
      return QString::fromStdString(document_->row().clusterName);
    case kPlan:
      return QString::fromStdString(document_->row().planHash);
    case kCode:
      break;
  }
  const QString commit = QString::fromStdString(document_->codeCommit());
  return text().empty() ? tr("Commit %1, without changes").arg(commit)
                        : tr("Commit %1, with these changes:").arg(commit);
}

void DocumentsPanel::askSave() {
  const app::RunText* const one = chosen();
  if (one == nullptr) return;
  const auto ending = QString::fromLatin1(one->ending.data(), std::ssize(one->ending));
  const auto name = QString::fromLatin1(one->name.data(), std::ssize(one->name));
  auto* dialog =
      new QFileDialog(this, tr("Save %1").arg(titleOf(*one)),
                      QString("%1-%2.%3").arg(document_->run(), name, ending), "*." + ending);
  dialog->setObjectName("saveDocumentDialog");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setAcceptMode(QFileDialog::AcceptSave);
  dialog->setDefaultSuffix(ending);
  connect(dialog, &QFileDialog::fileSelected, this, [this, one](const QString& path) {
    Q_EMIT saved(path, writeFileAtomically(path.toStdString(), one->of(document_->documents())));
  });
  dialog->open();
}

void DocumentsPanel::retranslate() {
  setTexts(copy_, tr("Copy"), tr("Copy this text"));
  setTexts(save_, tr("Save as…"), tr("Save this text; the changes of the code are for git apply"));
  kind_->setAccessibleName(tr("Document"));
  text_->setAccessibleName(tr("Text of the document"));
  for (std::size_t i = 0; i < kinds_.size(); ++i)
    kind_->setItemText(static_cast<int>(i), titleOf(*kinds_[i]));
  refresh();
}

}  // namespace lockstep::ui
