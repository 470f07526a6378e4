#include "ui/pages/lesson_viewer.h"

#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QSplitter>
#include <QTabWidget>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "ui/pages/lesson_exercises.h"
#include "ui/pages/lesson_pictures.h"
#include "ui/pages/lesson_sliders.h"
#include "ui/pages/lesson_text.h"
#include "ui/studio/lesson_session.h"
#include "ui/theme/error_text.h"
#include "ui/theme/format.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kSlowMs = 300;
constexpr int kFigureParts = 3, kFigureWidth = 84;  // name, value, value at the start
constexpr int kLeastText = 250, kLeastPicture = 230, kLeastTabs = 260;

QString figureText(const app::SceneFigure& figure) {
  const QString unit = QString::fromStdString(figure.unit);
  const QString value = std::abs(figure.value) >= 1000 ? formatCount(std::llround(figure.value))
                                                       : formatNumber(figure.value, 3);
  return unit.isEmpty() ? value : value + QChar(0xa0) + unit;
}

}  // namespace

LessonViewer::LessonViewer(LessonSession* session, QWidget* parent)
    : QWidget(parent), session_(session) {
  setObjectName("lessonViewer");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  splitter_ = new QSplitter(Qt::Horizontal, this);
  splitter_->setObjectName("lessonSplitter");
  splitter_->setChildrenCollapsible(false);
  splitter_->setHandleWidth(kSpaceL);
  splitter_->addWidget(buildLeft());
  splitter_->addWidget(buildRight());
  splitter_->setStretchFactor(0, 2);
  splitter_->setStretchFactor(1, 3);
  layout->addWidget(splitter_);
  connectSession();
  retranslate();
  openPicture();
  if (session_->scene()) showScene();
}

QWidget* LessonViewer::buildLeft() {
  auto* left = new QWidget(this);
  left->setObjectName("lessonLeft");
  auto* column = new QVBoxLayout(left);
  column->setContentsMargins(0, 0, kSpaceS, 0);
  column->setSpacing(kSpaceL);
  text_ = new LessonText(session_, left);
  exercises_ = new LessonExercises(session_, left);
  column->addWidget(text_);
  column->addWidget(exercises_);
  column->addStretch(1);
  left_ = scrolled(left, this);
  left_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  return left_;
}

void LessonViewer::fitLeft() {
  const int bar = left_->verticalScrollBar()->sizeHint().width();
  left_->setMinimumWidth(std::max(kLeastText, left_->widget()->minimumSizeHint().width() + bar));
}

QWidget* LessonViewer::buildRight() {
  auto* right = new QWidget(this);
  right->setObjectName("lessonRight");
  auto* column = new QVBoxLayout(right);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(kSpaceS);
  sliders_ = new LessonSliders(session_, right);
  column->addWidget(sliders_);
  column->addWidget(buildState());
  tabs_ = new QTabWidget(right);
  tabs_->setObjectName("lessonTabs");
  tabs_->setDocumentMode(true);
  for (const app::LessonView view : session_->lesson().views) {
    pictures_.push_back(makePicture(view, tabs_));
    tabs_->addTab(pictures_.back(), QString());
  }
  fitTabs();
  column->addWidget(tabs_, 1);
  figureBox_ = new QWidget(right);
  figureBox_->setObjectName("lessonFigures");
  figureGrid_ = new QGridLayout(figureBox_);
  figureGrid_->setContentsMargins(0, 0, 0, 0);
  figureGrid_->setHorizontalSpacing(kSpaceS);
  figureGrid_->setVerticalSpacing(2);
  column->addWidget(figureBox_);
  right_ = scrolled(right, this);
  right_->setMinimumWidth(kLeastPicture);
  right_->widget()->installEventFilter(this);
  return right_;
}

void LessonViewer::fitRight() {
  const int wanted =
      right_->widget()->minimumSizeHint().width() + right_->verticalScrollBar()->sizeHint().width();
  const QList<int> sizes = splitter_->sizes();
  const int more = std::min(wanted - sizes[1], sizes[0] - left_->minimumWidth());
  if (more > 0) splitter_->setSizes({sizes[0] - more, sizes[1] + more});
}

QWidget* LessonViewer::buildState() {
  state_ = new QWidget(this);
  state_->setObjectName("lessonState");
  auto* row = new QHBoxLayout(state_);
  row->setContentsMargins(0, 0, 0, 0);
  stateText_ = makeLabel("lessonStateText", state_);
  stateText_->setWordWrap(true);
  busy_ = new QProgressBar(state_);
  busy_->setObjectName("lessonBusy");
  busy_->setRange(0, 0);
  busy_->setTextVisible(false);
  busy_->setFixedWidth(90);
  cancel_ = makeButton("lessonCancel", "stop", state_);
  again_ = makeButton("lessonAgain", "refresh", state_);
  row->addWidget(stateText_, 1);
  row->addWidget(busy_);
  row->addWidget(cancel_);
  row->addWidget(again_);
  state_->hide();
  connect(cancel_, &QPushButton::clicked, session_, &LessonSession::cancel);
  connect(again_, &QPushButton::clicked, session_, &LessonSession::make);
  return state_;
}

