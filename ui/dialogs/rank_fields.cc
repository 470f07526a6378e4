#include "ui/dialogs/rank_fields.h"

#include <QFormLayout>
#include <QLabel>
#include <QSpinBox>
#include <algorithm>

#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kSeen = 3;  // nodes at once

int ranksOf(const app::SpecText& cluster, const std::string& node) {
  int ranks = 0;
  const int devices = cluster.count(node + ".devices");
  for (int i = 0; i < devices; ++i) {
    const auto count = cluster.value(node + ".devices[" + std::to_string(i) + "].count");
    ranks += count ? std::max(1, std::atoi(count->c_str())) : 1;
  }
  return std::max(1, ranks);
}

}  // namespace

RankFields::RankFields(const QString& objectName, QWidget* parent) : QScrollArea(parent) {
  setObjectName(objectName);
  setWidgetResizable(true);
  setFocusPolicy(Qt::NoFocus);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
}

void RankFields::setCluster(const std::optional<app::SpecText>& cluster) {
  nodes_.clear();
  auto* holder = new QWidget;
  holder->setObjectName("launchRanksHolder");
  auto* form = new QFormLayout(holder);
  form->setContentsMargins(0, 0, kSpaceXs, 0);
  form->setHorizontalSpacing(kSpaceM);
  form->setVerticalSpacing(kSpaceXs);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  int height = 0;
  for (int i = 0; cluster && i < cluster->count("nodes"); ++i) {
    const std::string path = "nodes[" + std::to_string(i) + "]";
    const auto role = cluster->value(path + ".roles[0]");
    if (role == "evaluator" || role == "spare") continue;  // they have no ranks
    const QString name = QString::fromStdString(cluster->value(path + ".name").value_or(""));
    const int written = ranksOf(*cluster, path);
    auto* ranks = new QSpinBox(holder);
    ranks->setObjectName("launchRanks_" + name);
    ranks->setRange(1, 4096);
    ranks->setValue(written);
    leaveWheel(ranks);
    ranks->setEnabled(cluster->count(path + ".devices") <=
                      1);  // of several kinds of devices: in the cluster's own page
    auto* label = makeLabel("launchRanksLabel_" + name, holder);
    label->setText(name);
    label->setBuddy(ranks);
    form->addRow(label, ranks);
    if (nodes_.size() < kSeen) height += ranks->sizeHint().height() + kSpaceXs;
    connect(ranks, &QSpinBox::valueChanged, this, &RankFields::changed);
    nodes_ << Node{name, ranks, written,
                   static_cast<int>(cluster->nodeNames(path + ".name").size())};
  }
  setWidget(holder);  // deletes the one before
  setFixedHeight(std::max(1, height));
  retranslate();
}

QStringList RankFields::nodes() const {
  QStringList out;
  for (const Node& one : nodes_) out << one.name;
  return out;
}

QStringList RankFields::changes() const {
  QStringList out;
  for (const Node& one : nodes_) {
    if (one.ranks->value() != one.written)
      out << QString("%1=%2").arg(one.name, QString::number(one.ranks->value()));
  }
  return out;
}

int RankFields::count() const {
  int out = 0;
  for (const Node& one : nodes_) out += one.ranks->value() * one.count;
  return out;
}

void RankFields::retranslate() {
  for (const Node& one : nodes_) {
    one.ranks->setAccessibleName(tr("Ranks on %1").arg(one.name));
    one.ranks->setToolTip(toolTip());
  }
}

}  // namespace lockstep::ui
