#include "ui/widgets/breakdown_bars.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <numeric>

#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

namespace {
// Measured and predicted stand so far apart that their figures, one beside each, do.
constexpr int kLegendRow = 19, kBarHeight = 12, kThinHeight = 8, kBarGap = 3, kRowGap = 6;
constexpr int kValueWidth = 66;

double total(const std::array<double, kPhaseCount>& parts) {
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}
int rowHeight(const BreakdownBar& bar) {
  return (bar.hasMeasured ? kBarHeight : 0) +
         (bar.hasPredicted ? (bar.hasMeasured ? kThinHeight + kBarGap : kBarHeight) : 0);
}
// Positions of the phases' names, wrapped to `width`.
std::array<QPoint, kPhaseCount> legendPlaces(int width) {
  std::array<QPoint, kPhaseCount> out;
  const QFontMetrics metrics(Theme::instance().small());
  QPoint at(0, 0);
  for (int phase = 0; phase < kPhaseCount; ++phase) {
    const int room = metrics.horizontalAdvance(phaseName(phase)) + 13;
    if (at.x() > 0 && at.x() + room > width) at = QPoint(0, at.y() + kLegendRow);
    out[static_cast<std::size_t>(phase)] = at;
    at.rx() += room + 8;
  }
  return out;
}
int legendHeight(int width) { return legendPlaces(width).back().y() + kLegendRow + 4; }
int nameWidth(const std::vector<BreakdownBar>& bars) {
  int width = 40;
  const QFontMetrics metrics(Theme::instance().small());
  for (const auto& bar : bars) width = std::max(width, metrics.horizontalAdvance(bar.name) + 10);
  return width;
}
}  // namespace

BreakdownBars::BreakdownBars(const QString& objectName, QWidget* parent) : QWidget(parent) {
  setObjectName(objectName);
  setFocusPolicy(Qt::NoFocus);
  setMouseTracking(true);
}

void BreakdownBars::setBars(std::vector<BreakdownBar> bars) {
  bars_ = std::move(bars);
  updateGeometry();
  update();
}

QSize BreakdownBars::sizeHint() const {
  int height = legendHeight(width());
  for (const auto& bar : bars_) height += rowHeight(bar) + kRowGap;
  return {360, std::max(height, 90)};
}

double BreakdownBars::longest() const {
  double out = 0;
  for (const auto& bar : bars_) {
    out = std::max({out, total(bar.measured), total(bar.predicted)});
  }
  return out;
}

std::vector<BreakdownBars::Piece> BreakdownBars::pieces() const {
  std::vector<Piece> out;
  const double scale = longest();
  if (scale <= 0) return out;
  const int left = nameWidth(bars_);
  const double room = width() - left - kValueWidth;
  double y = legendHeight(width());
  for (int i = 0; i < static_cast<int>(bars_.size()); ++i) {
    const BreakdownBar& bar = bars_[static_cast<std::size_t>(i)];
    const auto lay = [&](const std::array<double, kPhaseCount>& parts, bool measured,
                         double height) {
      double x = left;
      for (int phase = 0; phase < kPhaseCount; ++phase) {
        const double span = parts[static_cast<std::size_t>(phase)] / scale * room;
        out.push_back({QRectF(x, y, span, height), i, phase, measured});
        x += span;
      }
      y += height;
    };
    if (bar.hasMeasured) lay(bar.measured, true, kBarHeight);
    if (bar.hasPredicted) {
      if (bar.hasMeasured) y += kBarGap;
      lay(bar.predicted, false, bar.hasMeasured ? kThinHeight : kBarHeight);
    }
    y += kRowGap;
  }
  return out;
}

void BreakdownBars::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Theme& theme = Theme::instance();
  painter.setFont(theme.small());
  painter.setRenderHint(QPainter::Antialiasing);
  const auto places = legendPlaces(width());
  for (int phase = 0; phase < kPhaseCount; ++phase) {
    const QPoint at = places[static_cast<std::size_t>(phase)];
    painter.setPen(Qt::NoPen);
    painter.setBrush(theme.phase(phase));
    painter.drawRoundedRect(QRectF(at.x(), at.y() + 6, 8, 8), 2, 2);
    painter.setPen(theme.color("muted"));
    painter.drawText(QRect(at.x() + 13, at.y(), 200, kLegendRow), Qt::AlignVCenter | Qt::AlignLeft,
                     phaseName(phase));
  }
  if (bars_.empty() || longest() <= 0) return;
  painter.setRenderHint(QPainter::Antialiasing, false);
  for (const Piece& piece : pieces()) {
    if (piece.rect.width() < 0.3) continue;
    QColor color = theme.phase(piece.phase);
    // Paler beside what was measured.
    if (!piece.measured && bars_[static_cast<std::size_t>(piece.bar)].hasMeasured)
      color.setAlpha(130);
    painter.fillRect(piece.rect, color);
  }
  painter.setRenderHint(QPainter::Antialiasing);
  const int left = nameWidth(bars_);
  const double room = width() - left - kValueWidth;
  double y = legendHeight(width());
  for (const BreakdownBar& bar : bars_) {
    const int height = rowHeight(bar);
    painter.setPen(bar.flagged ? theme.color("bad") : theme.color("text"));
    painter.drawText(QRectF(0, y - 2, left - 6, height + 4), Qt::AlignVCenter | Qt::AlignLeft,
                     bar.name);
    double lineY = y;
    const auto value = [&](const std::array<double, kPhaseCount>& parts, double lineHeight,
                           bool measured) {
      const double sum = total(parts);
      painter.setPen(measured ? theme.color("text") : theme.color("muted"));
      painter.drawText(
          QRectF(left + sum / longest() * room + 6, lineY - 4, kValueWidth, lineHeight + 8),
          Qt::AlignVCenter | Qt::AlignLeft, formatSeconds(sum));
    };
    if (bar.hasMeasured) {
      value(bar.measured, kBarHeight, true);
      lineY += kBarHeight + kBarGap;
    }
    if (bar.hasPredicted) value(bar.predicted, bar.hasMeasured ? kThinHeight : kBarHeight, false);
    y += height + kRowGap;
  }
}

bool BreakdownBars::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    auto* help = static_cast<QHelpEvent*>(event);
    for (const Piece& piece : pieces()) {
      if (!piece.rect.contains(help->pos())) continue;
      const BreakdownBar& bar = bars_[static_cast<std::size_t>(piece.bar)];
      const auto phase = static_cast<std::size_t>(piece.phase);
      QString text = QString("%1 · %2\n").arg(bar.name, phaseName(piece.phase));
      if (bar.hasMeasured) text += tr("measured %1\n").arg(formatSeconds(bar.measured[phase]));
      if (bar.hasPredicted) text += tr("predicted %1\n").arg(formatSeconds(bar.predicted[phase]));
      QToolTip::showText(help->globalPos(), text.trimmed(), this);
      return true;
    }
    QToolTip::hideText();
    return true;
  }
  return QWidget::event(event);
}

}  // namespace lockstep::ui
