#include "ui/dialogs/strategy_fields.h"

#include <QComboBox>
#include <QFormLayout>
#include <QLabel>
#include <QSpinBox>
#include <algorithm>
#include <cstdlib>

#include "app/specs/spec_text.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

QWidget* StrategyFields::Field::widget() const {
  return number != nullptr ? static_cast<QWidget*>(number) : choice;
}
QString StrategyFields::Field::value() const {
  return number != nullptr ? QString::number(number->value()) : choice->currentData().toString();
}

StrategyFields::StrategyFields(const app::SpecText& spec, QFormLayout* form, QWidget* parent)
    : QObject(parent), form_(form) {
  struct Row {
    const char *object, *path, *fallback;
    int least;                                  // of a number; less than that: a choice
    bool (StrategyFields::*suits)() const;
  };
  constexpr int kChoice = -2;
  // A number's zero, where it may be, is as the strategy says.
  const Row rows[] = {
      {"launchStrategy", "strategy.kind", "", kChoice, &StrategyFields::always},
      {"launchTensor", "strategy.tensor", "0", 0, &StrategyFields::mayWait},
      {"launchStages", "strategy.stages", "0", 0, &StrategyFields::layered},
      {"launchServers", "strategy.servers", "0", 0, &StrategyFields::served},
      {"launchStaleness", "strategy.staleness", "0", -1, &StrategyFields::asynchronous},
      {"launchDense", "strategy.dense", "servers", kChoice, &StrategyFields::waitingServed},
      {"launchSchedule", "strategy.schedule", "1f1b", kChoice, &StrategyFields::staged},
      {"launchLocalSteps", "strategy.local_steps", "0", 0, &StrategyFields::local},
      {"launchMicroBatches", "strategy.micro_batches", "1", 1, &StrategyFields::inParts},
      {"launchCompression", "strategy.compression", "none", kChoice, &StrategyFields::layered},
      {"launchRecompute", "strategy.recompute", "none", kChoice, &StrategyFields::always},
      {"launchOverlap", "strategy.overlap", "auto", kChoice, &StrategyFields::layered},
      {"launchAllReduce", "strategy.all_reduce", "auto", kChoice, &StrategyFields::mayWait},
  };
  for (const Row& row : rows) {
    Field field{row.path, row.fallback, row.suits};
    const std::string written = spec.value(row.path).value_or(row.fallback);
    if (row.least == kChoice) {
      field.choice = new QComboBox(parent);
      for (const auto& known : app::SpecText::fields(app::SpecKind::kRun, "strategy")) {
        if ("strategy." + known.name != row.path) continue;
        for (const auto& choice : known.choices) {
          const QString text = QString::fromStdString(choice);
          if (!choice.empty()) field.choice->addItem(text, text);
        }
      }
      field.choice->setCurrentIndex(std::max(0, field.choice->findData(QString::fromStdString(written))));
      connect(field.choice, &QComboBox::currentIndexChanged, this, &StrategyFields::fit);
    } else {
      field.number = new QSpinBox(parent);
      field.number->setRange(row.least, 4096);
      field.number->setValue(std::atoi(written.c_str()));
      connect(field.number, &QSpinBox::valueChanged, this, &StrategyFields::fit);
    }
    field.widget()->setObjectName(row.object);
    field.widget()->setMinimumWidth(190);
    field.label = makeLabel(field.widget()->objectName() + "Label", parent);
    field.label->setBuddy(field.widget());
    form->addRow(field.label, field.widget());
    fields_.push_back(field);
  }
  fit();
}

const StrategyFields::Field& StrategyFields::field(const char* path) const {
  return *std::find_if(fields_.begin(), fields_.end(),
                       [&](const Field& one) { return std::string_view(one.path) == path; });
}
QString StrategyFields::kind() const { return field("strategy.kind").value(); }
const cluster::Strategy& StrategyFields::strategy() const {
  const cluster::Strategy* found = cluster::findStrategy(kind().toStdString());
  return found != nullptr ? *found : cluster::strategies().front();
}
bool StrategyFields::served() const { return strategy().servers; }
bool StrategyFields::asynchronous() const { return strategy().staleness; }
bool StrategyFields::apart() const { return asynchronous() && field("strategy.staleness").number->value() != 0; }
bool StrategyFields::waitingServed() const { return served() && !apart(); }
bool StrategyFields::local() const { return strategy().local; }
bool StrategyFields::staged() const {
  const int stages = field("strategy.stages").number->value();
  return layered() && (stages > 1 || (stages == 0 && strategy().axis == cluster::kStageAxis));
}

QStringList StrategyFields::sets(const app::SpecText& spec) const {
  QStringList out;
  for (const Field& one : fields_) {
    const QString written = QString::fromStdString(spec.value(one.path).value_or(one.fallback));
    // What does not suit the kind must not stay as the spec has it.
    const QString value = (this->*one.suits)() ? one.value() : QString::fromLatin1(one.fallback);
    if (written != value) out << QString("%1=%2").arg(QLatin1String(one.path), value);
  }
  return out;
}

QVector<QLabel*> StrategyFields::labels() const {
  QVector<QLabel*> out;
  for (const Field& one : fields_) out << one.label;
  return out;
}

void StrategyFields::fit() {
  for (const Field& one : fields_) form_->setRowVisible(one.widget(), (this->*one.suits)());
  Q_EMIT changed();
}

void StrategyFields::retranslate() {
  const QString names[] = {tr("Strategy"), tr("Ranks a layer"), tr("Stages"), tr("Servers"), tr("Steps ahead"), tr("Dense part"),
                           tr("Schedule"), tr("Local steps"), tr("Micro-batches"), tr("Compression"),
                           tr("Recompute"), tr("Overlap"), tr("All-reduce")};
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    Field& one = fields_[i];
    one.label->setText(names[i]);
    one.widget()->setAccessibleName(names[i]);
    if (one.number == nullptr) continue;
    if (one.number->minimum() == 0) one.number->setSpecialValueText(tr("as the strategy says"));
    if (one.number->minimum() < 0) one.number->setSpecialValueText(tr("any number"));
  }
}

}  // namespace lockstep::ui
