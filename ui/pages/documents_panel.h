// DocumentsPanel: the texts that a run was launched with, to be read, copied and saved: its spec as
// written and as run, its cluster, its plan, and how the code of a program differed from its
// commit.
#pragma once

#include <QWidget>
#include <string>
#include <vector>

#include "app/history/run_row.h"
#include "engine/base/status.h"

class QComboBox;
class QPlainTextEdit;
class QPushButton;

namespace lockstep::ui {

class ElidedLabel;
class RunDocument;
class YamlHighlighter;

class DocumentsPanel : public QWidget {
  Q_OBJECT

 public:
  explicit DocumentsPanel(RunDocument* document, QWidget* parent = nullptr);

  void refresh();  // while it is not visible with the next show
  void retranslate();

 Q_SIGNALS:
  void saved(const QString& path, const lockstep::Status& status);

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  bool has(const app::RunText& text) const;
  const app::RunText* chosen() const;  // null: the run has none
  const std::string& text() const;     // of the chosen one
  void refreshKinds();
  void showText();
  QString about() const;
  void askSave();

  RunDocument* document_;
  std::vector<const app::RunText*> kinds_;  // those in the box
  std::string shown_;
  QComboBox* kind_ = nullptr;
  ElidedLabel* about_ = nullptr;
  QPushButton* copy_ = nullptr;
  QPushButton* save_ = nullptr;
  QPlainTextEdit* text_ = nullptr;
  YamlHighlighter* highlighter_ = nullptr;
};

}  // namespace lockstep::ui
