// TimelineTableModel: the spans of a timeline as rows: by rank, lane and time, or sorted by a
// column. Reads the events that the timeline draws, a cell at a time, and copies none of them.
// Sorts in the background, and keeps the order before until then. Threads: GUI.
#pragma once

#include <QAbstractTableModel>
#include <cstdint>
#include <memory>
#include <vector>

#include "ui/plots/timeline_view.h"

namespace lockstep::ui {

class TimelineTableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kRank, kLane, kOperation, kStart, kDuration, kWaitsFor, kBytes, kColumns };

  // The view outlives the model.
  explicit TimelineTableModel(const TimelineView& view, QObject* parent = nullptr);
  ~TimelineTableModel() override;

  void refresh();  // call after the view has got another timeline
  void retranslate();
  TimelineView::Place placeOf(int row) const;
  int rowOf(const TimelineView::Place& place) const;  // -1: no row is of that span

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  void sort(int column, Qt::SortOrder order) override;

 private:
  class Spans;                         // numbered through: by row of the view, lane and time
  struct Order {                       // both empty: that of their numbers
    std::vector<std::uint32_t> spans;  // by row
    std::vector<std::uint32_t> rows;   // by span
  };
  static Order ordered(const Spans& spans, int column, Qt::SortOrder order);
  void startSorting();
  void setOrder(Order order);
  std::uint32_t spanOf(int row) const;
  int rowOfSpan(std::uint32_t span) const;
  QString cellText(int row, int column) const;

  const TimelineView& view_;
  std::shared_ptr<const Spans> spans_;
  Order order_;
  int column_ = kRank;
  Qt::SortOrder direction_ = Qt::AscendingOrder;
  int sorting_ = 0;  // counts sorts: only the newest is taken
};

}  // namespace lockstep::ui
