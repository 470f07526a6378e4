// A running tests/support/data_server.py.
#pragma once

#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <string>
#include <vector>

#include "engine/base/file.h"
#include "tests/support/paths.h"

namespace lockstep::test {

class DataServer {
 public:
  explicit DataServer(const std::string& content, const QStringList& environment = {}) {
    const std::string file = folder_.filePath("content").toStdString();
    if (!writeFileAtomically(file, content).ok()) return;
    process_.setEnvironment(QProcess::systemEnvironment() + environment);
    process_.start("/usr/bin/python3",
                   {QString::fromStdString(sourcePath("tests/support/data_server.py")),
                    QString::fromStdString(file), log()});
    if (process_.waitForReadyRead(60000)) port_ = process_.readLine().trimmed().toInt();
  }
  ~DataServer() {
    process_.kill();
    process_.waitForFinished();
  }
  bool isRunning() const { return port_ > 0; }
  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string url(const std::string& path) const { return endpoint() + path; }
  // The requests so far of paths that begin so.
  std::vector<QJsonObject> requests(const QString& path = "/") const {
    std::vector<QJsonObject> out;
    QFile file(log());
    if (!file.open(QIODevice::ReadOnly)) return out;
    while (!file.atEnd()) {
      const QJsonObject one = QJsonDocument::fromJson(file.readLine()).object();
      if (one["path"].toString().startsWith(path)) out.push_back(one);
    }
    return out;
  }

 private:
  QString log() const { return folder_.filePath("log"); }
  QTemporaryDir folder_;
  QProcess process_;
  int port_ = 0;
};

}  // namespace lockstep::test
