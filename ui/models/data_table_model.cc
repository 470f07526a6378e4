#include "ui/models/data_table_model.h"

#include <QImage>
#include <QPixmap>
#include <algorithm>

#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/theme/theme.h"
#include "ui/theme/tool_tip.h"

namespace lockstep::ui {
namespace {

// Three channels are red, green and blue, four have an opacity too; of others the first is shown.
QImage imageOf(const app::DataSample& sample, const std::vector<std::int64_t>& shape) {
  const int height = static_cast<int>(shape[0]), width = static_cast<int>(shape[1]);
  const std::int64_t channels = shape.size() > 2 ? shape[2] : 1;
  if (static_cast<std::int64_t>(sample.pixels.size()) < height * width * channels) return {};
  const auto* pixels = reinterpret_cast<const uchar*>(sample.pixels.data());
  if (channels == 1 || channels == 3 || channels == 4)
    return QImage(pixels, width, height, width * channels,
                  channels == 1   ? QImage::Format_Grayscale8
                  : channels == 3 ? QImage::Format_RGB888
                                  : QImage::Format_RGBA8888);
  QImage out(width, height, QImage::Format_Grayscale8);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      out.scanLine(y)[x] = pixels[(static_cast<std::int64_t>(y) * width + x) * channels];
  return out;
}

// Small images with square pixels, large ones smaller.
QPixmap pictureOf(const app::DataSample& sample, const std::vector<std::int64_t>& shape) {
  const QImage image = imageOf(sample, shape);
  if (image.isNull()) return {};
  const int height = image.height(), width = image.width();
  const int side = std::max(width, height);
  const int factor = (DataTableModel::kLeastSide + side - 1) / side;
  if (factor > 1) return QPixmap::fromImage(image.scaled(image.size() * factor));
  if (side <= DataTableModel::kMostSide) return QPixmap::fromImage(image.copy());
  return QPixmap::fromImage(image.scaled(DataTableModel::kMostSide, DataTableModel::kMostSide,
                                         Qt::KeepAspectRatio, Qt::SmoothTransformation));
}

}  // namespace

void DataTableModel::setSamples(app::DataKind kind, std::vector<std::int64_t> shape,
                                std::vector<app::DataSample> samples,
                                std::vector<std::string> columns) {
  beginResetModel();
  kind_ = kind;
  columns_ = std::move(columns);
  shape_ = std::move(shape);
  samples_ = std::move(samples);
  endResetModel();
}

void DataTableModel::clear() { setSamples(kind_, {}, {}); }

void DataTableModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, columnCount() - 1);
  if (!samples_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
}

int DataTableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(samples_.size());
}

int DataTableModel::columnCount(const QModelIndex& parent) const {
  if (parent.isValid()) return 0;
  if (kind_ != app::DataKind::kRows) return 2;
  std::int64_t cells = 0;
  for (const std::int64_t extent : shape_) cells += extent;
  return 2 + static_cast<int>(cells);
}

QString DataTableModel::cell(const app::DataSample& sample, int column) const {
  if (column == kIndex) return QString("#%1").arg(sample.index);
  if (isText()) return QString::fromStdString(app::oneLine(sample.text));
  if (column == kLabel) return QString::fromUtf8(sample.label.c_str());
  const auto at = static_cast<std::size_t>(column - 2);
  return at < sample.cells.size() ? QString::fromUtf8(sample.cells[at].c_str()) : QString();
}

QVariant DataTableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const app::DataSample& sample = samples_[static_cast<std::size_t>(index.row())];
  const bool image = kind_ == app::DataKind::kImages;
  switch (role) {
    case Qt::DisplayRole:
      // Below an image, where there is one column alone.
      if (image && index.column() == kIndex)
        return QString::fromUtf8("%1  ·  #%2").arg(cell(sample, kLabel)).arg(sample.index);
      return cell(sample, index.column());
    case Qt::DecorationRole:
      if (image && index.column() == kIndex) return pictureOf(sample, shape_);
      return {};
    case Qt::AccessibleTextRole:
      if (image) return tr("Sample %1, label %2").arg(sample.index).arg(cell(sample, kLabel));
      return cell(sample, index.column());
    case Qt::ToolTipRole:
      if (sample.problem) return toolTipText(messageText(sample.problem->why));
      if (isText() && index.column() == kLabel)
        return toolTipText(QString::fromStdString(app::oneLine(sample.text)));
      return {};
    case Qt::ForegroundRole:
      if (sample.problem) return Theme::instance().color("bad");
      return {};
    case Qt::TextAlignmentRole:
      if (image && index.column() == kIndex) return int(Qt::AlignHCenter | Qt::AlignTop);
      return {};
    default:
      return {};
  }
}

QVariant DataTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole || section < 0) return {};
  if (section == kIndex) return tr("Sample");
  if (section == kLabel)
    return kind_ == app::DataKind::kTokens ? tr("Tokens") : isText() ? tr("Text") : tr("Label");
  const std::int64_t numbers = shape_.empty() ? 0 : shape_[0];
  const std::int64_t at = section - 2;
  if (at < std::ssize(columns_))
    return QString::fromStdString(columns_[static_cast<std::size_t>(at)]);
  return at < numbers ? tr("n%1", "number of a table").arg(at + 1)
                      : tr("c%1", "category of a table").arg(at - numbers + 1);
}

}  // namespace lockstep::ui
