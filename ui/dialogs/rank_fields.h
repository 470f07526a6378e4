// RankFields: spin boxes for the number of ranks on each node of a cluster; scrolls.
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

  // Shows the nodes of a cluster with its own numbers of ranks; nullopt: no nodes.
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
    int count;  // nodes that the name stands for
  };
  QVector<Node> nodes_;
};

}  // namespace lockstep::ui
