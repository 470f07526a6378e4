#include "ui/dialogs/option_fields.h"

#include <QCheckBox>
#include <QComboBox>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QSpinBox>
#include <algorithm>

#include "ui/models/field_model.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr double kLargestSpin = 1 << 20;  // larger numbers are typed
constexpr int kFieldWidth = 190;          // pixels

QString sentence(QString text) {
  if (!text.isEmpty()) text[0] = text[0].toUpper();
  return text;
}

bool isScalar(const app::FieldInfo& info) {
  return info.type != app::FieldType::kMessage && info.type != app::FieldType::kMessageList &&
         info.type != app::FieldType::kMap;
}

}  // namespace

QWidget* OptionFields::Field::widget() const {
  if (number) return number;
  if (choice) return choice;
  if (check) return check;
  return text;
}

QString OptionFields::Field::value() const {
  if (number) return QString::number(number->value());
  if (choice) return choice->currentData().toString();
  if (check) return check->isChecked() ? "true" : "false";
  return text->text().trimmed();
}

void OptionFields::Field::setValue(const QString& value) const {
  if (number) number->setValue(value.toInt());
  if (choice) choice->setCurrentIndex(std::max(0, choice->findData(value)));
  if (check) check->setChecked(value == "true");
  if (text) text->setText(value);
}

QString OptionFields::Field::shown(const QString& value) const {
  if (number)
    return QString::number(std::clamp(value.toInt(), number->minimum(), number->maximum()));
  if (choice) return choice->itemData(std::max(0, choice->findData(value))).toString();
  if (check) return value == "true" ? "true" : "false";
  return value.trimmed();
}

QString OptionFields::Field::fallback() const {
  const QString unset = QString::fromStdString(info.unset.english);
  if (check) return "false";
  if (choice) return choice->findData(unset) >= 0 ? unset : QString();
  if (!number) return {};
  bool known = false;
  const int value = unset.toInt(&known);
  return QString::number(known ? value : 0);
}

bool OptionFields::Field::isList() const {
  return info.type == app::FieldType::kTextList || info.type == app::FieldType::kIntegerList ||
         info.type == app::FieldType::kNumberList;
}

OptionFields::OptionFields(std::string path, QFormLayout* form, QWidget* parent)
    : QObject(parent), path_(std::move(path)), form_(form), parent_(parent) {}

void OptionFields::addRows(bool advanced) {
  for (const app::FieldInfo& info : app::SpecText::fields(app::SpecKind::kRun, path_))
    if (isScalar(info) && info.advanced == advanced) addRow(info);
  fit();
}

QWidget* OptionFields::makeEditor(Field& field) {
  const app::FieldInfo& info = field.info;
  if (info.type == app::FieldType::kBoolean) {
    field.check = new QCheckBox(parent_);
    connect(field.check, &QCheckBox::toggled, this, &OptionFields::fit);
    return field.check;
  }
  if (!info.choices.empty() && !field.isList()) {
    field.choice = new QComboBox(parent_);
    for (const auto& choice : info.choices) {
      const QString text = QString::fromStdString(choice);
      field.choice->addItem(text, text);
    }
    if (field.fallback().isEmpty()) field.choice->insertItem(0, QString(), QString());
    field.choice->setCurrentIndex(std::max(0, field.choice->findData(field.fallback())));
    connect(field.choice, &QComboBox::currentIndexChanged, this, &OptionFields::fit);
    return field.choice;
  }
  if (info.type == app::FieldType::kInteger &&
      info.max.value_or(kLargestSpin + 1) <= kLargestSpin) {
    field.number = new QSpinBox(parent_);
    const int least = static_cast<int>(info.min.value_or(0));
    // A default that is a number needs no other word for it.
    field.number->setRange(least == 0 && field.fallback() != "0" ? 1 : least,
                           static_cast<int>(*info.max));
    field.number->setValue(field.fallback().toInt());
    connect(field.number, &QSpinBox::valueChanged, this, &OptionFields::fit);
    return field.number;
  }
  field.text = new QLineEdit(parent_);
  connect(field.text, &QLineEdit::textChanged, this, &OptionFields::fit);
  return field.text;
}

