// LessonText: the left side of a lesson: its question, the text of a page with the terms explained
// where they stand, and the way to the other pages.
#pragma once

#include <QWidget>
#include <vector>

#include "app/learn/lesson.h"

class QFrame;
class QLabel;
class QPushButton;

namespace lockstep::ui {

class LessonSession;

// The text as rich text: blank lines part paragraphs, `code` and **strong** are as in Markdown; the
// first place of each term is a link "term:<index>".
QString lessonHtml(const QString& text, const std::vector<app::Term>& terms,
                   const std::string& language);

class LessonText : public QWidget {
  Q_OBJECT

 public:
  LessonText(LessonSession* session, QWidget* parent);

  void retranslate();

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void refresh();
  void showTerm(const QString& link);  // or hides the one that is shown
  QString meaningOf(const QString& link) const;
  void restyle();

  LessonSession* session_;
  QLabel* question_ = nullptr;
  QLabel* text_ = nullptr;
  QFrame* termBox_ = nullptr;
  QLabel* term_ = nullptr;
  QString shownTerm_;  // its link; "": none
  QPushButton* back_ = nullptr;
  QPushButton* next_ = nullptr;
  QLabel* place_ = nullptr;
};

}  // namespace lockstep::ui
