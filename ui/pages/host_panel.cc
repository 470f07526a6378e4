#include "ui/pages/host_panel.h"

#include <QItemSelectionModel>
#include <QLabel>
#include <QStackedWidget>
#include <QTableView>
#include <QToolButton>
#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "app/specs/yaml_tree.h"
#include "ui/dialogs/name_dialog.h"
#include "ui/models/field_model.h"
#include "ui/pages/field_form.h"
#include "ui/studio/spec_document.h"

namespace lockstep::ui {

HostPanel::HostPanel(SpecDocument* document, QWidget* parent)
    : Card("hostCard", parent),
      document_(document),
      form_(new FieldForm("hostFieldTable", document, this)),
      none_(makeLabel("noHostSelected", this, "muted")),
      stack_(new QStackedWidget(this)),
      addDevice_(makeToolButton("addDeviceButton", "add", this)),
      addLink_(makeToolButton("addLinkButton", "connect", this)),
      remove_(makeToolButton("removeDeviceButton", "delete", this)),
      addData_(makeToolButton("addDataButton", "table", this)) {
  none_->setAlignment(Qt::AlignCenter);
  none_->setWordWrap(true);
  stack_->addWidget(none_);
  stack_->addWidget(form_);
  body()->addWidget(stack_, 1);
  for (QToolButton* button : {addDevice_, addLink_, remove_, addData_}) head()->addWidget(button);
  setTabOrder(addData_, form_->table());
  connect(addDevice_, &QToolButton::clicked, this, &HostPanel::addDevice);
  connect(addLink_, &QToolButton::clicked, this, &HostPanel::addLink);
  connect(remove_, &QToolButton::clicked, this, &HostPanel::remove);
  connect(addData_, &QToolButton::clicked, this, &HostPanel::addData);
  connect(form_->fields(), &FieldModel::refused, this, &HostPanel::refused);
  connect(form_->table()->selectionModel(), &QItemSelectionModel::currentChanged, this,
          &HostPanel::refreshButtons);
}

std::string HostPanel::path() const { return "nodes[" + std::to_string(item_) + "]"; }

void HostPanel::setItem(int item) {
  const app::SpecText& spec = document_->spec();
  item_ = item < spec.count("nodes") ? item : -1;
  std::vector<FieldModel::Section> sections;
  QString title = tr("Host settings");
  if (item_ >= 0) {
    sections = {{path(), {}}, {path() + ".ssh", tr("SSH")}};
    const int count = std::max(1, spec.count(devices()));  // one is assumed where none is written
    for (int i = 0; i < count; ++i)
      sections.push_back({devices() + "[" + std::to_string(i) + "]",
                          count == 1 ? tr("Device") : tr("Device %1").arg(i + 1)});
    if (spec.count(path() + ".data") > 0) sections.push_back({path() + ".data", tr("Data")});
    for (const int i : spec.linksOf(spec.nodeNames(path() + ".name")))
      sections.push_back({"links[" + std::to_string(i) + "]", tr("Link %1").arg(i + 1)});
    const QString name = QString::fromStdString(nameOfItem());
    const std::size_t hosts = spec.nodeNames(path() + ".name").size();
    if (hosts > 1)
      title = tr("Settings of %1, all %2 hosts").arg(name, QString::number(hosts));
    else if (!name.isEmpty())
      title = tr("Settings of %1").arg(name);
  }
  form_->fields()->setSections(std::move(sections));
  setTitle(title);
  stack_->setCurrentWidget(item_ >= 0 ? static_cast<QWidget*>(form_) : none_);
  refreshButtons();
}

void HostPanel::refreshButtons() {
  const bool editable = item_ >= 0 && document_->spec().readable();
  addDevice_->setEnabled(editable);
  addData_->setEnabled(editable);
  const bool isLink = form_->currentPath().starts_with("links[");
  remove_->setEnabled(editable && (isLink || document_->spec().count(devices()) > 0));
  addLink_->setEnabled(editable && !nameOfItem().empty());
}

std::string HostPanel::nameOfItem() const {
  return document_->spec().value(path() + ".name").value_or("");
}

int HostPanel::chosenDevice() const {
  const std::string current = form_->currentPath(), list = devices() + "[";
  return current.starts_with(list) ? std::atoi(current.c_str() + list.size())
                                   : document_->spec().count(devices()) - 1;
}

void HostPanel::addDevice() {
  const int count = document_->spec().count(devices());
  showStatus(document_->insertItem(devices(), count, "kind: cpu", tr("Add device")));
  form_->showField(devices() + "[" + std::to_string(count) + "].kind");
}

// To another host, where there is one. It comes first: an entry that matches more hosts may follow.
void HostPanel::addLink() {
  const app::SpecText& spec = document_->spec();
  const std::string name = app::yamlScalar(nameOfItem(), true);
  std::string yaml = "inside: " + name;
  for (int i = 0; i < spec.count("nodes"); ++i) {
    const std::string other = spec.value("nodes[" + std::to_string(i) + "].name").value_or("");
    if (i == item_ || other.empty()) continue;
    yaml = "{from: " + name + ", to: " + app::yamlScalar(other, true) + "}";
    break;
  }
  showStatus(document_->insertItem("links", 0, QString::fromStdString(yaml), tr("Add link")));
  form_->showField("links[0].kind");
}

void HostPanel::remove() {
  const std::string current = form_->currentPath(), links = "links[";
  if (current.starts_with(links))
    removeFrom("links", std::atoi(current.c_str() + links.size()), tr("Remove link"));
  else
    removeFrom(devices(), chosenDevice(), tr("Remove device"));
}

// With its last entry the list goes too.
void HostPanel::removeFrom(const std::string& list, int at, const QString& label) {
  showStatus(document_->spec().count(list) > 1 ? document_->removeItem(list, at, label)
                                               : document_->setField(list, {}, label));
}

void HostPanel::addData() {
  const std::string data = path() + ".data";
  const auto check = [this, data](const QString& name) -> NameDialog::Verdict {
    for (const std::string& known : document_->spec().keys(data))
      if (name == QString::fromStdString(known)) return {false, tr("It has a place already."), {}};
    return {!name.contains('[') && !name.contains(']'), {}, {}};
  };
  auto* dialog = new NameDialog(
      {tr("Data on this host"),
       tr("A data path of the run spec that is in another place on this host"), tr("Add")},
      {}, check, this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, this, [this, dialog, data] {
    const std::string field = data + "[" + dialog->name().toStdString() + "]";
    showStatus(document_->setField(field, dialog->name(), tr("Add data path")));
    form_->showField(field);
  });
  dialog->open();
}

void HostPanel::showStatus(const Status& status) {
  if (!status.ok()) Q_EMIT refused(status.error());
}

void HostPanel::retranslate() {
  setTexts(addDevice_, tr("Add device"), tr("Add devices of another kind"));
  setTexts(addLink_, tr("Add link"), tr("Say what is known of a link of this host"));
  setTexts(remove_, tr("Remove device or link"),
           tr("Remove the device or the link that is being edited"));
  setTexts(addData_, tr("Add data path"),
           tr("Say where data of the run spec is on this host, if elsewhere"));
  none_->setText(tr("Select a host in the table above to change its settings."));
  form_->retranslate();
  setItem(item_);
}

}  // namespace lockstep::ui
