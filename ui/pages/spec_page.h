// SpecPage: base of pages over a spec text: the YAML beside a form, the list of its problems,
// saving.
#pragma once

#include "ui/pages/page.h"
#include "ui/studio/spec_document.h"

class QListWidget;
class QSplitter;
class QLabel;

namespace lockstep::ui {

class FindBar;
class YamlEditor;

class SpecPage : public Page {
  Q_OBJECT

 public:
  SpecPage(const QString& objectName, const QString& keyPrefix,
           std::unique_ptr<SpecDocument> document, QWidget* parent);
  ~SpecPage() override;

  SpecDocument* document() const { return document_.get(); }
  QString title() const override { return document_->name() + (isModified() ? " *" : ""); }
  QUndoStack* undoStack() override { return document_->undoStack(); }
  bool isModified() const override { return document_->isModified(); }
  QString filePath() const override { return document_->path(); }
  QString titleDetail() const override;
  bool canFind() const override { return true; }
  void find() override;  // in the text
  bool save() override;
  bool saveAs(const QString& path);

 protected:
  YamlEditor* editor() const { return editor_; }
  QWidget* textSide() const { return textSide_; }
  void showStatus(const Status& status);
  void retranslate() override;
  virtual void documentChanged();
  virtual void endAlerts() {}  // those of its key, which will be another
  // Goes to the place of a clicked problem in the text.
  virtual void problemChosen(const app::SpecProblem& problem);

 private:
  QString keyPrefix_;
  std::unique_ptr<SpecDocument> document_;
  QWidget* textSide_ = nullptr;
  QLabel* readOnly_ = nullptr;
  FindBar* find_ = nullptr;
  YamlEditor* editor_ = nullptr;
  QListWidget* problems_ = nullptr;
};

}  // namespace lockstep::ui
