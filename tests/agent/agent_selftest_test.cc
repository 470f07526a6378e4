// What `lockstep-agent selftest` says of a node's GPUs: without a driver, with one too old, without
// a GPU, with one too old, and with a library missing.
#include <QDir>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

namespace {

const QString kBin = qEnvironmentVariable("LOCKSTEP_BIN");

struct Said {
  int code = -1;
  QString text;
  QList<QJsonObject> objects;  // the lines that are JSON
  QJsonObject find(const QString& event, const QString& name = {}) const {
    for (const QJsonObject& object : objects)
      if (object["event"].toString() == event &&
          (name.isEmpty() || object["name"].toString() == name))
        return object;
    return {};
  }
};

Said selftest(const QStringList& arguments, const QString& driver = {},
              const QString& libraries = {}, const QString& management = {}) {
  QProcess agent;
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  environment.insert("LOCKSTEP_CUDA_LIBRARIES", libraries);
  environment.insert("LOCKSTEP_FAKE_DRIVER", driver);
  environment.insert("LOCKSTEP_NVML", management);
  agent.setProcessEnvironment(environment);
  agent.start(kBin + "/lockstep-agent", QStringList{"selftest"} + arguments);
  Said said;
  if (!agent.waitForFinished(300000)) return said;  // every case, by plain loops too
  said.code = agent.exitStatus() == QProcess::NormalExit ? agent.exitCode() : -1;
  said.text = QString::fromUtf8(agent.readAllStandardOutput());
  for (const QString& line : said.text.split('\n', Qt::SkipEmptyParts))
    if (const QJsonDocument document = QJsonDocument::fromJson(line.toUtf8()); document.isObject())
      said.objects.append(document.object());
  return said;
}

}  // namespace

class AgentSelftestTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void withoutTheModule() {
    if (LOCKSTEP_HAS_CUDA_MODULE) QSKIP("this build has the CUDA module");
    const Said said = selftest({"--device", "cuda", "--json"});
    QCOMPARE(said.code, 3);
    const QJsonObject error = said.find("device")["error"].toObject();
    QCOMPARE(error["what"].toString(), "Lockstep's CUDA module cannot be used");
    QVERIFY(error["why"].toString().contains("lockstep-cuda.so"));
  }

  void saysWhatIsMissing_data() {
    QTest::addColumn<QString>("driver");
    QTest::addColumn<QString>("what");
    QTest::addColumn<QString>("why");
    QTest::addRow("an old driver")
        << "12040 1 90"
        << "the NVIDIA driver is for CUDA 12.4, and Lockstep's module needs 13.0"
        << "libcuda.so.1";
    QTest::addRow("no GPU") << "13000 0 0"
                            << "the NVIDIA driver sees no GPU"
                            << "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected";
    QTest::addRow("an old GPU") << "13010 1 61"
                                << "no GPU is of compute capability 7.5 or later"
                                << "Fake GPU has 6.1";
    QTest::addRow("no cuBLASLt") << "13000 1 90"
                                 << "cuBLASLt cannot be used"
                                 << "libcublasLt";
  }
  void saysWhatIsMissing() {
    if (!LOCKSTEP_HAS_CUDA_MODULE) QSKIP("this build has no CUDA module");
    QFETCH(QString, driver);
    QFETCH(QString, what);
    QFETCH(QString, why);
    const QTemporaryDir folder;
    QVERIFY(QFile::link(LOCKSTEP_FAKE_DRIVER_FILE, folder.filePath("libcuda.so.1")));
    if (what.startsWith("cuBLASLt")) {
      // A file of that name that is no library comes before any other.
      for (const char* name : {"libcublasLt.so.12", "libcublasLt.so.13", "libcublasLt.so.14"}) {
        QFile file(folder.filePath(name));
        QVERIFY(file.open(QIODevice::WriteOnly) && file.write("no library") > 0);
      }
    }
    const Said said = selftest({"--device", "cuda", "--json"}, driver, folder.path());
    QVERIFY2(said.code == 3, qPrintable(said.text));
    const QJsonObject device = said.find("device");
    QCOMPARE(device["usable"].toBool(true), false);
    const QJsonObject error = device["error"].toObject();
    QCOMPARE(error["what"].toString(), what);
    QVERIFY2(error["why"].toString().contains(why), qPrintable(error["why"].toString()));
    const QJsonObject library = said.find("library", "driver");
    QVERIFY(library["expected"].toString().contains("13.0"));
    const QJsonObject groups = said.find("library", "NCCL");  // told, whether it is there or not
    QVERIFY(groups["found"].toString().isEmpty() != groups["problem"].toString().isEmpty());
    // For people, the same in a line.
    const Said text = selftest({"--device", "cuda"}, driver, folder.path());
    QCOMPARE(text.code, 3);
    QVERIFY2(text.text.startsWith("cuda: not to be used: " + what), qPrintable(text.text));
  }

  void aNodeWithoutAGpuIsWell() {
    const Said all = selftest({"--json"});
    QVERIFY2(all.code == 0, qPrintable(all.text));
    QVERIFY(!all.find("device").isEmpty());
    QVERIFY(all.find("kernel", "attention")["ok"].toBool());
    // Of f32, and of results that are stored in bf16.
    QVERIFY(all.find("kernel", "conv2d")["error"].toDouble() < 2e-5 &&
            all.find("kernel", "attention")["error"].toDouble() < 4e-3 &&
            all.find("kernel", "attention")["cases"].toInt() > 1);
    QVERIFY(all.find("kernels")["absent"].toArray().isEmpty());
    for (const char* product : {"product of 1024³ in bf16", "product of 1024³ in f32"})
      QVERIFY(all.find("speed", product)["per_second"].toDouble() > 1e9);
    QVERIFY(all.find("speed", "copy in memory")["peak"].isNull());
    QVERIFY(all.find("step")["ok"].toBool() && all.find("step")["checks"].toArray().size() >= 4);
    QVERIFY(all.find("selftest")["ok"].toBool());
    const Said cpu = selftest({"--device", "cpu", "--quick"});
    QVERIFY2(cpu.code == 0 && !cpu.text.contains("cuda"), qPrintable(cpu.text));
  }

  void namesTheGpusThatTheDriverManages() {
    const QJsonObject found =
        selftest({"--device", "cuda", "--json"}, {}, {}, LOCKSTEP_FAKE_NVML_FILE).find("nvml");
    QCOMPARE(found["driver"].toString(), "580.65.06");
    QCOMPARE(found["gpus"].toArray().size(), 2);
    QCOMPARE(found["gpus"].toArray()[1].toObject()["name"].toString(), "Fake GPU 1");
    QCOMPARE(found["gpus"].toArray()[1].toObject()["memory_bytes"].toInteger(), 150'754'820'096);
    QVERIFY(!found["gpus"].toArray()[1].toObject().contains("attention"));
    const QTemporaryDir folder;
    QFile script(folder.filePath("script"));
    QVERIFY(script.open(QIODevice::WriteOnly));
    script.write("1.width 8\n1.max-width 16\n1.uncorrected 2\n0.memory !15\n");
    script.close();
    qputenv("LOCKSTEP_NVML_SCRIPT", script.fileName().toLocal8Bit());
    const Said text = selftest({"--device", "cuda"}, {}, {}, LOCKSTEP_FAKE_NVML_FILE);
    qunsetenv("LOCKSTEP_NVML_SCRIPT");
    QVERIFY2(text.text.contains("  GPU 0: Fake GPU 0; attention: does not answer: GPU is lost\n"),
             qPrintable(text.text));
    QVERIFY2(text.text.contains("  GPU 1: Fake GPU 1, 143771 MiB; attention: 2 uncorrected memory "
                                "errors, 8 of 16 PCIe lanes\n"),
             qPrintable(text.text));
    const QJsonObject none =
        selftest({"--device", "cuda", "--json"}, {}, {}, "/no/such/library.so").find("nvml");
    QVERIFY(none["gpus"].toArray().isEmpty() &&
            none["problem"].toString().startsWith("there is no NVIDIA driver"));
  }

  // By what it says of the headers and the compiler it was built with, which another library does
  // not.
  void aModuleOfAnotherBuildIsRefused() {
    qputenv("LOCKSTEP_CUDA_MODULE", LOCKSTEP_FAKE_DRIVER_FILE);
    const Said said = selftest({"--device", "cuda", "--json"});
    qunsetenv("LOCKSTEP_CUDA_MODULE");
    QCOMPARE(said.code, 3);
    const QJsonObject error = said.find("device")["error"].toObject();
    QCOMPARE(error["what"].toString(), "Lockstep's CUDA module cannot be used");
    QVERIFY2(error["why"].toString().endsWith("is of another build"),
             qPrintable(error["why"].toString()));
  }

  void refusesOtherDevices() { QCOMPARE(selftest({"--device", "abacus"}).code, 2); }
};

QTEST_GUILESS_MAIN(AgentSelftestTest)
#include "agent_selftest_test.moc"
