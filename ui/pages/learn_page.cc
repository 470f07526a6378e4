#include "ui/pages/learn_page.h"

#include <QFile>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QStackedWidget>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <set>

#include "engine/base/file.h"
#include "ui/pages/lesson_list.h"
#include "ui/pages/lesson_viewer.h"
#include "ui/studio/lesson_session.h"
#include "ui/studio/settings.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr double kProjectorScale = 1.5;
constexpr const char* kProjectorKey = "learn/projector";

// Widgets under a style sheet do not take the font of their parent.
void scaleType(QWidget* root, double factor) {
  QList<QWidget*> all = root->findChildren<QWidget*>();
  all.prepend(root);
  QList<QFont> fonts;
  for (const QWidget* widget : all) {
    QFont font = widget->font();
    font.setPointSizeF(font.pointSizeF() * factor);
    fonts << font;
  }
  for (int i = 0; i < all.size(); ++i) all[i]->setFont(fonts[i]);
}

QString reachedKey(const app::Lesson& lesson) {
  return "learn/reached/" + QString::fromStdString(lesson.id);
}

std::set<int> readReached(Settings& settings, const app::Lesson& lesson) {
  std::set<int> out;
  for (const QString& word : settings.store().value(reachedKey(lesson)).toStringList()) {
    bool isNumber = false;
    const int exercise = word.toInt(&isNumber);
    if (isNumber && exercise >= 0 && exercise < static_cast<int>(lesson.exercises.size()))
      out.insert(exercise);
  }
  return out;
}

}  // namespace

LearnPage::LearnPage(const QString& folder, Settings& settings, QWidget* parent)
    : Page("learnPage", "learn", parent), folder_(folder), settings_(settings) {
  stack_ = new QStackedWidget(this);
  stack_->setObjectName("learnStack");
  list_ = new LessonList(this);
  stack_->addWidget(list_);
  stack_->addWidget(buildLesson());
  body()->addWidget(stack_, 1);
  connect(list_, &LessonList::chosen, this, &LearnPage::openEntry);
  connect(list_, &LessonList::readAgain, this, &LearnPage::readLessons);
  readLessons();
  projector_->setChecked(settings_.store().value(kProjectorKey).toBool());
  retranslate();
}

QWidget* LearnPage::buildLesson() {
  lessonBox_ = new QWidget(this);
  lessonBox_->setObjectName("lessonBox");
  auto* column = new QVBoxLayout(lessonBox_);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(kSpaceS);
  auto* head = new QHBoxLayout;
  head->setSpacing(kSpaceXs);
  toList_ = makeButton("toLessons", nullptr, this, "link");
  lessonTitle_ = new ElidedLabel("lessonTitle", this, "section");
  restart_ = makeToolButton("lessonRestart", "undo", this);
  save_ = makeToolButton("lessonSave", "save", this);
  openFile_ = makeToolButton("lessonOpen", "open", this);
  link_ = makeToolButton("lessonLink", "copy", this);
  projector_ = makeToolButton("lessonProjector", "projector", this);
  projector_->setCheckable(true);
  head->addWidget(toList_);
  head->addWidget(lessonTitle_, 1);
  for (QToolButton* button : {restart_, save_, openFile_, link_, projector_})
    head->addWidget(button);
  column->addLayout(head);
  connect(toList_, &QPushButton::clicked, this, [this] { openLesson({}); });
  connect(restart_, &QToolButton::clicked, this, [this] { session_->restart(); });
  connect(save_, &QToolButton::clicked, this, &LearnPage::askSave);
  connect(openFile_, &QToolButton::clicked, this, &LearnPage::askOpen);
  connect(link_, &QToolButton::clicked, this, &LearnPage::copyLinkWanted);
  connect(projector_, &QToolButton::toggled, this, &LearnPage::setProjector);
  return lessonBox_;
}

void LearnPage::readLessons() {
  auto entries = readLessonEntries(folder_);
  if (!entries) return list_->showProblem(entries.error());
  for (LessonEntry& entry : *entries)
    if (entry.lesson)
      entry.reached = static_cast<int>(readReached(settings_, *entry.lesson).size());
  list_->setEntries(std::move(*entries));
}

void LearnPage::openEntry(int index) {
  const LessonEntry& entry = list_->entries()[static_cast<std::size_t>(index)];
  if (!entry.lesson) return message()->showError(entry.error);
  openLesson(QString::fromStdString(entry.lesson->id));
}

