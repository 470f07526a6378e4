// What tests of runs of programs of the user's own share: a program that counts, and runs one after
// another.
#pragma once

#include <QFile>
#include <QJsonObject>

#include "tests/app/cli/cli_runner.h"
#include "tests/app/cli/program_command.h"

namespace lockstep::test {

// Counts to `last` from what it saved itself; `during` is what happens in a step.
inline QByteArray counting(int last, const QByteArray& during = {}) {
  return "saved = f'saved-{rank}'\n"
         "first = int(open(saved).read()) + 1 if os.path.exists(saved) else 1\n"
         "print('attempt', attempt, 'from', first)\n"
         "for step in range(first, " +
         QByteArray::number(last) +
         " + 1):\n"
         "    if rank == 0: print(f'step {step} loss {1 / step:.6f}')\n"
         "    open(saved + '.new', 'w').write(str(step)); os.rename(saved + '.new', saved)\n"
         "    time.sleep(0.02)\n" +
         during;
}

inline QByteArray read(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

inline bool isThere(qint64 pid) {
  const QByteArray status = read(QString("/proc/%1/status").arg(pid));
  return !status.isEmpty() && !status.contains("State:\tZ");
}

inline QList<QByteArray> linesOf(const CliResult& result, int rank = -1) {
  QList<QByteArray> out;
  for (const QJsonObject& line : result.all("output"))
    if (rank < 0 || line["rank"].toInt() == rank) out << line["text"].toString().toUtf8();
  return out;
}

// Runs of programs that a test makes one after another, on agents that serve all of them.
class ProgramRuns {
 protected:
  Cli cli_;  // its agents serve one run after another
  int count_ = 0;
  QString folder_;  // of the code of the test

  QStringList program(const QByteArray& script, int nodes, const QByteArray& more = {},
                      const QByteArray& rest = {}) {
    folder_ = cli_.path(QString("code%1").arg(++count_));
    return programCommand(cli_, folder_, script, nodes, more, rest);
  }
  QString copied(const QString& run, int node) const {
    return QString("%1/local/%2/runs/%3/local%2/code/").arg(cli_.home()).arg(node).arg(run);
  }
};

}  // namespace lockstep::test
