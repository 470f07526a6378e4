// The documents of the main window: how each is opened or made, and what is launched of them.
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QTabWidget>
#include <algorithm>

#include "app/history/history.h"
#include "app/learn/scene.h"
#include "app/specs/cluster_edits.h"
#include "engine/base/file.h"
#include "ui/dialogs/export_runs.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/new_model_dialog.h"
#include "ui/models/navigator_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/data_panel.h"
#include "ui/pages/history_page.h"
#include "ui/pages/learn_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/pages/welcome_page.h"
#include "ui/studio/background.h"
#include "ui/studio/run_document.h"
#include "ui/studio/spec_document.h"
#include "ui/theme/format.h"
#include "ui/widgets/widgets.h"
#include "ui/window/main_window.h"

namespace lockstep::ui {
namespace {

// A document that is open, as it stands.
template <typename Entry, typename PageType>
Entry openDocument(PageType* page) {
  Entry out;
  const QPointer<PageType> safe(page);
  out.title = page->document()->name();
  out.file = page->filePath();
  out.modified = [safe] { return safe && safe->isModified(); };
  out.save = [safe] { return safe ? safe->document()->save(safe->filePath()) : Status(); };
  return out;
}

template <typename Entry>
void sortByTitle(QVector<Entry>& entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.title < b.title; });
}

template <typename Entry>
bool has(const QVector<Entry>& entries, const QString& file) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const Entry& one) { return one.file == file; });
}

std::string textOf(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll().toStdString() : std::string();
}

// Whether the page shows the file, which may have other names. Files that are not there have none:
// QFileInfo takes any two of them for the same.
bool shows(const Page& page, const QString& file) {
  const QString own = page.filePath();
  return !own.isEmpty() &&
         (own == file || (QFileInfo::exists(file) && QFileInfo(own) == QFileInfo(file)));
}

Result<app::Relaunch> relaunchFrom(const std::string& folder, const QString& run,
                                   app::RelaunchKind kind) {
  auto history = app::History::open(folder);
  if (!history) return history.error();
  return app::relaunchOf(**history, run.toStdString(), kind);
}

}  // namespace

Page* MainWindow::showOpen(const std::function<bool(const Page&)>& wanted) {
  for (Page* page : pages()) {
    if (!wanted(*page)) continue;
    tabs_->setCurrentWidget(page);
    return page;
  }
  return nullptr;
}

Page* MainWindow::openPage(const QString& key) {
  if (Page* open = showOpen([&](const Page& page) { return page.key() == key; })) return open;
  // By key prefix. openFile() makes the pages of files.
  using Make = std::function<Page*(MainWindow*, const QString& rest)>;
  static const QHash<QString, Make> makers{{"welcome", &MainWindow::makeWelcome},
                                           {"history", &MainWindow::makeHistory},
                                           {"learn", &MainWindow::makeLearn},
                                           {"run", &MainWindow::makeRun}};
  const QString rest = key.section(':', 1);
  const Make make = makers.value(key.section(':', 0, 0));
  if (!make) return rest.isEmpty() ? nullptr : openFile(rest);
  Page* page = make(this, rest);
  addPage(page);
  return page;
}

void MainWindow::openLink(const QString& link) {
  if (const auto place = placeOf(link)) return goTo(*place);
  Page* shown = currentPage();
  if (!shown) shown = openWelcome();
  Error error = invalidArgument("{} is not a link to a place in the studio", link.toStdString());
  error.next = message("copy a link with View → Copy link to this place");
  shown->message()->showError(error);
}

void MainWindow::goTo(const Place& place) {
  if (Page* page = openPage(place.key)) page->go(place);
}

// A choice within the page replaces the place; another part or page is a new one.
void MainWindow::notePlace() {
  Page* page = currentPage();
  if (!page || going_) return;
  const Place place = page->place();
  if (placeAt_ >= 0) {
    Place& here = places_[placeAt_];
    if (here == place) return;
    if (here.key == place.key && here.part == place.part) {
      here = place;
      return refreshActions();
    }
  }
  places_.resize(placeAt_ + 1);  // what was ahead is forgotten
  places_ << place;
  constexpr qsizetype kMost = 100;
  if (places_.size() > kMost) places_.removeFirst();
  placeAt_ = places_.size() - 1;
  refreshActions();
}

bool MainWindow::isGone(const QString& key) const {
  const QString path = key.section(':', 1);
  return QFileInfo(path).isAbsolute() && !QFileInfo::exists(path) &&
         !QFileInfo::exists(SpecDocument::recoveryPath(path, recoveryFolder()));
}

