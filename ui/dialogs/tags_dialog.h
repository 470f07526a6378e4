// TagsDialog: which tags selected runs have: of all, of some, of none; and new ones.
#pragma once

#include <QMap>

#include "app/history/run_tags.h"
#include "ui/dialogs/dialog.h"

class QLabel;
class QLineEdit;
class QListWidget;

namespace lockstep::ui {

class TagsDialog : public Dialog {
  Q_OBJECT

 public:
  // `known`: tags that are in use; `runs`: the selected ones, with the tags of each in `ofRuns`.
  TagsDialog(const QStringList& known, QStringList runs, const QVector<QStringList>& ofRuns,
             QWidget* parent);

  app::TagChange change() const;

 public Q_SLOTS:
  void accept() override;

 Q_SIGNALS:
  void chosen(const lockstep::app::TagChange& change);

 protected:
  void retranslate() override;

 private:
  void check();
  void nameCommand();

  const QStringList runs_;
  QMap<QString, Qt::CheckState> before_;
  QListWidget* list_ = nullptr;
  QLabel* freshLabel_ = nullptr;
  QLineEdit* fresh_ = nullptr;
  QLabel* wrong_ = nullptr;
};

}  // namespace lockstep::ui
