#include "ui/plots/messages_view.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ui/plots/color_map.h"
#include "ui/plots/picture_file.h"
#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

constexpr double kMargin = 6;
constexpr double kWidest = 150, kHighest = 46, kNarrowest = 22, kLowest = 9;
constexpr int kNamedRanks = 16;  // of more, the numbers alone

double eased(double share) { return share * share * (3 - 2 * share); }

QColor inkOn(const QColor& ground) {
  return ground.lightnessF() > 0.5 ? QColor(Qt::black) : QColor(Qt::white);
}

}  // namespace

MessagesView::MessagesView(const QString& objectName, QWidget* parent) : QWidget(parent) {
  setObjectName(objectName);
  setFocusPolicy(Qt::StrongFocus);
  connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void MessagesView::setMessages(std::shared_ptr<const app::MessagesScene> scene) {
  scene_ = std::move(scene);
  showAt(std::min(round_, scene_ ? static_cast<double>(scene_->rounds) : 0.0));
}

void MessagesView::showAt(double round) {
  round_ = round;
  setAccessibleDescription(roundText());
  update();
}

int MessagesView::wholeRound() const {
  return scene_ ? std::clamp(static_cast<int>(std::floor(round_ + 1e-9)), 0, scene_->rounds) : 0;
}

QString MessagesView::nameOf(int rank) const {
  return scene_ && scene_->ranks > kNamedRanks ? QString::number(rank) : tr("rank %1").arg(rank);
}

QString MessagesView::roundText() const {
  if (!scene_) return {};
  const int round = wholeRound();
  const bool flying = round_ - round > 1e-9;
  if (round >= scene_->rounds) return tr("Every rank has the sum of all %1.").arg(scene_->ranks);
  if (round == 0 && !flying)
    return tr("Before round 1 of %1: every rank has its own values.").arg(scene_->rounds);
  const int shown = flying ? round : round - 1;  // the round under way, else the last one
  int count = 0, adds = 0;
  for (const app::SceneMessage& message : scene_->messages) {
    if (message.round != shown) continue;
    ++count;
    adds += message.reduces ? 1 : 0;
  }
  const QString what = adds == count ? tr("what arrives is added")
                       : adds == 0   ? tr("what arrives replaces what was there")
                                     : tr("what arrives is added or replaces what was there");
  return (flying ? tr("Round %1 of %2, messages: %3; %4.")
                 : tr("After round %1 of %2, messages: %3; %4."))
      .arg(shown + 1)
      .arg(scene_->rounds)
      .arg(count)
      .arg(what);
}

QRectF MessagesView::boxOf(int rank) const {
  const int ranks = scene_ ? std::max(1, scene_->ranks) : 1;
  const double name = QFontMetricsF(Theme::instance().small(this)).height();
  const double slots_ = ranks / 2 + 1;
  const double boxWidth = std::clamp(width() / slots_ * 0.75, kNarrowest, kWidest);
  const double boxHeight = std::clamp((height() / slots_ - name) * 0.7, kLowest, kHighest);
  const double radiusX = std::max(0.0, (width() - boxWidth) / 2 - kMargin);
  const double radiusY = std::max(0.0, (height() - boxHeight - name) / 2 - kMargin);
  const double angle = 2 * std::numbers::pi * rank / ranks;
  const QPointF middle(width() / 2.0 + radiusX * std::sin(angle),
                       (height() + name) / 2.0 - radiusY * std::cos(angle));
  return {middle.x() - boxWidth / 2, middle.y() - boxHeight / 2, boxWidth, boxHeight};
}

std::pair<int, int> MessagesView::slicesOf(const app::SceneMessage& message) const {
  const double perSlice =
      static_cast<double>(std::max<std::int64_t>(1, scene_->elements)) / scene_->slices;
  const int first = static_cast<int>(std::lround(static_cast<double>(message.begin) / perSlice));
  const int last = static_cast<int>(std::lround(static_cast<double>(message.end) / perSlice));
  const int from = std::clamp(first, 0, scene_->slices - 1);
  return {from, std::clamp(last, from + 1, scene_->slices)};
}

QRectF MessagesView::sliceOf(int rank, int first, int last) const {
  const QRectF box = boxOf(rank);
  const double each = box.width() / scene_->slices;
  return {box.left() + first * each, box.top(), (last - first) * each, box.height()};
}

int MessagesView::sumOf(int round, int rank, int slice) const {
  return scene_->sums[static_cast<std::size_t>(round)][static_cast<std::size_t>(rank)]
                     [static_cast<std::size_t>(slice)];
}

void MessagesView::paintEvent(QPaintEvent*) {
  if (!scene_ || scene_->ranks == 0 || scene_->slices == 0) return;
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setFont(Theme::instance().small(this));
  drawPaths(painter);
  for (int rank = 0; rank < scene_->ranks; ++rank) drawRank(painter, rank);
  drawFlying(painter);
  if (!hasFocus()) return;
  painter.setRenderHint(QPainter::Antialiasing, false);
  painter.setBrush(Qt::NoBrush);
  painter.setPen(Theme::instance().color("accent"));
  painter.drawRect(rect().adjusted(0, 0, -1, -1));
}

// Of the messages that fly, or at rest of those that come next.
void MessagesView::drawPaths(QPainter& painter) const {
  const Theme& theme = Theme::instance();
  const int round = wholeRound();
  for (const app::SceneMessage& message : scene_->messages) {
    if (message.round != round) continue;
    const QLineF path(boxOf(message.from).center(), boxOf(message.to).center());
    painter.setPen(QPen(theme.color("axis"), 1.2, Qt::DashLine));
    painter.drawLine(path);
    const QPointF tip = path.pointAt(0.56);
    QLineF head(tip, path.p1());
    painter.setPen(QPen(theme.color("axis"), 1.5));
    for (const double turn : {-28.0, 28.0}) {
      QLineF wing = head;
      wing.setAngle(head.angle() + turn);
      wing.setLength(8);
      painter.drawLine(wing);
    }
  }
}

void MessagesView::drawRank(QPainter& painter, int rank) const {
  const Theme& theme = Theme::instance();
  const QRectF box = boxOf(rank);
  const double name = QFontMetricsF(painter.font()).height();
  painter.setPen(theme.color("text"));
  painter.drawText(QRectF(box.left() - 40, box.top() - name - 1, box.width() + 80, name),
                   Qt::AlignCenter, nameOf(rank));
  drawSlices(painter, box, rank, 0, scene_->slices);
}

void MessagesView::drawSlices(QPainter& painter, const QRectF& box, int rank, int first,
                              int last) const {
  const ColorMap colors(ColorMap::Kind::kSequential);
  const QFontMetricsF metrics(painter.font());
  const int round = wholeRound();
  const double each = box.width() / (last - first);
  for (int slice = first; slice < last; ++slice) {
    const int sum = sumOf(round, rank, slice);
    const QColor color(colors.at(static_cast<float>(sum) / static_cast<float>(scene_->ranks)));
    const QRectF cell(box.left() + (slice - first) * each, box.top(), each, box.height());
    painter.setPen(each > 4 ? QPen(Theme::instance().color("base"), 1) : Qt::NoPen);
    painter.setBrush(color);
    painter.drawRect(cell);
    const QString text = QString::number(sum);
    if (metrics.horizontalAdvance(text) + 3 > each || metrics.height() > box.height() + 4) continue;
    painter.setPen(inkOn(color));
    painter.drawText(cell, Qt::AlignCenter, text);
  }
}

void MessagesView::drawFlying(QPainter& painter) const {
  const int round = wholeRound();
  const double share = eased(round_ - round);
  if (round >= scene_->rounds || share <= 0) return;
  const Theme& theme = Theme::instance();
  for (const app::SceneMessage& message : scene_->messages) {
    if (message.round != round) continue;
    const auto [first, last] = slicesOf(message);
    const QRectF from = sliceOf(message.from, first, last), to = sliceOf(message.to, first, last);
    const QRectF now = from.translated((to.topLeft() - from.topLeft()) * share);
    drawSlices(painter, now, message.from, first, last);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme.color("accent"), 2));
    painter.drawRect(now);
    const QString sign = message.reduces ? "+" : "=";
    const double size = QFontMetricsF(painter.font()).height();
    const QRectF badge(now.right() - size / 2, now.top() - size / 2, size, size);
    painter.setBrush(theme.color("accent"));
    painter.setPen(Qt::NoPen);
    painter.drawEllipse(badge);
    painter.setPen(theme.color("accentText"));
    painter.drawText(badge, Qt::AlignCenter, sign);
  }
}

bool MessagesView::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  for (int rank = 0; scene_ && rank < scene_->ranks; ++rank) {
    if (!boxOf(rank).contains(help->pos())) continue;
    const double each = boxOf(rank).width() / scene_->slices;
    const int slice = std::clamp(static_cast<int>((help->pos().x() - boxOf(rank).left()) / each), 0,
                                 scene_->slices - 1);
    QToolTip::showText(help->globalPos(),
                       tr("rank %1, elements from %2: the sum of %3 of %4 ranks' values")
                           .arg(rank)
                           .arg(formatCount(scene_->elements * slice / scene_->slices))
                           .arg(sumOf(wholeRound(), rank, slice))
                           .arg(scene_->ranks),
                       this);
    return true;
  }
  QToolTip::hideText();
  return true;
}

void MessagesView::contextMenuEvent(QContextMenuEvent* event) {
  showPictureMenu(this, event->globalPos());
}

}  // namespace lockstep::ui
