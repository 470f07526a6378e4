// MessageModel: the messages of an all-reduce as a table, one a row.
#pragma once

#include <QAbstractTableModel>
#include <memory>

#include "app/learn/scene.h"

namespace lockstep::ui {

class MessageModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kRound, kFrom, kTo, kElements, kEffect, kColumns };
  using QAbstractTableModel::QAbstractTableModel;

  void setMessages(std::shared_ptr<const app::MessagesScene> scene);  // null: none
  void retranslate();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::shared_ptr<const app::MessagesScene> scene_;
};

}  // namespace lockstep::ui
