// How the work is distributed: the fields of spec.strategy that suit the chosen kind, as rows of a
// form.
#pragma once

#include <QObject>
#include <QStringList>
#include <QVector>
#include <string>
#include <vector>

#include "engine/cluster/strategies.h"

class QComboBox;
class QFormLayout;
class QLabel;
class QSpinBox;
class QTableView;
class QWidget;

namespace lockstep::app {
class SpecText;
}

namespace lockstep::ui {

class PinModel;

class StrategyFields : public QObject {
  Q_OBJECT

 public:
  // Rows are added at the form's end, in `parent`; addMore() adds those few people change.
  StrategyFields(QFormLayout* form, QWidget* parent);
  void addMore();

  void setSpec(const app::SpecText& spec);  // every field as the spec has it
  void setRanks(int ranks);                 // among which layers are pinned
  void setMore(bool shown);
  // whether one of those is not as it is by default
  bool anyMore() const;
  // "strategy.tensor=2", where the spec says otherwise; with another kind than the chosen one, what
  // suits that of the rest.
  QStringList sets(const app::SpecText& spec, const std::string& kind = {}) const;
  std::string kind() const;
  void setKind(const std::string& kind);
  PinModel* pins() const { return pins_; }
  QVector<QLabel*> labels() const;
  void retranslate();

 Q_SIGNALS:
  void changed();

 private:
  struct Field {
    const char* path;
    const char* fallback;  // what a spec without it means
    bool (StrategyFields::*suits)() const;
    bool more = false;           // few people change it
    QSpinBox* number = nullptr;  // one of the two
    QComboBox* choice = nullptr;
    QLabel* label = nullptr;
    QWidget* widget() const;
    QString value() const;
  };
  struct Row;
  void add(const Row& row);
  const Field& field(const char* path) const;
  const cluster::Strategy& strategy() const;
  bool always() const { return true; }
  bool asynchronous() const;                  // workers may take their steps by themselves
  bool served() const;                        // there are parameter servers
  bool mayWait() const { return !served(); }  // all ranks compute
  bool apart() const;                         // workers may be ahead of each other
  bool waitingServed() const;                 // servers take each step with all workers
  bool local() const;                         // ranks update by themselves
  bool layered() const { return !served() && !local(); }
  bool staged() const;  // layers are divided among stages
  bool pinned() const;  // layers are put on stages one by one
  bool inParts() const { return !local() && !apart(); }
  int stages() const;                   // of pinned layers
  std::vector<int> evenStages() const;  // of the layers, where nobody has pinned them
  void fit();

  QFormLayout* form_;
  QWidget* parent_;
  std::vector<Field> fields_;
  PinModel* pins_ = nullptr;
  QTableView* pinTable_ = nullptr;
  QLabel* pinLabel_ = nullptr;
  int ranks_ = 1;
  bool more_ = false, pinsChosen_ = false;
  // the kind that is asked about instead of the chosen one
  mutable std::string other_;
};

}  // namespace lockstep::ui
