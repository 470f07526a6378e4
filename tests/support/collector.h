// A running tests/support/collector.py.
#pragma once

#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <map>
#include <string>
#include <vector>

#include "engine/base/file.h"
#include "tests/support/paths.h"

namespace lockstep::test {

class Collector {
 public:
  struct Sample {
    std::int64_t time = 0;  // nanoseconds
    double value = 0;
    bool operator==(const Sample&) const = default;
  };
  using Metrics = std::map<std::string, std::vector<Sample>>;  // by "name attribute…"

  explicit Collector(const std::string& mode) {
    setMode(mode);
    process_.start("/usr/bin/python3",
                   {QString::fromStdString(sourcePath("tests/support/collector.py")),
                    folder_.filePath("mode"), log()});
    if (process_.waitForReadyRead(60000)) port_ = process_.readLine().trimmed().toInt();
  }
  ~Collector() {
    process_.kill();
    process_.waitForFinished();
  }
  bool isRunning() const { return port_ > 0; }
  void setMode(const std::string& mode) {
    (void)writeFileAtomically(folder_.filePath("mode").toStdString(), mode);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // The requests that it took.
  std::vector<QJsonObject> requests() const {
    std::vector<QJsonObject> out;
    QFile file(log());
    if (!file.open(QIODevice::ReadOnly)) return out;
    while (!file.atEnd()) out.push_back(QJsonDocument::fromJson(file.readLine()).object());
    return out;
  }
  Metrics metrics() const {
    Metrics out;
    for (const QJsonObject& request : requests()) {
      const QJsonObject resource = request["body"]["resourceMetrics"][0].toObject();
      const QJsonObject scope = resource["scopeMetrics"].toArray()[0].toObject();
      for (const auto& metric : scope["metrics"].toArray()) add(metric.toObject(), out);
    }
    return out;
  }

 private:
  static void add(const QJsonObject& metric, Metrics& out) {
    for (const auto& one : metric["gauge"].toObject()["dataPoints"].toArray()) {
      const QJsonObject point = one.toObject();
      std::string name = metric["name"].toString().toStdString();
      for (const auto& attribute : point["attributes"].toArray())
        name +=
            " " + attribute.toObject()["value"].toObject().begin().value().toString().toStdString();
      out[name].push_back(
          {point["timeUnixNano"].toString().toLongLong(), point["asDouble"].toDouble()});
    }
  }
  QString log() const { return folder_.filePath("log"); }

  QTemporaryDir folder_;
  QProcess process_;
  int port_ = 0;
};

}  // namespace lockstep::test
