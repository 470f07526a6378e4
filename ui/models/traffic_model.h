// Traffic of ranks and nodes in a step. TrafficModel: the bytes from the rank or node of a row to
// that of a column. NodeTrafficModel: the bytes that each node sends to and receives from other
// nodes, planned and measured.
#pragma once

#include <QAbstractTableModel>
#include <QColor>
#include <QString>
#include <optional>
#include <vector>

#include "engine/plan/traffic.h"

namespace lockstep::ui {

class TrafficModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  using QAbstractTableModel::QAbstractTableModel;

  void setTraffic(const std::vector<plan::Traffic>& traffic, int ranks);
  // Between nodes, by their index in `nodes`, with what was planned beside it.
  void setNodeTraffic(const std::vector<plan::Traffic>& measured,
                      const std::vector<plan::Traffic>& planned, std::vector<QString> nodes);
  std::int64_t most() const { return most_; }  // maximum of all cells, bytes
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  struct Cell {
    std::int64_t bytes = 0;
    bool atMost = false;
    std::int64_t planned = 0;  // of nodes
  };
  void fill(const std::vector<plan::Traffic>& traffic, int size);
  Cell* cellOf(const plan::Traffic& link);  // null: outside
  const Cell& at(const QModelIndex& index) const;
  QString name(int index) const;
  QString sentence(const QModelIndex& index) const;
  QColor shade(std::int64_t bytes) const;

  int size_ = 0;
  std::vector<QString> nodes_;  // empty: between ranks
  std::vector<Cell> cells_;     // by sender, receiver
  std::int64_t most_ = 0;
};

struct NodeTraffic {
  QString node;
  double plannedOut = 0, plannedIn = 0;           // bytes per step, to and from other nodes
  std::optional<double> measuredOut, measuredIn;  // bytes per step, over all interfaces
  std::optional<double> loopback;                 // within the machine
};

class NodeTrafficModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kNode, kPlannedOut, kMeasuredOut, kPlannedIn, kMeasuredIn, kLoopback, kColumns };
  using QAbstractTableModel::QAbstractTableModel;

  void setRows(std::vector<NodeTraffic> rows);
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<NodeTraffic> rows_;
};

}  // namespace lockstep::ui
