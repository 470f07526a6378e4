#include "ui/pages/welcome_page.h"

#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QListView>
#include <QStandardItemModel>
#include <QSysInfo>
#include <QThread>
#include <QVBoxLayout>

#include "ui/studio/spec_document.h"
#include "ui/theme/format.h"
#include "ui/widgets/delegates.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kPathRole = Qt::UserRole + 1;
constexpr int kDetailRole = Qt::UserRole + 2;

void fill(QStandardItemModel* model, const QStringList& paths, bool fullPath) {
  model->clear();
  for (const QString& path : paths) {
    const QFileInfo info(path);
    auto* item = new QStandardItem(
        Theme::instance().icon(specKindOf(path) == app::SpecKind::kCluster ? "cluster" : "model"),
        info.completeBaseName());
    item->setEditable(false);
    item->setData(path, kPathRole);
    item->setData(fullPath ? formatPath(info.path()) : QString(), kDetailRole);
    item->setToolTip(path);
    model->appendRow(item);
  }
}

QListView* makeList(const QString& name, QStandardItemModel* model, QWidget* parent) {
  auto* list = new QListView(parent);
  list->setObjectName(name);
  list->setModel(model);
  list->setItemDelegate(new DetailDelegate(kDetailRole, list));
  list->setUniformItemSizes(true);
  list->setIconSize({16, 16});
  // On a low window the lists give way, down to one row.
  list->setMinimumHeight(26);
  list->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Ignored);
  return list;
}

}  // namespace

WelcomePage::WelcomePage(QWidget* parent) : Page("welcomePage", "welcome", parent) {
  auto* centre = new QWidget(this);
  centre->setObjectName("welcomeContent");
  centre->setMaximumWidth(980);
  auto* layout = new QVBoxLayout(centre);
  layout->setSpacing(kSpaceL);
  layout->setContentsMargins(kSpaceXl, kSpaceM, kSpaceXl, kSpaceM);
  heading_ = makeLabel("welcomeHeading", this);
  text_ = makeLabel("welcomeText", this, "muted");
  text_->setWordWrap(true);
  layout->addWidget(heading_);
  layout->addWidget(text_);

  makeStart();
  layout->addWidget(start_);
  layout->addLayout(makeLists(), 1);

  auto* row2 = new QHBoxLayout;
  row2->addStretch(1);
  row2->addWidget(centre, 100);
  row2->addStretch(1);
  body()->addLayout(row2, 1);
  connectParts();
  placeStart();
  restyle();
  retranslate();
}

// On a low page the commands stand without their texts, so that several rows of each list have
// room.
void WelcomePage::placeStart() {
  constexpr int kLow = 560, kInARow = 3;
  const bool isLow = height() < kLow;
  if (grid_->count() > 0 && isLow == isLow_) return;
  isLow_ = isLow;
  const auto commands = this->commands();
  for (int i = 0; i < static_cast<int>(commands.size()); ++i) {
    const auto [button, text] = commands[static_cast<std::size_t>(i)];
    for (QWidget* one : {static_cast<QWidget*>(button), static_cast<QWidget*>(text)})
      grid_->removeWidget(one);
    text->setVisible(!isLow);
    if (isLow) {
      grid_->addWidget(button, i / kInARow, i % kInARow);
    } else {
      grid_->addWidget(button, i, 0);
      grid_->addWidget(text, i, 1);
    }
  }
  grid_->setColumnStretch(1, isLow ? 0 : 1);
}

std::array<std::pair<QPushButton*, QLabel*>, 5> WelcomePage::commands() const {
  return {{{runHere_, runHereText_},
           {newModel_, newModelText_},
           {newCluster_, newClusterText_},
           {open_, openText_},
           {learn_, learnText_}}};
}

void WelcomePage::resizeEvent(QResizeEvent* event) {
  Page::resizeEvent(event);
  placeStart();
}

void WelcomePage::makeStart() {
  start_ = new Card("welcomeStart", this);
  grid_ = new QGridLayout;
  grid_->setHorizontalSpacing(kSpaceL);
  grid_->setVerticalSpacing(kSpaceS);
  runHere_ = makeButton("runHereButton", "play", this, "primary");
  newModel_ = makeButton("newModelButton", "model", this);
  newCluster_ = makeButton("newClusterButton", "cluster", this);
  open_ = makeButton("openButton", "open", this);
  learn_ = makeButton("learnButton", "learn", this);
  learnText_ = makeLabel("learnText", this, "muted");
  runHereText_ = makeLabel("runHereText", this, "muted");
  newModelText_ = makeLabel("newModelText", this, "muted");
  newClusterText_ = makeLabel("newClusterText", this, "muted");
  openText_ = makeLabel("openText", this, "muted");
  for (const auto& [button, text] : commands()) text->setWordWrap(true);
  start_->body()->addLayout(grid_);
}

