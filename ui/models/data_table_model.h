// DataTableModel: samples of a data set: images with their labels, rows of a table, or texts.
#pragma once

#include <QAbstractTableModel>
#include <cstdint>
#include <string>
#include <vector>

#include "app/runs/data_preview.h"

namespace lockstep::ui {

class DataTableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  // The columns: the number of a sample (with its image), its label unless it is a text; then the
  // numbers and categories of a row, or the text.
  enum Column { kIndex, kLabel };
  static constexpr int kLeastSide = 56, kMostSide = 160;  // of an image, pixels

  using QAbstractTableModel::QAbstractTableModel;

  // `shape` and `columns` are those of DataPreview.
  void setSamples(app::DataKind kind, std::vector<std::int64_t> shape,
                  std::vector<app::DataSample> samples, std::vector<std::string> columns = {});
  void clear();
  app::DataKind kind() const { return kind_; }
  const std::vector<app::DataSample>& samples() const { return samples_; }
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  bool isText() const { return kind_ == app::DataKind::kText || kind_ == app::DataKind::kTokens; }
  QString cell(const app::DataSample& sample, int column) const;

  app::DataKind kind_ = app::DataKind::kImages;
  std::vector<std::int64_t> shape_;
  std::vector<std::string> columns_;
  std::vector<app::DataSample> samples_;
};

}  // namespace lockstep::ui
