// CodePanel: the code of a program as it ran: its commit, and how it differed from that.
#pragma once

#include <QWidget>

#include "engine/base/status.h"

class QPlainTextEdit;
class QPushButton;

namespace lockstep::ui {

class ElidedLabel;
class RunDocument;

class CodePanel : public QWidget {
  Q_OBJECT

 public:
  explicit CodePanel(RunDocument* document, QWidget* parent = nullptr);

  void refresh();
  bool isEmpty() const;  // the run has no code, or that is in no commit
  void save(const QString& path);
  void retranslate();

 Q_SIGNALS:
  void saved(const QString& path, const lockstep::Status& status);

 private:
  void askSave();

  RunDocument* document_;
  ElidedLabel* commit_ = nullptr;
  QPushButton* copy_ = nullptr;
  QPushButton* save_ = nullptr;
  QPlainTextEdit* patch_ = nullptr;
};

}  // namespace lockstep::ui
