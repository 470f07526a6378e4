#include "ui/pages/lesson_text.h"

#include <QEvent>
#include <QFrame>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QRegularExpression>
#include <QToolTip>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/studio/lesson_session.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr const char* kTermLink = "term:";

struct Found {  // a term in a text
  qsizetype at, length, term;
};

// The first place of each term, none within another; a longer name goes first.
std::vector<Found> termsIn(const QString& text, const std::vector<app::Term>& terms,
                           const std::string& language) {
  std::vector<std::pair<QString, qsizetype>> names;
  for (std::size_t i = 0; i < terms.size(); ++i)
    names.emplace_back(QString::fromStdString(terms[i].name.in(language)),
                       static_cast<qsizetype>(i));
  std::stable_sort(names.begin(), names.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  std::vector<Found> out;
  for (const auto& [name, term] : names) {
    if (name.isEmpty()) continue;
    // A word of letters does not begin or end within another; Chinese has no such bounds.
    const bool latin = name[0].unicode() < 0x250;
    const QString words = QRegularExpression::escape(name);
    const QRegularExpression pattern(
        latin ? "(?<![\\w-])" + words + "(?:e?s)?(?![\\w-])" : words,
        QRegularExpression::CaseInsensitiveOption | QRegularExpression::UseUnicodePropertiesOption);
    for (auto it = pattern.globalMatch(text); it.hasNext();) {
      const auto match = it.next();
      const qsizetype at = match.capturedStart(), length = match.capturedLength();
      const bool taken = std::any_of(out.begin(), out.end(), [&](const Found& other) {
        return at < other.at + other.length && other.at < at + length;
      });
      if (taken) continue;
      out.push_back({at, length, term});
      break;
    }
  }
  std::sort(out.begin(), out.end(), [](const Found& a, const Found& b) { return a.at < b.at; });
  return out;
}

QString marked(QString html) {
  static const QRegularExpression code("`([^`]+)`"), strong("\\*\\*([^*]+)\\*\\*");
  html.replace(code, "<code>\\1</code>");
  html.replace(strong, "<b>\\1</b>");
  static const QRegularExpression parts("\\n\\s*\\n");
  QString out;
  for (const QString& part : html.trimmed().split(parts))
    out += "<p style=\"margin-top:0; margin-bottom:8px; line-height:125%\">" + part + "</p>";
  return out;
}

}  // namespace

QString lessonHtml(const QString& text, const std::vector<app::Term>& terms,
                   const std::string& language) {
  QString html;
  qsizetype done = 0;
  for (const Found& found : termsIn(text, terms, language)) {
    html += text.mid(done, found.at - done).toHtmlEscaped();
    html += QString("<a href=\"%1%2\">%3</a>")
                .arg(kTermLink)
                .arg(found.term)
                .arg(text.mid(found.at, found.length).toHtmlEscaped());
    done = found.at + found.length;
  }
  html += text.mid(done).toHtmlEscaped();
  return marked(html);
}