// A document that was closed is opened again; a file or run that was deleted is passed over.
void MainWindow::goBack(int steps) {
  const qsizetype to = placeAt_ - steps;
  if (to < 0 || to >= places_.size()) return;
  const QString key = places_[to].key;
  const QList<Page*> open = pages();
  const bool isOpen =
      std::any_of(open.begin(), open.end(), [&](const Page* page) { return page->key() == key; });
  if (!isOpen && isGone(key)) {
    forgetPlaces(key);
    return goBack(steps);
  }
  if (isOpen || !key.startsWith("run:")) return goToNoted(to);
  runInBackground(
      this,
      [folder = workspace_->home().historyFolder(), run = key.section(':', 1).toStdString()] {
        const auto history = app::History::open(folder);
        if (!history) return true;  // which its page says
        const auto row = (*history)->row(run);
        return row.ok() || row.error().code != Code::kNotFound;
      },
      [this, key, steps, to](bool isThere) {
        if (to != placeAt_ - steps || to >= places_.size() || places_[to].key != key) return;
        if (isThere) return goToNoted(to);
        forgetPlaces(key);
        goBack(steps);
      });
}

void MainWindow::goToNoted(qsizetype place) {
  placeAt_ = place;
  going_ = true;
  goTo(places_[place]);
  going_ = false;
  refreshActions();
}

void MainWindow::forgetPlaces(const QString& key) {
  for (qsizetype i = places_.size() - 1; i >= 0; --i) {
    if (places_[i].key != key) continue;
    places_.removeAt(i);
    if (i <= placeAt_) --placeAt_;
  }
  refreshActions();
}

RunPage* MainWindow::openRun(const QString& run) {
  return qobject_cast<RunPage*>(openPage("run:" + run));
}

void MainWindow::openRuns(const QStringList& runs, bool show) {
  Page* shown = currentPage();
  going_ = !show;
  for (const QString& run : runs) openRun(run);
  if (going_) tabs_->setCurrentWidget(shown);
  going_ = false;
}

HistoryPage* MainWindow::openHistory() { return qobject_cast<HistoryPage*>(openPage("history")); }
LearnPage* MainWindow::openLearn() { return qobject_cast<LearnPage*>(openPage("learn")); }
WelcomePage* MainWindow::openWelcome() { return qobject_cast<WelcomePage*>(openPage("welcome")); }

Page* MainWindow::openFile(const QString& path) {
  const QString absolute = QFileInfo(path).absoluteFilePath();
  if (Page* open = showOpen([&](const Page& page) { return shows(page, absolute); })) return open;
  const bool isSaved = QFileInfo::exists(absolute);
  const app::SpecKind kind =
      specKindOf(isSaved ? absolute : SpecDocument::recoveryPath(absolute, recoveryFolder()));
  auto document = std::make_unique<SpecDocument>(kind, recoveryFolder());
  const Status status = document->load(absolute);
  if (!status.ok()) {
    raiseAlert(
        {{}, Tone::kBad, QFileInfo(path).fileName(), status.error().message(), {}, false, {}});
    Page* shown = currentPage();
    if (!shown) shown = openWelcome();
    shown->message()->showError(status.error());
    workspace_->settings().removeRecent(absolute);
    return nullptr;
  }
  if (isSaved) workspace_->settings().addRecent(absolute);
  const bool recovered = document->recovered();
  Page* page = nullptr;
  if (kind == app::SpecKind::kCluster) {
    auto* cluster = new ClusterPage(std::move(document), *workspace_);
    connect(cluster, &ClusterPage::launchWanted, this,
            [this, cluster] { openLaunch(nullptr, cluster); });
    connect(cluster, &ClusterPage::stateChanged, this, &MainWindow::refreshActions);
    addPage(page = cluster);
  } else {
    page = addModel(std::move(document));
  }
  if (recovered) {
    page->message()->showNote(Tone::kWarning, [isSaved] {
      return MessagePanel::Note{tr("Unsaved text was recovered."),
                                isSaved ? tr("Undo restores the saved text.") : QString(),
                                {},
                                {}};
    });
  }
  refreshNavigator();
  return page;
}

