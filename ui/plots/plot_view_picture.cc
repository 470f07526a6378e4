// Pictures of a plot for files: title, legend, axes and lines, as shown.
#include "ui/plots/custom_plot.h"

#include <algorithm>

#include "ui/plots/legend_bar.h"
#include "ui/plots/plot_view.h"
#include "ui/plots/series_plottable.h"

namespace lockstep::ui {
namespace {

constexpr QSize kLeastPicture(640, 360);
constexpr int kLegendRow = 18, kMark = 16, kGap = 16;
constexpr int kRowsInside = 3;  // of the legend; for more rows the picture is higher

}  // namespace

Picture PlotView::picture() {
  if (linesChanged_) refreshLegend();
  Picture out;
  out.name = titleText_;
  out.size = plot_->size().expandedTo(kLeastPicture);
  const int legend = drawLegend(nullptr, out.size.width());
  out.size.rheight() += std::max(0, legend - kRowsInside * kLegendRow);
  out.draw = [view = QPointer<PlotView>(this), size = out.size](QCPPainter& painter) {
    if (view) view->drawPicture(painter, size);
  };
  return out;
}

// Without a painter only its height is asked for.
int PlotView::drawLegend(QPainter* painter, int width) const {
  const Theme& theme = Theme::instance();
  const QFontMetrics metrics(theme.small());
  int x = kSpaceM, row = 0;
  bool any = false;
  const auto add = [&](const QString& name, const QColor& color, bool dashed) {
    const int wide = kMark + metrics.horizontalAdvance(name);
    if (any && x + wide > width - kSpaceM) {
      x = kSpaceM;
      ++row;
    }
    any = true;
    const QRect at(x, kPictureTitle + row * kLegendRow, wide, kLegendRow);
    x += wide + kGap;
    if (painter == nullptr) return;
    painter->setPen(QPen(color, 2, dashed ? Qt::DashLine : Qt::SolidLine));
    painter->drawLine(at.x(), at.center().y(), at.x() + 10, at.center().y());
    painter->setPen(theme.color("text"));
    painter->drawText(at.adjusted(kMark, 0, kMark, 0), Qt::AlignLeft | Qt::AlignVCenter, name);
  };
  for (const LegendBar::Part& one : legend_->parts())
    add(one.name, spreadColor(one.part, one.spread), false);
  for (const auto& series : namedLines())
    if (series->visible) add(series->name, theme.series(series->shownColor()), series->dashed);
  return any ? (row + 1) * kLegendRow : 0;
}

void PlotView::drawPicture(QCPPainter& painter, QSize size) {
  const Theme& theme = Theme::instance();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setFont(theme.small());
  painter.setPen(theme.color("text"));
  QFont bold = theme.small();
  bold.setWeight(QFont::DemiBold);
  painter.setFont(bold);
  painter.drawText(QRect(kSpaceM, 0, size.width() - 2 * kSpaceM, kPictureTitle),
                   Qt::AlignLeft | Qt::AlignVCenter, titleText_);
  painter.setFont(theme.small());
  const int top = kPictureTitle + drawLegend(&painter, size.width());
  // As on the screen, but for what follows the pointer, and with the title of the x axis.
  const bool crosshair = crosshair_->visible();
  for (QCPLayerable* one :
       {static_cast<QCPLayerable*>(crosshair_), static_cast<QCPLayerable*>(crosshairText_)})
    one->setVisible(false);
  hovered_ = nullptr;
  refreshMarks();
  applyColors();
  plot_->xAxis->setLabel(shownXTitle());
  plot_->xAxis->ticker()->setTickCount(std::clamp(size.width() / 90, 2, 8));
  painter.translate(0, top);
  painter.setMode(QCPPainter::pmVectorized);
  plot_->toPainter(&painter, size.width(), size.height() - top);
  for (QCPLayerable* one :
       {static_cast<QCPLayerable*>(crosshair_), static_cast<QCPLayerable*>(crosshairText_)})
    one->setVisible(crosshair);
  // The colours of the screen return with the next frame: the theme may be another by then.
  QMetaObject::invokeMethod(this, &PlotView::restyle, Qt::QueuedConnection);
}

}  // namespace lockstep::ui
