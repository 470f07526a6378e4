// LegendBar: the names of a plot's series with their colours and the value under the crosshair; a
// click hides or shows a series.
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

  void setSeries(std::vector<std::shared_ptr<Series>> series);
  void setValues(const QStringList& values);  // one a series, or none
  int wantedWidth() const;                    // of all names, each with a value
  QSize sizeHint() const override { return {200, minimumSizeHint().height()}; }
  QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void toggled();

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
  QString entryText(int index) const;

  std::vector<std::shared_ptr<Series>> series_;
  QStringList values_;
};

}  // namespace lockstep::ui
