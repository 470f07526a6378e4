#include "ui/dialogs/strategy_fields.h"

#include <QComboBox>
#include <QFormLayout>
#include <QHeaderView>
#include <QLabel>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QTableView>
#include <algorithm>
#include <cstdlib>

#include "app/specs/spec_text.h"
#include "ui/models/field_model.h"
#include "ui/models/pin_model.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

QWidget* StrategyFields::Field::widget() const {
  return number != nullptr ? static_cast<QWidget*>(number) : choice;
}
QString StrategyFields::Field::value() const {
  return number != nullptr ? QString::number(number->value()) : choice->currentData().toString();
}

namespace {
constexpr int kChoice = -2;
constexpr int kPinRows = 6;  // that are seen at once
}  // namespace

struct StrategyFields::Row {
  const char *object, *path, *fallback;
  int least;  // of a number; kChoice: a choice
  bool (StrategyFields::*suits)() const;
  bool more = false;
};

StrategyFields::StrategyFields(QFormLayout* form, QWidget* parent)
    : QObject(parent), form_(form), parent_(parent) {
  // A number's zero, where it may be, is as the strategy says.
  for (const Row& row : {
           Row{"launchStrategy", "strategy.kind", "", kChoice, &StrategyFields::always},
           Row{"launchTensor", "strategy.tensor", "0", 0, &StrategyFields::mayWait},
           Row{"launchStages", "strategy.stages", "0", 0, &StrategyFields::layered},
           Row{"launchServers", "strategy.servers", "0", 0, &StrategyFields::served},
           Row{"launchStaleness", "strategy.staleness", "0", -1, &StrategyFields::asynchronous},
           Row{"launchDense", "strategy.dense", "servers", kChoice, &StrategyFields::waitingServed},
           Row{"launchSchedule", "strategy.schedule", "1f1b", kChoice, &StrategyFields::staged},
           Row{"launchLocalSteps", "strategy.local_steps", "0", 0, &StrategyFields::local},
           Row{"launchMicroBatches", "strategy.micro_batches", "1", 1, &StrategyFields::inParts},
       })
    add(row);
  pins_ = new PinModel(this);
  pinTable_ = new QTableView(parent);
  pinTable_->setObjectName("launchPins");
  pinTable_->setModel(pins_);
  applyTableStyle(pinTable_);
  pinTable_->verticalHeader()->setDefaultSectionSize(26);
  pinTable_->setColumnWidth(0, 120);
  pinTable_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  // as wide as the fields
  pinTable_->setSizePolicy(QSizePolicy::Ignored, pinTable_->sizePolicy().verticalPolicy());
  pinTable_->setEditTriggers(QAbstractItemView::AllEditTriggers);
  pinTable_->setSelectionMode(QAbstractItemView::NoSelection);
  pinLabel_ = makeLabel("launchPinsLabel", parent);
  pinLabel_->setBuddy(pinTable_);
  pinLabel_->setAlignment(Qt::AlignTop);
  form->addRow(pinLabel_, pinTable_);
  connect(pins_, &PinModel::edited, this, [this] {
    pinsChosen_ = true;
    Q_EMIT changed();
  });
}

void StrategyFields::addMore() {
  for (const Row& row : {
           Row{"launchCompression", "strategy.compression", "none", kChoice,
               &StrategyFields::layered, true},
           Row{"launchRecompute", "strategy.recompute", "none", kChoice, &StrategyFields::always,
               true},
           Row{"launchOverlap", "strategy.overlap", "auto", kChoice, &StrategyFields::layered,
               true},
           Row{"launchAllReduce", "strategy.all_reduce", "auto", kChoice, &StrategyFields::mayWait,
               true},
       })
    add(row);
}

void StrategyFields::add(const Row& row) {
  Field field{row.path, row.fallback, row.suits, row.more};
  if (row.least == kChoice) {
    field.choice = new QComboBox(parent_);
    for (const auto& known : app::SpecText::fields(app::SpecKind::kRun, "strategy")) {
      if ("strategy." + known.name != row.path) continue;
      for (const auto& choice : known.choices) {
        const QString text = QString::fromStdString(choice);
        if (!choice.empty()) field.choice->addItem(text, text);
      }
    }
    connect(field.choice, &QComboBox::currentIndexChanged, this, &StrategyFields::fit);
  } else {
    field.number = new QSpinBox(parent_);
    field.number->setRange(row.least, 4096);
    connect(field.number, &QSpinBox::valueChanged, this, &StrategyFields::fit);
  }
  field.widget()->setObjectName(row.object);
  field.widget()->setMinimumWidth(190);
  field.label = makeLabel(field.widget()->objectName() + "Label", parent_);
  field.label->setBuddy(field.widget());
  form_->addRow(field.label, field.widget());
  fields_.push_back(field);
}

void StrategyFields::setSpec(const app::SpecText& spec) {
  {
    const QSignalBlocker quiet(this);
    for (const Field& one : fields_) {
      const std::string written = spec.value(one.path).value_or(one.fallback);
      if (one.number) one.number->setValue(std::atoi(written.c_str()));
      if (one.choice)
        one.choice->setCurrentIndex(
            std::max(0, one.choice->findData(QString::fromStdString(written))));
    }
    pinsChosen_ = spec.count("strategy.pins") > 0;
    pins_->setLayers(spec.layerNames(), spec.layerStages());
    more_ = more_ || anyMore();
  }
  fit();
}

