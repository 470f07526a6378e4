#include "ui/models/field_model.h"

#include <QAction>
#include <QComboBox>
#include <QCoreApplication>
#include <QFileDialog>
#include <QFileInfo>
#include <QLineEdit>

#include "ui/studio/spec_document.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

// Names of fields, for the translators; a field that is not here shows its own name.
[[maybe_unused]] const char* const kFieldNames[] = {
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Activation"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Add"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Address"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "All reduce"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Backend"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Bandwidth mbit"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Batch norm"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Batch"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Beta1"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Beta2"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Bucket bytes"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Categories"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Classes"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Clip norm"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Columns"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Comm"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Compression"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Concat"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Conv 2-D"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Copy to nodes"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Count"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Crop"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Decay matrices only"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Dense"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Deterministic parts"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Disabled"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Dropout"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Embedding"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Epochs"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Epsilon"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Evaluate batch"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Every"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Factor"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Feed forward"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Filters"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Final rate"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Fixed"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Flatten"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Flip"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "For batch"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Format"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "From"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Function"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Gather bytes"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Global average pool"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Gpus"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Groups"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Growth interval"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Heads"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Host"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Identity file"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Images sha256"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Images"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Initial"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Inputs"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Interface"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Keep"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Kernel"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Kind"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Labels sha256"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Labels"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Latency us"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Layer norm"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Learning rate"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Local steps"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Loss"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Max pool 2-D"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Max steps"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Micro batches"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Momentum"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Name"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "No bias"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "No shuffle"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Not causal"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Overlap"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Padding"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Port"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Precision"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Proxy jump"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Rate"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Recompute"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Roles"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Scale"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Schedule"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Seed"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Servers"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Shape"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Shares"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Size"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Stages"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Staleness"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Steps"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Stride"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Table sha256"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Table"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Tensor"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Text sha256"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Text"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Threads"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Tied"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "To"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Top k after"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Top k ratio"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Transformer"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Units"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Unpinned"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "User"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Version"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Vocabulary"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Warmup steps"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Weight decay"),
    QT_TRANSLATE_NOOP("lockstep::ui::Field", "Workdir"),
};

bool inOneCell(app::FieldType type) {
  return type != app::FieldType::kMessage && type != app::FieldType::kMessageList &&
         type != app::FieldType::kMap;
}

}  // namespace

QString fieldLabel(const std::string& name) {
  QString text = QString::fromStdString(name).replace('_', ' ');
  if (!text.isEmpty()) text[0] = text[0].toUpper();
  text.replace("2d", " 2-D");
  return QCoreApplication::translate("lockstep::ui::Field", text.toUtf8().constData());
}

QString fieldHelp(const std::string& help) {
  return help.empty() ? QString()
                      : QCoreApplication::translate("lockstep::ui::FieldHelp", help.c_str());
}

QString fieldHelpOf(app::SpecKind kind, const std::string& path) {
  const auto dot = path.rfind('.');
  const std::string parent = dot == std::string::npos ? "" : path.substr(0, dot);
  for (const app::FieldInfo& field : app::SpecText::fields(kind, parent)) {
    if (field.name == path.substr(dot == std::string::npos ? 0 : dot + 1))
      return fieldHelp(field.help);
  }
  return {};
}

FieldModel::FieldModel(SpecDocument* document, QObject* parent)
    : QAbstractTableModel(parent), document_(document) {
  connect(document, &SpecDocument::changed, this, &FieldModel::refresh);
}

std::vector<FieldModel::Row> FieldModel::build() const {
  std::vector<Row> out;
  const app::SpecText& spec = document_->spec();
  for (const Section& section : sections_) {
    if (!section.heading.isEmpty()) {
      Row heading;
      heading.heading = section.heading;
      out.push_back(std::move(heading));
    }
    for (auto& info : app::SpecText::fields(spec.kind(), section.path)) {
      if (!inOneCell(info.type)) continue;
      const auto& only = section.only;
      if (!only.empty() && std::find(only.begin(), only.end(), info.name) == only.end()) continue;
      Row row;
      row.path = section.path.empty() ? info.name : section.path + "." + info.name;
      row.info = std::move(info);
      row.value = QString::fromStdString(spec.value(row.path).value_or(""));
      out.push_back(std::move(row));
    }
  }
  return out;
}

QString FieldModel::unwritten(const Row& row) const {
  if (row.info.type == app::FieldType::kBoolean) return tr("no");
  if (const auto value = document_->spec().defaultOf(row.path))
    return QString::fromStdString(*value);
  if (row.info.needed) return tr("required");
  return fieldHelp(row.info.unset);
}

int FieldModel::find(const std::string& path) const {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].path == path) return static_cast<int>(i);
  }
  return -1;
}

void FieldModel::setSections(std::vector<Section> sections) {
  sections_ = std::move(sections);
  refresh();
}

void FieldModel::refresh() {
  std::vector<Row> rows = build();
  const bool same =
      rows.size() == rows_.size() &&
      std::equal(rows.begin(), rows.end(), rows_.begin(), [](const Row& a, const Row& b) {
        return a.path == b.path && a.heading == b.heading;
      });
  if (!same) {
    beginResetModel();
    rows_ = std::move(rows);
    endResetModel();
    return;
  }
  rows_ = std::move(rows);
  if (!rows_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, 1));
}

int FieldModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}
int FieldModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : 2; }

