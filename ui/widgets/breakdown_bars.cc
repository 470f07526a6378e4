#include "ui/widgets/breakdown_bars.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <numeric>
#include <utility>

#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

namespace {
// Measured and predicted stand so far apart that their figures, one beside each, do.
constexpr int kThinHeight = 8, kBarGap = 3, kRowGap = 6;

double total(const std::array<double, kPhaseCount>& parts) {
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}
QFontMetrics metricsOf(const QWidget* widget) {
  return QFontMetrics(Theme::instance().small(widget));
}
}  // namespace

BarKinds BarKinds::phases() {
  return {kPhaseCount, [](int phase) { return phaseName(phase); },
          [](int phase) { return Theme::instance().phase(phase); },
          [](double seconds) { return formatSeconds(seconds); },
          [](bool measured, const QString& value) {
            return measured ? BreakdownBars::tr("measured %1").arg(value)
                            : BreakdownBars::tr("predicted %1").arg(value);
          }};
}

BarKinds BarKinds::memory() {
  const auto name = [](int kind) {
    const QString names[] = {BreakdownBars::tr("parameters"), BreakdownBars::tr("gradients"),
                             BreakdownBars::tr("optimizer state"), BreakdownBars::tr("activations"),
                             BreakdownBars::tr("workspace")};
    return names[kind];
  };
  return {5, name, [](int kind) { return Theme::instance().series(kind); },
          [](double bytes) { return formatBytes(bytes); },
          [](bool now, const QString& value) {
            return now ? BreakdownBars::tr("now %1").arg(value)
                       : BreakdownBars::tr("at the start %1").arg(value);
          }};
}

BreakdownBars::BreakdownBars(const QString& objectName, QWidget* parent, BarKinds kinds)
    : QWidget(parent), kinds_(std::move(kinds)) {
  setObjectName(objectName);
  setFocusPolicy(Qt::NoFocus);
  setMouseTracking(true);
}

void BreakdownBars::setBars(std::vector<BreakdownBar> bars) {
  bars_ = std::move(bars);
  updateGeometry();
  update();
}

// Heights grow with the texts.
int BreakdownBars::legendRow() const { return std::max(19, metricsOf(this).height() + 2); }
int BreakdownBars::barHeight() const { return std::max(12, metricsOf(this).height() - 4); }
int BreakdownBars::rowHeight(const BreakdownBar& bar) const {
  return (bar.hasMeasured ? barHeight() : 0) +
         (bar.hasPredicted ? (bar.hasMeasured ? kThinHeight + kBarGap : barHeight()) : 0);
}
int BreakdownBars::legendHeight(int width) const {
  return legendPlaces(width).back().y() + legendRow() + 4;
}
int BreakdownBars::nameWidth() const {
  int width = 40;
  for (const auto& bar : bars_)
    width = std::max(width, metricsOf(this).horizontalAdvance(bar.name) + 10);
  return width;
}
int BreakdownBars::valueWidth() const {
  return std::max(66, metricsOf(this).horizontalAdvance("000.0 MB") + 8);
}

// Wrapped to `width`.
std::vector<QPoint> BreakdownBars::legendPlaces(int width) const {
  std::vector<QPoint> out;
  QPoint at(0, 0);
  for (int kind = 0; kind < kinds_.count; ++kind) {
    const int room = metricsOf(this).horizontalAdvance(kinds_.name(kind)) + 13;
    if (at.x() > 0 && at.x() + room > width) at = QPoint(0, at.y() + legendRow());
    out.push_back(at);
    at.rx() += room + 8;
  }
  return out;
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
  const int left = nameWidth();
  const double room = width() - left - valueWidth();
  double y = legendHeight(width());
  for (int i = 0; i < static_cast<int>(bars_.size()); ++i) {
    const BreakdownBar& bar = bars_[static_cast<std::size_t>(i)];
    const auto lay = [&](const std::array<double, kPhaseCount>& parts, bool measured,
                         double height) {
      double x = left;
      for (int kind = 0; kind < kinds_.count; ++kind) {
        const double span = parts[static_cast<std::size_t>(kind)] / scale * room;
        out.push_back({QRectF(x, y, span, height), i, kind, measured});
        x += span;
      }
      y += height;
    };
    if (bar.hasMeasured) lay(bar.measured, true, barHeight());
    if (bar.hasPredicted) {
      if (bar.hasMeasured) y += kBarGap;
      lay(bar.predicted, false, bar.hasMeasured ? kThinHeight : barHeight());
    }
    y += kRowGap;
  }
  return out;
}

void BreakdownBars::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setFont(Theme::instance().small(this));
  painter.setRenderHint(QPainter::Antialiasing);
  drawLegend(painter);
  if (bars_.empty() || longest() <= 0) return;
  painter.setRenderHint(QPainter::Antialiasing, false);
  for (const Piece& piece : pieces()) {
    if (piece.rect.width() < 0.3) continue;
    QColor color = kinds_.color(piece.kind);
    // Paler beside what was measured.
    if (!piece.measured && bars_[static_cast<std::size_t>(piece.bar)].hasMeasured)
      color.setAlpha(130);
    painter.fillRect(piece.rect, color);
  }
  painter.setRenderHint(QPainter::Antialiasing);
  drawTexts(painter);
}

void BreakdownBars::drawLegend(QPainter& painter) const {
  const Theme& theme = Theme::instance();
  const auto places = legendPlaces(width());
  for (int kind = 0; kind < kinds_.count; ++kind) {
    const QPoint at = places[static_cast<std::size_t>(kind)];
    painter.setPen(Qt::NoPen);
    painter.setBrush(kinds_.color(kind));
    painter.drawRoundedRect(QRectF(at.x(), at.y() + legendRow() / 2.0 - 4, 8, 8), 2, 2);
    painter.setPen(theme.color("muted"));
    painter.drawText(QRect(at.x() + 13, at.y(), 400, legendRow()), Qt::AlignVCenter | Qt::AlignLeft,
                     kinds_.name(kind));
  }
}

void BreakdownBars::drawTexts(QPainter& painter) const {
  const Theme& theme = Theme::instance();
  const int left = nameWidth();
  const double room = width() - left - valueWidth();
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
          QRectF(left + sum / longest() * room + 6, lineY - 4, valueWidth(), lineHeight + 8),
          Qt::AlignVCenter | Qt::AlignLeft, kinds_.value(sum));
    };
    if (bar.hasMeasured) {
      value(bar.measured, barHeight(), true);
      lineY += barHeight() + kBarGap;
    }
    if (bar.hasPredicted) value(bar.predicted, bar.hasMeasured ? kThinHeight : barHeight(), false);
    y += height + kRowGap;
  }
}

bool BreakdownBars::event(QEvent* event) {
  if (event->type() == QEvent::FontChange) updateGeometry();
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  for (const Piece& piece : pieces()) {
    if (!piece.rect.contains(help->pos())) continue;
    const BreakdownBar& bar = bars_[static_cast<std::size_t>(piece.bar)];
    const auto kind = static_cast<std::size_t>(piece.kind);
    QStringList lines{QString::fromUtf8("%1 · %2").arg(bar.name, kinds_.name(piece.kind))};
    if (bar.hasMeasured) lines << kinds_.tip(true, kinds_.value(bar.measured[kind]));
    if (bar.hasPredicted) lines << kinds_.tip(false, kinds_.value(bar.predicted[kind]));
    QToolTip::showText(help->globalPos(), lines.join('\n'), this);
    return true;
  }
  QToolTip::hideText();
  return true;
}

}  // namespace lockstep::ui
