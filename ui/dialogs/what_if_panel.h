// WhatIfPanel: how long a step of a run, or the predicted one of a launch, would take, had
// something been otherwise. Reads and replays in the background while it is in sight.
#pragma once

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QStringList>
#include <QWidget>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "app/whatif/subject.h"
#include "engine/base/status.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QSlider;
class QSpinBox;
class QStackedWidget;

namespace lockstep::ui {

class Card;
class Figure;

// What is asked.
struct WhatIfSource {
  // Called in the background; null: it is not known yet.
  std::function<Result<app::WhatIfSubject>(const std::stop_token& stop)> read = {};
  // Returns `lockstep whatif …` with the words of a change; "" where it cannot be told the same.
  std::function<QString(const QStringList& change)> command = {};
};
// A run of the history.
WhatIfSource whatIfOfRun(const std::string& historyFolder, const QString& run);

class WhatIfPanel : public QWidget {
  Q_DECLARE_TR_FUNCTIONS(lockstep::ui::WhatIfPanel)

 public:
  explicit WhatIfPanel(QWidget* parent);
  ~WhatIfPanel() override;

  void setSource(WhatIfSource source);
  void noteChange();  // it is read again when the panel comes in sight
  void retry();       // reads it now, where it could not be read
  void retranslate();

 protected:
  void showEvent(QShowEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;  // Enter is of a number, and of no dialog

 private:
  struct Answer;
  using Subject = std::shared_ptr<const app::WhatIfSubject>;
  static Answer replayed(const app::WhatIfSubject& subject, const app::WhatIfChanges& changes,
                         std::stop_token stop);
  static Answer plannedAnew(const app::WhatIfSubject& subject, const app::OtherSettings& settings,
                            const std::stop_token& stop);
  QWidget* buildChanges();
  void read();
  void take(Subject subject);
  void fillChoices();
  void ask();
  void take(Answer answer);
  void refresh();
  void showProblem();
  void enableChanges();
  app::WhatIfChanges changes() const;
  app::OtherSettings settings() const;  // with which the run is planned anew; they stand alone
  QStringList changeWords() const;      // of the command that asks the same
  void showCommand();
  QString noteText() const;
  double bytesPerSecond() const;  // of the slider

  WhatIfSource source_;
  Subject subject_;                 // null: not yet, or it cannot be replayed
  std::unique_ptr<Answer> answer_;  // null: none
  std::optional<Error> problem_;
  std::stop_source stop_;     // of what is read and replayed, when the panel goes
  std::stop_source asking_;   // of the question under way
  QElapsedTimer sinceAsked_;  // of that question
  int generation_ = 0;        // of the source
  bool changed_ = true, reading_ = false, answering_ = false, askAgain_ = false, filling_ = false;
  Card* card_ = nullptr;
  QStackedWidget* stack_ = nullptr;
  QLabel* empty_ = nullptr;
  QLabel* rankLabel_ = nullptr;
  QComboBox* rank_ = nullptr;
  QLabel* linkLabel_ = nullptr;
  QComboBox* link_ = nullptr;
  QSlider* rate_ = nullptr;
  QLabel* rateText_ = nullptr;
  QCheckBox* ideal_ = nullptr;
  QCheckBox* noBubble_ = nullptr;
  QLabel* ranksLabel_ = nullptr;
  QSpinBox* ranks_ = nullptr;
  QCheckBox* bf16_ = nullptr;
  Figure* measured_ = nullptr;
  Figure* changedStep_ = nullptr;
  Figure* throughput_ = nullptr;
  Figure* error_ = nullptr;
  QLabel* note_ = nullptr;
  QLabel* command_ = nullptr;
};

}  // namespace lockstep::ui
