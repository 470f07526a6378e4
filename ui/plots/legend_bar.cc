#include "ui/plots/legend_bar.h"

#include <QHelpEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include "ui/plots/series_plottable.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {
constexpr int kMark = 14;  // the coloured square before a name
constexpr int kGap = 14;
}  // namespace

LegendBar::LegendBar(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void LegendBar::setEntries(std::vector<Part> parts, const QString& about,
                           std::vector<std::shared_ptr<Series>> series) {
  parts_ = std::move(parts);
  about_ = about;
  setAccessibleDescription(about);
  series_ = std::move(series);
  values_.clear();
  update();
}

void LegendBar::setValues(const QStringList& values) {
  if (values == values_) return;
  values_ = values;
  update();
}

const Series* LegendBar::seriesOf(int index) const {
  const auto at = static_cast<std::size_t>(index);
  return at < parts_.size() ? nullptr : series_[at - parts_.size()].get();
}

const QString& LegendBar::entryName(int index) const {
  const Series* series = seriesOf(index);
  return series != nullptr ? series->name : parts_[static_cast<std::size_t>(index)].name;
}

QStringList LegendBar::entryNames() const {
  QStringList out;
  for (int i = 0; i < count(); ++i) out << entryName(i);
  return out;
}

QString LegendBar::entryText(int index) const {
  const QString& name = entryName(index);
  if (index >= values_.size() || values_[index].isEmpty()) return name;
  // If there is not enough room, names are cut and values stay whole.
  const QFontMetrics metrics(Theme::instance().small(this));
  const QString value = "  " + values_[index];
  const int count = this->count();
  const int room = std::max((width() + kGap) / std::max(1, count) - kGap - kMark, 40);
  int whole = 0;
  for (int i = 0; i < count; ++i) {
    whole += metrics.horizontalAdvance(entryName(i)) + kMark + kGap;
    if (i < values_.size() && !values_[i].isEmpty())
      whole += metrics.horizontalAdvance("  " + values_[i]);
  }
  if (whole - kGap <= width()) return name + value;
  return metrics.elidedText(name, Qt::ElideRight,
                            std::max(0, room - metrics.horizontalAdvance(value))) +
         value;
}

int LegendBar::wantedWidth() const {
  const QFontMetrics metrics(Theme::instance().small(this));
  int width = 0;
  const int value = metrics.horizontalAdvance("  0.0000");
  for (int i = 0; i < count(); ++i)
    width += metrics.horizontalAdvance(entryName(i)) + kMark + kGap + value;
  return width - (count() == 0 ? 0 : kGap);
}

QSize LegendBar::minimumSizeHint() const {
  constexpr int kLeast = 20;
  return {0, std::max(kLeast, QFontMetrics(Theme::instance().small(this)).height() + 2)};
}

std::vector<LegendBar::Entry> LegendBar::layoutEntries() const {
  std::vector<Entry> out;
  const QFontMetrics metrics(Theme::instance().small(this));
  const int count = this->count();
  int x = 0;
  for (int i = 0; i < count; ++i) {
    const int width = metrics.horizontalAdvance(entryText(i)) + kMark;
    // If there is not enough room, "+3" needs some of it.
    const int rest =
        i + 1 < count ? kGap + metrics.horizontalAdvance(QString("+%1").arg(count - i - 1)) : 0;
    if (x + width + rest > this->width() && i > 0) break;
    out.push_back({i, QRect(x, 0, width, height())});
    x += width + kGap;
  }
  return out;
}

void LegendBar::paintMark(QPainter& painter, const Entry& entry) const {
  const Theme& theme = Theme::instance();
  const Series* series = seriesOf(entry.index);
  const int middle = entry.rect.center().y();
  const auto partColor = [&] {
    const Part& part = parts_[static_cast<std::size_t>(entry.index)];
    return spreadColor(part.part, part.spread);
  };
  const QColor color = series == nullptr ? partColor()
                       : series->visible ? theme.series(series->shownColor())
                                         : theme.color("border");
  if (series != nullptr && series->dashed) {
    painter.setPen(QPen(color, 2, Qt::DotLine));
    painter.drawLine(entry.rect.x(), middle, entry.rect.x() + 9, middle);
  } else {
    painter.setPen(Qt::NoPen);
    painter.setBrush(color);
    painter.drawRoundedRect(QRectF(entry.rect.x(), middle - 3.5, 8, 8), 2, 2);
  }
}

void LegendBar::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setFont(Theme::instance().small(this));
  const Theme& theme = Theme::instance();
  const auto entries = layoutEntries();
  for (const auto& entry : entries) {
    paintMark(painter, entry);
    const Series* series = seriesOf(entry.index);
    painter.setPen(series == nullptr || series->visible ? theme.color("muted")
                                                        : theme.color("disabled"));
    painter.drawText(entry.rect.adjusted(13, 0, 0, 0), Qt::AlignVCenter | Qt::AlignLeft,
                     entryText(entry.index));
  }
  const auto hidden = count() - std::ssize(entries);
  if (hidden > 0 && !entries.empty()) {
    painter.setPen(theme.color("muted"));
    painter.drawText(rect().adjusted(entries.back().rect.right() + 8, 0, 40, 0),
                     Qt::AlignVCenter | Qt::AlignLeft, QString("+%1").arg(hidden));
  }
}

void LegendBar::mousePressEvent(QMouseEvent* event) {
  for (const auto& entry : layoutEntries()) {
    if (!entry.rect.contains(event->position().toPoint())) continue;
    const auto at = static_cast<std::size_t>(entry.index);
    if (at >= parts_.size()) Q_EMIT clicked(series_[at - parts_.size()]);
    return;
  }
}

bool LegendBar::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    QStringList names;
    if (!about_.isEmpty()) names << about_;
    for (const auto& series : series_) names << series->name;
    QToolTip::showText(static_cast<QHelpEvent*>(event)->globalPos(), names.join('\n'), this);
    return true;
  }
  return QWidget::event(event);
}

}  // namespace lockstep::ui
