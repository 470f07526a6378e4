// Python programs for runs of programs of the user's own.
#pragma once

#include <QDir>
#include <QProcess>

#include "tests/app/cli/cli_runner.h"

namespace lockstep::test {

// What the scripts begin with.
inline const QByteArray kProgramPrelude = R"(
import json, os, signal, socket, struct, subprocess, sys, time
rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
)";

// Makes the folder, which is below the home of `cli`, with the script and a spec that runs it, and
// returns the arguments for that. `more` are lines of the workload, `rest` of the spec.
inline QStringList programCommand(const Cli& cli, const QString& folder, const QByteArray& script,
                                  int nodes, const QByteArray& more = {},
                                  const QByteArray& rest = {}) {
  QDir().mkpath(folder);
  const QString name = QDir(folder).dirName() + "/";
  cli.write(name + "main.py", kProgramPrelude + script);
  const bool itsOwn = more.contains("command:");
  cli.write(
      name + "run.yaml",
      "workload:\n" + QByteArray(itsOwn ? "" : "  command: [python, main.py]\n") +
          (more.contains("python:") ? QByteArray() : "  python: {kind: path, path: /usr/bin}\n") +
          more + rest);
  return {"run", folder + "/run.yaml", "--json", "--every", "1", "--local", QString::number(nodes)};
}

inline bool hasPyTorch() {
  QProcess probe;
  probe.start("/usr/bin/python3",
              {"-c", "import torch.distributed as d; assert d.is_gloo_available()"});
  return probe.waitForFinished(60000) && probe.exitCode() == 0;
}

}  // namespace lockstep::test
