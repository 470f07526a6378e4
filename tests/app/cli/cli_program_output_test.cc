// What programs of the user's own print and report: lines, and values by patterns, event files and
// the module.
#include <QElapsedTimer>
#include <QTest>
#include <algorithm>

#include "tests/app/cli/program_runs.h"

using namespace lockstep::test;

namespace {

// Makes the records of an event file.
const QByteArray kRecords = R"(
table = []
for i in range(256):
    for _ in range(8): i = (i >> 1) ^ (0x82f63b78 if i & 1 else 0)
    table.append(i)
def masked(data):
    crc = 0xffffffff
    for b in data: crc = table[(crc ^ b) & 255] ^ (crc >> 8)
    crc ^= 0xffffffff
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xa282ead8) & 0xffffffff)
def record(data):
    size = struct.pack("<Q", len(data))
    return size + masked(size) + data + masked(data)
def field(number, data): return bytes([number << 3 | 2, len(data)]) + data
def event(step, tag, value):
    one = field(1, tag) + b"\x15" + struct.pack("<f", value)
    return record(b"\x09" + struct.pack("<d", 1.5) + bytes([0x10, step]) + field(5, field(1, one)))
os.makedirs("logs")
)";

}  // namespace

class CliProgramOutputTest : public QObject, ProgramRuns {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
  }

  void valuesByPatterns() {
    const CliResult result = cli_.run(program(R"(
for step in (2, 4, 6):
    print(f"[{step}] acc={step / 8} speed={step}k loss {step}")
    print("no value here")
)",
                                              1,
                                              "  metrics:\n    stdout: "
                                              "['\\[(?P<step>\\d+)\\] acc=(?P<acc>\\S+)', "
                                              "'speed=(?P<speed>\\d+)k']\n"));
    QVERIFY2(result.exit == 0, result.text());
    QStringList found;
    for (const QJsonObject& value : result.all("scalar"))
      found << QString("%1 %2 %3")
                   .arg(value["tag"].toString())
                   .arg(value["step"].toInt())
                   .arg(value["value"].toDouble());
    QCOMPARE(found, (QStringList{"acc 2 0.25", "speed 2 2", "acc 4 0.5", "speed 4 4", "acc 6 0.75",
                                 "speed 6 6"}));
    QVERIFY(result.all("step").isEmpty());  // none has a loss
    QCOMPARE(result.last()["steps"].toInt(), 6);
  }

  void valuesOfEventFiles() {
    const CliResult result = cli_.run(program(kRecords + R"(
with open("logs/events.out.tfevents.1.host", "wb", buffering=0) as out:
    out.write(record(b"\x09" + struct.pack("<d", 1.5) + field(3, b"brain.Event:2")))
    for step in range(1, 6):
        whole = event(step, b"lr", step / 4) + event(step, b"loss", step / 8)
        out.write(whole[:7]); time.sleep(0.1); out.write(whole[7:])
)",
                                              1, "  metrics: {tensorboard: [logs]}\n"));
    QVERIFY2(result.exit == 0, result.text());
    const auto scalars = result.all("scalar");
    QVERIFY2(scalars.size() == 10, result.text());
    for (int i = 0; i < 10; ++i) {
      const int step = i / 2 + 1;
      QCOMPARE(scalars[i]["source"].toString(), QString("tensorboard"));
      QCOMPARE(scalars[i]["tag"].toString(), QString(i % 2 == 0 ? "lr" : "loss"));
      QCOMPARE(scalars[i]["step"].toInt(), step);
      QCOMPARE(scalars[i]["value"].toDouble(), step / (i % 2 == 0 ? 4.0 : 8.0));
    }
    QCOMPARE(result.all("step").size(), qsizetype{5});
  }

  // A program writes more as it ends than is read at a time.
  void valuesWrittenAtTheEnd() {
    const CliResult result = cli_.run(program(kRecords + R"(
values = [event(step, b"tag%d" % tag, step) for step in range(1, 101) for tag in range(90)]
with open("logs/events.out.tfevents.1.host", "wb") as out:
    out.write(record(b"\x09" + struct.pack("<d", 1.5) + field(3, b"brain.Event:2")))
    out.write(b"".join(values))
)",
                                              1, "  metrics: {tensorboard: [logs]}\n"));
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.all("scalar").size(), qsizetype{9000});
  }

  // What is reported by the module, also what is no finite number, and what has no step.
  void theModuleReportsValues_data() {
    QTest::addColumn<QByteArray>("more");
    QTest::newRow("hooks") << QByteArray();
    QTest::newRow("no hooks") << QByteArray("  metrics: {hooks: []}\n");
    QTest::newRow("single") << QByteArray("  launcher: single\n");
    QTest::newRow("torchrun") << QByteArray("  launcher: torchrun\n  metrics: {hooks: []}\n");
  }
  void theModuleReportsValues() {
    QFETCH(QByteArray, more);
    const CliResult result = cli_.run(program(R"(
import lockstep
for step in range(1, 6):
    lockstep.log({"loss": 1 / step if step != 3 else float("nan"), "text": "x"}, step=step)
    with lockstep.step():
        time.sleep(0.01)
        lockstep.log({"free": float("inf") if step == 2 else step})
time.sleep(0.3)
)",
                                              2, more));
    QVERIFY2(result.exit == 0, result.text());
    QMap<QString, QList<QJsonObject>> found;
    for (const QJsonObject& line : result.all("scalar")) found[line["tag"].toString()] << line;
    QCOMPARE(found.keys(), (QStringList{"free", "loss", "step_seconds"}));
    for (const QString& tag : found.keys()) QCOMPARE(found[tag].size(), qsizetype{5});
    for (int at = 0; at < 5; ++at) {
      QCOMPARE(found["loss"][at]["step"].toInt(), at + 1);
      QCOMPARE(found["loss"][at]["source"].toString(), QString("log"));
      if (at != 2) QCOMPARE(found["loss"][at]["value"].toDouble(), 1.0 / (at + 1));
    }
    QVERIFY(!found["loss"][2]["value"].isDouble());
    QVERIFY(found["step_seconds"][0]["value"].toDouble() >= 0.01);
  }

  void anyOutput_data() {
    QTest::addColumn<QByteArray>("script");
    QTest::addColumn<QByteArray>("line");  // among those told
    QTest::newRow("a flood") << QByteArray(R"(
line, end = (b"x" * 99 + b"\n") * 10000, time.time() + 2
while time.time() < end: os.write(1, line)
print("step 5 loss 0.5")
)") << QByteArray();
    QTest::newRow("binary") << QByteArray(R"(
os.write(1, b"step 1 loss \xff\xfe\x00\x80 0.25\n" + bytes(range(256)) * 1000 + b"\n")
print("step 5 loss 0.5")
)") << QByteArray();
    QTest::newRow("no newline") << QByteArray("os.write(1, b'step 5 loss 0.5')")
                                << QByteArray("step 5 loss 0.5");
    QTest::newRow("a line without end") << QByteArray(R"(
os.write(1, b"step 4 loss 0.25 " + b"y" * 3000000)
print("\nstep 5 loss 0.5")
)") << QByteArray("step 5 loss 0.5");
    QTest::newRow("progress bar") << QByteArray(R"(
for step in range(1, 6):
    print(f"\r{step * 20}%|##| step {step} loss {step / 10}", end="")
    time.sleep(0.05)
)") << QByteArray("100%|##| step 5 loss 0.5");
    QTest::newRow("a bar without steps, right at its end") << QByteArray(R"(
for at in range(1, 6):
    print(f"\r{at}/5 [=>...] - ETA: 0s - loss: {3 * at}" + 40 * "\b", end="")
print("\r5/5 [=====] - 0s 2ms/step - loss: 0.5")
)") << QByteArray("5/5 [=====] - 0s 2ms/step - loss: 0.5");
  }
  void anyOutput() {
    QFETCH(QByteArray, script);
    QFETCH(QByteArray, line);
    const CliResult result = cli_.run(program(script, 2));
    QVERIFY2(result.exit == 0 && result.onlyJson, result.text());
    QCOMPARE(result.last()["steps"].toInt(), 5);
    QCOMPARE(result.last()["train_loss"].toDouble(), 0.5);
    QVERIFY(result.all("recovering").isEmpty());
    if (!line.isEmpty()) QVERIFY2(linesOf(result, 1).contains(line), result.text());
  }

  // Of 256,000 values at once, most are left out.
  void valuesHaveARate() {
    QElapsedTimer timer;
    timer.start();
    const CliResult result = cli_.run(program("for _ in range(1000): print('v=1 ' * 256)", 1,
                                              "  metrics:\n    stdout: ['v=(?P<v>\\S+)']\n"));
    const double seconds = static_cast<double>(timer.elapsed()) / 1000;
    QVERIFY2(result.exit == 0, result.err.constData());
    const auto told = static_cast<double>(result.all("scalar").size());
    QVERIFY2(told <= 50'000 + 2000 * seconds, result.err.constData());
    const QList<QJsonObject> warnings = result.all("warning");
    QVERIFY(std::any_of(warnings.begin(), warnings.end(), [](const QJsonObject& warning) {
      return warning["what"].toString() == "the program reports too many values";
    }));
  }
};

QTEST_GUILESS_MAIN(CliProgramOutputTest)
#include "cli_program_output_test.moc"