LessonText::LessonText(LessonSession* session, QWidget* parent)
    : QWidget(parent), session_(session) {
  setObjectName("lessonText");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(kSpaceM);
  question_ = makeLabel("lessonQuestion", this);
  text_ = makeLabel("lessonPageText", this);
  text_->setTextFormat(Qt::RichText);
  text_->setTextInteractionFlags(Qt::TextBrowserInteraction);
  text_->setFocusPolicy(Qt::StrongFocus);
  termBox_ = new QFrame(this);
  termBox_->setObjectName("lessonTermBox");
  auto* inBox = new QVBoxLayout(termBox_);
  inBox->setContentsMargins(kSpaceM, kSpaceS, kSpaceM, kSpaceS);
  term_ = makeLabel("lessonTerm", termBox_);
  term_->setTextFormat(Qt::RichText);
  inBox->addWidget(term_);
  termBox_->hide();
  for (QLabel* label : {question_, text_, term_}) label->setWordWrap(true);
  back_ = makeButton("lessonBack", nullptr, this);
  next_ = makeButton("lessonNext", nullptr, this, "primary");
  place_ = makeLabel("lessonPlace", this, "muted");
  place_->setAlignment(Qt::AlignCenter);
  auto* row = new QHBoxLayout;
  row->addWidget(back_);
  row->addWidget(place_, 1);
  row->addWidget(next_);
  layout->addWidget(question_);
  layout->addWidget(text_);
  layout->addWidget(termBox_);
  layout->addLayout(row);
  connect(back_, &QPushButton::clicked, this, [this] { session_->turnTo(session_->page() - 1); });
  connect(next_, &QPushButton::clicked, this, [this] { session_->turnTo(session_->page() + 1); });
  connect(text_, &QLabel::linkActivated, this, &LessonText::showTerm);
  connect(text_, &QLabel::linkHovered, this,
          [this](const QString& link) { text_->setToolTip(meaningOf(link)); });
  connect(session_, &LessonSession::pageChanged, this, [this] {
    showTerm({});
    refresh();
  });
  connect(&Theme::instance(), &Theme::changed, this, [this] {
    restyle();
    refresh();
  });
  restyle();
  retranslate();
}

void LessonText::changeEvent(QEvent* event) {
  if (event->type() == QEvent::FontChange) restyle();
  QWidget::changeEvent(event);
}

void LessonText::restyle() {
  const Theme& theme = Theme::instance();
  QFont font = theme.title(this);
  font.setPointSizeF(this->font().pointSizeF() * 1.2);
  question_->setFont(font);
  termBox_->setStyleSheet(QString("QFrame#lessonTermBox { background: %1; border: none; "
                                  "border-left: 3px solid %2; border-radius: 3px; }")
                              .arg(theme.color("accentSoft").name(), theme.color("accent").name()));
}

QString LessonText::meaningOf(const QString& link) const {
  bool isNumber = false;
  const int index = link.mid(static_cast<int>(qstrlen(kTermLink))).toInt(&isNumber);
  const auto& terms = session_->lesson().terms;
  if (!link.startsWith(kTermLink) || !isNumber || index >= static_cast<int>(terms.size()))
    return {};
  const app::Term& term = terms[static_cast<std::size_t>(index)];
  const std::string language = Language::instance().code().toStdString();
  return QString::fromUtf8("<b>%1</b>: %2")
      .arg(QString::fromStdString(term.name.in(language)).toHtmlEscaped(),
           QString::fromStdString(term.meaning.in(language)).trimmed().toHtmlEscaped());
}

void LessonText::showTerm(const QString& link) {
  shownTerm_ = link == shownTerm_ ? QString() : link;
  const QString meaning = meaningOf(shownTerm_);
  term_->setText(meaning);
  termBox_->setVisible(!meaning.isEmpty());
}

void LessonText::refresh() {
  const app::Lesson& lesson = session_->lesson();
  const std::string language = Language::instance().code().toStdString();
  question_->setText(QString::fromStdString(lesson.question.in(language)).trimmed());
  const int pages = static_cast<int>(lesson.pages.size());
  if (pages > 0) {
    const auto& page = lesson.pages[static_cast<std::size_t>(session_->page())];
    text_->setText(
        lessonHtml(QString::fromStdString(page.text.in(language)), lesson.terms, language));
  }
  place_->setText(tr("page %1 of %2").arg(session_->page() + 1).arg(pages));
  back_->setEnabled(session_->page() > 0);
  next_->setEnabled(session_->page() + 1 < pages);
  term_->setText(meaningOf(shownTerm_));
}

void LessonText::retranslate() {
  setTexts(back_, tr("Back"));
  setTexts(next_, tr("Next"));
  text_->setAccessibleName(tr("Text of the page"));
  question_->setAccessibleName(tr("Question"));
  refresh();
}

}  // namespace lockstep::ui