void MainWindow::saveAs(SpecPage* page, const QString& path) {
  const QString absolute = QFileInfo(path).absoluteFilePath();
  for (const Page* other : pages()) {
    if (other == page || !shows(*other, absolute)) continue;
    Error error = invalidArgument("{} is open in another tab", absolute.toStdString());
    error.next = "close that tab first, or save it under another name";
    return page->message()->showError(error);
  }
  const QString before = page->key();
  if (!page->saveAs(absolute)) return;
  for (Place& place : places_)  // going back leads to the document, not to the file it was
    if (place.key == before) place.key = page->key();
  workspace_->settings().addRecent(absolute);
  rememberSession();
  refreshNavigator();
}

ModelPage* MainWindow::addModel(std::unique_ptr<SpecDocument> document) {
  auto* page = new ModelPage(std::move(document));
  page->data()->setExampleFolder(QString::fromStdString(workspace_->home().root + "/data"));
  connect(page, &ModelPage::launchWanted, this, [this, page] { openLaunch(page, nullptr); });
  lastModel_ = page;
  addPage(page);
  return page;
}

Page* MainWindow::makeRun(const QString& run) {
  auto* page = new RunPage(std::make_unique<RunDocument>(run, *workspace_));
  connect(page->document(), &RunDocument::rowChanged, this, &MainWindow::refreshActions);
  connect(page, &RunPage::relaunchWanted, this,
          [this, run](app::RelaunchKind kind) { relaunch(run, kind); });
  connect(page, &RunPage::cloneWanted, this, [this, run] { clone(run); });
  // A person who is elsewhere when another run continues it stays there.
  connect(page->document(), &RunDocument::continued, this,
          [this, page](const QString& next) { openRuns({next}, currentPage() == page); });
  return page;
}

Page* MainWindow::makeHistory(const QString&) {
  auto* page = new HistoryPage(*workspace_);
  connect(page, &HistoryPage::openRun, this, &MainWindow::openRun);
  connect(page, &HistoryPage::relaunchWanted, this,
          [this](const QString& run, app::RelaunchKind kind) { relaunch(run, kind); });
  connect(page, &HistoryPage::cloneWanted, this, &MainWindow::clone);
  connect(page, &Page::inspectorChanged, this, &MainWindow::refreshActions);
  return page;
}

Page* MainWindow::makeWelcome(const QString&) {
  auto* page = new WelcomePage;
  connect(page, &WelcomePage::openFile, this, [this](const QString& path) {
    const QString copy =
        workspace_->examples().contains(path) ? workspace_->copyOfExample(path) : path;
    openFile(copy.isEmpty() ? path : copy);
  });
  connect(page, &WelcomePage::openWanted, this, &MainWindow::askOpen);
  connect(page, &WelcomePage::newClusterWanted, this, &MainWindow::newCluster);
  connect(page, &WelcomePage::newModelWanted, this, &MainWindow::newModel);
  connect(page, &WelcomePage::learnWanted, this, &MainWindow::openLearn);
  connect(page, &WelcomePage::runHereWanted, this, [this] { openReady("fashion-cnn", "local-3"); });
  page->setHome(QString::fromStdString(workspace_->home().root));
  page->setExamples(workspace_->examples());
  page->setRecent(workspace_->settings().recentFiles());
  return page;
}

Page* MainWindow::makeLearn(const QString&) {
  const QString& folder = workspace_->lessons();
  auto* page =
      new LearnPage(folder.isEmpty() ? QString::fromStdString(app::lessonFolder()) : folder,
                    workspace_->settings());
  connect(page, &LearnPage::runWanted, this, &MainWindow::runLesson);
  connect(page, &LearnPage::copyLinkWanted, this, &MainWindow::copyLink);
  connect(page, &LearnPage::projectorToggled, this, &MainWindow::makeRoom);
  return page;
}

void MainWindow::runLesson(const app::Lesson& lesson) {
  if (launch_) {
    launch_->raise();
    return;
  }
  const auto write = [&]() -> Result<QString> {
    LOCKSTEP_ASSIGN(const std::string text, app::realSpecText(lesson));
    const QDir folder(QString::fromStdString(workspace_->home().root) + "/lessons");
    folder.mkpath(".");
    const QString path = folder.filePath(QString::fromStdString(lesson.id) + ".yaml");
    SpecDocument document(app::SpecKind::kRun, recoveryFolder());
    document.start(QString::fromStdString(text), path);
    if (const Status status = document.save(path); !status.ok()) return status.error();
    return path;
  };
  const auto path = write();
  if (!path) {
    if (Page* page = currentPage()) page->message()->showError(path.error());
    return;
  }
  LaunchModel model;
  model.title = QFileInfo(*path).completeBaseName();
  model.file = *path;
  model.text = [file = *path] { return textOf(file); };
  auto* dialog = new LaunchDialog({model}, {}, *workspace_, this);
  dialog->chooseNodes(lesson.real.ranks);
  showLaunch(dialog);
}

