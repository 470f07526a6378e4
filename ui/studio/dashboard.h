// Dashboard: plots of metrics that a person has arranged in a grid. Kept by name in the studio's
// settings and used for any run: a plot says its series by patterns (matchesPattern).
#pragma once

#include <QString>
#include <QStringList>
#include <QVector>
#include <optional>

#include "engine/base/status.h"

class QSettings;

namespace lockstep::ui {

struct DashboardPlot {
  QString title;         // "": from its series
  QStringList patterns;  // of series; at least one
  int width = 1;         // columns
  int height = 1;        // rows
  bool logY = false;
  bool operator==(const DashboardPlot&) const = default;
};

struct Dashboard {
  static constexpr int kMostColumns = 4, kMostRows = 3, kMostPlots = 64, kMostPatterns = 32,
                       kMostText = 200;
  QString name;
  int columns = 2;
  QVector<DashboardPlot> plots;  // row by row; a plot that has no room in a row begins the next
  bool operator==(const Dashboard&) const = default;
};

// The plots that every run page had before there were dashboards. Its name is "", and it cannot be
// changed: an edited one is saved under a name.
Dashboard defaultDashboard();

// Where each plot lies in the grid.
struct DashboardPlace {
  int row = 0, column = 0, rows = 1, columns = 1;
};
QVector<DashboardPlace> placesOf(const Dashboard& dashboard);

// All dashboards of a person, in the settings.
class Dashboards {
 public:
  explicit Dashboards(QSettings& store) : store_(store) {}

  QStringList names() const;  // sorted, without the default one
  // Absent, or damaged beyond use: nullopt. What is wrong in part is left out: `damaged`, if not
  // null, is set where anything was.
  std::optional<Dashboard> find(const QString& name, bool* damaged = nullptr) const;
  void save(const Dashboard& dashboard);  // under its name, in place of one of that name
  void remove(const QString& name);
  Status write();  // all changes, to the settings' file
  // The one that run pages open with; "": the default.
  QString current() const;
  void setCurrent(const QString& name);

 private:
  QSettings& store_;
};

// The form in the settings: a JSON object. Of any text; nullopt where it is none.
QString dashboardText(const Dashboard& dashboard);
std::optional<Dashboard> dashboardFromText(const QString& text, bool* damaged = nullptr);

}  // namespace lockstep::ui
