// FieldModel: the scalar fields and lists of scalars of one or more messages of a spec, as an
// editable table of name and value. A field that is left out shows its default, one with a problem
// a mark and the problem as its tool tip. Editing a value patches the text; a document that does
// not parse is read-only here.
#pragma once

#include <QAbstractTableModel>
#include <QStyledItemDelegate>
#include <string>
#include <vector>

#include "app/specs/spec_text.h"

namespace lockstep::ui {

class SpecDocument;

class FieldModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  static constexpr int kChoicesRole = Qt::UserRole + 1;
  static constexpr int kTypeRole = Qt::UserRole + 2;
  static constexpr int kPathRole = Qt::UserRole + 3;
  static constexpr int kDefaultRole = Qt::UserRole + 4;  // default, in words
  static constexpr int kFileRole = Qt::UserRole + 5;     // whether it is the path of a file

  explicit FieldModel(SpecDocument* document, QObject* parent = nullptr);

  struct Section {
    std::string path;                    // of a message or map, "model.layers[1].conv2d"
    QString heading;                     // "": none
    std::vector<std::string> only = {};  // the fields that apply; empty: all
  };
  void setSections(std::vector<Section> sections);
  void retranslate();
  void refresh();  // rereads the values, and the rows if the fields changed
  int find(const std::string& path) const;  // row; -1: not among them
  // What is wrong with the row's field, in the studio's language; "": nothing, or it is missing.
  QString problem(int row) const;

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  bool setData(const QModelIndex& index, const QVariant& value, int role) override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;

 Q_SIGNALS:
  void refused(const lockstep::Error& error);

 private:
  struct Row {
    std::string path;
    QString heading;  // of a heading row
    app::FieldInfo info;
    QString value, problem;
  };
  std::vector<Row> build() const;
  void addRows(const Section& section, std::vector<Row>& rows) const;
  QString problemOf(const std::string& path) const;
  bool isUsed(const Row& row) const;  // SpecText::isUsed, with the values of its message
  QString unwritten(const Row& row) const;

  SpecDocument* document_;
  std::vector<Section> sections_;
  std::vector<Row> rows_;
};

// Edits fields: a combo box for a closed set of values, a Browse button for files.
class FieldDelegate : public QStyledItemDelegate {
  Q_OBJECT
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  QWidget* createEditor(QWidget* parent, const QStyleOptionViewItem& option,
                        const QModelIndex& index) const override;
  void setEditorData(QWidget* editor, const QModelIndex& index) const override;
  void setModelData(QWidget* editor, QAbstractItemModel* model,
                    const QModelIndex& index) const override;
};

// Returns the text in the studio's language.
QString optionText(const app::OptionText& text);
// Return label and help of a field by its path ("strategy.stages"), in the studio's language.
QString fieldLabelOf(app::SpecKind kind, const std::string& path);
QString fieldHelpOf(app::SpecKind kind, const std::string& path);

}  // namespace lockstep::ui