ClusterPage* MainWindow::newCluster() {
  const QDir folder(QString::fromStdString(workspace_->home().root) + "/clusters");
  folder.mkpath(".");
  int number = 1;
  while (QFileInfo::exists(folder.filePath(QString("cluster-%1.yaml").arg(number)))) ++number;
  const QString path = folder.filePath(QString("cluster-%1.yaml").arg(number));
  // Of a disk that is full no half of a file is left, which would be opened as it is.
  const std::string yaml = app::newClusterYaml(fmt::format("cluster-{}", number));
  if (const Status made = writeFileAtomically(path.toStdString(), yaml); !made.ok()) {
    Page* shown = currentPage();
    if (!shown) shown = openWelcome();
    shown->message()->showError(made.error());
    return nullptr;
  }
  return qobject_cast<ClusterPage*>(openFile(path));
}

NewModelDialog* MainWindow::newModel() {
  auto* dialog =
      new NewModelDialog(QString::fromStdString(workspace_->home().modelsFolder()), this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, this, [this, dialog] { openFile(dialog->path()); });
  dialog->open();
  return dialog;
}

// Those that are open, those of the navigator, and the examples of which there is no copy.
QVector<LaunchModel> MainWindow::launchModels() const {
  QVector<LaunchModel> out;
  const auto add = [&](const QString& path) {
    if (has(out, path) || specKindOf(path) != app::SpecKind::kRun) return;
    out << LaunchModel{
        QFileInfo(path).completeBaseName(), path, [path] { return textOf(path); }, {}, {}};
  };
  for (Page* page : pages()) {
    auto* open = qobject_cast<ModelPage*>(page);
    if (!open || open->document()->kind() != app::SpecKind::kRun) continue;
    out << openDocument<LaunchModel>(open);
    out.last().text = [safe = QPointer(open)] {
      return safe ? safe->document()->spec().text() : std::string();
    };
  }
  for (const auto& entry : navigatorModel_->entries(NavigatorModel::kModels)) add(entry.key);
  for (const QString& path : workspace_->examples()) {
    const QString title = QFileInfo(path).completeBaseName();
    if (std::none_of(out.begin(), out.end(),
                     [&](const LaunchModel& one) { return one.title == title; }))
      add(path);
  }
  sortByTitle(out);
  return out;
}

QVector<LaunchTarget> MainWindow::launchTargets() const {
  QVector<LaunchTarget> out;
  for (Page* page : pages()) {
    auto* open = qobject_cast<ClusterPage*>(page);
    if (!open) continue;
    const QPointer<ClusterPage> safe(open);
    out << openDocument<LaunchTarget>(open);
    out.last().yaml = [safe] { return safe ? safe->document()->spec().text() : std::string(); };
    out.last().connected = [safe] { return safe ? safe->liveIfAny() : nullptr; };
    out.last().live = [safe] { return safe ? safe->live() : nullptr; };
  }
  for (const auto& entry : navigatorModel_->entries(NavigatorModel::kClusters)) {
    if (has(out, entry.key)) continue;
    LaunchTarget target;
    target.title = entry.title;
    target.file = entry.key;
    target.yaml = [path = entry.key] { return textOf(path); };
    out << target;
  }
  sortByTitle(out);
  return out;
}

LaunchDialog* MainWindow::openLaunch(ModelPage* model, ClusterPage* cluster) {
  if (launch_) {
    launch_->raise();
    return launch_;
  }
  if (!model) model = lastModel_;
  if (!cluster) cluster = lastCluster_;
  const QVector<LaunchModel> models = launchModels();
  const QVector<LaunchTarget> targets = launchTargets();
  if (models.isEmpty()) {
    newModel();
    return nullptr;
  }
  const auto indexOf = [](const auto& entries, const Page* page, int otherwise) {
    for (int i = 0; page && i < entries.size(); ++i) {
      if (entries[i].file == page->filePath()) return i;
    }
    return otherwise;
  };
  auto* dialog = new LaunchDialog(models, targets, *workspace_, this);
  dialog->chooseModel(indexOf(models, model, 0));
  dialog->chooseTarget(indexOf(targets, cluster, static_cast<int>(targets.size())));
  return showLaunch(dialog);
}

LaunchDialog* MainWindow::showLaunch(LaunchDialog* dialog) {
  launch_ = dialog;
  launch_->setAttribute(Qt::WA_DeleteOnClose);
  connect(launch_, &LaunchDialog::launched, this, &MainWindow::openRun);
  launch_->open();
  return launch_;
}

