#include "ui/studio/workspace.h"

#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>
#include <algorithm>
#include <chrono>

#include "app/alerts/alert_file.h"
#include "app/history/integrity.h"
#include "ui/plots/frame_clock.h"
#include "ui/studio/background.h"

namespace lockstep::ui {
namespace {

// Of a frame, for what other threads tell; the rest waits for the next one.
constexpr std::chrono::milliseconds kDrain{12};

}  // namespace

Workspace::Workspace(StudioOptions options, QObject* parent)
    : QObject(parent),
      options_(std::move(options)),
      settings_(QString::fromStdString(options_.home.root)),
      alertActions_(inbox_, [this](const Error& error) { Q_EMIT alertProblem(error); }) {
  teardownPool_.setMaxThreadCount(64);  // they wait more than they work
  connect(&FrameClock::instance(), &FrameClock::drain, this, [this] { inbox_.drain(kDrain); });
  if (options_.examples.isEmpty()) {
    const QDir beside(QCoreApplication::applicationDirPath());
    for (const QString& folder : {beside.filePath("../share/lockstep/examples"),
                                  beside.filePath("../../../resources/examples")}) {
      if (!QFileInfo(folder).isDir()) continue;
      options_.examples = QDir(folder).canonicalPath();
      break;
    }
  }
}

Workspace::~Workspace() = default;

QStringList Workspace::examples() const {
  QStringList out;
  if (options_.examples.isEmpty()) return out;
  const QDir folder(options_.examples);
  for (const QString& name : folder.entryList({"*.yaml"}, QDir::Files, QDir::Name)) {
    out << folder.filePath(name);
  }
  return out;
}

QString Workspace::copyOfExample(const QString& path) {
  const QDir folder(QString::fromStdString(home().root) + "/examples");
  if (!folder.mkpath(".")) return {};
  QString copy = folder.filePath(QFileInfo(path).fileName());
  if (QFileInfo::exists(copy)) return copy;
  if (!QFile::copy(path, copy)) return {};
  QFile::setPermissions(copy,
                        QFile::ReadOwner | QFile::WriteOwner | QFile::ReadGroup | QFile::ReadOther);
  return copy;
}

std::shared_ptr<LiveCluster> Workspace::makeCluster(
    std::shared_ptr<const spec::v1::ClusterSpec> cluster, std::optional<app::AgentStart> start) {
  app::ClusterSessionOptions options;
  options.start = start;
  options.home = home();
  options.sshConfig = sshConfig().toStdString();
  auto live =
      std::make_shared<LiveCluster>(std::move(cluster), std::move(options), inbox_, teardownPool_);
  connect(live.get(), &LiveCluster::question, this,
          [this, weak = std::weak_ptr(live)](const app::NodeQuestion& asked) {
            if (auto cluster = weak.lock()) Q_EMIT question(cluster, asked);
          });
  std::erase_if(clusters_, [](const auto& cluster) { return cluster.expired(); });
  clusters_.push_back(live);
  return live;
}

void Workspace::cleanUpNodes() {
  for (const auto& cluster : clusters_)
    if (const auto live = cluster.lock()) live->session().cleanUp();
}

void Workspace::watchHistory() {
  constexpr int kEveryMs = 1000;
  // One connection, which its database tells of changes by others; used by one task at a time.
  struct Watched {
    std::unique_ptr<app::History> history;
    std::int64_t changes = -1;
    std::vector<std::string> setAside;
  };
  struct Look {
    bool changed = false;
    QStringList setAside;  // since the last look
  };
  auto watched = std::make_shared<Watched>();
  connect(&watch_, &QTimer::timeout, this, [this, watched] {
    if (looking_) return;
    looking_ = true;
    runInBackground(
        this,
        [watched, folder = home().historyFolder()]() -> Look {
          Look out;
          if (!watched->history) {
            auto opened = app::History::open(folder);
            if (!opened) return out;
            watched->history = std::move(*opened);
          }
          // The first look is one too: what was read before it may be older.
          const std::int64_t before = std::exchange(watched->changes, watched->history->changes());
          out.changed = before != watched->changes;
          if (!out.changed) return out;
          const auto known = std::exchange(watched->setAside, app::filesSetAside(folder));
          for (const std::string& file : watched->setAside)
            if (std::ranges::find(known, file) == known.end())
              out.setAside << QString::fromStdString(file);
          return out;
        },
        [this](const Look& look) {
          looking_ = false;
          for (const QString& file : look.setAside) Q_EMIT historySetAside(file);
          if (look.changed) Q_EMIT historyChanged();
        });
  });
  watch_.start(kEveryMs);
}

void Workspace::keepForRun(const QString& run, std::shared_ptr<LiveCluster> cluster) {
  byRun_[run] = cluster;
}
std::shared_ptr<LiveCluster> Workspace::clusterForRun(const QString& run) const {
  const auto it = byRun_.find(run);
  return it == byRun_.end() ? nullptr : it->second.lock();
}

void Workspace::keepLaunch(const QString& run, std::shared_ptr<const app::LaunchRequest> launch) {
  launches_[run] = std::move(launch);
}
std::shared_ptr<const app::LaunchRequest> Workspace::takeLaunch(const QString& run) {
  const auto node = launches_.extract(run);
  return node.empty() ? nullptr : node.mapped();
}

void Workspace::readAlertSettings() {
  const auto read = app::loadAlertSettings(app::alertFile(home()));
  const Message problem = read.ok() ? Message() : read.error().message();
  const app::AlertSettings settings = read.ok() ? *read : app::AlertSettings();
  const bool isNew = problem != alertFileProblem_;
  alertFileProblem_ = problem;
  if (settings != alertSettings_) {
    alertSettings_ = settings;
    Q_EMIT alertSettingsChanged();
  }
  if (isNew && !read.ok()) Q_EMIT alertProblem(read.error());
}

Status Workspace::saveAlertSettings(const app::AlertSettings& settings) {
  LOCKSTEP_TRY(app::saveAlertSettings(app::alertFile(home()), settings));
  readAlertSettings();
  return {};
}

void Workspace::act(const app::AlertEvent& event) {
  alertActions_.act(event, alertSettings_);
  if (event.raised && alertSettings_.acts(event.rule, app::AlertAction::kNotification))
    Q_EMIT notification(event);
}

}  // namespace lockstep::ui
