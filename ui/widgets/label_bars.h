// LabelBars: how many samples have each label, as bars.
#pragma once

#include <QVector>
#include <QWidget>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::ui {

class LabelBars : public QWidget {
  Q_OBJECT

 public:
  LabelBars(const QString& objectName, QWidget* parent);
  // Labels in ascending order, and the number of samples of each.
  void setCounts(std::vector<std::pair<int, std::int64_t>> counts);
  bool isEmpty() const { return counts_.empty(); }
  QString text() const;  // "0: 6,000; 1: 6,000", also the accessible description
  QSize sizeHint() const override { return {200, 58}; }
  QSize minimumSizeHint() const override { return {80, 58}; }

 protected:
  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;

 private:
  QRectF slotOf(std::size_t bar) const;
  std::vector<std::pair<int, std::int64_t>> counts_;
};

}  // namespace lockstep::ui
