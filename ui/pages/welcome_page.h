// WelcomePage: examples, recent files, and a run on this machine.
#pragma once

#include <array>
#include <utility>

#include "ui/pages/page.h"

class QGridLayout;
class QLabel;
class QLayout;
class QListView;
class QPushButton;
class QStandardItemModel;

namespace lockstep::ui {

class Card;
class EmptyState;

class WelcomePage : public Page {
  Q_OBJECT

 public:
  explicit WelcomePage(QWidget* parent = nullptr);
  QString title() const override { return tr("Welcome"); }
  const char* iconName() const override { return "home"; }
  QVector<InspectorRow> inspectorRows() const override;  // this machine, and where things are kept
  void setHome(const QString& folder) { home_ = folder; }
  void setExamples(const QStringList& paths);
  void setRecent(const QStringList& paths);

 Q_SIGNALS:
  void openFile(const QString& path);
  void openWanted();
  void newClusterWanted();
  void newModelWanted();
  void runHereWanted();  // the example on local agents
  void learnWanted();

 protected:
  void retranslate() override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void makeStart();
  QLayout* makeLists();
  void placeStart();
  // The commands, and what each does.
  std::array<std::pair<QPushButton*, QLabel*>, 5> commands() const;
  void connectParts();
  void restyle();
  QString home_;
  QLabel* heading_ = nullptr;
  QLabel* text_ = nullptr;
  QPushButton* runHere_ = nullptr;
  QPushButton* newModel_ = nullptr;
  QPushButton* newCluster_ = nullptr;
  QPushButton* open_ = nullptr;
  QPushButton* learn_ = nullptr;
  QLabel* runHereText_ = nullptr;
  QLabel* newModelText_ = nullptr;
  QLabel* newClusterText_ = nullptr;
  QLabel* openText_ = nullptr;
  QLabel* learnText_ = nullptr;
  QGridLayout* grid_ = nullptr;
  bool isLow_ = false;
  Card* start_ = nullptr;
  Card* examples_ = nullptr;
  Card* recent_ = nullptr;
  QListView* exampleList_ = nullptr;
  QListView* recentList_ = nullptr;
  QLabel* noRecent_ = nullptr;
  QStandardItemModel* exampleModel_ = nullptr;
  QStandardItemModel* recentModel_ = nullptr;
};

}  // namespace lockstep::ui
