// LegendBar: the names of a plot's series with their colours and the value under the crosshair.
// Before them the parts of a spread, or several spreads.
#pragma once

#include <QWidget>
#include <memory>
#include <vector>

#include "ui/plots/series.h"
#include "ui/plots/spread.h"

namespace lockstep::ui {

class LegendBar : public QWidget {
  Q_OBJECT

 public:
  struct Part {
    QString name;
    int spread = 0;  // of the plot
    SpreadPart part = SpreadPart::kMedian;
    bool operator==(const Part&) const = default;
  };

  explicit LegendBar(QWidget* parent = nullptr);

  // `about` says what spreads show.
  void setEntries(std::vector<Part> parts, const QString& about,
                  std::vector<std::shared_ptr<Series>> series);
  const std::vector<Part>& parts() const { return parts_; }
  QStringList entryNames() const;
  void setValues(const QStringList& values);  // one an entry, or none
  int wantedWidth() const;                    // of all names, each with a value
  QSize sizeHint() const override { return {200, minimumSizeHint().height()}; }
  QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void clicked(const std::shared_ptr<lockstep::ui::Series>& series);

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent* event) override;
  bool event(QEvent* event) override;

 private:
  struct Entry {
    int index;
    QRect rect;
  };
  std::vector<Entry> layoutEntries() const;
  int count() const { return static_cast<int>(parts_.size() + series_.size()); }
  const Series* seriesOf(int index) const;  // nullptr: a part of a spread
  const QString& entryName(int index) const;
  QString entryText(int index) const;
  void paintMark(QPainter& painter, const Entry& entry) const;

  std::vector<Part> parts_;
  QString about_;
  std::vector<std::shared_ptr<Series>> series_;
  QStringList values_;
};

}  // namespace lockstep::ui
