#include "ui/pages/lesson_list.h"

#include <QApplication>
#include <QDir>
#include <QEvent>
#include <QFile>
#include <QFileInfo>
#include <QLabel>
#include <QListView>
#include <QPainter>
#include <QStandardItemModel>
#include <QStyledItemDelegate>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/theme/error_text.h"
#include "ui/theme/format.h"
#include "ui/theme/language.h"
#include "ui/theme/message_text.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

enum Role { kSummaryRole = Qt::UserRole + 1, kDetailRole, kDoneRole, kDamagedRole };

// A title with a mark before it and a detail at the right, and below it a sentence.
class LessonDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex&) const override {
    return {200, 2 * option.fontMetrics.height() + 2 * kSpaceS + kSpaceXs};
  }

  void paint(QPainter* painter, const QStyleOptionViewItem& given,
             const QModelIndex& index) const override {
    QStyleOptionViewItem option = given;
    initStyleOption(&option, index);
    option.text.clear();
    option.widget->style()->drawControl(QStyle::CE_ItemViewItem, &option, painter, option.widget);
    const Theme& theme = Theme::instance();
    const bool selected = option.state & QStyle::State_Selected;
    const QColor ink =
        selected ? option.palette.color(QPalette::HighlightedText) : theme.color("text");
    const QColor quiet = selected ? ink : theme.color("muted");
    const int line = option.fontMetrics.height();
    const QRect inner = option.rect.adjusted(kSpaceM, kSpaceS, -kSpaceM, -kSpaceS);
    const bool damaged = index.data(kDamagedRole).toBool();
    painter->save();
    painter->setFont(option.font);
    const QRect mark(inner.left(), inner.top() + 1, line, line);
    if (damaged || index.data(kDoneRole).toBool()) {
      theme.icon(damaged ? "warning" : "ok", damaged ? Tone::kWarning : Tone::kGood)
          .paint(painter, mark);
    } else {
      painter->setPen(quiet);
      painter->drawText(mark.adjusted(-4, -2, 4, 2), Qt::AlignCenter,
                        QString::number(index.row() + 1));
    }
    const QRect text = inner.adjusted(line + kSpaceM, 0, 0, 0);
    const QString detail = index.data(kDetailRole).toString();
    const int beside = option.fontMetrics.horizontalAdvance(detail) + kSpaceM;
    painter->setPen(quiet);
    painter->drawText(text, Qt::AlignTop | Qt::AlignRight, detail);
    drawElided(painter, text.adjusted(0, line + kSpaceXs, 0, 0),
               index.data(kSummaryRole).toString(), option.font);
    QFont bold = option.font;
    bold.setWeight(QFont::DemiBold);
    painter->setPen(ink);
    drawElided(painter, text.adjusted(0, 0, -beside, 0), index.data(Qt::DisplayRole).toString(),
               bold);
    painter->restore();
  }

 private:
  static void drawElided(QPainter* painter, const QRect& room, const QString& text,
                         const QFont& font) {
    painter->setFont(font);
    painter->drawText(room, Qt::AlignTop | Qt::AlignLeft,
                      QFontMetrics(font).elidedText(text, Qt::ElideRight, room.width()));
  }
};

LessonEntry readEntry(const QString& path) {
  LessonEntry out;
  out.file = path;
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly)) {
    out.error = makeError(Code::kPermissionDenied, "cannot read {}", path.toStdString());
    return out;
  }
  auto lesson = app::parseLesson(file.readAll().toStdString(), path.toStdString());
  if (lesson) {
    out.lesson = std::make_shared<const app::Lesson>(std::move(*lesson));
  } else {
    out.error = lesson.error();
  }
  return out;
}

}  // namespace

Result<std::vector<LessonEntry>> readLessonEntries(const QString& path) {
  const QDir folder(path);
  if (path.isEmpty() || !folder.exists()) {
    Error error =
        makeError(Code::kNotFound, "there is no folder {} with lessons", path.toStdString());
    error.next = message("install Lockstep's lessons, or start the studio from the source tree");
    return error;
  }
  std::vector<LessonEntry> out;
  for (const QString& name : folder.entryList({"*.yaml"}, QDir::Files, QDir::Name))
    out.push_back(readEntry(folder.filePath(name)));
  if (out.empty())
    return makeError(Code::kNotFound, "the folder {} has no lessons", path.toStdString());
  return out;
}

