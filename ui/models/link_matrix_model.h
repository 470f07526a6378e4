// LinkMatrixModel: bandwidth or round trip of each link, from the node of a row to that of a
// column, coloured by how much slower it is than the median. Weak links are bold and begin with
// "!".
#pragma once

#include <QAbstractTableModel>

#include "app/cluster/link_matrix.h"
#include "ui/plots/color_map.h"

namespace lockstep::ui {

class LinkMatrixModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  explicit LinkMatrixModel(QObject* parent = nullptr);

  void setMatrix(app::LinkMatrix matrix);  // also after a change of the language
  const app::LinkMatrix& matrix() const { return matrix_; }

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  int size() const { return static_cast<int>(matrix_.nodes.size()); }
  QString name(int node) const;
  QString valueText(double value) const;
  QString sentence(const QModelIndex& index) const;
  QColor fill(const app::PreflightValue& value) const;

  app::LinkMatrix matrix_;
  ColorMap colors_{ColorMap::Kind::kDiverging};
};

}  // namespace lockstep::ui
