#include "ui/pages/lesson_exercises.h"

#include <QEvent>
#include <QGridLayout>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

#include "ui/studio/lesson_session.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

LessonExercises::LessonExercises(LessonSession* session, QWidget* parent)
    : QWidget(parent), session_(session) {
  setObjectName("lessonExercises");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(kSpaceM);
  card_ = new Card("exerciseCard", this);
  auto* grid = new QGridLayout;
  grid->setHorizontalSpacing(kSpaceS);
  grid->setVerticalSpacing(kSpaceXs);
  grid->setColumnStretch(1, 1);
  for (int i = 0; i < static_cast<int>(session_->lesson().exercises.size()); ++i) {
    const QString number = QString::number(i);
    Row row{makeLabel("exerciseMark" + number, this), makeLabel("exerciseTask" + number, this),
            makeButton("exerciseHint" + number, nullptr, this, "link"),
            makeLabel("exerciseHintText" + number, this, "muted"),
            makeLabel("exerciseDone" + number, this)};
    for (QLabel* label : {row.task, row.hint, row.done}) label->setWordWrap(true);
    row.task->setAlignment(Qt::AlignTop | Qt::AlignLeft);
    row.hintButton->setCheckable(true);
    row.hint->hide();
    connect(row.hintButton, &QPushButton::toggled, row.hint, &QLabel::setVisible);
    grid->addWidget(row.mark, 4 * i, 0, Qt::AlignTop);
    grid->addWidget(row.task, 4 * i, 1);
    grid->addWidget(row.hintButton, 4 * i, 2, Qt::AlignTop);
    grid->addWidget(row.hint, 4 * i + 1, 1, 1, 2);
    grid->addWidget(row.done, 4 * i + 2, 1, 1, 2);
    grid->setRowMinimumHeight(4 * i + 3, kSpaceXs);
    rows_.push_back(row);
  }
  card_->body()->addLayout(grid);
  card_->setVisible(!rows_.empty());
  layout->addWidget(card_);
  buildRun();
  layout->addWidget(runCard_);
  connect(session_, &LessonSession::exerciseReached, this, &LessonExercises::refresh);
  for (const auto signal : {&LessonSession::stateChanged, &LessonSession::pageChanged})
    connect(session_, signal, this, &LessonExercises::refreshRun);
  connect(&Theme::instance(), &Theme::changed, this, &LessonExercises::refresh);
  retranslate();
}

void LessonExercises::buildRun() {
  runCard_ = new Card("lessonRunCard", this);
  runText_ = makeLabel("lessonRunText", this);
  runSettings_ = makeLabel("lessonRunSettings", this, "muted");
  runCommand_ = makeLabel("lessonRunCommand", this, "muted");
  runCommand_->setTextFormat(Qt::PlainText);
  runCommand_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  for (QLabel* label : {runText_, runSettings_, runCommand_}) label->setWordWrap(true);
  run_ = makeButton("lessonRun", "play", this);
  runCard_->body()->addWidget(runText_);
  runCard_->body()->addWidget(runSettings_);
  runCard_->body()->addWidget(runCommand_);
  runCard_->body()->addWidget(run_, 0, Qt::AlignLeft);
  connect(run_, &QPushButton::clicked, this, &LessonExercises::runWanted);
}

void LessonExercises::changeEvent(QEvent* event) {
  if (event->type() == QEvent::FontChange) refresh();
  QWidget::changeEvent(event);
}

void LessonExercises::refresh() {
  const Theme& theme = Theme::instance();
  const int size = fontMetrics().height();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const bool reached = session_->reached().contains(static_cast<int>(i));
    const Row& row = rows_[i];
    if (reached) {
      row.mark->setPixmap(theme.icon("ok", Tone::kGood).pixmap(size, size));
    } else {
      row.mark->setText(QString::number(i + 1));
    }
    row.mark->setFixedWidth(size + 2);
    row.mark->setAccessibleName(reached ? tr("reached") : tr("not reached yet"));
    row.mark->setToolTip(row.mark->accessibleName());
    row.done->setVisible(reached);
    QPalette palette = row.done->palette();
    palette.setColor(QPalette::WindowText, theme.color("good"));
    row.done->setPalette(palette);
  }
  card_->setTitle(
      tr("Exercises, reached: %1 of %2").arg(session_->reached().size()).arg(rows_.size()));
}

void LessonExercises::refreshRun() {
  const app::Lesson::RealRun run = session_->realRun();
  QStringList settings{tr("%1 local agents").arg(run.ranks)};
  for (const auto& [path, value] : run.settings)
    settings << QString("%1 = %2").arg(QString::fromStdString(path), QString::fromStdString(value));
  runSettings_->setText(settings.join(QString::fromUtf8(" · ")));
  runCommand_->setText(
      QString::fromStdString(app::learnLine(session_->lesson(), "--run", session_->moved())));
}

void LessonExercises::retranslate() {
  const std::string language = Language::instance().code().toStdString();
  const auto words = [&](const app::Words& text) {
    return QString::fromStdString(text.in(language)).trimmed();
  };
  const app::Lesson& lesson = session_->lesson();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    rows_[i].task->setText(words(lesson.exercises[i].task));
    rows_[i].hint->setText(words(lesson.exercises[i].hint));
    rows_[i].done->setText(words(lesson.exercises[i].done));
    setTexts(rows_[i].hintButton, tr("Hint"));
    rows_[i].hintButton->setAccessibleName(tr("Hint for exercise %1").arg(i + 1));
  }
  runCard_->setTitle(tr("For real"));
  runText_->setText(words(lesson.real.text));
  setTexts(run_, tr("Run on this machine…"), tr("Opens the launch dialog with these settings"));
  runCommand_->setToolTip(tr("Command that launches the same run from a terminal"));
  refresh();
  refreshRun();
}

}  // namespace lockstep::ui
