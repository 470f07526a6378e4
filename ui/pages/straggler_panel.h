// StragglerPanel: which rank or link of a run slows the others, the evidence for it, and what a
// step would take without it.
#pragma once

#include <QCoreApplication>

#include "ui/widgets/widgets.h"

namespace lockstep::app {
struct SlowEvidence;
struct Straggler;
}  // namespace lockstep::app

namespace lockstep::ui {

class RunDocument;
class WithoutReader;

class StragglerPanel : public Card {
  Q_DECLARE_TR_FUNCTIONS(lockstep::ui::RunPage)

 public:
  StragglerPanel(RunDocument* document, QWidget* parent);
  void refresh();
  QString who() const { return who_->text(); }
  QToolButton* profileButton() const { return profile_; }
  QToolButton* restartButton() const { return restart_; }
  QToolButton* debugButton() const { return debug_; }
  QToolButton* excludeButton() const { return exclude_; }
  QToolButton* rebalanceButton() const { return rebalance_; }
  QToolButton* fasterButton() const { return faster_; }
  QString evidence() const { return evidence_->text(); }
  void retranslate();

 private:
  QString evidenceText(const app::SlowEvidence& evidence) const;
  QString diskText(const app::SlowEvidence& evidence) const;
  QString gpuText(const app::SlowEvidence& evidence) const;
  QString withoutText(const app::Straggler& slow) const;
  QString liveWithoutText(const app::Straggler& slow) const;
  void askWithout(const app::Straggler& slow);

  RunDocument* document_;
  WithoutReader* without_;
  QLabel* who_ = nullptr;
  QLabel* evidence_ = nullptr;
  QToolButton* profile_ = nullptr;
  QToolButton* restart_ = nullptr;
  QToolButton* debug_ = nullptr;
  QToolButton* exclude_ = nullptr;
  QToolButton* rebalance_ = nullptr;
  QToolButton* faster_ = nullptr;
  bool wasLive_ = false;  // keeps the room of a straggler's evidence
};

}  // namespace lockstep::ui
