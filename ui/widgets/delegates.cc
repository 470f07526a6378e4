#include "ui/widgets/delegates.h"

#include <QApplication>
#include <QPainter>
#include <QTableView>
#include <algorithm>

#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

constexpr int kTagPad = 7;  // in a tag

void drawBackground(QPainter* painter, const QStyleOptionViewItem& option) {
  const QWidget* widget = option.widget;
  QStyle* style = widget ? widget->style() : QApplication::style();
  style->drawPrimitive(QStyle::PE_PanelItemViewItem, &option, painter, widget);
  if (!(option.state & QStyle::State_HasFocus)) return;
  QStyleOptionFocusRect focus;
  focus.QStyleOption::operator=(option);
  style->drawPrimitive(QStyle::PE_FrameFocusRect, &focus, painter, widget);
}

QColor textColor(const QStyleOptionViewItem& option) {
  return option.palette.color(option.state & QStyle::State_Selected ? QPalette::HighlightedText
                                                                    : QPalette::Text);
}

}  // namespace

void BarDelegate::paint(QPainter* painter, const QStyleOptionViewItem& given,
                        const QModelIndex& index) const {
  QStyleOptionViewItem option = given;
  initStyleOption(&option, index);
  drawBackground(painter, option);
  const QVariant fraction = index.data(role_);
  const Theme& theme = Theme::instance();
  const QRect cell = option.rect.adjusted(kCellPad, 0, -kCellPad, 0);
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  if (fraction.isValid()) {
    const double value = std::clamp(fraction.toDouble(), 0.0, 1.0);
    const QRectF track(cell.x(), cell.bottom() - 5, cell.width(), 3);
    painter->setPen(Qt::NoPen);
    painter->setBrush(theme.color("divider"));
    painter->drawRoundedRect(track, 1.5, 1.5);
    painter->setBrush(value > 0.95 ? theme.color("warning") : theme.color("accent"));
    painter->drawRoundedRect(QRectF(track.x(), track.y(), std::max(3.0, track.width() * value), 3),
                             1.5, 1.5);
  }
  painter->setPen(textColor(option));
  painter->drawText(fraction.isValid() ? cell.adjusted(0, 0, 0, -5) : cell,
                    Qt::AlignVCenter | Qt::AlignLeft,
                    option.fontMetrics.elidedText(option.text, Qt::ElideRight, cell.width()));
  painter->restore();
}

void GpuDelegate::paint(QPainter* painter, const QStyleOptionViewItem& given,
                        const QModelIndex& index) const {
  QStyleOptionViewItem option = given;
  initStyleOption(&option, index);
  drawBackground(painter, option);
  const QVariantList fractions = index.data(fractions_).toList(),
                     tones = index.data(tones_).toList();
  const Theme& theme = Theme::instance();
  QRect cell = option.rect.adjusted(kCellPad, 0, -kCellPad, 0);
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  painter->setPen(Qt::NoPen);
  if (!fractions.isEmpty()) {
    const double gap = fractions.size() > 1 ? 2 : 0;
    const double width = (cell.width() + gap) / static_cast<double>(fractions.size()) - gap;
    for (int i = 0; i < fractions.size(); ++i) {
      const QRectF track(cell.x() + i * (width + gap), cell.bottom() - 5, width, 3);
      painter->setBrush(theme.color("divider"));
      painter->drawRoundedRect(track, 1.5, 1.5);
      if (!fractions[i].isValid()) continue;
      const double value = std::clamp(fractions[i].toDouble(), 0.0, 1.0);
      painter->setBrush(theme.color("accent"));
      painter->drawRoundedRect(
          QRectF(track.x(), track.y(), std::max(std::min(3.0, width), width * value), 3), 1.5, 1.5);
    }
    cell.adjust(0, 0, 0, -5);
  }
  if (!tones.isEmpty()) {
    // no more than there is room for a word beside them
    const double step = tones.size() > 8 ? 7 : 11;
    const double radius = tones.size() > 8 ? 2.5 : 4;
    for (int i = 0; i < tones.size(); ++i) {
      painter->setBrush(theme.tone(static_cast<Tone>(tones[i].toInt())));
      painter->drawEllipse(QPointF(cell.x() + radius + i * step, cell.center().y() + 0.5), radius,
                           radius);
    }
    cell.setLeft(cell.x() + static_cast<int>(static_cast<double>(tones.size()) * step) + kSpaceXs);
  }
  const QVariant foreground = index.data(Qt::ForegroundRole);
  painter->setPen(foreground.isValid() && !(option.state & QStyle::State_Selected)
                      ? foreground.value<QColor>()
                      : textColor(option));
  painter->drawText(cell, Qt::AlignVCenter | Qt::AlignLeft,
                    option.fontMetrics.elidedText(option.text, Qt::ElideRight, cell.width()));
  painter->restore();
}

