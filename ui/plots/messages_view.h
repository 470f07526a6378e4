// MessagesView: an all-reduce, message by message. The ranks stand on an ellipse, each with its
// vector cut into slices; a slice has the colour of the number of ranks whose values it is the sum
// of. Between two rounds the slices that are sent fly to their receivers. Threads: GUI.
#pragma once

#include <QWidget>
#include <memory>
#include <vector>

#include "app/learn/scene.h"

namespace lockstep::ui {

class MessagesView : public QWidget {
  Q_OBJECT

 public:
  explicit MessagesView(const QString& objectName, QWidget* parent = nullptr);

  void setMessages(std::shared_ptr<const app::MessagesScene> scene);  // null: none
  const std::shared_ptr<const app::MessagesScene>& messages() const { return scene_; }
  // In rounds: 0 is before the first, 1.5 in the middle of the second, rounds after the last.
  void showAt(double round);
  double round() const { return round_; }
  QString roundText() const;  // what happens then, also the accessible description
  QRectF boxOf(int rank) const;
  QSize sizeHint() const override { return {520, 320}; }
  QSize minimumSizeHint() const override { return {240, 200}; }

 protected:
  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;  // pictures, see picture_file.h

 private:
  int wholeRound() const;  // the last that has begun; from 0
  // The slices [first, last) that a message is about.
  std::pair<int, int> slicesOf(const app::SceneMessage& message) const;
  QRectF sliceOf(int rank, int first, int last) const;
  int sumOf(int round, int rank, int slice) const;
  QString nameOf(int rank) const;
  void drawPaths(QPainter& painter) const;
  void drawRank(QPainter& painter, int rank) const;
  void drawSlices(QPainter& painter, const QRectF& box, int rank, int first, int last) const;
  void drawFlying(QPainter& painter) const;

  std::shared_ptr<const app::MessagesScene> scene_;
  double round_ = 0;
};

}  // namespace lockstep::ui
