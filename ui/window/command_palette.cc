#include "ui/window/command_palette.h"

#include <QAction>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListView>
#include <QPixmap>
#include <QRegularExpression>
#include <QVBoxLayout>

#include "ui/theme/theme.h"
#include "ui/widgets/delegates.h"

namespace lockstep::ui {

QString plainActionText(const QAction* action) {
  static const QRegularExpression bracketed("\\(&.\\)");  // as Chinese texts carry it
  return action->text().remove(bracketed).remove('&').remove(QString::fromUtf8("…"));
}

void CommandModel::setActions(QList<QAction*> actions) {
  beginResetModel();
  actions_ = std::move(actions);
  endResetModel();
}
int CommandModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(actions_.size());
}
QVariant CommandModel::data(const QModelIndex& index, int role) const {
  const QAction* action = index.isValid() ? actions_.value(index.row()) : nullptr;
  if (!action) return {};
  if (role == Qt::DisplayRole) return plainActionText(action);
  if (role == kSearchRole) {
    // "actionNextTab" says it in English, whatever the studio's language.
    static const QRegularExpression capital("([a-z])([A-Z])");
    QString words = action->objectName().remove("action").remove("toggle_");
    return plainActionText(action) + ' ' + words.replace(capital, "\\1 \\2");
  }
  if (role == Qt::DecorationRole) {
    if (!action->icon().isNull()) return action->icon();
    // The names stand under each other whether they have an icon or not.
    QPixmap blank(16, 16);
    blank.fill(Qt::transparent);
    return QIcon(blank);
  }
  if (role == kShortcutRole) return action->shortcut().toString(QKeySequence::NativeText);
  return {};
}
Qt::ItemFlags CommandModel::flags(const QModelIndex& index) const {
  if (!index.isValid()) return Qt::NoItemFlags;
  const QAction* action = actions_.value(index.row());
  return action && action->isEnabled() ? Qt::ItemIsEnabled | Qt::ItemIsSelectable : Qt::NoItemFlags;
}

void WordFilter::setText(const QString& text) {
  words_ = text.split(' ', Qt::SkipEmptyParts);
  invalidate();
  sort(0);
}
bool WordFilter::filterAcceptsRow(int row, const QModelIndex& parent) const {
  const QString name =
      sourceModel()->index(row, 0, parent).data(CommandModel::kSearchRole).toString();
  return std::all_of(words_.begin(), words_.end(),
                     [&](const QString& word) { return name.contains(word, Qt::CaseInsensitive); });
}

bool WordFilter::beginsWords(const QModelIndex& row) const {
  const QString name = row.data(CommandModel::kSearchRole).toString();
  return std::all_of(words_.begin(), words_.end(), [&](const QString& word) {
    for (qsizetype at = -1; (at = name.indexOf(word, at + 1, Qt::CaseInsensitive)) >= 0;) {
      if (at == 0 || !name[at - 1].isLetterOrNumber()) return true;
    }
    return false;
  });
}
bool WordFilter::lessThan(const QModelIndex& left, const QModelIndex& right) const {
  const bool first = beginsWords(left), second = beginsWords(right);
  return first != second ? first : left.row() < right.row();
}

CommandPalette::CommandPalette(QWidget* window) : QFrame(window) {
  setObjectName("commandPalette");
  setProperty("role", "card");
  setFrameShape(QFrame::StyledPanel);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(kSpaceS, kSpaceS, kSpaceS, kSpaceS);
  edit_ = new QLineEdit(this);
  edit_->setObjectName("commandPaletteEdit");
  list_ = new QListView(this);
  list_->setObjectName("commandPaletteList");
  list_->setFocusPolicy(Qt::NoFocus);
  list_->setUniformItemSizes(true);
  model_ = new CommandModel(this);
  filter_ = new WordFilter(this);
  filter_->setSourceModel(model_);
  list_->setModel(filter_);
  list_->setItemDelegate(new DetailDelegate(CommandModel::kShortcutRole, list_));
  layout->addWidget(edit_);
  layout->addWidget(list_, 1);
  edit_->installEventFilter(this);
  connect(edit_, &QLineEdit::textChanged, this, [this](const QString& text) {
    filter_->setText(text);
    chooseFirst();
    fitHeight();
  });
  connect(list_, &QListView::clicked, this, [this](const QModelIndex& index) {
    if (!(index.flags() & Qt::ItemIsEnabled)) return;  // it cannot be chosen: another one is
    list_->setCurrentIndex(index);
    accept();
  });
  retranslate();
  hide();
}

void CommandPalette::retranslate() {
  setAccessibleName(tr("Command palette"));
  edit_->setPlaceholderText(tr("Type a command"));
  edit_->setAccessibleName(tr("Search commands"));
  list_->setAccessibleName(tr("Matching commands"));
}
void CommandPalette::changeEvent(QEvent* event) {
  if (event->type() == QEvent::LanguageChange) retranslate();
  QFrame::changeEvent(event);
}

void CommandPalette::popUp(const QList<QAction*>& actions) {
  model_->setActions(actions);
  edit_->clear();
  filter_->setText({});
  chooseFirst();
  const QWidget* window = parentWidget();
  const int width = std::min(560, window->width() - 2 * kSpaceXl);
  setGeometry((window->width() - width) / 2, 64, width, height());
  fitHeight();
  show();
  raise();
  edit_->setFocus(Qt::PopupFocusReason);
}

void CommandPalette::chooseFirst() {
  list_->setCurrentIndex({});
  choose(0, 1);
}

void CommandPalette::choose(int row, int by) {
  for (; row >= 0 && row < filter_->rowCount(); row += by) {
    const QModelIndex at = filter_->index(row, 0);
    if (filter_->flags(at) & Qt::ItemIsEnabled) return list_->setCurrentIndex(at);
  }
}

// No higher than what was found.
void CommandPalette::fitHeight() {
  constexpr int kMost = 420;
  const int rows = std::max(1, filter_->rowCount());
  const int row = std::max(26, list_->sizeHintForRow(0));
  const int frame = edit_->sizeHint().height() + 3 * kSpaceS + 2 * list_->frameWidth() + 6;
  resize(width(), std::min({rows * row + frame, kMost, parentWidget()->height() - 128}));
}

void CommandPalette::accept() {
  const QModelIndex at = filter_->mapToSource(list_->currentIndex());
  QAction* action = at.isValid() ? model_->action(at.row()) : nullptr;
  hide();
  if (action && action->isEnabled()) action->trigger();
}

bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
  if (watched == edit_ && event->type() == QEvent::KeyPress) {
    const int row = list_->currentIndex().row();
    switch (static_cast<QKeyEvent*>(event)->key()) {
      case Qt::Key_Escape:
        hide();
        return true;
      case Qt::Key_Down:
        choose(row + 1, 1);
        return true;
      case Qt::Key_Up:
        choose(row - 1, -1);
        return true;
      case Qt::Key_Return:
      case Qt::Key_Enter:
        accept();
        return true;
      default:
        break;
    }
  }
  if (watched == edit_ && event->type() == QEvent::FocusOut) hide();
  return QFrame::eventFilter(watched, event);
}

}  // namespace lockstep::ui