void WelcomePage::connectParts() {
  for (QListView* list : {exampleList_, recentList_}) {
    const auto openIndex = [this](const QModelIndex& index) {
      Q_EMIT openFile(index.data(kPathRole).toString());
    };
    connect(list, &QListView::activated, this, openIndex);
    connect(list, &QListView::clicked, this, openIndex);
  }
  connect(runHere_, &QPushButton::clicked, this, &WelcomePage::runHereWanted);
  connect(newModel_, &QPushButton::clicked, this, &WelcomePage::newModelWanted);
  connect(newCluster_, &QPushButton::clicked, this, &WelcomePage::newClusterWanted);
  connect(open_, &QPushButton::clicked, this, &WelcomePage::openWanted);
  connect(learn_, &QPushButton::clicked, this, &WelcomePage::learnWanted);
  connect(&Theme::instance(), &Theme::changed, this, &WelcomePage::restyle);
}

QLayout* WelcomePage::makeLists() {
  exampleModel_ = new QStandardItemModel(this);
  recentModel_ = new QStandardItemModel(this);
  examples_ = new Card("welcomeExamples", this);
  exampleList_ = makeList("exampleList", exampleModel_, this);
  examples_->body()->addWidget(exampleList_);
  recent_ = new Card("welcomeRecent", this);
  recentList_ = makeList("recentList", recentModel_, this);
  noRecent_ = makeLabel("noRecent", this, "muted");
  noRecent_->setWordWrap(true);
  noRecent_->setAlignment(Qt::AlignTop);
  recent_->body()->addWidget(noRecent_);
  recent_->body()->addWidget(recentList_);
  auto* lists = new QHBoxLayout;
  lists->setSpacing(kSpaceL);
  lists->addWidget(examples_, 1);
  lists->addWidget(recent_, 1);
  return lists;
}

void WelcomePage::restyle() { heading_->setFont(Theme::instance().title()); }

void WelcomePage::setExamples(const QStringList& paths) { fill(exampleModel_, paths, false); }
void WelcomePage::setRecent(const QStringList& paths) {
  fill(recentModel_, paths, true);
  noRecent_->setVisible(paths.isEmpty());
  recentList_->setVisible(!paths.isEmpty());
}

QVector<InspectorRow> WelcomePage::inspectorRows() const {
  return {{tr("Lockstep"), {}, true},
          {tr("Version"), QCoreApplication::applicationVersion()},
          {tr("Data folder"), formatPath(home_)},
          {tr("This machine"), {}, true},
          {tr("Name"), QSysInfo::machineHostName()},
          {tr("Cores"), QString::number(QThread::idealThreadCount())},
          {tr("System"), QSysInfo::prettyProductName()},
          {tr("Kernel"), QSysInfo::kernelVersion()}};
}

void WelcomePage::retranslate() {
  heading_->setText(tr("Lockstep"));
  text_->setText(
      tr("Plan a training run, predict it, run exactly what was planned, and see the "
         "measured beside the predicted."));
  start_->setTitle(tr("Start"));
  setTexts(runHere_, tr("Run on this machine"));
  runHereText_->setText(tr("Train the Fashion-MNIST example on three local nodes."));
  setTexts(newModel_, tr("New model…"));
  newModelText_->setText(tr("Start from an MLP, CNN, ResNet, GPT or CTR model, or from nothing."));
  setTexts(newCluster_, tr("New cluster"));
  newClusterText_->setText(tr("Add hosts from your SSH config and deploy the agent to them."));
  setTexts(open_, tr("Open a file…"));
  openText_->setText(
      tr("A cluster or a run spec in YAML. Files can also be dropped on the window."));
  setTexts(learn_, tr("Learn"));
  learnText_->setText(tr("Lessons on distributed training, shown by the simulator."));
  for (const auto& [button, text] : commands()) button->setToolTip(text->text());
  examples_->setTitle(tr("Examples"));
  recent_->setTitle(tr("Recent files"));
  noRecent_->setText(tr("Files that you open are listed here."));
  exampleList_->setAccessibleName(tr("Examples"));
  recentList_->setAccessibleName(tr("Recent files"));
  setAccessibleName(title());
  Q_EMIT inspectorChanged();
}

}  // namespace lockstep::ui
