// Common widgets of pages: page header, card, figure, message panel, empty state.
#pragma once

#include <QFrame>
#include <QLabel>
#include <QPushButton>
#include <QWidget>
#include <functional>
#include <optional>

#include "engine/base/status.h"
#include "ui/theme/theme.h"

class QBoxLayout;
class QHBoxLayout;
class QScrollArea;
class QToolButton;
class QVBoxLayout;

namespace lockstep::ui {

// Makes a push button whose icon follows the theme.
QPushButton* makeButton(const QString& objectName, const char* icon, QWidget* parent,
                        const char* role = nullptr);
QToolButton* makeToolButton(const QString& objectName, const char* icon, QWidget* parent);
QLabel* makeLabel(const QString& objectName, QWidget* parent, const char* role = nullptr);
// A label of one line that elides its text, so that it does not widen the window. Where it does,
// the tool tip has all of it.
class ElidedLabel : public QLabel {
  Q_OBJECT
 public:
  ElidedLabel(const QString& objectName, QWidget* parent, const char* role = nullptr);
  QSize minimumSizeHint() const override;
  // A text that needs no more than so many pixels is shown whole.
  void setLeast(int pixels) { least_ = pixels; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  QRect room() const;

  int least_ = 0;
};

// A page's title; elided where it has not the room for all of it.
QLabel* makeHeading(const QString& objectName, QWidget* parent);

// Allows a window lower than the inner widget's least height.
QScrollArea* scrolled(QWidget* inner, QWidget* parent);

// Of a form that scrolls: the wheel turns the field only while it has the keyboard.
void leaveWheel(QWidget* field);

// Sets text and accessible name.
void setTexts(QAbstractButton* button, const QString& text, const QString& toolTip = {});

// A rounded frame with a heading.
class Card : public QFrame {
  Q_OBJECT
 public:
  explicit Card(const QString& objectName, QWidget* parent = nullptr);
  void setTitle(const QString& title);
  QVBoxLayout* body() const { return body_; }
  QHBoxLayout* head() const { return head_; }

 private:
  QLabel* title_ = nullptr;
  QHBoxLayout* head_ = nullptr;
  QVBoxLayout* body_ = nullptr;
};

// A figure with its name below.
class Figure : public QWidget {
  Q_OBJECT
 public:
  explicit Figure(const QString& objectName, QWidget* parent = nullptr);
  void setName(const QString& name);
  void setValue(const QString& value, const QString& detail = {});
  QString value() const { return value_->text(); }

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void restyle();
  QLabel* name_ = nullptr;
  QLabel* value_ = nullptr;
  QLabel* detail_ = nullptr;
};

// Shows what failed, why, what to do, and details to copy. Overlays the lower edge of its parent,
// or the upper one if the pointer is below, so that nothing moves and the pointer never hits it.
// Not modal.
class MessagePanel : public QFrame {
  Q_OBJECT
 public:
  explicit MessagePanel(QWidget* parent);
  void setArea(QWidget* area);  // over that part of the parent instead
  void showError(const Error& error);
  // Shows a note. It is requested again when the language changes. The button of its action stays
  // visible beside a later error and, where it stays, beside a later note without an action.
  struct Note {
    QString what, why, next, action;
    bool stays = false;
  };
  void showNote(Tone tone, std::function<Note()> note);
  void dropAction();  // and its note, where nothing later is shown
  void clear();
  QString what() const { return what_->text(); }
  QString details() const { return details_; }

 Q_SIGNALS:
  void actionTriggered();

 protected:
  void changeEvent(QEvent* event) override;
  void showEvent(QShowEvent* event) override;
  bool eventFilter(QObject* object, QEvent* event) override;

 private:
  void place();
  void retranslate();
  void showTexts(Tone tone, const QString& what, const QString& why, const QString& next);
  void setAction(const QString& text);

  QLabel* icon_ = nullptr;
  QLabel* what_ = nullptr;
  QLabel* why_ = nullptr;
  QLabel* next_ = nullptr;
  QPushButton* action_ = nullptr;
  QPushButton* copy_ = nullptr;
  QToolButton* close_ = nullptr;
  QWidget* area_ = nullptr;
  bool above_ = false;
  QString details_;
  std::optional<Error> error_;    // what is shown, to be told in another language
  std::function<Note()> note_;    // the same
  std::function<Note()> asking_;  // whose action is shown
  bool asks_ = false;             // it is what is shown
  Tone tone_ = Tone::kNeutral;
};

// Empty state of a page: centred icon, sentence and one button.
class EmptyState : public QWidget {
  Q_OBJECT
 public:
  EmptyState(const QString& objectName, const char* icon, QWidget* parent = nullptr);
  void setTexts(const QString& title, const QString& text, const QString& button = {});
  QPushButton* button() const { return button_; }

 private:
  void restyle();
  QString iconName_;
  QLabel* icon_ = nullptr;
  QLabel* title_ = nullptr;
  QLabel* text_ = nullptr;
  QPushButton* button_ = nullptr;
};

// A coloured dot and a word: "running", "connected".
class StateBadge : public QLabel {
  Q_OBJECT
 public:
  explicit StateBadge(const QString& objectName, QWidget* parent = nullptr);
  void setState(const QString& text, Tone tone);

 private:
  void restyle();
  Tone tone_ = Tone::kNeutral;
};

}  // namespace lockstep::ui
