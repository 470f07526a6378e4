#include "ui/widgets/widgets.h"

#include <QApplication>
#include <QClipboard>
#include <QCursor>
#include <QEvent>
#include <QHBoxLayout>
#include <QHelpEvent>
#include <QPainter>
#include <QScrollArea>
#include <QStyle>
#include <QToolButton>
#include <QToolTip>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/theme/error_text.h"
#include "ui/theme/tool_tip.h"

namespace lockstep::ui {
namespace {

constexpr int kCardTitleWidth = 240;  // pixels, at least: most titles are seen whole

class WheelFilter : public QObject {
 public:
  using QObject::QObject;

 protected:
  bool eventFilter(QObject* field, QEvent* event) override {
    if (event->type() != QEvent::Wheel || static_cast<QWidget*>(field)->hasFocus()) return false;
    event->ignore();  // what is around the field has it
    return true;
  }
};

}  // namespace

QPushButton* makeButton(const QString& objectName, const char* icon, QWidget* parent,
                        const char* role) {
  auto* button = new QPushButton(parent);
  button->setObjectName(objectName);
  if (role) button->setProperty("role", role);
  const bool primary = role && qstrcmp(role, "primary") == 0;
  if (icon) {
    button->setIcon(Theme::instance().icon(icon, primary ? Tone::kOnAccent : Tone::kNeutral));
    button->setIconSize({19, 16});
  }
  return button;
}

QToolButton* makeToolButton(const QString& objectName, const char* icon, QWidget* parent) {
  auto* button = new QToolButton(parent);
  button->setObjectName(objectName);
  button->setIcon(Theme::instance().icon(icon));
  button->setAutoRaise(true);
  button->setFocusPolicy(Qt::TabFocus);
  return button;
}

QLabel* makeLabel(const QString& objectName, QWidget* parent, const char* role) {
  auto* label = new QLabel(parent);
  label->setObjectName(objectName);
  label->setTextFormat(Qt::PlainText);
  if (role) label->setProperty("role", role);
  return label;
}

ElidedLabel::ElidedLabel(const QString& objectName, QWidget* parent, const char* role)
    : QLabel(parent) {
  setObjectName(objectName);
  setTextFormat(Qt::PlainText);
  if (role) setProperty("role", role);
}
QSize ElidedLabel::minimumSizeHint() const {
  const QSize whole = QLabel::minimumSizeHint();
  return {std::min(whole.width(), least_), whole.height()};
}
QRect ElidedLabel::room() const { return contentsRect().adjusted(std::max(0, indent()), 0, 0, 0); }
void ElidedLabel::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setPen(palette().color(foregroundRole()));
  painter.drawText(room(), Qt::AlignVCenter | Qt::AlignLeft,
                   fontMetrics().elidedText(text(), Qt::ElideRight, room().width()));
}
bool ElidedLabel::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip && toolTip().isEmpty() &&
      fontMetrics().horizontalAdvance(text()) > room().width()) {
    QToolTip::showText(static_cast<QHelpEvent*>(event)->globalPos(), toolTipText(text()), this);
    return true;
  }
  return QLabel::event(event);
}

QLabel* makeHeading(const QString& objectName, QWidget* parent) {
  auto* heading = new ElidedLabel(objectName, parent);
  heading->setLeast(120);
  heading->setFont(Theme::instance().title());
  return heading;
}

QScrollArea* scrolled(QWidget* inner, QWidget* parent) {
  auto* area = new QScrollArea(parent);
  area->setObjectName(inner->objectName() + "Scroll");
  area->setWidget(inner);
  area->setWidgetResizable(true);
  area->setFrameShape(QFrame::NoFrame);
  area->setFocusPolicy(Qt::NoFocus);
  area->viewport()->setAutoFillBackground(false);
  inner->setAutoFillBackground(false);
  return area;
}

void leaveWheel(QWidget* field) {
  field->setFocusPolicy(Qt::StrongFocus);  // the wheel gives it no focus
  field->installEventFilter(new WheelFilter(field));
}

void setTexts(QAbstractButton* button, const QString& text, const QString& toolTip) {
  if (!qobject_cast<QToolButton*>(button)) button->setText(text);
  QString plain = text;
  plain.remove('&');
  button->setAccessibleName(plain);
  button->setToolTip(toolTip.isEmpty() && qobject_cast<QToolButton*>(button) ? plain : toolTip);
}

Card::Card(const QString& objectName, QWidget* parent) : QFrame(parent) {
  setObjectName(objectName);
  setProperty("role", "card");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(kSpaceL, kSpaceM, kSpaceL, kSpaceM);
  layout->setSpacing(kSpaceS);
  head_ = new QHBoxLayout;
  head_->setSpacing(kSpaceS);
  auto* title = new ElidedLabel(objectName + "Title", this, "section");  // a name may be long
  title->setLeast(kCardTitleWidth);
  title_ = title;
  title_->hide();
  head_->addWidget(title_);
  head_->addStretch(1);
  layout->addLayout(head_);
  body_ = new QVBoxLayout;
  body_->setSpacing(kSpaceS);
  layout->addLayout(body_, 1);
}

