// FieldForm: fields of a spec as a form: name and value in rows, edited in place, and below them
// what is wrong with the current one, or else with the first that has a problem.
#pragma once

#include <QWidget>
#include <string>

class QLabel;
class QTableView;

namespace lockstep::ui {

class FieldModel;
class SpecDocument;

class FieldForm : public QWidget {
  Q_OBJECT

 public:
  // `name`: of the table.
  FieldForm(const QString& name, SpecDocument* document, QWidget* parent);

  FieldModel* fields() const { return fields_; }
  QTableView* table() const { return table_; }
  std::string currentPath() const;          // of the field that has the cursor; "": none has
  bool showField(const std::string& path);  // gives it the keyboard; false: it is not in the form
  void enter();                             // gives the first field the keyboard
  void retranslate();

 private:
  void give(int row);
  void tellProblem();

  FieldModel* fields_;
  QTableView* table_;
  QLabel* problem_;
};

}  // namespace lockstep::ui
