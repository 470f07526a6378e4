// StrategyFields: the options of spec.strategy as rows of a form, and the stages of pinned layers.
#pragma once

#include <QObject>
#include <QStringList>
#include <string>
#include <vector>

class QFormLayout;
class QLabel;
class QTableView;
class QWidget;

namespace lockstep::app {
class SpecText;
}

namespace lockstep::ui {

class OptionFields;
class PinModel;

class StrategyFields : public QObject {
  Q_OBJECT

 public:
  // Adds rows to the form's end; addAdvanced() adds those of advanced options.
  StrategyFields(QFormLayout* form, QWidget* parent);
  void addAdvanced();

  void setSpec(const app::SpecText& spec);
  // The spec's options, with these in their place: "strategy.tensor=2".
  void setSpec(const app::SpecText& spec, const QStringList& sets);
  void setRanks(int ranks);     // among which layers are pinned
  void setHidden(bool hidden);  // all rows
  void showAdvanced(bool shown);
  // Returns whether an advanced option has a value other than its default.
  bool anyAdvanced() const;
  // Returns "strategy.tensor=2" for each option that differs from the spec; with another strategy
  // than the chosen one, for the options that it uses.
  QStringList sets(const app::SpecText& spec, const std::string& kind = {}) const;
  std::string kind() const;
  void setKind(const std::string& kind);
  PinModel* pins() const { return pins_; }
  void retranslate();

 Q_SIGNALS:
  void changed();

 private:
  int stages() const;                   // of pinned layers
  std::vector<int> evenStages() const;  // of layers that nobody has pinned
  void fit();

  QFormLayout* form_;
  OptionFields* options_;
  PinModel* pins_ = nullptr;
  QTableView* pinTable_ = nullptr;
  QLabel* pinLabel_ = nullptr;
  int ranks_ = 1;
  bool pinsChosen_ = false, hidden_ = false;
};

}  // namespace lockstep::ui