void Card::setTitle(const QString& title) {
  title_->setText(title);
  title_->setVisible(!title.isEmpty());
  setAccessibleName(title);
}

Figure::Figure(const QString& objectName, QWidget* parent) : QWidget(parent) {
  setObjectName(objectName);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  name_ = makeLabel(objectName + "Name", this, "muted");
  value_ = makeLabel(objectName + "Value", this);
  value_->setText(QString(QChar(0x2014)));
  value_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  detail_ = makeLabel(objectName + "Detail", this, "muted");
  detail_->hide();
  layout->addWidget(name_);
  layout->addWidget(value_);
  layout->addWidget(detail_);
  layout->addStretch(1);
  connect(&Theme::instance(), &Theme::changed, this, &Figure::restyle);
  restyle();
}

void Figure::restyle() {
  name_->setFont(Theme::instance().small(this));
  value_->setFont(Theme::instance().figure(this));
  detail_->setFont(Theme::instance().small(this));
}
void Figure::changeEvent(QEvent* event) {
  if (event->type() == QEvent::FontChange) restyle();
  QWidget::changeEvent(event);
}
void Figure::setName(const QString& name) {
  name_->setText(name);
  setAccessibleName(name);
}
void Figure::setValue(const QString& value, const QString& detail) {
  value_->setText(value);
  setAccessibleDescription(value);
  detail_->setText(detail);
  detail_->setVisible(!detail.isEmpty());
}

MessagePanel::MessagePanel(QWidget* parent) : QFrame(parent) {
  setObjectName("messagePanel");
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(kSpaceM, kSpaceS + 2, kSpaceS, kSpaceS + 2);
  layout->setSpacing(kSpaceM);
  icon_ = makeLabel("messageIcon", this);
  layout->addWidget(icon_, 0, Qt::AlignTop);
  auto* texts = new QVBoxLayout;
  texts->setSpacing(2);
  what_ = makeLabel("messageWhat", this, "section");
  why_ = makeLabel("messageWhy", this);
  next_ = makeLabel("messageNext", this);
  for (QLabel* label : {what_, why_, next_}) {
    label->setWordWrap(true);
    label->setTextFormat(Qt::PlainText);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    texts->addWidget(label);
  }
  layout->addLayout(texts, 1);
  action_ = makeButton("messageAction", nullptr, this);
  copy_ = makeButton("messageCopy", "copy", this);
  close_ = makeToolButton("messageClose", "close", this);
  layout->addWidget(action_, 0, Qt::AlignTop);
  layout->addWidget(copy_, 0, Qt::AlignTop);
  layout->addWidget(close_, 0, Qt::AlignTop);
  connect(action_, &QPushButton::clicked, this, &MessagePanel::actionTriggered);
  connect(copy_, &QPushButton::clicked, this,
          [this] { QApplication::clipboard()->setText(details_); });
  connect(close_, &QToolButton::clicked, this, &MessagePanel::clear);
  retranslate();
  action_->hide();
  hide();
  setArea(parent);
}

void MessagePanel::setArea(QWidget* area) {
  if (area_) area_->removeEventFilter(this);
  area_ = area;
  area_->installEventFilter(this);
}

bool MessagePanel::eventFilter(QObject* object, QEvent* event) {
  if (object == area_ && isVisible() &&
      (event->type() == QEvent::Resize || event->type() == QEvent::Move))
    place();
  return QFrame::eventFilter(object, event);
}

void MessagePanel::showEvent(QShowEvent* event) {
  QFrame::showEvent(event);
  place();
}

void MessagePanel::place() {
  const QRect whole(area_ == parentWidget() ? QPoint() : area_->mapTo(parentWidget(), QPoint()),
                    area_->size());
  const QRect inside = whole.adjusted(kSpaceL, kSpaceM, -kSpaceL, -kSpaceM);
  const int height = std::min(layout()->totalHeightForWidth(inside.width()), whole.height());
  setGeometry(inside.x(), above_ ? inside.top() : inside.bottom() + 1 - height, inside.width(),
              height);
  raise();
}

void MessagePanel::retranslate() {
  lockstep::ui::setTexts(copy_, tr("Copy details"));
  lockstep::ui::setTexts(close_, tr("Close message"));
  setAccessibleName(tr("Message"));
  if (action_->text().isEmpty()) action_->setAccessibleName(tr("Action"));
  if (!isVisibleTo(parentWidget())) return;
  if (asking_) setAction(asking_().action);
  if (error_) return showError(Error(*error_));
  if (note_) showNote(tone_, note_);
}
void MessagePanel::changeEvent(QEvent* event) {
  if (event->type() == QEvent::LanguageChange) retranslate();
  QFrame::changeEvent(event);
}