void StrategyFields::setRanks(int ranks) {
  ranks_ = std::max(1, ranks);
  if (!pinsChosen_) pins_->setLayers(pins_->layers(), evenStages());
}

void StrategyFields::setMore(bool shown) {
  more_ = shown;
  fit();
}

bool StrategyFields::anyMore() const {
  return std::any_of(fields_.begin(), fields_.end(), [&](const Field& one) {
    return one.more && (this->*one.suits)() && one.value() != QLatin1String(one.fallback);
  });
}

int StrategyFields::stages() const {
  const int asked = field("strategy.stages").number->value();
  return asked > 0 ? asked
                   : std::max(1, ranks_ / std::max(1, field("strategy.tensor").number->value()));
}

std::vector<int> StrategyFields::evenStages() const {
  const auto layers = static_cast<int>(pins_->layers().size());
  std::vector<int> out;
  for (int i = 0; i < layers; ++i) out.push_back(std::min(i * stages() / layers, layers - 1));
  return out;
}

const StrategyFields::Field& StrategyFields::field(const char* path) const {
  return *std::find_if(fields_.begin(), fields_.end(),
                       [&](const Field& one) { return std::string_view(one.path) == path; });
}
std::string StrategyFields::kind() const { return field("strategy.kind").value().toStdString(); }
void StrategyFields::setKind(const std::string& kind) {
  QComboBox* choice = field("strategy.kind").choice;
  choice->setCurrentIndex(std::max(0, choice->findData(QString::fromStdString(kind))));
}
const cluster::Strategy& StrategyFields::strategy() const {
  const cluster::Strategy* found = cluster::findStrategy(other_.empty() ? kind() : other_);
  return found != nullptr ? *found : cluster::strategies().front();
}
bool StrategyFields::served() const { return strategy().servers; }
bool StrategyFields::asynchronous() const { return strategy().staleness; }
bool StrategyFields::apart() const {
  return asynchronous() && field("strategy.staleness").number->value() != 0;
}
bool StrategyFields::waitingServed() const { return served() && !apart(); }
bool StrategyFields::local() const { return strategy().local; }
bool StrategyFields::staged() const {
  const int stages = field("strategy.stages").number->value();
  return layered() && (stages > 1 || (stages == 0 && strategy().axis == cluster::kStageAxis));
}

bool StrategyFields::pinned() const { return strategy().name == "placement"; }

QStringList StrategyFields::sets(const app::SpecText& spec, const std::string& kind) const {
  other_ = kind;
  QStringList out;
  for (const Field& one : fields_) {
    const QString written = QString::fromStdString(spec.value(one.path).value_or(one.fallback));
    // What does not suit the kind must not stay as the spec has it.
    QString value = (this->*one.suits)() ? one.value() : QString::fromLatin1(one.fallback);
    if (!kind.empty() && one.path == std::string_view("strategy.kind"))
      value = QString::fromStdString(kind);
    if (written != value) out << QString("%1=%2").arg(QLatin1String(one.path), value);
  }
  const bool some = spec.count("strategy.pins") > 0;
  if (pinned()) {
    const bool same =
        some && pins_->layers() == spec.layerNames() && pins_->stages() == spec.layerStages();
    if (!same)
      out << "strategy.pins=" +
                 QString::fromStdString(app::SpecText::pins(pins_->layers(), pins_->stages()));
  } else if (some) {
    out << "strategy.pins=[]";
  }
  other_.clear();
  return out;
}

QVector<QLabel*> StrategyFields::labels() const {
  QVector<QLabel*> out;
  for (const Field& one : fields_) out << one.label;
  out << pinLabel_;
  return out;
}

void StrategyFields::fit() {
  for (const Field& one : fields_)
    form_->setRowVisible(one.widget(), (this->*one.suits)() && (!one.more || more_));
  if (!pinsChosen_) pins_->setLayers(pins_->layers(), evenStages());
  const int rows = std::clamp(pins_->rowCount(), 1, kPinRows);
  pinTable_->setFixedHeight(rows * 26 + pinTable_->horizontalHeader()->sizeHint().height() + 2);
  form_->setRowVisible(pinTable_, pinned());
  Q_EMIT changed();
}

void StrategyFields::retranslate() {
  const QString names[] = {
      tr("Strategy"),      tr("Tensor-parallel size"), tr("Stages"),    tr("Servers"),
      tr("Steps ahead"),   tr("Dense part"),           tr("Schedule"),  tr("Local steps"),
      tr("Micro-batches"), tr("Compression"),          tr("Recompute"), tr("Overlap"),
      tr("All-reduce")};
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    Field& one = fields_[i];
    one.label->setText(names[i]);
    one.widget()->setAccessibleName(names[i]);
    const QString help = fieldHelpOf(app::SpecKind::kRun, one.path);
    one.label->setToolTip(help);
    one.widget()->setToolTip(help);
    if (one.number == nullptr) continue;
    if (one.number->minimum() == 0) one.number->setSpecialValueText(tr("Strategy default"));
    if (one.number->minimum() < 0) one.number->setSpecialValueText(tr("Any number"));
  }
  pinLabel_->setText(tr("Stage of layers"));
  pinTable_->setAccessibleName(tr("Stage of each layer"));
  pinTable_->setToolTip(fieldHelpOf(app::SpecKind::kRun, "strategy.pins"));
  pinLabel_->setToolTip(pinTable_->toolTip());
}

}  // namespace lockstep::ui
