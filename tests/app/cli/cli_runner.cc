#include "tests/app/cli/cli_runner.h"
#include "tests/support/paths.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QJsonDocument>
#include <functional>

namespace lockstep::test {
namespace {

CliResult parsed(int exit, QByteArray out, QByteArray err) {
  CliResult result;
  result.exit = exit;
  for (const QByteArray& line : out.split('\n')) {
    if (line.isEmpty()) continue;
    const QJsonDocument document = QJsonDocument::fromJson(line);
    if (document.isObject())
      result.events.push_back(document.object());
    else
      result.onlyJson = false;
  }
  result.out = std::move(out);
  result.err = std::move(err);
  return result;
}

QByteArray readAll(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

}  // namespace

QList<QJsonObject> CliResult::all(const QString& event) const {
  QList<QJsonObject> found;
  for (const QJsonObject& object : events)
    if (object["event"].toString() == event) found.push_back(object);
  return found;
}
QJsonObject CliResult::first(const QString& event) const {
  const auto found = all(event);
  return found.isEmpty() ? QJsonObject() : found.front();
}
QByteArray CliResult::text() const {
  return "exit " + QByteArray::number(exit) + "\n" + out.right(3000) + "\n" + err.right(3000);
}

Cli::Cli() {
  QDir(folder_.path()).mkpath("home");
  bundle_ = path("none");  // the agent beside the command
}
Cli::~Cli() {
  leave();
  for (const QString& process : processes()) ::kill(process.section(' ', 0, 0).toInt(), SIGKILL);
}

QString Cli::write(const QString& name, const QByteArray& text) const {
  QFile file(path(name));
  if (file.open(QIODevice::WriteOnly)) file.write(text);
  return file.fileName();
}

std::unique_ptr<QProcess> Cli::start(const QStringList& arguments) const {
  auto process = std::make_unique<QProcess>();
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  environment.remove("LOCKSTEP_BUNDLE");
  if (!bundle_.isEmpty()) environment.insert("LOCKSTEP_BUNDLE", bundle_);
  environment.remove("LOCKSTEP_HOME");
  process->setProcessEnvironment(environment);
  process->setStandardInputFile(QProcess::nullDevice());
  process->start(QString::fromStdString(buildPath("bin/lockstep")),
                 QStringList{"--home", home()} + arguments);
  process->waitForStarted();
  return process;
}

CliResult Cli::run(const QStringList& arguments, int limitMs) const {
  const auto process = start(arguments);
  return finish(*process, {}, limitMs);
}

bool Cli::awaitEvent(QProcess& process, const QString& event, QByteArray& out, int limitMs) const {
  const QByteArray wanted = "{\"event\":\"" + event.toUtf8() + "\"";
  QElapsedTimer timer;
  timer.start();
  for (;;) {
    out += process.readAllStandardOutput();
    if (out.contains(wanted)) return true;
    if (timer.elapsed() > limitMs) return false;
    if (!process.waitForReadyRead(200) && process.state() == QProcess::NotRunning) {
      out += process.readAllStandardOutput();
      return out.contains(wanted);
    }
  }
}

bool Cli::awaitNext(QProcess& process, const QString& event, QByteArray& out, int limitMs) const {
  QByteArray next;
  const bool came = awaitEvent(process, event, next, limitMs);
  out += next;
  return came;
}

bool Cli::awaitError(QProcess& process, const QByteArray& text, int limitMs) const {
  QElapsedTimer timer;
  timer.start();
  QByteArray err;
  process.setReadChannel(QProcess::StandardError);
  while (!err.contains(text) && timer.elapsed() < limitMs &&
         process.state() != QProcess::NotRunning) {
    process.waitForReadyRead(100);
    err += process.readAllStandardError();
  }
  process.setReadChannel(QProcess::StandardOutput);
  return err.contains(text) || process.state() == QProcess::NotRunning;
}

CliResult Cli::finish(QProcess& process, QByteArray out, int limitMs) const {
  const bool ended = process.state() == QProcess::NotRunning || process.waitForFinished(limitMs);
  if (!ended) {
    process.kill();
    process.waitForFinished(5000);
  }
  out += process.readAllStandardOutput();
  return parsed(ended && process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -1,
                out, process.readAllStandardError());
}

CliResult Cli::stop(QProcess& process, QByteArray out) const {
  const CliResult asked = run({"stop", runOf(out)});
  if (asked.exit != 0) qWarning("%s", asked.text().constData());
  return finish(process, std::move(out));
}

bool Cli::leave() const {
  bool all = true;
  for (const QString& name : QDir(home() + "/local").entryList(QDir::Dirs | QDir::NoDotAndDotDot))
    all = QProcess::execute(QString::fromStdString(buildPath("bin/lockstep-agent")),
                            {"leave", "--workdir", home() + "/local/" + name}) == 0 &&
          all;
  return all;
}

QStringList Cli::processes(const QString& run) const {
  QStringList found;
  for (const QString& pid : QDir("/proc").entryList(QDir::Dirs)) {
    if (pid.toLongLong() <= 0) continue;
    QByteArray line = readAll("/proc/" + pid + "/cmdline");
    const QByteArray environment = readAll("/proc/" + pid + "/environ");
    if (line.contains(home().toUtf8()) ||
        (!run.isEmpty() && environment.contains("LOCKSTEP_RUN=" + run.toUtf8())))
      found.push_back(pid + " " + line.replace('\0', ' '));
  }
  return found;
}

namespace {
QList<qint64> running(const QByteArray& command,
                      const std::function<bool(const QString& pid)>& mine) {
  QList<qint64> found;
  for (const QString& pid : QDir("/proc").entryList(QDir::Dirs)) {
    if (pid.toLongLong() <= 0) continue;
    const QList<QByteArray> words = readAll("/proc/" + pid + "/cmdline").split('\0');
    if (words.size() > 1 && words[1] == command && mine(pid)) found.push_back(pid.toLongLong());
  }
  return found;
}
}  // namespace

QList<qint64> Cli::workers(const QString& run) const {
  return running("worker", [&](const QString& pid) {
    return readAll("/proc/" + pid + "/environ").contains("LOCKSTEP_RUN=" + run.toUtf8());
  });
}
QList<qint64> Cli::agents() const {
  return running("serve", [&](const QString& pid) {
    return readAll("/proc/" + pid + "/cmdline").contains(home().toUtf8());
  });
}

Terminal::Terminal(const Cli& cli, const QStringList& arguments, const QString& errors) {
  std::vector<std::string> words{buildPath("bin/lockstep"), "--home", cli.home().toStdString()};
  for (const QString& argument : arguments) words.push_back(argument.toStdString());
  std::vector<std::string> variables{"TERM=xterm",
                                     "PATH=" + qEnvironmentVariable("PATH").toStdString(),
                                     "HOME=" + qEnvironmentVariable("HOME").toStdString(),
                                     "LOCKSTEP_BUNDLE=" + cli.bundle_.toStdString()};
  std::vector<char*> argv, environment;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& variable : variables) environment.push_back(variable.data());
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  const std::string errorFile = errors.toStdString();
  pid_ = forkpty(&fd_, nullptr, nullptr, nullptr);
  if (pid_ != 0) return;
  if (!errorFile.empty())
    ::dup2(::open(errorFile.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  execve(argv[0], argv.data(), environment.data());
  _exit(127);
}
Terminal::~Terminal() {
  if (fd_ >= 0) ::close(fd_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool Terminal::readSome() {
  pollfd poll{fd_, POLLIN, 0};
  if (::poll(&poll, 1, 100) <= 0) return true;
  char bytes[4096];
  const ssize_t count = ::read(fd_, bytes, sizeof bytes);  // EIO at the end
  if (count > 0) shown_.append(bytes, count);
  return count > 0;
}

bool Terminal::await(const QByteArray& text, int limitMs) {
  QElapsedTimer timer;
  timer.start();
  for (;;) {
    if (const qsizetype at = shown_.indexOf(text, awaited_); at >= 0) {
      awaited_ = at + text.size();
      return true;
    }
    if (timer.elapsed() > limitMs || !readSome()) return false;
  }
}

void Terminal::type(const QByteArray& line) {
  const QByteArray keys = line + "\n";
  if (::write(fd_, keys.constData(), static_cast<std::size_t>(keys.size())) != keys.size())
    ::abort();
}

int Terminal::finish(int limitMs) {
  QElapsedTimer timer;
  timer.start();
  while (readSome())
    if (timer.elapsed() > limitMs) return -1;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

QString example(const QString& name) {
  return QString::fromStdString(sourcePath("resources/examples/")) + name + ".yaml";
}

QString runOf(const QByteArray& out) {
  const qsizetype at = out.indexOf("\"run\":\"") + 7;
  return QString::fromUtf8(out.mid(at, out.indexOf('"', at) - at));
}

QStringList training(const QString& kind, const QString& ranks, int steps) {
  return {"run",
          example("fashion-mlp"),
          "--json",
          "--every",
          "50",
          "--local",
          ranks,
          "--set",
          "strategy.kind=" + kind,
          "--set",
          "training.epochs=1000000",
          "--set",
          "training.max_steps=" + QString::number(steps),
          "--set",
          "training.checkpoint.every_steps=100"};
}

}  // namespace lockstep::test
