// The messages of a step in its timeline: arrows, what is hit with them, and their texts.
#include <QPainter>
#include <QPolygonF>
#include <algorithm>
#include <cmath>

#include "ui/plots/timeline_view.h"
#include "ui/theme/format.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

constexpr int kFlowRoom = 16;   // pixels along x for each message, if all are drawn
constexpr int kLeastLane = 10;  // pixels of a lane, likewise
constexpr int kMostFlowTexts = 2;
constexpr double kArrowSlack = 4;  // pixels beside an arrow

using Flow = app::StepTimeline::Flow;

bool sends(const Flow& flow, int rank, const app::TimelineSpan& span) {
  return flow.from == rank && flow.send == span.name;
}
bool receives(const Flow& flow, int rank, const app::TimelineSpan& span) {
  return flow.to == rank && flow.receive == span.name;
}
bool isAtEnd(const Flow& flow, int rank, const app::TimelineSpan& span) {
  return sends(flow, rank, span) || receives(flow, rank, span);
}

void drawArrow(QPainter& painter, const QLineF& line) {
  constexpr double kHead = 7, kHalfHead = 3;  // pixels
  painter.drawLine(line);
  const QPointF to = line.p2(), along = to - line.p1();
  const double length = std::hypot(along.x(), along.y());
  if (length < kHead) return;
  const QPointF back = along * (kHead / length),
                side = QPointF(-back.y(), back.x()) * (kHalfHead / kHead);
  painter.drawPolygon(QPolygonF({to, to - back + side, to - back - side}));
}

double distanceTo(const QLineF& line, QPointF point) {
  const QPointF along = line.p2() - line.p1(), off = point - line.p1();
  const double square = QPointF::dotProduct(along, along);
  const double share =
      square > 0 ? std::clamp(QPointF::dotProduct(off, along) / square, 0.0, 1.0) : 0;
  return QLineF(point, line.pointAt(share)).length();
}

}  // namespace

bool TimelineView::isInView(const Flow& flow) const {
  const int upper = rowOf(std::min(flow.from, flow.to)),
            lower = rowOf(std::max(flow.from, flow.to));
  const bool isInTime =
      static_cast<double>(flow.sent)<xRange().end&& static_cast<double>(flow.received)> xRange()
          .begin;
  return isInTime && upper < rowRange().end && lower + 1 > rowRange().begin;
}

TimelineView::Flows TimelineView::shownFlows() const {
  Flows chosen, others;
  if (!measured_) return chosen;
  const app::TimelineSpan* span = chosenSpan();
  for (const Flow& flow : measured_->flows) {
    if (span != nullptr && isAtEnd(flow, rankOf(chosen_.row), *span))
      chosen.push_back(&flow);
    else if (isInView(flow))
      others.push_back(&flow);
  }
  const bool isRoom = static_cast<int>(others.size()) * kFlowRoom <= cellsRect().width() &&
                      rowRange().span() * kLeastLane <= cellsRect().height();
  if (isRoom) chosen.insert(chosen.begin(), others.begin(), others.end());
  return chosen;
}

QLineF TimelineView::arrowOf(const Flow& flow) const {
  const double middle = parts().measured / 2;
  return {pixelOf(static_cast<double>(flow.sent), rowOf(flow.from) + middle),
          pixelOf(static_cast<double>(flow.received), rowOf(flow.to) + middle)};
}

void TimelineView::drawFlows(QPainter& painter) const {
  const app::TimelineSpan* span = chosenSpan();
  painter.setRenderHint(QPainter::Antialiasing);
  for (const Flow* flow : shownFlows()) {
    const bool isChosen = span != nullptr && isAtEnd(*flow, rankOf(chosen_.row), *span);
    QColor color = Theme::instance().color("text");
    color.setAlpha(isChosen ? 255 : 130);
    painter.setPen(QPen(color, isChosen ? 2 : 1));
    painter.setBrush(color);
    drawArrow(painter, arrowOf(*flow));
  }
  painter.setRenderHint(QPainter::Antialiasing, false);
}

const Flow* TimelineView::flowAt(QPointF pixel) const {
  const Flow* nearest = nullptr;
  double least = kArrowSlack;
  for (const Flow* flow : shownFlows()) {
    const double distance = distanceTo(arrowOf(*flow), pixel);
    if (distance > least) continue;
    least = distance;
    nearest = flow;
  }
  return nearest;
}

TimelineView::Hit TimelineView::receiveOf(const Flow& flow) const {
  const auto& lane = measured_->lanes[static_cast<std::size_t>(flow.to)];
  for (const bool asynchronous : {false, true}) {
    const auto& spans = asynchronous ? lane.communication : lane.spans;
    for (std::size_t i = spans.size(); i-- > 0;)  // the last one: a wait may come before it
      if (receives(flow, flow.to, spans[i]))
        return {&spans[i], {rowOf(flow.to), asynchronous, i}, false};
  }
  return {};
}

TimelineView::Hit TimelineView::hitAt(double x, double row) const {
  const Hit hit = spanAt(x, row, 2 * xRange().span() / cellsRect().width());
  const Flow* flow = flowAt(pixelOf(x, row));
  if (flow == nullptr) return hit;
  // The spans at its ends are hit themselves.
  if (hit.span != nullptr && !hit.predicted && isAtEnd(*flow, rankOf(hit.place.row), *hit.span))
    return hit;
  const Hit receive = receiveOf(*flow);
  return receive.span != nullptr ? receive : hit;
}

// Returns the peers of the span's messages, and how long each message took.
QStringList TimelineView::flowTexts(const app::StepTimeline& timeline, int rank,
                                    const app::TimelineSpan& span) const {
  const auto duration = [](std::int64_t begin, std::int64_t end) {
    return formatSeconds(static_cast<double>(std::max<std::int64_t>(0, end - begin)) * 1e-9);
  };
  QStringList out;
  int more = 0;
  for (const Flow& flow : timeline.flows) {
    const bool toPeer = sends(flow, rank, span);
    if (!isAtEnd(flow, rank, span)) continue;
    if (out.size() == kMostFlowTexts) {
      ++more;
      continue;
    }
    const std::int32_t peerSpan = toPeer ? flow.receive : flow.send;
    const QString text =
        (toPeer ? tr("to %1 (%2) in %3") : tr("from %1 (%2) in %3"))
            .arg(nameOf(toPeer ? flow.to : flow.from),
                 QString::fromStdString(timeline.names[static_cast<std::size_t>(peerSpan)]),
                 duration(std::max(flow.sent, flow.awaited), flow.received));
    out << text + (flow.awaited < flow.sent
                       ? tr(", the receiver waited %1").arg(duration(flow.awaited, flow.sent))
                       : tr(", sent %1 before the receive").arg(duration(flow.sent, flow.awaited)));
  }
  if (more > 0) out << tr("%1 more messages").arg(more);
  return out;
}

}  // namespace lockstep::ui