void MainWindow::relaunch(const QString& run, app::RelaunchKind kind) {
  if (launch_) {
    launch_->raise();
    return;
  }
  runInBackground(
      this,
      [folder = workspace_->home().historyFolder(), run, kind] {
        return relaunchFrom(folder, run, kind);
      },
      [this, run, kind](Result<app::Relaunch> found) {
        if (launch_) return;
        if (!found) {
          if (Page* page = currentPage()) page->message()->showError(found.error());
          return;
        }
        LaunchModel model;
        model.title = QString::fromStdString(found->name);
        model.file = tr("run %1").arg(run);
        model.text = [yaml = found->specYaml] { return yaml; };
        LaunchTarget target;
        target.title = QString::fromStdString(found->clusterName);
        target.file = tr("cluster of run %1").arg(run);
        target.yaml = [yaml = found->clusterYaml] { return yaml; };
        target.connected = target.live = [this, run] { return workspace_->clusterForRun(run); };
        const bool isUnderWay = found->isUnderWay;
        auto* dialog = new LaunchDialog({model}, {target}, *workspace_, this, *std::move(found));
        if (kind == app::RelaunchKind::kFaster)
          dialog->seekFaster(isUnderWay ? openRun(run)->document() : nullptr);
        showLaunch(dialog);
      });
}

void MainWindow::clone(const QString& run) {
  runInBackground(
      this,
      [folder = workspace_->home().historyFolder(), run] {
        return relaunchFrom(folder, run, app::RelaunchKind::kRerun);
      },
      [this](Result<app::Relaunch> found) {
        if (!found) {
          if (Page* page = currentPage()) page->message()->showError(found.error());
          return;
        }
        const QDir folder(QString::fromStdString(workspace_->home().root) + "/models");
        folder.mkpath(".");
        const QString base = asFileName(QString::fromStdString(found->name)) + "-copy";
        QString path = folder.filePath(base + ".yaml");
        const auto taken = [&] {
          const QList<Page*> open = pages();
          return QFileInfo::exists(path) || std::any_of(open.begin(), open.end(), [&](Page* page) {
                   return page->filePath() == path;
                 });
        };
        for (int number = 2; taken(); ++number)
          path = folder.filePath(QString("%1-%2.yaml").arg(base).arg(number));
        auto document = std::make_unique<SpecDocument>(app::SpecKind::kRun, recoveryFolder());
        document->start(QString::fromStdString(found->specYaml), path);
        openLaunch(addModel(std::move(document)), nullptr);
      });
}

void MainWindow::exportReport() {
  const auto* history = qobject_cast<HistoryPage*>(currentPage());
  QStringList runs = history ? history->selectedRuns() : QStringList{shownRun()};
  runs.removeAll(QString());
  askExport(*workspace_, runs, ExportKind::kReport, this,
            [this](const QString& path, const Status& status) {
              if (Page* page = currentPage()) page->sayExported(path, status);
            });
}

void MainWindow::openReady(const QString& model, const QString& cluster) {
  const auto open = [this](const QString& name) -> Page* {
    if (!name.isEmpty() && QFileInfo(name).isFile()) return openFile(name);
    const auto hasName = [&](const Page& page) {
      const auto* spec = qobject_cast<const SpecPage*>(&page);
      return spec && !name.isEmpty() && spec->document()->name() == name;
    };
    if (Page* page = showOpen(hasName)) return page;
    for (const QString& path : workspace_->examples()) {
      if (QFileInfo(path).completeBaseName() != name) continue;
      for (Page* page : pages()) {  // the example itself, which is as good as a copy
        if (QFileInfo(page->filePath()) == QFileInfo(path)) return openFile(page->filePath());
      }
      const QString copy = workspace_->copyOfExample(path);
      return openFile(copy.isEmpty() ? path : copy);
    }
    if (!name.isEmpty()) {
      if (Page* page = currentPage()) {
        page->message()->showNote(Tone::kBad, [name] {
          return MessagePanel::Note{tr("There is no example %1.").arg(name),
                                    tr("The examples folder was not found next to the program."),
                                    {},
                                    {}};
        });
      }
    }
    return nullptr;
  };
  auto* clusterPage = qobject_cast<ClusterPage*>(open(cluster));
  auto* modelPage = qobject_cast<ModelPage*>(open(model));
  if (!modelPage) return;
  openLaunch(modelPage, clusterPage);
}

}  // namespace lockstep::ui