void LearnPage::openLesson(const QString& id) {
  if (session_ && QString::fromStdString(session_->lesson().id) == id) return;
  const auto& entries = list_->entries();
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const LessonEntry& entry) {
    return entry.lesson && QString::fromStdString(entry.lesson->id) == id;
  });
  if (!id.isEmpty() && found == entries.end())
    return message()->showError(
        makeError(Code::kNotFound, "there is no lesson {}", id.toStdString()));
  message()->clear();
  delete viewer_;
  viewer_ = nullptr;
  delete session_;
  session_ = nullptr;
  if (!id.isEmpty()) {
    const std::shared_ptr<const app::Lesson> lesson = found->lesson;
    session_ = new LessonSession(lesson, readReached(settings_, *lesson), this);
    viewer_ = new LessonViewer(session_, lessonBox_);
    if (onProjector()) scaleType(viewer_, kProjectorScale);
    static_cast<QVBoxLayout*>(lessonBox_->layout())->addWidget(viewer_, 1);
    connect(session_, &LessonSession::exerciseReached, this, &LearnPage::noteReached);
    connect(session_, &LessonSession::stateChanged, this, &Page::placeChanged);
    connect(viewer_, &LessonViewer::runWanted, this, [this] {
      app::Lesson lesson = session_->lesson();
      lesson.real = session_->realRun();
      Q_EMIT runWanted(lesson);
    });
  } else {
    readLessons();  // with what was reached
  }
  stack_->setCurrentIndex(session_ ? 1 : 0);
  refreshHead();
  Q_EMIT placeChanged();
}

void LearnPage::noteReached() {
  QStringList words;
  for (const int exercise : session_->reached()) words << QString::number(exercise);
  settings_.store().setValue(reachedKey(session_->lesson()), words);
}

Place LearnPage::place() const {
  Place out{key(), {}, -1, 0};
  if (!session_) return out;
  out.part = QString::fromStdString(session_->lesson().id);
  for (const auto& [name, value] : session_->state())
    out.values[QString::fromStdString(name)] = QString::fromStdString(value);
  return out;
}

void LearnPage::go(const Place& place) {
  openLesson(place.part);
  if (!session_ || QString::fromStdString(session_->lesson().id) != place.part) return;
  app::LessonState values;
  for (auto it = place.values.begin(); it != place.values.end(); ++it)
    values[it.key().toStdString()] = it.value().toStdString();
  if (const Status status = session_->setState(values); !status.ok())
    message()->showError(status.error());
}

bool LearnPage::onProjector() const { return projector_->isChecked(); }

void LearnPage::setProjector(bool on) {
  scaleType(this, on ? kProjectorScale : 1 / kProjectorScale);
  settings_.store().setValue(kProjectorKey, on);
  Q_EMIT projectorToggled(on);
}

void LearnPage::askSave() {
  auto* dialog = new QFileDialog(this, tr("Save the state of the lesson"),
                                 QString::fromStdString(session_->lesson().id) + ".lesson",
                                 tr("States of lessons (*.lesson)"));
  dialog->setObjectName("saveLessonDialog");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setAcceptMode(QFileDialog::AcceptSave);
  dialog->setDefaultSuffix("lesson");
  connect(dialog, &QFileDialog::fileSelected, this, &LearnPage::saveState);
  dialog->open();
}

void LearnPage::saveState(const QString& path) {
  if (!session_) return;
  sayExported(path,
              writeFileAtomically(path.toStdString(),
                                  app::lessonStateText(session_->lesson(), session_->state())));
}

void LearnPage::askOpen() {
  auto* dialog = new QFileDialog(this, tr("Open the state of a lesson"), QString(),
                                 tr("States of lessons (*.lesson);;All files (*)"));
  dialog->setObjectName("openLessonDialog");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setFileMode(QFileDialog::ExistingFile);
  connect(dialog, &QFileDialog::fileSelected, this, &LearnPage::openState);
  dialog->open();
}

void LearnPage::openState(const QString& path) {
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly))
    return message()->showError(
        makeError(Code::kPermissionDenied, "cannot read {}", path.toStdString()));
  std::vector<app::Lesson> lessons;
  for (const LessonEntry& entry : list_->entries())
    if (entry.lesson) lessons.push_back(*entry.lesson);
  const auto shared =
      app::parseLessonState(file.readAll().toStdString(), path.toStdString(), lessons);
  if (!shared) return message()->showError(shared.error());
  openLesson(QString::fromStdString(shared->lesson));
  if (const Status status = session_->setState(shared->state); !status.ok())
    message()->showError(status.error());
}

void LearnPage::refreshHead() {
  if (!session_) return;
  const std::string language = Language::instance().code().toStdString();
  lessonTitle_->setText(QString::fromStdString(session_->lesson().title.in(language)));
}

void LearnPage::retranslate() {
  setTexts(toList_, QString::fromUtf8("‹ ") + tr("Lessons"));
  toList_->setAccessibleName(tr("All lessons"));
  setTexts(restart_, tr("Back to the values at the start"));
  setTexts(save_, tr("Save the state as a file…"));
  setTexts(openFile_, tr("Open a saved state…"));
  setTexts(link_, tr("Copy a link to this state"));
  setTexts(projector_, tr("Projector: large type"));
  list_->retranslate();
  if (viewer_) viewer_->retranslate();
  refreshHead();
  setAccessibleName(title());
}

}  // namespace lockstep::ui
