// Colour scales of heat maps, told apart with every common colour vision and in grey: cividis
// (Nuñez et al. 2018) for values from 0, blue – orange for differences from 0.
#pragma once

#include <QColor>
#include <QWidget>
#include <array>

namespace lockstep::ui {

class ColorMap {
 public:
  enum class Kind { kSequential, kDiverging };
  // By the current theme: no difference is close to the background.
  explicit ColorMap(Kind kind);
  QRgb at(double share) const;  // share of the scale: 0 … 1, diverging −1 … 1; clamped

 private:
  static constexpr int kColors = 256;
  bool diverging_;
  std::array<QRgb, kColors> table_;
};

// The scale as a bar with what its ends stand for.
class ColorLegend : public QWidget {
  Q_OBJECT

 public:
  explicit ColorLegend(QWidget* parent = nullptr);
  // `unit` says of what, before the bar; "": nothing
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