void OptionFields::addRow(const app::FieldInfo& info) {
  Field field{info, path_ + "." + info.name};
  QWidget* editor = makeEditor(field);
  editor->setObjectName("launch." + QString::fromStdString(field.path));
  editor->setMinimumWidth(kFieldWidth);
  leaveWheel(editor);
  field.label = makeLabel(editor->objectName() + ".label", parent_);
  field.label->setBuddy(editor);
  form_->addRow(field.label, editor);
  fields_.push_back(std::move(field));
}

const OptionFields::Field* OptionFields::find(const std::string& name) const {
  const auto it = std::find_if(fields_.begin(), fields_.end(),
                               [&](const Field& field) { return field.info.name == name; });
  return it == fields_.end() ? nullptr : &*it;
}

QString OptionFields::value(const std::string& name) const {
  const Field* field = find(name);
  return field == nullptr ? QString() : field->value();
}

void OptionFields::setValue(const std::string& name, const QString& value) {
  if (const Field* field = find(name)) field->setValue(value);
}

void OptionFields::take(const QStringList& sets) {
  filling_ = true;
  for (const QString& set : sets) {
    const std::string path = set.section('=', 0, 0).toStdString();
    QString value = set.section('=', 1);
    for (const Field& field : fields_) {
      if (field.path != path) continue;
      if (field.isList() && value.startsWith('[')) value = value.mid(1).chopped(1);
      field.setValue(value.isEmpty() ? field.fallback() : value);
    }
  }
  filling_ = false;
  fit();
}

void OptionFields::setSpec(const app::SpecText& spec) {
  filling_ = true;
  for (const Field& field : fields_) {
    const auto written = spec.value(field.path);
    field.setValue(written ? QString::fromStdString(*written) : field.fallback());
  }
  filling_ = false;
  fit();
}

void OptionFields::setHidden(bool hidden) {
  hidden_ = hidden;
  fit();
}

void OptionFields::showAdvanced(bool shown) {
  advanced_ = shown;
  fit();
}

bool OptionFields::isUsed(const Field& field, const std::string& kind) const {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Field& other : fields_) {
    if (!kind.empty() && other.info.name == "kind")
      values.emplace_back("kind", kind);
    else if (const QString value = other.value(); !value.isEmpty())
      values.emplace_back(other.info.name, value.toStdString());
  }
  return app::SpecText::isUsed(app::SpecKind::kRun, path_, field.info.name, values);
}

bool OptionFields::anyAdvanced() const {
  return std::any_of(fields_.begin(), fields_.end(), [&](const Field& field) {
    return field.info.advanced && field.value() != field.fallback() && isUsed(field);
  });
}

QStringList OptionFields::sets(const app::SpecText& spec, const std::string& kind) const {
  QStringList out;
  for (const Field& field : fields_) {
    const auto written = spec.value(field.path);
    const QString before =
        field.shown(written ? QString::fromStdString(*written) : field.fallback());
    // An option without effect is left out.
    QString after = isUsed(field, kind) ? field.value() : QString();
    if (!kind.empty() && field.info.name == "kind") after = QString::fromStdString(kind);
    if (after.isEmpty() ? !written : after == before) continue;
    if (field.isList() && !after.isEmpty()) after = '[' + after + ']';
    out << QString("%1=%2").arg(QString::fromStdString(field.path), after);
  }
  return out;
}

void OptionFields::fit() {
  if (filling_) return;
  for (const Field& field : fields_)
    form_->setRowVisible(field.widget(),
                         !hidden_ && (!field.info.advanced || advanced_) && isUsed(field));
  Q_EMIT changed();
}

void OptionFields::retranslate() {
  for (const Field& field : fields_) {
    const QString label = optionText(field.info.label), help = optionText(field.info.help);
    const QString unset = sentence(optionText(field.info.unset));
    field.label->setText(label);
    field.widget()->setAccessibleName(label);
    field.label->setToolTip(help);
    field.widget()->setToolTip(help);
    if (field.text) field.text->setPlaceholderText(unset);
    if (field.choice && field.fallback().isEmpty()) field.choice->setItemText(0, unset);
    if (field.number && field.number->minimum() == 0) field.number->setSpecialValueText(unset);
    if (field.number && field.number->minimum() < 0)
      field.number->setSpecialValueText(tr("No limit"));
  }
}

}  // namespace lockstep::ui
