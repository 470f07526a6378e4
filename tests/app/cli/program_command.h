// Python programs for runs of programs of the user's own.
#pragma once

#include <QDir>

#include "tests/app/cli/cli_runner.h"

namespace lockstep::test {

// What the scripts begin with.
inline const QByteArray kProgramPrelude = R"(
import json, os, signal, socket, struct, subprocess, sys, time
rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
)";

// PyTorch's DistributedDataParallel, of steps that take as their batches have rows, 1 ms each;
// `rows` is an expression of step and rank. What is appended in the loop's indentation follows each
// step.
inline QByteArray unevenRows(const QByteArray& steps, const QByteArray& rows) {
  return QByteArray(R"(
import os, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()

class Rows(torch.utils.data.IterableDataset):
    def __iter__(self):
        for step in range(1, STEPS + 1):
            yield torch.randn(ROWS, 64)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 4)
    def forward(self, x):
        time.sleep(0.001 * len(x))
        return self.layer(x)

model = torch.nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step, x in enumerate(torch.utils.data.DataLoader(Rows(), batch_size=None), 1):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
)")
      .replace("STEPS", steps)
      .replace("ROWS", rows);
}

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

// A program that counts to `last`, a step every 50 ms. Each rank keeps its step in a file, whose
// path is the program's argument and the rank, says where it begins ("rank 0 from 1"), and goes on
// from the step that it has kept.
inline QByteArray countingProgram(int last) {
  return QByteArray(R"(
import os, sys, time
rank = os.environ["RANK"]
saved = sys.argv[1] + rank
first = int(open(saved).read()) + 1 if os.path.exists(saved) else 1
print("rank", rank, "from", first, flush=True)
for step in range(first, LAST + 1):
    if rank == "0": print(f"step {step} loss {1 / step:.6f}", flush=True)
    with open(saved + ".new", "w") as file: file.write(str(step))
    os.rename(saved + ".new", saved)
    time.sleep(0.05)
)")
      .replace("LAST", QByteArray::number(last));
}

}  // namespace lockstep::test