void MessagePanel::showTexts(Tone tone, const QString& what, const QString& why,
                             const QString& next) {
  tone_ = tone;
  const char* name = tone == Tone::kBad       ? "bad"
                     : tone == Tone::kWarning ? "warning"
                     : tone == Tone::kGood    ? "good"
                                              : "neutral";
  const char* icon = tone == Tone::kBad       ? "error"
                     : tone == Tone::kWarning ? "warning"
                     : tone == Tone::kGood    ? "ok"
                                              : "info";
  setProperty("tone", name);
  style()->unpolish(this);
  style()->polish(this);
  icon_->setPixmap(Theme::instance()
                       .icon(icon, tone == Tone::kNeutral ? Tone::kActive : tone)
                       .pixmap(QSize(18, 18), devicePixelRatioF()));
  what_->setText(what);
  why_->setText(why);
  why_->setVisible(!why.isEmpty());
  next_->setText(next);
  next_->setVisible(!next.isEmpty());
  setAccessibleDescription(what);
  layout()->activate();
  if (!isVisible()) {
    above_ = false;
    place();
    above_ = geometry().contains(parentWidget()->mapFromGlobal(QCursor::pos()));
  }
  place();
  show();
}

void MessagePanel::showError(const Error& error) {
  const ErrorText text = describeError(error);
  error_ = error;
  note_ = {};
  asks_ = false;
  details_ = QString::fromStdString(error.text());
  copy_->show();
  showTexts(error.code == Code::kCancelled ? Tone::kWarning : Tone::kBad, text.what, text.why,
            text.next);
}

void MessagePanel::showNote(Tone tone, std::function<Note()> note) {
  error_.reset();
  note_ = std::move(note);
  const Note now = note_();
  details_ = QStringList{now.what, now.why, now.next}.join('\n').trimmed();
  copy_->setVisible(tone == Tone::kBad);
  asks_ = !now.action.isEmpty();
  if (asks_)
    asking_ = note_;
  else if (asking_ && !asking_().stays)
    asking_ = {};
  setAction(asking_ ? asking_().action : QString());
  showTexts(tone, now.what, now.why, now.next);
}

void MessagePanel::dropAction() {
  if (asks_) return clear();
  asking_ = {};
  setAction({});
}

void MessagePanel::setAction(const QString& text) {
  lockstep::ui::setTexts(action_, text);
  if (text.isEmpty()) action_->setAccessibleName(tr("Action"));
  action_->setVisible(!text.isEmpty());
  if (isVisible()) place();
}

void MessagePanel::clear() {
  error_.reset();
  note_ = asking_ = {};
  asks_ = false;
  details_.clear();
  what_->clear();
  setAction({});
  hide();
}

EmptyState::EmptyState(const QString& objectName, const char* icon, QWidget* parent)
    : QWidget(parent), iconName_(icon) {
  setObjectName(objectName);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, kSpaceXs, 0, kSpaceXs);
  layout->setSpacing(kSpaceS);
  layout->addStretch(2);
  icon_ = makeLabel(objectName + "Icon", this);
  icon_->setAlignment(Qt::AlignCenter);
  title_ = makeLabel(objectName + "Title", this, "section");
  text_ = makeLabel(objectName + "Text", this, "muted");
  for (QLabel* label : {title_, text_}) {
    label->setAlignment(Qt::AlignCenter);
    label->setWordWrap(true);
    label->setTextFormat(Qt::PlainText);
  }
  button_ = makeButton(objectName + "Button", nullptr, this);
  button_->hide();
  layout->addWidget(icon_);
  layout->addWidget(title_);
  layout->addWidget(text_);
  layout->addWidget(button_, 0, Qt::AlignCenter);
  layout->addStretch(3);
  connect(&Theme::instance(), &Theme::changed, this, &EmptyState::restyle);
  restyle();
}

void EmptyState::restyle() {
  icon_->setPixmap(Theme::instance()
                       .icon(iconName_.toLatin1().constData())
                       .pixmap(QSize(32, 32), devicePixelRatioF()));
}

void EmptyState::setTexts(const QString& title, const QString& text, const QString& button) {
  title_->setText(title);
  setAccessibleName(title);
  text_->setText(text);
  lockstep::ui::setTexts(button_, button);
  if (button.isEmpty()) button_->setAccessibleName(title);
  button_->setVisible(!button.isEmpty());
}

StateBadge::StateBadge(const QString& objectName, QWidget* parent) : QLabel(parent) {
  setObjectName(objectName);
  setTextFormat(Qt::PlainText);
  connect(&Theme::instance(), &Theme::changed, this, &StateBadge::restyle);
}

void StateBadge::setState(const QString& text, Tone tone) {
  tone_ = tone;
  setText(text);
  setAccessibleName(text);
  setVisible(!text.isEmpty());
  restyle();
}

void StateBadge::restyle() {
  const Theme& theme = Theme::instance();
  const QColor back = tone_ == Tone::kGood      ? theme.color("goodSoft")
                      : tone_ == Tone::kWarning ? theme.color("warningSoft")
                      : tone_ == Tone::kBad     ? theme.color("badSoft")
                      : tone_ == Tone::kActive  ? theme.color("accentSoft")
                                                : theme.color("hover");
  setStyleSheet(
      QString("QLabel { background: %1; color: %2; border-radius: 9px; padding: 2px 9px; }")
          .arg(back.name(), theme.tone(tone_).name()));
}

}  // namespace lockstep::ui
