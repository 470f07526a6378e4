// HostPanel: the settings of one entry of a cluster's nodes as a form: its name and addresses, how
// it is connected, its devices, where it has the data, and what is known of its links.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "ui/widgets/widgets.h"

class QLabel;
class QStackedWidget;
class QToolButton;

namespace lockstep::ui {

class FieldForm;
class SpecDocument;

class HostPanel : public Card {
  Q_OBJECT

 public:
  HostPanel(SpecDocument* document, QWidget* parent);

  FieldForm* form() const { return form_; }
  void setItem(int item);  // of the spec's nodes; -1: none. Rereads it.
  void retranslate();

 Q_SIGNALS:
  void refused(const lockstep::Error& error);

 private:
  std::string path() const;
  std::string nameOfItem() const;
  std::string devices() const { return path() + ".devices"; }
  int chosenDevice() const;  // the one that the form's cursor is in, or else the last; -1: none
  void addDevice();
  void addLink();
  void remove();  // the device or the link that is being edited
  void removeFrom(const std::string& list, int at, const QString& label);
  void addData();
  void refreshButtons();
  void showStatus(const Status& status);

  SpecDocument* document_;
  int item_ = -1;
  FieldForm* form_;
  QLabel* none_;
  QStackedWidget* stack_;
  QToolButton* addDevice_;
  QToolButton* addLink_;
  QToolButton* remove_;
  QToolButton* addData_;
};

}  // namespace lockstep::ui
