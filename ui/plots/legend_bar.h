// LegendBar: the names of a plot's series with their colours and the value under the crosshair.
// Before them the parts of a spread.
#pragma once

#include <QWidget>
#include <memory>
#include <vector>

#include "ui/plots/series.h"

namespace lockstep::ui {

class LegendBar : public QWidget {
  Q_OBJECT

 public:
  explicit LegendBar(QWidget* parent = nullptr);

  // `spreadParts` has texts for the parts of a spread, or none; `about` says what it shows.
  void setEntries(const QStringList& spreadParts, const QString& about,
                  std::vector<std::shared_ptr<Series>> series);
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
  int count() const { return static_cast<int>(parts_.size() + std::ssize(series_)); }
  const Series* seriesOf(int index) const;  // nullptr: a part of a spread
  const QString& entryName(int index) const;
  QString entryText(int index) const;
  void paintMark(QPainter& painter, const Entry& entry) const;

  QStringList parts_;
  QString about_;
  std::vector<std::shared_ptr<Series>> series_;
  QStringList values_;
};

}  // namespace lockstep::ui