QVariant FieldModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= rowCount()) return {};
  const Row& row = rows_[static_cast<std::size_t>(index.row())];
  if (row.path.empty()) {
    if (role == Qt::DisplayRole && index.column() == 0) return row.heading;
    if (role == Qt::FontRole) {
      QFont font;
      font.setWeight(QFont::DemiBold);
      return font;
    }
    return {};
  }
  switch (role) {
    case Qt::DisplayRole:
      if (index.column() == 0) return fieldLabel(row.info.name);
      if (row.value.isEmpty()) return unwritten(row);
      if (row.info.type != app::FieldType::kBoolean) return row.value;
      return row.value == "true" ? tr("yes") : tr("no");
    case Qt::EditRole:
      return index.column() == 0 ? QVariant() : row.value;
    case Qt::ForegroundRole:
      if (index.column() == 0) return Theme::instance().color("muted");
      if (!row.value.isEmpty()) return {};
      return Theme::instance().color(row.info.needed ? "warning" : "muted");
    case Qt::FontRole: {
      QFont font;
      font.setItalic(index.column() == 1 && row.value.isEmpty());
      return font;
    }
    case Qt::ToolTipRole:
      return fieldHelp(row.info.help);
    case kChoicesRole: {
      QStringList choices;
      for (const auto& choice : row.info.choices) choices << QString::fromStdString(choice);
      if (row.info.type == app::FieldType::kBoolean) return QStringList{"false", "true"};
      // Back to what it is without: the first.
      if (!choices.isEmpty() && !row.info.needed && !choices.contains(QString()))
        choices.prepend(QString());
      return choices;
    }
    case kTypeRole:
      return int(row.info.type);
    case kPathRole:
      return QString::fromStdString(row.path);
    case kDefaultRole:
      return unwritten(row);
    case kFileRole:
      return row.info.file;
    default:
      return {};
  }
}

bool FieldModel::setData(const QModelIndex& index, const QVariant& value, int role) {
  if (role != Qt::EditRole || index.column() != 1 || index.row() >= rowCount()) return false;
  const Row row = rows_[static_cast<std::size_t>(index.row())];
  const QString text = value.toString().trimmed();
  if (row.path.empty() || text == row.value) return false;
  const Status status =
      document_->setField(row.path, text, tr("Change %1").arg(fieldLabel(row.info.name)));
  if (!status.ok()) {
    Q_EMIT refused(status.error());
    return false;
  }
  return true;
}

QVariant FieldModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignLeft | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  return section == 0 ? tr("Field") : tr("Value");
}

Qt::ItemFlags FieldModel::flags(const QModelIndex& index) const {
  if (!index.isValid()) return Qt::NoItemFlags;
  const Row& row = rows_[static_cast<std::size_t>(index.row())];
  if (row.path.empty()) return Qt::ItemIsEnabled;
  Qt::ItemFlags flags = Qt::ItemIsEnabled | Qt::ItemIsSelectable;
  if (index.column() == 1 && document_->spec().readable()) flags |= Qt::ItemIsEditable;
  return flags;
}

QWidget* FieldDelegate::createEditor(QWidget* parent, const QStyleOptionViewItem& option,
                                     const QModelIndex& index) const {
  const QStringList choices = index.data(FieldModel::kChoicesRole).toStringList();
  if (choices.isEmpty()) {
    auto* edit = qobject_cast<QLineEdit*>(QStyledItemDelegate::createEditor(parent, option, index));
    if (!edit) return nullptr;
    edit->setStyleSheet("padding: 0 4px; border-radius: 0;");
    edit->setPlaceholderText(index.data(FieldModel::kDefaultRole).toString());
    if (!index.data(FieldModel::kFileRole).toBool()) return edit;
    QAction* browse = edit->addAction(Theme::instance().icon("open"), QLineEdit::TrailingPosition);
    browse->setText(tr("Browse…"));
    browse->setToolTip(tr("Browse…"));
    connect(browse, &QAction::triggered, this,
            [view = parent->window(), at = QPersistentModelIndex(index)] {
              auto* dialog = new QFileDialog(view, tr("Choose a file"),
                                             QFileInfo(at.data(Qt::EditRole).toString()).path());
              dialog->setObjectName("fieldFileDialog");
              dialog->setFileMode(QFileDialog::ExistingFile);
              dialog->setAttribute(Qt::WA_DeleteOnClose);
              connect(dialog, &QFileDialog::fileSelected, dialog, [at](const QString& path) {
                if (at.isValid())
                  const_cast<QAbstractItemModel*>(at.model())->setData(at, path, Qt::EditRole);
              });
              dialog->open();
            });
    return edit;
  }
  auto* combo = new QComboBox(parent);
  combo->setStyleSheet("padding: 0 4px; border-radius: 0;");
  for (const QString& choice : choices) {
    combo->addItem(choice.isEmpty()
                       ? tr("Default: %1").arg(index.data(FieldModel::kDefaultRole).toString())
                   : choice == "true"  ? FieldModel::tr("yes")
                   : choice == "false" ? FieldModel::tr("no")
                                       : choice,
                   choice);
  }
  connect(combo, &QComboBox::activated, this, [this, combo] {
    auto* self = const_cast<FieldDelegate*>(this);
    Q_EMIT self->commitData(combo);
    Q_EMIT self->closeEditor(combo);
  });
  return combo;
}

void FieldDelegate::setEditorData(QWidget* editor, const QModelIndex& index) const {
  if (auto* combo = qobject_cast<QComboBox*>(editor)) {
    combo->setCurrentIndex(std::max(0, combo->findData(index.data(Qt::EditRole))));
    return;
  }
  QStyledItemDelegate::setEditorData(editor, index);
}

void FieldDelegate::setModelData(QWidget* editor, QAbstractItemModel* model,
                                 const QModelIndex& index) const {
  if (auto* combo = qobject_cast<QComboBox*>(editor)) {
    model->setData(index, combo->currentData(), Qt::EditRole);
    return;
  }
  QStyledItemDelegate::setModelData(editor, model, index);
}

}  // namespace lockstep::ui
