// NavigatorModel: clusters, models and runs as one tree: a heading for each kind, with its entries.
#pragma once

#include <QAbstractItemModel>
#include <QVector>

#include "ui/theme/theme.h"

namespace lockstep::ui {

struct NavigatorEntry {
  QString key;  // file path of a cluster or model, id of a run
  QString title;
  QString detail;  // shown grey after the title and as tool tip
  QString stateText;
  Tone tone = Tone::kNeutral;
  bool hasState = false;
  bool operator==(const NavigatorEntry&) const = default;
};

class NavigatorModel : public QAbstractItemModel {
  Q_OBJECT

 public:
  enum Group { kClusters, kModels, kRuns, kGroups };
  static constexpr int kPageRole = Qt::UserRole + 1;  // key of the page that it opens; "": none
  static constexpr int kDetailRole = Qt::UserRole + 2;

  using QAbstractItemModel::QAbstractItemModel;

  // The index of an entry stays its own wherever it goes, so that what is selected stays.
  void setEntries(Group group, const QVector<NavigatorEntry>& entries);
  const QVector<NavigatorEntry>& entries(Group group) const { return entries_[group]; }
  QModelIndex indexOf(const QString& pageKey) const;  // invalid: of no entry or heading
  void retranslate();

  QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
  QModelIndex parent(const QModelIndex& index) const override;
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;

 private:
  // internalId 0: a heading; g + 1: an entry of group g.
  QVector<NavigatorEntry> entries_[kGroups];
};

}  // namespace lockstep::ui