void ToneDelegate::paint(QPainter* painter, const QStyleOptionViewItem& given,
                         const QModelIndex& index) const {
  QStyleOptionViewItem option = given;
  initStyleOption(&option, index);
  drawBackground(painter, option);
  const QRect cell = option.rect.adjusted(kCellPad, 0, -kSpaceXs, 0);
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  painter->setPen(Qt::NoPen);
  painter->setBrush(Theme::instance().tone(static_cast<Tone>(index.data(role_).toInt())));
  painter->drawEllipse(QPointF(cell.x() + 4, cell.center().y() + 0.5), 4, 4);
  painter->setPen(textColor(option));
  painter->drawText(cell.adjusted(15, 0, 0, 0), Qt::AlignVCenter | Qt::AlignLeft,
                    option.fontMetrics.elidedText(option.text, Qt::ElideRight, cell.width() - 15));
  painter->restore();
}

QSize ToneDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
  return QStyledItemDelegate::sizeHint(option, index) + QSize(20, 0);
}

void TagDelegate::paint(QPainter* painter, const QStyleOptionViewItem& given,
                        const QModelIndex& index) const {
  QStyleOptionViewItem option = given;
  initStyleOption(&option, index);
  drawBackground(painter, option);
  const QStringList tags = index.data(role_).toStringList();
  const Theme& theme = Theme::instance();
  const QFont font = theme.small();
  const QFontMetrics metrics(font);
  const QRect cell = option.rect.adjusted(kCellPad, 0, -kSpaceXs, 0);
  const int height = metrics.height() + 3;
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  painter->setFont(font);
  int x = cell.x();
  for (qsizetype i = 0; i < tags.size(); ++i) {
    const QString rest = i + 1 < tags.size() ? QString("+%1").arg(tags.size() - i - 1) : QString();
    const int room = cell.right() - x - 2 * kTagPad -
                     (rest.isEmpty() ? 0 : metrics.horizontalAdvance(rest) + kSpaceXs);
    const int wanted = metrics.horizontalAdvance(tags[i]);
    if (i > 0 && wanted > room) {
      painter->setPen(textColor(option));
      painter->drawText(QRect(x, cell.y(), cell.right() - x, cell.height()),
                        Qt::AlignVCenter | Qt::AlignLeft, QString("+%1").arg(tags.size() - i));
      break;
    }
    const int width = std::clamp(wanted, 0, std::max(room, 0));
    const QRectF mark(x, cell.center().y() - height / 2, width + 2 * kTagPad, height);
    painter->setPen(QPen(theme.color("border"), 1));
    painter->setBrush(theme.color("alternate"));
    painter->drawRoundedRect(mark, height / 2.0, height / 2.0);
    painter->setPen(theme.color("text"));
    painter->drawText(mark.adjusted(kTagPad, 0, -kTagPad + 1, 0), Qt::AlignVCenter | Qt::AlignLeft,
                      metrics.elidedText(tags[i], Qt::ElideRight, width));
    x += width + 2 * kTagPad + kSpaceXs;
  }
  painter->restore();
}

void DetailDelegate::paint(QPainter* painter, const QStyleOptionViewItem& given,
                           const QModelIndex& index) const {
  QStyleOptionViewItem option = given;
  initStyleOption(&option, index);
  const QString detail = index.data(role_).toString();
  const QFont small = Theme::instance().small();
  const QFontMetrics metrics(small);
  // Shortens a date to its time and a path to its end, which tell things of one name apart.
  const int beside = (option.icon.isNull() ? 0 : option.decorationSize.width() + 8) + 12;
  const int room = option.rect.width() - beside - option.fontMetrics.horizontalAdvance(option.text);
  const QString time = detail.section(' ', -1);
  const QString shown =
      metrics.horizontalAdvance(detail) > room && metrics.horizontalAdvance(time) <= room ? time
      : room > 40 ? metrics.elidedText(detail, Qt::ElideLeft, room)
                  : QString();
  QStyle* style = option.widget ? option.widget->style() : QApplication::style();
  style->drawControl(QStyle::CE_ItemViewItem, &option, painter, option.widget);
  if (shown.isEmpty()) return;
  painter->save();
  painter->setFont(small);
  painter->setPen(option.state & QStyle::State_Selected
                      ? option.palette.color(QPalette::HighlightedText)
                      : Theme::instance().color("muted"));
  painter->drawText(option.rect.adjusted(0, 0, -kSpaceS, 0), Qt::AlignVCenter | Qt::AlignRight,
                    shown);
  painter->restore();
}

QSize DetailDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
  QSize size = QStyledItemDelegate::sizeHint(option, index);
  size.setHeight(std::max(size.height(), 26));
  return size;
}

QSize WrapDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
  QStyleOptionViewItem narrower = option;
  if (const auto* table = qobject_cast<const QTableView*>(option.widget)) {
    const int spanned = table->columnSpan(index.row(), 0);
    if (index.column() > 0 && index.column() < spanned) return {0, 0};
    int width = table->columnWidth(index.column());  // the table gives all columns' to some cells
    for (int column = 1; column < spanned; ++column) width += table->columnWidth(column);
    narrower.rect.setWidth(width);
  }
  narrower.rect.adjust(0, 0, -2 * kSpaceS, 0);
  return QStyledItemDelegate::sizeHint(narrower, index);
}

}  // namespace lockstep::ui
