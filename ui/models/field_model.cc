#include "ui/models/field_model.h"

#include <QAction>
#include <QComboBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QLineEdit>
#include <algorithm>

#include "ui/studio/spec_document.h"
#include "ui/theme/language.h"
#include "ui/theme/message_text.h"
#include "ui/theme/theme.h"
#include "ui/theme/tool_tip.h"

namespace lockstep::ui {
namespace {

bool inOneCell(app::FieldType type) {
  return type != app::FieldType::kMessage && type != app::FieldType::kMessageList &&
         type != app::FieldType::kMap;
}

}  // namespace

QString optionText(const app::OptionText& text) {
  const bool chinese = Language::instance().code().startsWith("zh") && !text.chinese.empty();
  return QString::fromStdString(chinese ? text.chinese : text.english);
}

QString fieldLabelOf(app::SpecKind kind, const std::string& path) {
  const auto field = app::SpecText::field(kind, path);
  return field ? optionText(field->label) : QString();
}

QString fieldHelpOf(app::SpecKind kind, const std::string& path) {
  const auto field = app::SpecText::field(kind, path);
  return field ? optionText(field->help) : QString();
}

FieldModel::FieldModel(SpecDocument* document, QObject* parent)
    : QAbstractTableModel(parent), document_(document) {
  connect(document, &SpecDocument::changed, this, &FieldModel::refresh);
}

QString FieldModel::problemOf(const std::string& path) const {
  for (const app::SpecProblem& problem : document_->spec().problems())
    if (!problem.missing && (problem.path == path || problem.path.starts_with(path + "[")))
      return messageText(problem.message());
  return {};
}

QString FieldModel::problem(int row) const { return rows_[static_cast<std::size_t>(row)].problem; }

// The fields of a message, or the entries that a map has.
void FieldModel::addRows(const Section& section, std::vector<Row>& rows) const {
  const app::SpecText& spec = document_->spec();
  const auto add = [&](std::string path, app::FieldInfo info) {
    Row row;
    row.info = std::move(info);
    row.value = QString::fromStdString(spec.value(path).value_or(""));
    row.problem = problemOf(path);
    row.path = std::move(path);
    rows.push_back(std::move(row));
  };
  const auto whole = app::SpecText::field(spec.kind(), section.path);
  if (whole && whole->type == app::FieldType::kMap) {
    for (const std::string& key : spec.keys(section.path)) {
      app::FieldInfo info = *whole;
      info.type = app::FieldType::kText;
      info.label = {key, key};
      add(section.path + "[" + key + "]", std::move(info));
    }
    return;
  }
  for (auto& info : app::SpecText::fields(spec.kind(), section.path)) {
    if (!inOneCell(info.type)) continue;
    const auto& only = section.only;
    if (!only.empty() && std::find(only.begin(), only.end(), info.name) == only.end()) continue;
    std::string path = section.path.empty() ? info.name : section.path + "." + info.name;
    add(std::move(path), std::move(info));
  }
}

std::vector<FieldModel::Row> FieldModel::build() const {
  std::vector<Row> out;
  for (const Section& section : sections_) {
    if (!section.heading.isEmpty()) {
      Row heading;
      heading.heading = section.heading;
      out.push_back(std::move(heading));
    }
    addRows(section, out);
  }
  return out;
}

bool FieldModel::isUsed(const Row& row) const {
  const auto parentOf = [](const Row& one) {
    return one.path.substr(0,
                           one.path.size() - std::min(one.path.size(), one.info.name.size() + 1));
  };
  const std::string parent = parentOf(row);
  std::vector<std::pair<std::string, std::string>> values;
  for (const Row& other : rows_)
    if (!other.value.isEmpty() && parentOf(other) == parent)
      values.emplace_back(other.info.name, other.value.toStdString());
  return parent.empty() ||
         app::SpecText::isUsed(document_->spec().kind(), parent, row.info.name, values);
}

QString FieldModel::unwritten(const Row& row) const {
  if (row.info.type == app::FieldType::kBoolean)
    return row.info.unset.english == "true" ? tr("yes") : tr("no");
  if (const auto value = document_->spec().defaultOf(row.path))
    return QString::fromStdString(*value);
  if (row.info.needed) return tr("required");
  if (!isUsed(row)) return tr("not used");
  return optionText(row.info.unset);
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

void FieldModel::retranslate() {
  Q_EMIT headerDataChanged(Qt::Horizontal, 0, 1);
  refresh();  // problems have texts too
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
      if (index.column() == 0) return optionText(row.info.label);
      if (row.value.isEmpty()) return unwritten(row);
      if (row.info.type != app::FieldType::kBoolean) return row.value;
      return row.value == "true" ? tr("yes") : tr("no");
    case Qt::EditRole:
      return index.column() == 0 ? QVariant() : row.value;
    case Qt::ForegroundRole:
      if (index.column() == 0) return Theme::instance().color("muted");
      if (!row.problem.isEmpty()) return Theme::instance().color("bad");
      if (!row.value.isEmpty()) return {};
      return Theme::instance().color(row.info.needed ? "warning" : "muted");
    case Qt::FontRole: {
      QFont font;
      font.setItalic(index.column() == 1 && row.value.isEmpty());
      return font;
    }
    case Qt::ToolTipRole:
      return row.problem.isEmpty() ? optionText(row.info.help)
                                   : toolTipText(row.problem + '\n' + optionText(row.info.help));
    case Qt::DecorationRole:
      if (index.column() == 0 || row.problem.isEmpty()) return {};
      return Theme::instance().icon("error", Tone::kBad);
    case Qt::AccessibleDescriptionRole:
      return row.problem;
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
      document_->setField(row.path, text, tr("Change %1").arg(optionText(row.info.label)));
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
  if (index.data(FieldModel::kTypeRole).toInt() == int(app::FieldType::kTextList)) {
    combo->setEditable(true);  // several: "worker, ps"
    combo->setInsertPolicy(QComboBox::NoInsert);
    combo->setCompleter(nullptr);
  }
  connect(combo, &QComboBox::activated, this, [this, combo] {
    auto* self = const_cast<FieldDelegate*>(this);
    Q_EMIT self->commitData(combo);
    Q_EMIT self->closeEditor(combo);
  });
  return combo;
}

void FieldDelegate::setEditorData(QWidget* editor, const QModelIndex& index) const {
  auto* combo = qobject_cast<QComboBox*>(editor);
  // The fields are told anew when a check of the spec ends: what is being typed stays.
  const QLineEdit* edit = combo ? combo->lineEdit() : qobject_cast<QLineEdit*>(editor);
  if (edit && edit->isModified()) return;
  if (!combo) return QStyledItemDelegate::setEditorData(editor, index);
  const QString value = index.data(Qt::EditRole).toString();
  const int known = combo->findData(value);
  if (known < 0 && !value.isEmpty()) combo->addItem(value, value);  // or leaving would change it
  combo->setCurrentIndex(known >= 0 ? known : value.isEmpty() ? 0 : combo->count() - 1);
}

void FieldDelegate::setModelData(QWidget* editor, QAbstractItemModel* model,
                                 const QModelIndex& index) const {
  const auto* combo = qobject_cast<QComboBox*>(editor);
  if (!combo) return QStyledItemDelegate::setModelData(editor, model, index);
  const int chosen = combo->findText(combo->currentText());
  model->setData(index, chosen >= 0 ? combo->itemData(chosen) : QVariant(combo->currentText()),
                 Qt::EditRole);
}

}  // namespace lockstep::ui
