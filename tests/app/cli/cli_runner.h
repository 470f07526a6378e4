// Runs `lockstep` with a home of its own, and sees to it that nothing of it stays.
#pragma once

#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <memory>

namespace lockstep::test {

struct CliResult {
  int exit = -1;
  QByteArray out, err;
  QList<QJsonObject> events;  // of --json: every line
  bool onlyJson = true;       // every line of stdout was an object

  QList<QJsonObject> all(const QString& event) const;
  QJsonObject first(const QString& event) const;
  QJsonObject last() const { return events.isEmpty() ? QJsonObject() : events.back(); }
  QByteArray text() const;  // for messages of failed checks
};

class Cli {
 public:
  Cli();
  ~Cli();  // ends the agents
  QString home() const { return folder_.path() + "/home"; }
  QString path(const QString& name) const { return folder_.path() + "/" + name; }
  QString write(const QString& name, const QByteArray& text) const;  // returns its path

  // Waits for the end, at most `limitMs`; exit -1 where it did not come.
  CliResult run(const QStringList& arguments, int limitMs = 120000) const;
  // A command under way.
  std::unique_ptr<QProcess> start(const QStringList& arguments) const;
  // Until stdout has a line with this event; false after the limit. Appends what was read to `out`.
  bool awaitEvent(QProcess& process, const QString& event, QByteArray& out,
                  int limitMs = 60000) const;
  // Until stderr has the text, or the process has ended.
  bool awaitError(QProcess& process, const QByteArray& text, int limitMs = 30000) const;
  CliResult finish(QProcess& process, QByteArray out, int limitMs = 120000) const;

  // lockstep-agent leave, in every local workdir; false where one could not.
  bool leave() const;
  // Processes whose command line names the home, or whose environment names the run.
  QStringList processes(const QString& run = {}) const;
  // Process ids of a run's workers.
  QList<qint64> workers(const QString& run) const;

 private:
  QTemporaryDir folder_;
};

QString example(const QString& name);  // resources/examples/<name>.yaml

}  // namespace lockstep::test
