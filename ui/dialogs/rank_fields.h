// RankFields: how many ranks run on each node of a cluster, a number a node; many nodes scroll.
#pragma once

#include <QScrollArea>
#include <QStringList>
#include <QVector>

#include "app/specs/spec_text.h"

class QSpinBox;

namespace lockstep::ui {

class RankFields : public QScrollArea {
  Q_OBJECT

 public:
  RankFields(const QString& objectName, QWidget* parent);

  // Of that cluster, as it says itself; none: no nodes.
  void setCluster(const std::optional<app::SpecText>& cluster);
  bool isEmpty() const { return nodes_.isEmpty(); }
  QStringList nodes() const;
  QStringList changes() const;  // "node=3", where it is not what the cluster says
  int count() const;            // of all nodes
  void retranslate();

 Q_SIGNALS:
  void changed();

 private:
  struct Node {
    QString name;
    QSpinBox* ranks;
    int written;
  };
  QVector<Node> nodes_;
};

}  // namespace lockstep::ui
