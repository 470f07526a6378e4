// User settings of the studio, in <home>/studio.ini.
#pragma once

#include <QSettings>
#include <QStringList>

namespace lockstep::ui {

class Settings {
 public:
  explicit Settings(const QString& home);

  QSettings& store() { return store_; }
  QStringList recentFiles() const;
  void addRecent(const QString& path);
  void removeRecent(const QString& path);
  bool dark() const { return store_.value("theme").toString() == "dark"; }
  void setDark(bool dark) { store_.setValue("theme", dark ? "dark" : "light"); }
  QString language() const { return store_.value("language").toString(); }
  void setLanguage(const QString& code) { store_.setValue("language", code); }

 private:
  QSettings store_;
};

}  // namespace lockstep::ui
