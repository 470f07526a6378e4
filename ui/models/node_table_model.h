// NodeTableModel: the nodes of a cluster with live state and load. sample() changes one row;
// changes are emitted once per frame.
#pragma once

#include <QAbstractTableModel>
#include <QSet>
#include <QVector>
#include <optional>

#include "app/cluster/cluster_session.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

struct NodeRow {
  int item = 0;  // of the spec's nodes, which may stand for several
  int part = 0;  // of those
  QString name;
  QString target;  // "user@host:port", or "this machine"
  app::NodeState phase = app::NodeState::DISCONNECTED;
  bool asking = false;  // waits for a person's answer
  QString detail;       // of the phase: what is being done, or what failed
  int ranks = 1;
  int cores = 0;
  QString cpuName, version, roles, os, kernel, workdir, addresses;
  QString address;  // where the other nodes reach it
  bool sampled = false;
  double cpu = 0;  // busy fraction
  double memoryUsed = 0, memoryTotal = 0;
  std::vector<app::GpuLoad> gpus;
  double networkIn = 0, networkOut = 0, loopback = 0, diskRead = 0, diskWrite = 0, diskFree = 0;
  std::optional<double> diskBusy;  // 0…1
};

QString nodePhaseText(app::NodeState phase);
Tone nodePhaseTone(app::NodeState phase);

class NodeTableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column {
    kName,
    kState,
    kCpu,
    kMemory,
    kGpu,
    kGpuUse,
    kGpuMemory,
    kGpuTemperature,
    kGpuPower,
    kGpuClock,
    kNetwork,
    kDisk,
    kRanks,
    kTarget,
    kAgent,
    kColumns
  };
  // For BarDelegate: a fraction in [0, 1], or invalid.
  static constexpr int kFractionRole = Qt::UserRole + 1;
  static constexpr int kToneRole = Qt::UserRole + 2;
  // For GpuDelegate, of each GPU: a fraction 0…1 or an invalid value; a Tone.
  static constexpr int kFractionsRole = Qt::UserRole + 3;
  static constexpr int kTonesRole = Qt::UserRole + 4;
  // For NodeLedGrid, of kCpu to kDisk: of the node or of each GPU a share 0…1 of the most there can
  // be (100 °C; of the network mostTraffic()), or an invalid value; empty: nothing is known.
  static constexpr int kLedsRole = Qt::UserRole + 5;
  // Of a GPU column, by GPU: whether its clock is throttled (app::GpuLoad::isSlowed).
  static constexpr int kSlowedRole = Qt::UserRole + 6;
  static bool isGpuColumn(int column) { return column >= kGpu && column <= kGpuClock; }

  using QAbstractTableModel::QAbstractTableModel;

  void setRows(QVector<NodeRow> rows);
  // Replaces the row of that name and keeps its samples; returns false if there is none.
  bool update(const NodeRow& row);
  const QVector<NodeRow>& rows() const { return rows_; }
  int find(const QString& name) const;
  NodeRow* row(const QString& name);
  bool anyGpu() const;  // of any row
  // Bytes/s, a round number that no node's traffic exceeds.
  double mostTraffic() const { return mostTraffic_; }
  void touched(const QString& name);  // told with the next flush()
  void flush();
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  void findMostTraffic();

  QVector<NodeRow> rows_;
  QSet<int> touched_;
  double mostTraffic_ = 1;
};

}  // namespace lockstep::ui