void LessonViewer::connectSession() {
  slow_.setSingleShot(true);
  slow_.setInterval(kSlowMs);
  connect(&slow_, &QTimer::timeout, this, &LessonViewer::showState);
  connect(session_, &LessonSession::sceneChanged, this, &LessonViewer::showScene);
  connect(session_, &LessonSession::pageChanged, this, &LessonViewer::openPicture);
  connect(session_, &LessonSession::makingChanged, this, [this] {
    if (!session_->isMaking()) return showState();
    if (!slow_.isActive()) slow_.start();
  });
  connect(exercises_, &LessonExercises::runWanted, this, &LessonViewer::runWanted);
  connect(tabs_, &QTabWidget::currentChanged, this, &LessonViewer::showScene);
  if (session_->isMaking()) slow_.start();
}

void LessonViewer::openPicture() {
  const app::Lesson& lesson = session_->lesson();
  if (lesson.pages.empty()) return;
  const auto view = lesson.pages[static_cast<std::size_t>(session_->page())].view;
  const auto found = std::find(lesson.views.begin(), lesson.views.end(), view);
  if (found != lesson.views.end())
    tabs_->setCurrentIndex(static_cast<int>(found - lesson.views.begin()));
}

// The picture in sight; another when it is looked at.
void LessonViewer::showScene() {
  showState();
  if (!session_->scene()) return;
  showFigures();
  const int at = tabs_->currentIndex();
  if (at >= 0) pictures_[static_cast<std::size_t>(at)]->show(session_->scene(), session_->start());
  fitTabs();
}

void LessonViewer::fitTabs() {
  tabs_->setMinimumHeight(std::max(kLeastTabs, tabs_->minimumSizeHint().height()));
}

void LessonViewer::showFigures() {
  const std::string language = Language::instance().code().toStdString();
  const auto& now = session_->scene()->figures;
  while (figures_.size() < now.size()) {
    const QString number = QString::number(figures_.size());
    figures_.push_back({makeLabel("figureName" + number, figureBox_, "muted"),
                        makeLabel("figureValue" + number, figureBox_, "section"),
                        makeLabel("figureStart" + number, figureBox_, "muted")});
    for (QLabel* label : figures_.back()) label->setFont(font());
  }
  for (std::size_t i = 0; i < figures_.size(); ++i) {
    for (QLabel* label : figures_[i]) label->setVisible(i < now.size());
    if (i >= now.size()) continue;
    const app::SceneFigure* was =
        session_->start() ? session_->start()->figure(now[i].name) : nullptr;
    const QString value = figureText(now[i]), before = was ? figureText(*was) : value;
    figures_[i][0]->setText(QString::fromStdString(now[i].label.in(language)));
    figures_[i][1]->setText(value);
    figures_[i][2]->setText(value == before ? QString() : tr("start: %1").arg(before));
  }
  arrangeFigures();
}

// In as many columns as there is room for.
void LessonViewer::arrangeFigures() {
  int widest = 0;
  for (const auto& figure : figures_)
    widest = std::max(widest, figure[0]->sizeHint().width() + 2 * kFigureWidth + 3 * kSpaceS);
  const int columns = std::clamp(figureBox_->width() / std::max(1, widest), 1, 3);
  const int count = static_cast<int>(figures_.size());
  const int rows = (count + columns - 1) / columns;
  for (int i = 0; i < count; ++i)
    for (int part = 0; part < kFigureParts; ++part)
      figureGrid_->addWidget(figures_[static_cast<std::size_t>(i)][static_cast<std::size_t>(part)],
                             i % rows, i / rows * kFigureParts + part);
  for (int column = 0; column < 3; ++column)
    figureGrid_->setColumnStretch(column * kFigureParts + 2, column < columns ? 1 : 0);
}

void LessonViewer::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  fitLeft();
  arrangeFigures();
  QTimer::singleShot(0, this, &LessonViewer::fitRight);  // the splitter has its size then
}

bool LessonViewer::eventFilter(QObject* watched, QEvent* event) {
  if (watched == right_->widget() && event->type() == QEvent::LayoutRequest)
    QTimer::singleShot(0, this, &LessonViewer::fitRight);
  return QWidget::eventFilter(watched, event);
}

void LessonViewer::showState() {
  const bool slow = session_->isMaking() && !slow_.isActive();
  const auto& error = session_->error();
  const bool stopped = error && error->code == Code::kCancelled;
  if (!session_->isMaking()) slow_.stop();
  state_->setVisible(slow || error);
  busy_->setVisible(slow);
  cancel_->setVisible(slow);
  again_->setVisible(error.has_value());
  QString text = tr("Making the picture…");
  if (stopped) {
    text = tr("Stopped: the picture is of earlier values.");
  } else if (error) {
    const ErrorText words = describeError(*error);
    text = QStringList{words.what, words.why, words.next}.join(' ').simplified();
  }
  stateText_->setText(text);
  stateText_->setProperty("role", error && !stopped ? "error" : "muted");
  style()->unpolish(stateText_);
  style()->polish(stateText_);
}

void LessonViewer::retranslate() {
  for (std::size_t i = 0; i < pictures_.size(); ++i) {
    pictures_[i]->retranslate();
    tabs_->setTabText(static_cast<int>(i), pictures_[i]->title());
  }
  tabs_->setAccessibleName(tr("Pictures"));
  splitter_->setAccessibleName(tr("Lesson"));
  setTexts(cancel_, tr("Stop"));
  setTexts(again_, tr("Try again"));
  text_->retranslate();
  exercises_->retranslate();
  sliders_->retranslate();
  fitLeft();
  showState();
  if (session_->scene()) showScene();
}

}  // namespace lockstep::ui
