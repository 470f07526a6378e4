// WhatIfPanel: how long a step of the run would take, had something been otherwise. Reads and
// replays in the background while it is in sight.
#pragma once

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QWidget>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "app/whatif/planned_anew.h"
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
class RunDocument;

class WhatIfPanel : public QWidget {
  Q_DECLARE_TR_FUNCTIONS(lockstep::ui::RunPage)

 public:
  WhatIfPanel(RunDocument* document, QWidget* parent = nullptr);
  ~WhatIfPanel() override;

  void retranslate();

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  struct Studied;  // the run, read and replayed
  struct Answer;
  static Answer replayed(const Studied& studied, const app::WhatIfChanges& changes,
                         std::stop_token stop);
  static Answer plannedAnew(const Studied& studied, const app::OtherSettings& settings,
                            const std::string& folder, const std::stop_token& stop);
  QWidget* buildChanges();
  void read();
  void take(std::shared_ptr<const Studied> studied);
  void fillChoices();
  void ask();
  void take(Answer answer);
  void refresh();
  void showProblem();
  void enableChanges();
  app::WhatIfChanges changes() const;
  app::OtherSettings settings() const;  // with which the run is planned anew; they stand alone
  QString command() const;              // `lockstep whatif …`, the same question
  double bytesPerSecond() const;        // of the slider

  RunDocument* document_;
  std::shared_ptr<const Studied> studied_;  // null: not yet, or it cannot be replayed
  std::unique_ptr<Answer> answer_;          // null: none
  std::optional<Error> problem_;
  std::stop_source stop_;     // of what is read and replayed, when the panel goes
  std::stop_source asking_;   // of the question under way
  QElapsedTimer sinceAsked_;  // of that question
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
