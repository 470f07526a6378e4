// Runs for the tests of stragglers, and the files that they need, below the home of a Cli.
#pragma once

#include <QDir>
#include <random>

#include "tests/app/cli/cli_runner.h"
#include "tests/app/cli/program_command.h"

namespace lockstep::test {

// Writes a run that trains on tokens that are read where they lie, 32 a sample, and is evaluated on
// the last 4,000. Returns the spec's path.
inline QString writeTokensRun(const Cli& cli, int tokens, int batch, int evaluateBatch,
                              std::minstd_rand& random) {
  QByteArray bytes;
  for (int i = 0; i < tokens; ++i) {
    bytes += static_cast<char>(random() % 256);
    bytes += '\0';
  }
  cli.write("some.tokens", bytes);
  QByteArray spec(R"(version: 1
model:
  input: {shape: [32], vocabulary: 256}
  layers:
    - embedding: {units: 32}
    - transformer: {heads: 2}
    - dense: {units: 256}
  loss: cross-entropy
data: {train: {tokens: some.tokens}, evaluate: {tokens: some.tokens, from: FROM}}
training: {batch: BATCH, epochs: 1000, evaluate_batch: EVALUATED}
strategy: {kind: multi-worker-mirrored}
recovery: {policy: none}
)");
  spec.replace("FROM", QByteArray::number(1 - 4000.0 / tokens));
  spec.replace("BATCH", QByteArray::number(batch));
  spec.replace("EVALUATED", QByteArray::number(evaluateBatch));
  return cli.write("reads.yaml", spec);
}

// Returns a script of 20 rows a step, and of 100 on the rank that the file "large" names; the file
// is written, and names none.
inline QByteArray largeBatches(const Cli& cli) {
  cli.write("large", "");
  const QByteArray large = "'" + cli.path("large").toUtf8() + "'";
  return unevenRows("10**9", "100 if open(" + large + ").read() == str(rank) else 20") +
         "    if rank == 0: print(f\"step {step} loss {loss.item():.9g}\", flush=True)\n";
}

// Writes a run of a script. Returns the spec's path.
inline QString writeScriptRun(const Cli& cli, const QString& folder, const QByteArray& script) {
  QDir().mkpath(cli.path(folder));
  cli.write(folder + "/train.py", script);
  return cli.write(folder + "/run.yaml",
                   "version: 1\nrecovery: {policy: none}\nworkload:\n"
                   "  command: [/usr/bin/python3, train.py]\n");
}

}  // namespace lockstep::test
