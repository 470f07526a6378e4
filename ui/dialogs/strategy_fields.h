// How the work is distributed: the fields of spec.strategy that suit the chosen kind, as rows of a form.
#pragma once

#include <QObject>
#include <QStringList>
#include <QVector>
#include <vector>

#include "engine/cluster/strategies.h"

class QComboBox;
class QFormLayout;
class QLabel;
class QSpinBox;
class QWidget;

namespace lockstep::app {
class SpecText;
}

namespace lockstep::ui {

class StrategyFields : public QObject {
  Q_OBJECT

 public:
  // Rows are added at the form's end, in `parent`.
  StrategyFields(const app::SpecText& spec, QFormLayout* form, QWidget* parent);

  QStringList sets(const app::SpecText& spec) const;  // "strategy.tensor=2", where the spec says otherwise
  QVector<QLabel*> labels() const;
  void retranslate();

 Q_SIGNALS:
  void changed();

 private:
  struct Field {
    const char* path;
    const char* fallback;                       // what a spec without it means
    bool (StrategyFields::*suits)() const;
    QSpinBox* number = nullptr;                 // one of the two
    QComboBox* choice = nullptr;
    QLabel* label = nullptr;
    QWidget* widget() const;
    QString value() const;
  };
  const Field& field(const char* path) const;
  QString kind() const;
  const cluster::Strategy& strategy() const;
  bool always() const { return true; }
  bool asynchronous() const;                    // workers may take their steps by themselves
  bool served() const;                          // there are parameter servers
  bool mayWait() const { return !served(); }    // all ranks compute
  bool apart() const;                           // workers may be ahead of each other
  bool waitingServed() const;                   // servers take each step with all workers
  bool local() const;                           // ranks update by themselves
  bool layered() const { return !served() && !local(); }
  bool staged() const;                          // layers are divided among stages
  bool inParts() const { return !local() && !apart(); }
  void fit();

  QFormLayout* form_;
  std::vector<Field> fields_;
};

}  // namespace lockstep::ui
