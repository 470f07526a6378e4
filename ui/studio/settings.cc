#include "ui/studio/settings.h"

#include <QDir>
#include <QFileInfo>

namespace lockstep::ui {
namespace {
constexpr int kRecentKept = 12;
}

Settings::Settings(const QString& home)
    : store_(QDir(home).filePath("studio.ini"), QSettings::IniFormat) {}

QStringList Settings::recentFiles() const { return store_.value("recent").toStringList(); }

void Settings::addRecent(const QString& path) {
  QStringList list = recentFiles();
  const QString absolute = QFileInfo(path).absoluteFilePath();
  list.removeAll(absolute);
  list.prepend(absolute);
  while (list.size() > kRecentKept) list.removeLast();
  store_.setValue("recent", list);
}

void Settings::removeRecent(const QString& path) {
  QStringList list = recentFiles();
  list.removeAll(path);
  store_.setValue("recent", list);
}

}  // namespace lockstep::ui
