#include "ui/widgets/label_bars.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

LabelBars::LabelBars(const QString& objectName, QWidget* parent) : QWidget(parent) {
  setObjectName(objectName);
  connect(&Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void LabelBars::setCounts(std::vector<std::pair<int, std::int64_t>> counts) {
  counts_ = std::move(counts);
  setAccessibleDescription(text());
  setVisible(!counts_.empty());
  update();
}

QString LabelBars::text() const {
  QStringList out;
  for (const auto& [label, count] : counts_)
    out << QString("%1: %2").arg(label).arg(formatCount(count));
  return out.join("; ");
}

QRectF LabelBars::slotOf(std::size_t bar) const {
  constexpr double kWidest = 48;
  const double each = std::min(kWidest, width() / static_cast<double>(counts_.size()));
  return {each * static_cast<double>(bar), 0, each, static_cast<double>(height())};
}

bool LabelBars::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  for (std::size_t i = 0; i < counts_.size(); ++i)
    if (slotOf(i).contains(help->pos())) {
      QToolTip::showText(
          help->globalPos(),
          tr("Label %1: %2 samples").arg(counts_[i].first).arg(formatCount(counts_[i].second)),
          this);
      return true;
    }
  QToolTip::hideText();
  return true;
}

void LabelBars::paintEvent(QPaintEvent*) {
  if (counts_.empty()) return;
  QPainter painter(this);
  const Theme& theme = Theme::instance();
  painter.setFont(theme.small());
  const QFontMetricsF metrics(theme.small());
  std::int64_t most = 1;
  for (const auto& one : counts_) most = std::max(most, one.second);
  const double room = height() - metrics.height() - 2;
  // Names as many as there is room for, at equal distances.
  const double widest = metrics.horizontalAdvance(QString::number(counts_.back().first)) + 4;
  const auto stride =
      static_cast<std::size_t>(std::max(1.0, std::ceil(widest / slotOf(0).width())));
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const QRectF slot = slotOf(i);
    const double share = static_cast<double>(counts_[i].second) / static_cast<double>(most);
    const double high = std::max(1.0, share * room);
    const double gap = slot.width() > 8 ? 2 : slot.width() > 3 ? 0.5 : 0;
    painter.fillRect(QRectF(slot.left() + gap, room - high, slot.width() - 2 * gap, high),
                     theme.series(0));
    if (i % stride != 0) continue;
    painter.setPen(theme.color("muted"));
    painter.drawText(
        QRectF(slot.left() - widest, room + 2, slot.width() + 2 * widest, metrics.height()),
        Qt::AlignCenter, QString::number(counts_[i].first));
  }
}

}  // namespace lockstep::ui
