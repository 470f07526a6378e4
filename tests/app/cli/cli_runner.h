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
  ~Cli();  // ends the agents, and what a test that failed has left
  QString home() const { return folder_.path() + "/home"; }
  QString path(const QString& name) const { return folder_.path() + "/" + name; }
  QString write(const QString& name, const QByteArray& text) const;  // returns its path
  // The bundle that is brought to nodes; none else.
  void useBundle(const QString& folder) { bundle_ = folder; }
  void useBuiltBundle() { bundle_.clear(); }  // as a person runs it

  // Waits for the end, at most `limitMs`; exit -1 where it did not come.
  CliResult run(const QStringList& arguments, int limitMs = 120000) const;
  // A command under way.
  std::unique_ptr<QProcess> start(const QStringList& arguments) const;
  // Until stdout has a line with this event; false after the limit. Appends what was read to `out`.
  bool awaitEvent(QProcess& process, const QString& event, QByteArray& out,
                  int limitMs = 120000) const;
  // The same for one that comes after what is in `out`.
  bool awaitNext(QProcess& process, const QString& event, QByteArray& out,
                 int limitMs = 120000) const;
  // Until stderr has the text, or the process has ended.
  bool awaitError(QProcess& process, const QByteArray& text, int limitMs = 60000) const;
  CliResult finish(QProcess& process, QByteArray out, int limitMs = 120000) const;
  // Asks the run that the process follows to stop after a step, and waits for the end of both.
  CliResult stop(QProcess& process, QByteArray out) const;

  // lockstep-agent leave, in every local workdir; false where one could not.
  bool leave() const;
  // Processes whose command line names the home, or whose environment names the run.
  QStringList processes(const QString& run = {}) const;
  // Process ids of a run's workers; of the agents of this home.
  QList<qint64> workers(const QString& run) const;
  QList<qint64> agents() const;

 private:
  friend class Terminal;
  QTemporaryDir folder_;
  QString bundle_;
};

// `lockstep` as a person runs it: at a terminal.
class Terminal {
 public:
  // With stderr in a file, if one is named.
  Terminal(const Cli& cli, const QStringList& arguments, const QString& errors = {});
  ~Terminal();  // kills it
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  // Until the text has been shown after all that was awaited before; false after the limit or at
  // the end.
  bool await(const QByteArray& text, int limitMs = 60000);
  void type(const QByteArray& line);
  int finish(int limitMs = 60000);  // exit status; -1 after the limit
  const QByteArray& shown() const { return shown_; }

 private:
  bool readSome();  // false: the end
  int fd_ = -1, pid_ = -1;
  QByteArray shown_;
  qsizetype awaited_ = 0;
};

QString example(const QString& name);  // resources/examples/<name>.yaml
// The run's id, of what --json has written so far.
QString runOf(const QByteArray& out);
// The arguments to train fashion-mlp for so many steps, with a checkpoint every 100. A run that is
// to be in its middle when something happens to it has kEndless steps, and is stopped.
constexpr int kEndless = 1'000'000'000;
QStringList training(const QString& kind, const QString& ranks, int steps);
// The most seconds of a recovery in which nothing waits for a time limit, of a run that was
// launched in `launchMs`: a busy machine takes longer for both.
constexpr double mostRecoverySeconds(qint64 launchMs) {
  return 10 + 3e-3 * static_cast<double>(launchMs);
}

}  // namespace lockstep::test
