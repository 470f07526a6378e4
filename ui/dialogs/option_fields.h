// OptionFields: the options of one message of a run spec as rows of a form, made from the option
// table. Rows of options that have no effect with the values at hand are hidden.
#pragma once

#include <QObject>
#include <QStringList>
#include <string>
#include <utility>
#include <vector>

#include "app/specs/spec_text.h"

class QCheckBox;
class QComboBox;
class QFormLayout;
class QLabel;
class QLineEdit;
class QSpinBox;
class QWidget;

namespace lockstep::ui {

class OptionFields : public QObject {
  Q_OBJECT

 public:
  // `path` is the message's: "strategy". Rows are added to `form` by addRows(); a field's object
  // name is "launch." and its path.
  OptionFields(std::string path, QFormLayout* form, QWidget* parent);
  void addRows(bool advanced);

  void setSpec(const app::SpecText& spec);
  void setHidden(bool hidden);  // all rows
  void showAdvanced(bool shown);
  // Returns whether an advanced option has a value other than its default.
  bool anyAdvanced() const;
  // Returns "strategy.tensor=2" for each option that differs from the spec. `kind`, if not empty,
  // stands for the value of the field "kind".
  QStringList sets(const app::SpecText& spec, const std::string& kind = {}) const;
  QString value(const std::string& name) const;  // "": left out
  void setValue(const std::string& name, const QString& value);
  // "strategy.tensor=2": an option of the message, as sets() returns it. "": the default.
  void take(const QStringList& sets);
  void retranslate();

 Q_SIGNALS:
  void changed();

 private:
  struct Field {
    app::FieldInfo info;
    std::string path;
    QLabel* label = nullptr;
    // one of these
    QSpinBox* number = nullptr;
    QComboBox* choice = nullptr;
    QCheckBox* check = nullptr;
    QLineEdit* text = nullptr;
    QWidget* widget() const;
    QString value() const;
    void setValue(const QString& value) const;
    QString shown(const QString& value) const;  // value() with that one, which may be wrong
    QString fallback() const;                   // the value that stands for a field left out
    bool isList() const;
  };
  void addRow(const app::FieldInfo& info);
  QWidget* makeEditor(Field& field);
  const Field* find(const std::string& name) const;
  bool isUsed(const Field& field, const std::string& kind = {}) const;
  void fit();

  std::string path_;
  QFormLayout* form_;
  QWidget* parent_;
  std::vector<Field> fields_;
  bool hidden_ = false, advanced_ = false, filling_ = false;
};

}  // namespace lockstep::ui
