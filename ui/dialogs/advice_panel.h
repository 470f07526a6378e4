// AdvicePanel: the best strategies of the launch that the dialog shows. Searches in the background
// when asked; what is found can be opened as a plan, compared with the current one, and chosen.
#pragma once

#include <QStringList>
#include <QTimer>
#include <QWidget>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "ui/dialogs/launch_preview.h"
#include "ui/dialogs/plan_dialog.h"

class QLabel;
class QLineEdit;
class QMenu;
class QProgressBar;
class QPushButton;
class QTableView;
class QToolButton;

namespace lockstep::ui {

class AdviceModel;
class ColumnFitter;

class AdvicePanel : public QWidget {
  Q_OBJECT

 public:
  explicit AdvicePanel(QWidget* parent);
  ~AdvicePanel() override;

  struct Sources {
    std::function<LaunchInputs()> inputs;
    // As estimated, which the others are; null: none.
    std::function<std::shared_ptr<const app::Preview>()> current;
    // `lockstep advise …` for the inputs, with more words; "": there is none.
    std::function<QString(const QStringList& more)> command;
  };
  void setSources(Sources sources) { sources_ = std::move(sources); }
  // The launch or its plan has changed: what was found for another model, cluster or batch goes.
  void follow();
  void search();          // anew
  void stop();            // ends a search with what was found
  bool choosing() const;  // the table has the keyboard
  void retranslate();

 Q_SIGNALS:
  // All options that the launch sets with this strategy: "strategy.tensor=2".
  void chosen(const QStringList& sets);

 private:
  QWidget* makeSearchRow();
  QToolButton* makeMenuButton(const QString& name, const char* icon, QMenu*& menu, QWidget* parent);
  QWidget* makeTable();
  QWidget* makeChoiceRow();
  void take(Result<app::Advice> found);
  void choose(int row);
  void open(bool beside);  // the current plan
  using Plans = std::pair<PlanDialog::Shown, PlanDialog::Shown>;
  void showPlans(Plans plans, int row);
  int row() const;                              // that is selected; -1: none
  LaunchInputs inputsOf(int row) const;         // with its strategy
  std::vector<std::string> pins() const;        // paths
  std::vector<std::string> precisions() const;  // to try besides the launch's own
  void showCommand();
  void refresh();  // of buttons and texts

  Sources sources_;
  std::optional<LaunchInputs> searched_;  // that the strategies are of
  std::optional<Result<app::Advice>>
      outcome_;                   // of the last search; none: none, or it is under way
  std::optional<Error> problem_;  // with a plan
  std::stop_source stop_;
  std::shared_ptr<std::atomic<std::size_t>> planned_;  // null: no search is under way
  int generation_ = 0;
  bool opening_ = false;
  QTimer tick_;
  AdviceModel* model_ = nullptr;
  QPushButton* search_ = nullptr;  // cancels while a search is under way
  QToolButton* keep_ = nullptr;
  QMenu* options_ = nullptr;
  QToolButton* also_ = nullptr;
  QMenu* precisions_ = nullptr;
  QProgressBar* progress_ = nullptr;
  QLabel* progressText_ = nullptr;
  QTableView* table_ = nullptr;
  ColumnFitter* fitter_ = nullptr;
  QLabel* note_ = nullptr;
  QLineEdit* command_ = nullptr;
  QPushButton* open_ = nullptr;
  QPushButton* compare_ = nullptr;
  QPushButton* choose_ = nullptr;
};

}  // namespace lockstep::ui
