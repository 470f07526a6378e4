// lockstep bench: training, communication, collectives, matmuls and memory.
#include <QJsonArray>
#include <QTest>

#include <cmath>

#include "tests/app/cli/cli_runner.h"

using namespace lockstep::test;

class CliBenchTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void benchTrains() {
    const Cli cli;
    const CliResult result =
        cli.run({"bench", "train", "--model", "fashion-mlp", "--batch", "96", "--ranks", "2",
                 "--threads", "1", "--seconds", "1.5", "--json"});
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.events.size(), 1);
    QVERIFY(result.last()["samples_per_second"].toDouble() > 0);
    QVERIFY(!result.last()["ops"].toArray().isEmpty());
    QCOMPARE(result.last()["batch"].toInt(), 96);
    // A trace that cannot be written does not take along what was measured.
    const CliResult lost = cli.run({"bench", "train", "--model", "fashion-mlp", "--seconds", "0.5",
                                    "--profile", "/", "--json"});
    QVERIFY2(lost.exit != 0, lost.text());
    QVERIFY2(lost.first("bench")["samples_per_second"].toDouble() > 0, lost.text());
    QVERIFY2(lost.first("error")["what"].toString() == "cannot write /", lost.text());
    const CliResult brief = cli.run({"bench", "train", "--seconds", "0.1", "--json"});
    QVERIFY2(brief.last()["samples_per_second"].toDouble() > 0, brief.text());
    QVERIFY2(brief.err.contains(" for 0.1 s"), brief.text());
    QVERIFY(cli.leave());
    QVERIFY2(cli.processes().isEmpty(), qPrintable(cli.processes().join("\n")));
  }

  void benchSaysWhatCommunicationCosts() {
    const Cli cli;
    const auto asked = [&](int ranks, const char* strategy) {
      return cli.run({"bench", "train", "--model", "fashion-mlp", "--batch", "96", "--ranks",
                      QString::number(ranks), "--seconds", "1", "--communication", "--set",
                      QString("strategy.kind=%1").arg(strategy), "--json"});
    };
    for (const char* strategy : {"multi-worker-mirrored", "zero-3"}) {
      const CliResult two = asked(2, strategy);
      QVERIFY2(two.exit == 0, two.text());
      QCOMPARE(two.events.size(), 1);
      QVERIFY(two.last()["rounds"].toInt() > 0);
      for (const char* way : {"real_seconds", "barrier_seconds", "none_seconds"})
        QVERIFY2(two.last()[way].toDouble() > 0, way);
      QCOMPARE(two.last()["real_share"].toDouble(), 1.0);
    }
    const CliResult alone = asked(1, "mirrored");
    QVERIFY2(alone.exit != 0 &&
                 alone.text().toStdString().find("has no communication") != std::string::npos,
             alone.text());
    const CliResult stages = asked(2, "pipeline");
    QVERIFY2(stages.exit != 0 &&
                 stages.text().toStdString().find("a barrier cannot replace") != std::string::npos,
             stages.text());
    QVERIFY(cli.leave());
    QVERIFY2(cli.processes().isEmpty(), qPrintable(cli.processes().join("\n")));
  }

  void benchesCollectives() {
    const Cli cli;
    for (const QString comm : {"shm", "gloo"}) {
      const CliResult all = cli.run({"bench", "collective", "--ranks", "3", "--comm", comm, "--max",
                                     "65536", "--seconds", "0.5", "--json"});
      QVERIFY2(all.exit == 0, all.text());
      QCOMPARE(all.events.size(), 6 * 3 + 1);  // 4, 16 and 64 KiB, and the barrier
      for (const QJsonObject& one : all.events) {
        QVERIFY(one["seconds"].toDouble() > 0);
        QCOMPARE(one["comm"].toString(), comm);
        if (one["kind"].toString() == "barrier") continue;
        const double algorithmic = one["bytes"].toDouble() / one["seconds"].toDouble();
        const auto is = [&](const char* rate, double factor) {
          return std::abs(one[rate].toDouble() / (factor * algorithmic) - 1) < 1e-6;
        };
        QVERIFY(is("algorithm_bytes_per_second", 1));
        if (one["kind"].toString() == "all-reduce") QVERIFY(is("bus_bytes_per_second", 4.0 / 3));
        if (one["kind"].toString() == "all-gather") QVERIFY(is("bus_bytes_per_second", 2.0 / 3));
        if (one["kind"].toString() == "send-recv") QVERIFY(is("bus_bytes_per_second", 1));
      }
    }
    const CliResult ring =
        cli.run({"bench", "collective", "all-reduce", "--min", "1048576", "--max", "1048576",
                 "--seconds", "0.3", "--algorithm", "ring", "--json"});
    QVERIFY2(ring.exit == 0, ring.text());
    QCOMPARE(ring.events.size(), 1);
    QCOMPARE(ring.last()["algorithm"].toString(), QString("ring"));
    QCOMPARE(ring.last()["bytes"].toInt(), 1 << 20);
    const CliResult wrong = cli.run({"bench", "collective", "all-gathr", "--json"});
    QVERIFY(wrong.exit != 0);
    QVERIFY(wrong.text().toStdString().find("all-gathr") != std::string::npos);
    QVERIFY(cli.leave());
    QVERIFY2(cli.processes().isEmpty(), qPrintable(cli.processes().join("\n")));
  }

  void benchesTheMachine() {
    const Cli cli;
    const CliResult products = cli.run({"bench", "gemm", "fp32", "bf16", "--min", "32", "--max",
                                        "64", "--seconds", "0.2", "--json"});
    QVERIFY2(products.exit == 0, products.text());
    QCOMPARE(products.events.size(), 4);  // two sides, two precisions
    for (const QJsonObject& one : products.events) {
      const double side = one["side"].toDouble(), seconds = one["seconds"].toDouble();
      QVERIFY(side == 32 || side == 64);
      QVERIFY(seconds > 0);
      QVERIFY(std::abs(one["flops_per_second"].toDouble() * seconds / (2 * side * side * side) -
                       1) < 1e-6);
    }
    const CliResult memory = cli.run(
        {"bench", "memory", "--min", "4096", "--max", "8192", "--seconds", "0.2", "--json"});
    QVERIFY2(memory.exit == 0, memory.text());
    QCOMPARE(memory.events.size(), 6);  // two sizes; read, scale, add
    for (const QJsonObject& one : memory.events) {
      const QString name = one["name"].toString();
      const double arrays = name == "read" ? 1 : name == "scale" ? 2 : 3;
      QVERIFY(std::abs(one["bytes_per_second"].toDouble() * one["seconds"].toDouble() /
                           (arrays * one["bytes"].toDouble()) -
                       1) < 1e-6);
    }
    const std::vector<std::pair<QStringList, const char*>> wrong{
        {{"bench", "gemm", "fp7"}, "fp7"},
        {{"bench", "gemm", "--max", "2", "--min", "2"}, "min"},
        {{"bench", "gemm", "--max", "1000000"}, "max"},
        {{"bench", "memory", "--max", "17179869184"}, "memory"},
        {{"bench", "memory", "--backend", "abacus"}, "abacus"},
        {{"bench", "gemm", "--backend", "cuda", "--seconds", "0.2"}, "cuda"}};
    for (const auto& [words, named] : wrong) {
      const CliResult result = cli.run(words + QStringList{"--json"});
      if (QString(named) == "cuda" && result.exit == 0) continue;  // there is a GPU
      const bool isOfTheNode = QString(named) == "cuda" || QString(named) == "memory";
      QVERIFY2(result.exit == (isOfTheNode ? 3 : 2), result.text());
      QVERIFY2(result.text().contains(named), result.text());
    }
    QVERIFY(cli.leave());
    QVERIFY2(cli.processes().isEmpty(), qPrintable(cli.processes().join("\n")));
  }
};

QTEST_GUILESS_MAIN(CliBenchTest)
#include "cli_bench_test.moc"
