#include "ui/widgets/player.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QSignalBlocker>
#include <QSlider>
#include <QToolButton>
#include <algorithm>
#include <cmath>
#include <utility>

#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kFrameMs = 20;
constexpr int kFine = 1000;  // positions of the slider
constexpr double kSpeeds[] = {0.25, 0.5, 1, 2, 4};

}  // namespace

Player::Player(const QString& objectName, QWidget* parent) : QWidget(parent) {
  setObjectName(objectName);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(kSpaceXs);
  back_ = makeToolButton(objectName + "Back", "step-back", this);
  play_ = makeToolButton(objectName + "Play", "play", this);
  forward_ = makeToolButton(objectName + "Forward", "step-forward", this);
  slider_ = new QSlider(Qt::Horizontal, this);
  slider_->setObjectName(objectName + "Position");
  slider_->setRange(0, kFine);
  slider_->setPageStep(kFine / 10);
  speed_ = new QComboBox(this);
  speed_->setObjectName(objectName + "Speed");
  for (const double speed : kSpeeds)
    speed_->addItem(QString::fromUtf8("%1×").arg(QString::number(speed)), speed);
  speed_->setCurrentIndex(2);
  for (QToolButton* button : {back_, play_, forward_}) row->addWidget(button);
  row->addWidget(slider_, 1);
  row->addWidget(speed_);
  timer_.setInterval(kFrameMs);
  connect(&timer_, &QTimer::timeout, this, &Player::advance);
  connect(back_, &QToolButton::clicked, this, [this] { step(-1); });
  connect(forward_, &QToolButton::clicked, this, [this] { step(1); });
  connect(play_, &QToolButton::clicked, this, [this] { isPlaying() ? pause() : play(); });
  connect(slider_, &QSlider::valueChanged, this, [this](int value) {
    pause();
    setPosition(begin() + (end() - begin()) * value / kFine);
  });
  refresh();
  retranslate();
}

void Player::setStops(std::vector<double> stops, double seconds) {
  const double whole = end() - begin();
  const double share = whole > 0 ? (position_ - begin()) / whole : 0;
  stops_ = std::move(stops);
  seconds_ = seconds;
  double there = begin() + share * (end() - begin());
  if (!isPlaying() && stops_.size() > 1)  // at rest on a stop
    there = *std::min_element(stops_.begin(), stops_.end(), [&](double a, double b) {
      return std::abs(a - there) < std::abs(b - there);
    });
  position_ = there;
  if (stops_.size() < 2) pause();
  refresh();
  Q_EMIT moved(position_);
}

void Player::setPosition(double position) {
  position = std::clamp(position, begin(), end());
  if (position == position_) return;
  position_ = position;
  refresh();
  Q_EMIT moved(position_);
}

bool Player::atEnd() const { return position_ >= end(); }

void Player::play() {
  if (stops_.size() < 2) return;
  if (atEnd()) setPosition(begin());
  since_.start();
  timer_.start();
  refresh();
}

void Player::pause() {
  timer_.stop();
  refresh();
}

void Player::step(int stops) {
  pause();
  const double slack = (end() - begin()) * 1e-9;
  double to = position_;
  for (; stops > 0; --stops) {
    const auto next = std::upper_bound(stops_.begin(), stops_.end(), to + slack);
    to = next == stops_.end() ? end() : *next;
  }
  for (; stops < 0; ++stops) {
    const auto here = std::lower_bound(stops_.begin(), stops_.end(), to - slack);
    to = here == stops_.begin() ? begin() : *std::prev(here);
  }
  setPosition(to);
}

void Player::advance() {
  const double speed = speed_->currentData().toDouble();
  const double share = static_cast<double>(since_.restart()) / 1000 / seconds_ * speed;
  setPosition(position_ + share * (end() - begin()));
  if (atEnd()) pause();
}

void Player::refresh() {
  const bool any = stops_.size() > 1;
  const QSignalBlocker quiet(slider_);
  const double whole = end() - begin();
  slider_->setValue(
      any && whole > 0 ? static_cast<int>(std::lround((position_ - begin()) / whole * kFine)) : 0);
  for (QWidget* part : {static_cast<QWidget*>(play_), static_cast<QWidget*>(slider_)})
    part->setEnabled(any);
  back_->setEnabled(any && position_ > begin());
  forward_->setEnabled(any && !atEnd());
  play_->setIcon(Theme::instance().icon(isPlaying() ? "pause" : "play"));
  setTexts(play_, isPlaying() ? tr("Pause") : tr("Play"));
}

void Player::takeKeysOf(QWidget* widget) { widget->installEventFilter(this); }

bool Player::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() != QEvent::KeyPress) return QWidget::eventFilter(watched, event);
  switch (static_cast<QKeyEvent*>(event)->key()) {
    case Qt::Key_Space:
      isPlaying() ? pause() : play();
      return true;
    case Qt::Key_Left:
      step(-1);
      return true;
    case Qt::Key_Right:
      step(1);
      return true;
    case Qt::Key_Home:
      pause();
      setPosition(begin());
      return true;
    case Qt::Key_End:
      pause();
      setPosition(end());
      return true;
    default:
      return QWidget::eventFilter(watched, event);
  }
}

void Player::hideEvent(QHideEvent* event) {
  pause();
  QWidget::hideEvent(event);
}

void Player::retranslate() {
  setTexts(back_, tr("One step back"));
  setTexts(forward_, tr("One step forward"));
  slider_->setAccessibleName(tr("Position"));
  speed_->setAccessibleName(tr("Speed"));
  speed_->setToolTip(tr("Speed"));
  refresh();
}

}  // namespace lockstep::ui
