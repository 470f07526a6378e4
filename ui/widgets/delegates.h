// Item delegates: load bars behind a number, a dot before a state, tags, grey details after a
// title, wrapped texts.
#pragma once

#include <QStyledItemDelegate>

namespace lockstep::ui {

constexpr int kCellPad = 11;  // on both sides of a cell's text, as the style has it

// Paints `fractionRole` (0…1) as a bar behind the text.
class BarDelegate : public QStyledItemDelegate {
  Q_OBJECT
 public:
  BarDelegate(int fractionRole, QObject* parent)
      : QStyledItemDelegate(parent), role_(fractionRole) {}
  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override;

 private:
  int role_;
};

// Paints `fractionsRole`, a list of fractions or invalid values, as bars behind the text, and
// `tonesRole`, a list of tones, as dots before it. Plain if a row has neither.
class GpuDelegate : public QStyledItemDelegate {
  Q_OBJECT
 public:
  GpuDelegate(int fractionsRole, int tonesRole, QObject* parent)
      : QStyledItemDelegate(parent), fractions_(fractionsRole), tones_(tonesRole) {}
  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override;

 private:
  int fractions_, tones_;
};

// Paints a dot in the tone of `toneRole` before the text.
class ToneDelegate : public QStyledItemDelegate {
  Q_OBJECT
 public:
  ToneDelegate(int toneRole, QObject* parent) : QStyledItemDelegate(parent), role_(toneRole) {}
  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override;
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;

 private:
  int role_;
};

// Paints `tagsRole`, a list of words, as rounded marks; "+2" where not all fit.
class TagDelegate : public QStyledItemDelegate {
  Q_OBJECT
 public:
  TagDelegate(int tagsRole, QObject* parent) : QStyledItemDelegate(parent), role_(tagsRole) {}
  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override;

 private:
  int role_;
};

// Paints `detailRole` in grey at the right end.
class DetailDelegate : public QStyledItemDelegate {
  Q_OBJECT
 public:
  DetailDelegate(int detailRole, QObject* parent)
      : QStyledItemDelegate(parent), role_(detailRole) {}
  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override;
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;

 private:
  int role_;
};

// Makes rows high enough for wrapped texts: the style ignores the style sheet's padding.
class WrapDelegate : public QStyledItemDelegate {
  Q_OBJECT
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;
};

}  // namespace lockstep::ui