LessonList::LessonList(QWidget* parent) : QWidget(parent) {
  setObjectName("lessonList");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  content_ = new QWidget(this);
  auto* column = new QVBoxLayout(content_);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(kSpaceS);
  heading_ = makeLabel("learnHeading", this);
  intro_ = makeLabel("learnIntro", this, "muted");
  intro_->setWordWrap(true);
  model_ = new QStandardItemModel(this);
  list_ = new QListView(this);
  list_->setObjectName("lessons");
  list_->setModel(model_);
  list_->setItemDelegate(new LessonDelegate(list_));
  list_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  list_->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
  column->addWidget(heading_);
  column->addWidget(intro_);
  column->addWidget(list_, 1);
  empty_ = new EmptyState("learnEmpty", "learn", this);
  layout->addWidget(content_, 1);
  layout->addWidget(empty_, 1);
  empty_->hide();
  connect(list_, &QListView::activated, this,
          [this](const QModelIndex& index) { Q_EMIT chosen(index.row()); });
  connect(list_, &QListView::clicked, this,
          [this](const QModelIndex& index) { Q_EMIT chosen(index.row()); });
  connect(empty_->button(), &QPushButton::clicked, this, &LessonList::readAgain);
  connect(&Theme::instance(), &Theme::changed, this, &LessonList::restyle);
  restyle();
  retranslate();
}

void LessonList::restyle() { heading_->setFont(Theme::instance().title(this)); }

void LessonList::changeEvent(QEvent* event) {
  if (event->type() == QEvent::FontChange) {
    restyle();
    if (list_) list_->doItemsLayout();
  }
  QWidget::changeEvent(event);
}

void LessonList::setEntries(std::vector<LessonEntry> entries) {
  entries_ = std::move(entries);
  problem_.reset();
  refresh();
}

void LessonList::showProblem(const Error& error) {
  entries_.clear();
  problem_ = error;
  refresh();
}

void LessonList::refresh() {
  content_->setVisible(!problem_);
  empty_->setVisible(problem_.has_value());
  if (problem_) {
    const ErrorText words = describeError(*problem_);
    empty_->setTexts(tr("No lessons"), QStringList{words.what, words.why, words.next}.join(' '),
                     tr("Look again"));
  }
  const std::string language = Language::instance().code().toStdString();
  const int current = list_->currentIndex().row();
  model_->clear();
  int done = 0;
  for (const LessonEntry& entry : entries_) {
    auto* item = new QStandardItem;
    if (entry.lesson) {
      const app::Lesson& lesson = *entry.lesson;
      item->setText(QString::fromStdString(lesson.title.in(language)));
      item->setData(QString::fromStdString(lesson.summary.in(language)).simplified(), kSummaryRole);
      item->setData(tr("%1 min").arg(lesson.minutes), kDetailRole);
      item->setData(entry.isDone(), kDoneRole);
      if (entry.reached > 0 && !entry.isDone())
        item->setData(tr("%1 of %2 exercises · %3 min")
                          .arg(entry.reached)
                          .arg(lesson.exercises.size())
                          .arg(lesson.minutes),
                      kDetailRole);
      done += entry.isDone() ? 1 : 0;
    } else {
      item->setText(QFileInfo(entry.file).fileName());
      item->setData(describeError(entry.error).what, kSummaryRole);
      item->setData(tr("cannot be read"), kDetailRole);
      item->setData(true, kDamagedRole);
    }
    item->setData(QString("%1, %2%3")
                      .arg(item->text(), item->data(kDetailRole).toString(),
                           entry.isDone() ? ", " + tr("done") : QString()),
                  Qt::AccessibleTextRole);
    item->setToolTip(item->data(kSummaryRole).toString());
    model_->appendRow(item);
  }
  list_->setCurrentIndex(model_->index(std::max(0, current), 0));
  intro_->setText(tr("How distributed training works, shown by the simulator and then run for real "
                     "on this machine. Done: %1 of %2.")
                      .arg(done)
                      .arg(entries_.size()));
}

void LessonList::retranslate() {
  heading_->setText(tr("Learn"));
  list_->setAccessibleName(tr("Lessons"));
  refresh();
}

}  // namespace lockstep::ui
