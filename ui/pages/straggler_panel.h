// StragglerPanel: which rank or link of a run slows the others, and the evidence for it.
#pragma once

#include <QCoreApplication>

#include "ui/widgets/widgets.h"

namespace lockstep::app {
struct SlowEvidence;
}

namespace lockstep::ui {

class RunDocument;

class StragglerPanel : public Card {
  Q_DECLARE_TR_FUNCTIONS(lockstep::ui::RunPage)

 public:
  explicit StragglerPanel(QWidget* parent);
  void refresh(const RunDocument& run);
  QString who() const { return who_->text(); }
  QToolButton* profileButton() const { return profile_; }
  QToolButton* restartButton() const { return restart_; }
  QToolButton* debugButton() const { return debug_; }
  QToolButton* excludeButton() const { return exclude_; }
  QString evidence() const { return evidence_->text(); }
  void retranslate();

 private:
  QString evidenceText(const app::SlowEvidence& evidence) const;

  QLabel* who_ = nullptr;
  QLabel* evidence_ = nullptr;
  QToolButton* profile_ = nullptr;
  QToolButton* restart_ = nullptr;
  QToolButton* debug_ = nullptr;
  QToolButton* exclude_ = nullptr;
  bool wasLive_ = false;  // keeps the room of a straggler's evidence
};

}  // namespace lockstep::ui
