#include "ui/studio/dashboard.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QSettings>
#include <algorithm>

namespace lockstep::ui {
namespace {

// Names are keys of the settings as they are: percent-encoded, since '/' divides keys.
QString keyOf(const QString& name) {
  return "dashboards/" + QString::fromLatin1(name.toUtf8().toPercentEncoding());
}

// A number in its range; anything else is damage.
int numberIn(const QJsonObject& from, const char* key, int least, int most, int otherwise,
             bool& damaged) {
  const QJsonValue value = from.value(QLatin1String(key));
  if (value.isUndefined()) return otherwise;
  const int number = value.toInt(least - 1);
  if (number >= least && number <= most) return number;
  damaged = true;
  return std::clamp(number, least, most);
}

bool isText(const QJsonValue& value) {
  return value.isString() && !value.toString().trimmed().isEmpty() &&
         value.toString().size() <= Dashboard::kMostText;
}

std::optional<DashboardPlot> plotFrom(const QJsonValue& value, bool& damaged) {
  if (!value.isObject()) return std::nullopt;
  const QJsonObject object = value.toObject();
  DashboardPlot plot;
  const QJsonArray patterns = object.value("series").toArray();
  for (const QJsonValue& pattern : patterns) {
    if (isText(pattern) && plot.patterns.size() < Dashboard::kMostPatterns)
      plot.patterns << pattern.toString().trimmed();
    else
      damaged = true;
  }
  plot.patterns.removeDuplicates();
  if (plot.patterns.isEmpty()) return std::nullopt;
  const QJsonValue title = object.value("title");
  if (isText(title))
    plot.title = title.toString().trimmed();
  else if (!title.isUndefined())
    damaged = true;
  plot.width = numberIn(object, "width", 1, Dashboard::kMostColumns, 1, damaged);
  plot.height = numberIn(object, "height", 1, Dashboard::kMostRows, 1, damaged);
  plot.logY = object.value("log_y").toBool();
  return plot;
}

}  // namespace

Dashboard defaultDashboard() {
  Dashboard out;
  out.plots = {
      {{}, {"loss", "evaluated/loss"}},
      {{}, {"accuracy", "auc", "perplexity", "evaluated/metric"}},
      {{}, {"samples_per_second"}},
      {{}, {"learning_rate"}},
      {{}, {"gradient_norm"}, 1, 1, true},
      {{}, {"rank/*/step"}},
      {{}, {"node/*/cpu"}},
      {{}, {"node/*/memory"}},
      {{}, {"node/*/net_in", "node/*/net_out", "node/*/loopback"}},
      {{}, {"node/*/disk_read", "node/*/disk_write"}},
  };
  return out;
}

QVector<DashboardPlace> placesOf(const Dashboard& dashboard) {
  QVector<DashboardPlace> out;
  QVector<int> freeFrom(dashboard.columns, 0);  // by column: the first row that is free
  int row = 0, column = 0;
  for (const DashboardPlot& plot : dashboard.plots) {
    const int columns = std::clamp(plot.width, 1, dashboard.columns);
    const auto fits = [&] {
      if (column + columns > dashboard.columns) return false;
      return std::all_of(freeFrom.begin() + column, freeFrom.begin() + column + columns,
                         [&](int first) { return first <= row; });
    };
    while (!fits()) {
      if (++column + columns <= dashboard.columns) continue;
      column = 0;
      ++row;
    }
    out << DashboardPlace{row, column, plot.height, columns};
    for (int c = column; c < column + columns; ++c) freeFrom[c] = row + plot.height;
    column += columns;
  }
  return out;
}

QString dashboardText(const Dashboard& dashboard) {
  QJsonArray plots;
  for (const DashboardPlot& plot : dashboard.plots) {
    QJsonObject one{{"series", QJsonArray::fromStringList(plot.patterns)}};
    if (!plot.title.isEmpty()) one["title"] = plot.title;
    if (plot.width != 1) one["width"] = plot.width;
    if (plot.height != 1) one["height"] = plot.height;
    if (plot.logY) one["log_y"] = true;
    plots << one;
  }
  const QJsonObject all{{"version", 1}, {"columns", dashboard.columns}, {"plots", plots}};
  return QString::fromUtf8(QJsonDocument(all).toJson(QJsonDocument::Compact));
}

std::optional<Dashboard> dashboardFromText(const QString& text, bool* damaged) {
  bool any = false;
  bool& wrong = damaged != nullptr ? *damaged : any;
  const QJsonDocument document = QJsonDocument::fromJson(text.toUtf8());
  if (!document.isObject() || !document.object().value("plots").isArray()) {
    wrong = true;
    return std::nullopt;
  }
  Dashboard out;
  out.columns = numberIn(document.object(), "columns", 1, Dashboard::kMostColumns, 2, wrong);
  const QJsonArray plots = document.object().value("plots").toArray();
  for (const QJsonValue& value : plots) {
    const std::optional<DashboardPlot> plot = plotFrom(value, wrong);
    if (plot && out.plots.size() < Dashboard::kMostPlots)
      out.plots << *plot;
    else
      wrong = true;
  }
  return out;
}

QStringList Dashboards::names() const {
  store_.beginGroup("dashboards");
  const QStringList keys = store_.childKeys();
  store_.endGroup();
  QStringList out;
  for (const QString& key : keys)
    if (const QString name = QString::fromUtf8(QByteArray::fromPercentEncoding(key.toLatin1()));
        !name.isEmpty())
      out << name;
  std::sort(out.begin(), out.end(), [](const QString& a, const QString& b) {
    const int order = QString::localeAwareCompare(a, b);
    return order != 0 ? order < 0 : a < b;
  });
  return out;
}

std::optional<Dashboard> Dashboards::find(const QString& name, bool* damaged) const {
  if (damaged != nullptr) *damaged = false;
  if (name.isEmpty() || !store_.contains(keyOf(name))) return std::nullopt;
  std::optional<Dashboard> out = dashboardFromText(store_.value(keyOf(name)).toString(), damaged);
  if (out) out->name = name;
  return out;
}

void Dashboards::save(const Dashboard& dashboard) {
  if (dashboard.name.isEmpty()) return;
  store_.setValue(keyOf(dashboard.name), dashboardText(dashboard));
}

void Dashboards::remove(const QString& name) {
  if (name.isEmpty()) return;
  store_.remove(keyOf(name));
  if (current() == name) setCurrent({});
}

Status Dashboards::write() {
  store_.sync();
  if (store_.status() == QSettings::NoError) return {};
  Error error = makeError(Code::kUnavailable, "cannot write the studio's settings to {}",
                          store_.fileName().toStdString());
  error.next = "check that the file can be written, and that its disk has room";
  return error;
}

QString Dashboards::current() const { return store_.value("dashboard").toString(); }
void Dashboards::setCurrent(const QString& name) { store_.setValue("dashboard", name); }

}  // namespace lockstep::ui
