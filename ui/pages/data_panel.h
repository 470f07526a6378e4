// DataPanel: samples of the data that a spec names: the first, or random ones; their number, shape
// and labels; what is wrong with the files. Reads in the background while it is visible, with
// progress and cancel.
#pragma once

#include <QTimer>
#include <QWidget>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "app/runs/data_preview.h"

class QComboBox;
class QFrame;
class QLabel;
class QListView;
class QProgressBar;
class QPushButton;
class QSpinBox;
class QStackedWidget;
class QTableView;
class QVBoxLayout;

namespace lockstep::ui {

class DataTableModel;
class ElidedLabel;
class LabelBars;
class SpecDocument;

class DataPanel : public QWidget {
  Q_OBJECT

 public:
  // Files up to this size are read to their ends at once, to check them.
  static constexpr std::int64_t kCheckedAtOnce = std::int64_t{64} << 20;

  DataPanel(SpecDocument* document, QWidget* parent);
  ~DataPanel() override;  // cancels

  // Where data of examples are made if the folder of the spec cannot be written.
  void setExampleFolder(const QString& folder) { exampleFolder_ = folder; }
  DataTableModel* samples() const { return samples_; }
  bool isBusy() const { return job_ != nullptr || later_.isActive(); }  // or soon
  bool isMaking() const { return job_ != nullptr && what_ == What::kMaking; }
  bool isChecked() const { return checked_; }  // all files were read to their ends and are whole
  const std::optional<Error>& error() const { return error_; }
  void retranslate();

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  // Work on a pool thread: progress, and whether to stop.
  struct Job {
    std::atomic<std::int64_t> done{0}, total{0};
    std::stop_source stop;
    Progress progress();
  };
  enum class What { kReading, kCounting, kChecking, kMaking };

  void buildTools();
  void buildSamples();
  void buildFoot();
  void connectParts();
  QString signature() const;  // all of the text that the data depend on
  void documentChanged();
  void load();
  void showFirst();
  void showRandom();
  void countThenCheck();
  void check();
  void make();
  void cancel();
  // Runs `work` in the background, `done` with its result unless it was cancelled by other work.
  template <typename Work, typename Done>
  void run(What what, Work work, Done done);
  void take(Result<std::vector<app::DataSample>>&& samples);
  void fail(const Error& error);
  void refresh();
  void showProgress();
  static QString imagesText(const std::vector<std::int64_t>& shape);
  QString factsText() const;

  SpecDocument* document_;
  QString exampleFolder_;
  DataTableModel* samples_ = nullptr;
  QVBoxLayout* column_ = nullptr;
  QComboBox* split_ = nullptr;
  QLabel* countLabel_ = nullptr;
  QSpinBox* count_ = nullptr;
  QPushButton* first_ = nullptr;
  QPushButton* random_ = nullptr;
  QPushButton* check_ = nullptr;
  QLabel* facts_ = nullptr;
  ElidedLabel* files_ = nullptr;
  LabelBars* labels_ = nullptr;
  QFrame* wrong_ = nullptr;
  QLabel* wrongIcon_ = nullptr;
  QLabel* wrongText_ = nullptr;
  QPushButton* make_ = nullptr;
  QStackedWidget* stack_ = nullptr;
  QListView* images_ = nullptr;
  QTableView* table_ = nullptr;
  QLabel* nothing_ = nullptr;
  QWidget* working_ = nullptr;
  QLabel* workingText_ = nullptr;
  QProgressBar* bar_ = nullptr;
  QPushButton* cancel_ = nullptr;
  QTimer later_, tick_;

  QString loaded_;  // signature of what is shown
  std::shared_ptr<app::DataPreview> data_;
  std::shared_ptr<Job> job_;
  What what_ = What::kReading;
  std::optional<Error> error_;
  bool missingExample_ = false, checked_ = false;
};

}  // namespace lockstep::ui
