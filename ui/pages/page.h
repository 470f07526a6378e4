// Page: one document of the window's centre. Layout only; state sits in models.
#pragma once

#include <QIcon>
#include <QVariantMap>
#include <QVector>
#include <QWidget>

#include "engine/base/status.h"
#include "ui/models/alert_model.h"
#include "ui/models/inspector_model.h"
#include "ui/studio/place.h"

class QUndoStack;
class QVBoxLayout;

namespace lockstep::ui {

class MessagePanel;

class Page : public QWidget {
  Q_OBJECT

 public:
  // `key` identifies the document: "cluster:/path", "run:<id>".
  Page(const QString& objectName, QString key, QWidget* parent);

  const QString& key() const { return key_; }
  virtual QString title() const = 0;
  virtual const char* iconName() const = 0;
  virtual QUndoStack* undoStack() { return nullptr; }
  virtual bool isModified() const { return false; }
  virtual bool save() { return true; }  // false: said in the page's message panel
  virtual QString filePath() const { return {}; }
  virtual QString titleDetail() const { return {}; }  // what tells it from others of its title
  virtual bool canFind() const { return false; }
  virtual void find() {}  // gives the keyboard to the page's search
  virtual Place place() const { return {key(), {}, -1, 0}; }
  virtual void go(const Place&) {}  // to a part of this document
  // What is shown of the document, as the settings keep it; empty: as it opens.
  virtual QVariantMap view() const { return {}; }
  virtual void restoreView(const QVariantMap&) {}
  // Says in the message panel how an export ended.
  void sayExported(const QString& path, const Status& status);
  virtual QVector<InspectorRow> inspectorRows() const { return {}; }
  MessagePanel* message() const { return message_; }

 Q_SIGNALS:
  void titleChanged();
  void inspectorChanged();
  void placeChanged();
  void alertRaised(const lockstep::ui::Alert& alert);
  void alertOver(const QString& key, const QDateTime& when = {});  // what lasted is over; null: now

 protected:
  virtual void retranslate() = 0;  // called by the leaf's constructor, then on change
  void changeEvent(QEvent* event) override;
  void setKey(const QString& key) { key_ = key; }
  QVBoxLayout* body() const { return body_; }  // all of the page; the message panel lies over it

 private:
  QString key_;
  MessagePanel* message_ = nullptr;
  QVBoxLayout* body_ = nullptr;
};

}  // namespace lockstep::ui
