// LessonList: the lessons with their titles, minutes and marks of those that are done. A file that
// cannot be read has a row of its own, which says why.
#pragma once

#include <QWidget>
#include <memory>
#include <optional>
#include <vector>

#include "app/learn/lesson.h"
#include "engine/base/status.h"

class QLabel;
class QListView;
class QModelIndex;
class QStandardItemModel;

namespace lockstep::ui {

class EmptyState;

struct LessonEntry {
  QString file;
  std::shared_ptr<const app::Lesson> lesson;  // null: damaged
  Error error;                                // where it is damaged
  int reached = 0;                            // exercises
  bool isDone() const {
    return lesson && reached >= static_cast<int>(lesson->exercises.size()) && reached > 0;
  }
};
// The lessons of a folder in the order of their files' names. Errors: kNotFound of the folder.
Result<std::vector<LessonEntry>> readLessonEntries(const QString& folder);

class LessonList : public QWidget {
  Q_OBJECT

 public:
  explicit LessonList(QWidget* parent);

  void setEntries(std::vector<LessonEntry> entries);
  void showProblem(const Error& error);  // instead of lessons
  const std::vector<LessonEntry>& entries() const { return entries_; }
  void retranslate();

 Q_SIGNALS:
  void chosen(int entry);
  void readAgain();

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void refresh();
  void restyle();

  std::vector<LessonEntry> entries_;
  std::optional<Error> problem_;
  QWidget* content_ = nullptr;
  QLabel* heading_ = nullptr;
  QLabel* intro_ = nullptr;
  QListView* list_ = nullptr;
  QStandardItemModel* model_ = nullptr;
  EmptyState* empty_ = nullptr;
};

}  // namespace lockstep::ui
