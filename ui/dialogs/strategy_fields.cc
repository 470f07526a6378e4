#include "ui/dialogs/strategy_fields.h"

#include <QFormLayout>
#include <QHeaderView>
#include <QLabel>
#include <QSignalBlocker>
#include <QTableView>
#include <algorithm>

#include "app/specs/spec_text.h"
#include "engine/cluster/strategies.h"
#include "ui/dialogs/option_fields.h"
#include "ui/models/field_model.h"
#include "ui/models/pin_model.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kPinRows = 6;  // visible at once
constexpr int kPinHeight = 26;

bool isPinned(const std::string& kind) {
  const cluster::Strategy* strategy = cluster::findStrategy(kind);
  return strategy != nullptr && strategy->pinned;
}

}  // namespace

StrategyFields::StrategyFields(QFormLayout* form, QWidget* parent)
    : QObject(parent), form_(form), options_(new OptionFields("strategy", form, parent)) {
  options_->addRows(false);
  connect(options_, &OptionFields::changed, this, &StrategyFields::fit);
  pins_ = new PinModel(this);
  pinTable_ = new QTableView(parent);
  pinTable_->setObjectName("launchPins");
  pinTable_->setModel(pins_);
  applyTableStyle(pinTable_);
  pinTable_->verticalHeader()->setDefaultSectionSize(kPinHeight);
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

void StrategyFields::addAdvanced() { options_->addRows(true); }

void StrategyFields::setSpec(const app::SpecText& spec) {
  pinsChosen_ = spec.count("strategy.pins") > 0;
  pins_->setLayers(spec.layerNames(), spec.layerStages());
  options_->setSpec(spec);
}

void StrategyFields::setSpec(const app::SpecText& spec, const QStringList& sets) {
  setSpec(spec);
  options_->take(sets);
}

void StrategyFields::setRanks(int ranks) {
  ranks_ = std::max(1, ranks);
  if (!pinsChosen_) pins_->setLayers(pins_->layers(), evenStages());
}

void StrategyFields::setHidden(bool hidden) {
  hidden_ = hidden;
  options_->setHidden(hidden);
}
void StrategyFields::showAdvanced(bool shown) { options_->showAdvanced(shown); }
bool StrategyFields::anyAdvanced() const { return options_->anyAdvanced(); }

int StrategyFields::stages() const {
  const int asked = options_->value("stages").toInt();
  return asked > 0 ? asked : std::max(1, ranks_ / std::max(1, options_->value("tensor").toInt()));
}

std::vector<int> StrategyFields::evenStages() const {
  const auto layers = static_cast<int>(pins_->layers().size());
  std::vector<int> out;
  for (int i = 0; i < layers; ++i) out.push_back(std::min(i * stages() / layers, layers - 1));
  return out;
}

std::string StrategyFields::kind() const { return options_->value("kind").toStdString(); }
void StrategyFields::setKind(const std::string& kind) {
  options_->setValue("kind", QString::fromStdString(kind));
}

QStringList StrategyFields::sets(const app::SpecText& spec, const std::string& other) const {
  QStringList out = options_->sets(spec, other);
  const bool some = spec.count("strategy.pins") > 0;
  if (isPinned(other.empty() ? kind() : other)) {
    const bool same =
        some && pins_->layers() == spec.layerNames() && pins_->stages() == spec.layerStages();
    if (!same)
      out << "strategy.pins=" +
                 QString::fromStdString(app::SpecText::pins(pins_->layers(), pins_->stages()));
  } else if (some) {
    out << "strategy.pins=[]";
  }
  return out;
}

void StrategyFields::fit() {
  if (!pinsChosen_) pins_->setLayers(pins_->layers(), evenStages());
  const int rows = std::clamp(pins_->rowCount(), 1, kPinRows);
  pinTable_->setFixedHeight(rows * kPinHeight + pinTable_->horizontalHeader()->sizeHint().height() +
                            2);
  form_->setRowVisible(pinTable_, !hidden_ && isPinned(kind()));
  Q_EMIT changed();
}

void StrategyFields::retranslate() {
  options_->retranslate();
  pinLabel_->setText(fieldLabelOf(app::SpecKind::kRun, "strategy.pins"));
  pinTable_->setAccessibleName(pinLabel_->text());
  pinTable_->setToolTip(fieldHelpOf(app::SpecKind::kRun, "strategy.pins"));
  pinLabel_->setToolTip(pinTable_->toolTip());
  pins_->retranslate();
}

}  // namespace lockstep::ui
