// MetricDialog: chooses what a plot of a dashboard shows: series of the run by a searchable list,
// or by patterns that are typed.
#pragma once

#include "ui/dialogs/dialog.h"
#include "ui/studio/dashboard.h"

class QCheckBox;
class QLabel;
class QLineEdit;
class QListView;

namespace lockstep::ui {

class MetricFilter;
class MetricModel;

class MetricDialog : public Dialog {
  Q_OBJECT
 public:
  // `series` of the run; `plot` as it is: without patterns it is a new one.
  MetricDialog(const QStringList& series, const DashboardPlot& plot, QWidget* parent);

  DashboardPlot plot() const;  // as it was chosen; its size is that of before

 protected:
  void retranslate() override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  QStringList typed() const;
  void takeChecked();  // the list was clicked
  void takeTyped();    // the line was edited
  void check();        // whether there is something to show, and what

  const QStringList series_;
  const DashboardPlot before_;
  MetricModel* model_ = nullptr;
  MetricFilter* filter_ = nullptr;
  QLineEdit* search_ = nullptr;
  QListView* list_ = nullptr;
  QLabel* patternsLabel_ = nullptr;
  QLineEdit* patterns_ = nullptr;
  QLabel* titleLabel_ = nullptr;
  QLineEdit* title_ = nullptr;
  QCheckBox* logY_ = nullptr;
  QLabel* note_ = nullptr;
  bool taking_ = false;
};

}  // namespace lockstep::ui
