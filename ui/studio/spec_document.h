// SpecDocument: the text of a cluster or run spec with its undo stack. Typing and form edits are
// both small replacements in the text, on one stack. Unsaved text is stored in the home's recovery
// folder and restored after a crash.
#pragma once

#include <QObject>
#include <QTimer>
#include <QUndoStack>

#include "app/specs/spec_text.h"
#include "engine/base/status.h"

namespace lockstep::ui {

// Returns the kind of spec of a file's text, by its first lines.
app::SpecKind specKindOf(const QString& path);

class SpecDocument : public QObject {
  Q_OBJECT

 public:
  SpecDocument(app::SpecKind kind, QString recoveryFolder, QObject* parent = nullptr);
  ~SpecDocument() override;

  // Text of an earlier time that was not saved comes back, also where there is no file yet.
  Status load(const QString& path);
  void start(const QString& text, const QString& path);  // new, not saved yet
  Status save(const QString& path);
  bool recovered() const { return recovered_; }
  // Where unsaved text of a file is kept.
  static QString recoveryPath(const QString& path, const QString& folder);
  // Stores unsaved text in the recovery folder, or removes there what is unsaved no longer. Called
  // a while after each change too.
  Status autosave();
  void keepRecovery();  // at quitting: unsaved text comes back next time

  const QString& path() const { return path_; }
  QString name() const;  // of the file, without its ending
  app::SpecKind kind() const { return kind_; }
  const app::SpecText& spec() const { return spec_; }
  QString text() const { return QString::fromStdString(spec_.text()); }
  QUndoStack* undoStack() { return &undo_; }
  bool isModified() const { return !undo_.isClean() || fresh_; }

  void type(const QString& text);  // by hand in the editor; merged while typing goes on
  Status setField(const std::string& path, const QString& value, const QString& label);
  Status insertItem(const std::string& list, int index, const QString& yaml, const QString& label);
  Status removeItem(const std::string& list, int index, const QString& label);
  Status moveItem(const std::string& list, int from, int to, const QString& label);

 Q_SIGNALS:
  void changed();
  void modifiedChanged();

 private:
  friend class TextCommand;
  Status push(const Result<app::TextEdit>& edit, const QString& label);
  void setBytes(std::string bytes);
  QString recoveryPath() const { return recoveryPath(path_, recoveryFolder_); }

  app::SpecKind kind_;
  QString recoveryFolder_;
  QString path_;
  app::SpecText spec_;
  QUndoStack undo_;
  QTimer autosave_;
  bool fresh_ = false, recovered_ = false, kept_ = false;
};

}  // namespace lockstep::ui
