// Colour scales of heat maps, safe for colour-blind readers and in greyscale: cividis (Nuñez et al.
// 2018) for values from 0, blue – orange for differences from 0.
#pragma once

#include <QColor>
#include <QWidget>
#include <array>

namespace lockstep::ui {

class ColorMap {
 public:
  enum class Kind { kSequential, kDiverging };
  // Uses the current theme: the colour of no difference is close to the background.
  explicit ColorMap(Kind kind);
  // `share` of the scale: 0 … 1, diverging −1 … 1; clamped.
  QRgb at(float share) const {
    const float index = share * factor_ + offset_;
    return table_[index <= 0             ? 0
                  : index >= kColors - 1 ? kColors - 1
                                         : static_cast<std::size_t>(index)];
  }

 private:
  static constexpr int kColors = 256;
  float factor_, offset_;  // map a share to an index
  std::array<QRgb, kColors> table_;
};

// The scale as a bar, with the values of its ends.
class ColorLegend : public QWidget {
  Q_OBJECT

 public:
  explicit ColorLegend(QWidget* parent = nullptr);
  // `unit` is shown before the bar; "": none.
  void setScale(ColorMap::Kind kind, const QString& unit, const QString& least,
                const QString& most);
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  ColorMap::Kind kind_ = ColorMap::Kind::kSequential;
  QString unit_, least_, most_;
};

}  // namespace lockstep::ui
