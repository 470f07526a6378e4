// CandidateModel: the predicted time, bubble, memory, traffic and energy of each strategy with the
// current settings, one row per strategy. All estimates of a column come from the same costs.
#pragma once

#include <QAbstractTableModel>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::ui {

struct Candidate {
  std::string strategy;
  double stepSeconds = 0;        // from built-in costs
  double bubbleShare = 0;        // of the step, in which ranks wait for each other
  std::int64_t memoryBytes = 0;  // of the rank that needs most
  std::int64_t wireBytes = 0;    // of rank 0, a step
  std::int64_t linkBytes = 0;    // of the busiest link, a step; 0: not counted (app::linkBytes)
  std::optional<double> joules;  // a step; none: a GPU's power is unknown
  std::optional<Error> refusal;  // why it cannot be planned; then it has no figures
  std::optional<Error> misfit;   // that it does not fit in memory
};

class CandidateModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column {
    kStrategy,
    kEstimate,
    kBenchmark,
    kBubble,
    kMemory,
    kWire,
    kLink,
    kEnergy,
    kColumns
  };
  using QAbstractTableModel::QAbstractTableModel;

  void setCandidates(std::vector<Candidate> candidates);
  // Sets benchmarked step times by strategy.
  void setBenchmarks(std::map<std::string, double> seconds);
  void setChosen(const std::string& strategy);
  const std::vector<Candidate>& candidates() const { return candidates_; }
  bool refused(int row) const {
    return candidates_[static_cast<std::size_t>(row)].refusal.has_value();
  }
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<Candidate> candidates_;
  std::map<std::string, double> benchmarks_;
  std::string chosen_;
};

}  // namespace lockstep::ui
