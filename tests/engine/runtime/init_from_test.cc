// Training that starts from given weights, by every strategy: the files are those of
// tests/oracle/gpt2_weights, which also says what the first loss is.
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <fstream>

#include "engine/weights/files.h"
#include "tests/support/engine_run.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr int kSkipped = 77;
constexpr std::int64_t kVocabulary = 256, kBatch = 12;

struct Said {
  int exit = -1;
  QByteArray out;
};
Said oracle(const QStringList& arguments) {
  QProcess process;
  process.start(
      "/usr/bin/python3",
      QStringList{QString::fromStdString(sourcePath("tests/oracle/gpt2_weights"))} + arguments);
  if (!process.waitForFinished(120000)) return {};
  return {process.exitCode(), process.readAllStandardOutput()};
}

}  // namespace

class InitFromTest : public QObject {
  Q_OBJECT

  QTemporaryDir dir_;
  std::unique_ptr<data::Dataset> text_;
  QString file(const QString& name) const { return dir_.filePath(name); }

  QString made(const QString& name, const QStringList& more = {}) const {
    const QString path = file(name);
    if (!QFile::exists(path)) {
      const Said said =
          oracle(QStringList{"write", path, "--layers", "2", "--channels", "24", "--tokens", "6",
                             "--vocabulary", QString::number(kVocabulary)} +
                 more);
      if (said.exit != 0) qWarning() << said.out;
    }
    return path;
  }
  // Two steps that change nothing.
  RunSettings still(const models::Model& model = smallGpt(kVocabulary)) const {
    RunSettings out;
    out.model = model;
    out.batch = out.evaluateBatch = kBatch;
    out.train = text_.get();
    out.optimizer.kind = "sgd";
    out.trainer.epochs = 0;
    out.trainer.maxSteps = 2;
    out.trainer.shuffle = false;
    out.trainer.schedule.peak = 0;
    out.trainer.modelFile = file("model.safetensors").toStdString();
    out.trainer.initFrom.names = weights::gpt2Names(model).value();
    out.trainer.initFrom.file = made("gpt2.safetensors").toStdString();
    return out;
  }
  static RunOutcome trained(const RunSettings& settings) {
    const auto plan = planOf(settings);
    if (!plan.ok()) {
      RunOutcome out;
      out.ranks.emplace_back(plan.error());
      return out;
    }
    return run(settings, *plan);
  }
  // What a run has written, with the names of its model in GPT-2.
  QString exported(const RunSettings& settings) const {
    const QString to = file("out.safetensors");
    const auto model = weights::ModelWeights::open(settings.trainer.modelFile);
    if (!model.ok()) return {};
    const Status done = weights::exportWeights(*model, settings.trainer.initFrom.names, DType::kF32,
                                               to.toStdString());
    return done.ok() ? to : QString();
  }

 private Q_SLOTS:
  void initTestCase() {
    if (oracle({"--help"}).exit != 0) QSKIP("there is no /usr/bin/python3 with NumPy");
    std::ofstream out(file("text").toStdString(), std::ios::binary);
    for (int i = 0; i < 6 * 60; ++i) out.put(static_cast<char>('a' + i * i % 23));
    out.close();
    text_ = data::openText({file("text").toStdString(), 6}).value();
  }

  void everyStrategyStartsThere_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("modelRanks");
    QTest::addColumn<int>("stages");
    QTest::addColumn<int>("servers");
    QTest::newRow("one") << "multi-worker-mirrored" << 1 << 1 << 1 << 0;
    QTest::newRow("mirrored") << "multi-worker-mirrored" << 3 << 1 << 1 << 0;
    QTest::newRow("zero-1") << "zero-1" << 3 << 1 << 1 << 0;
    QTest::newRow("zero-3") << "zero-3" << 3 << 1 << 1 << 0;
    QTest::newRow("tensor") << "tensor-parallel" << 2 << 2 << 1 << 0;
    QTest::newRow("tensor x data") << "tensor-parallel" << 4 << 2 << 1 << 0;
    QTest::newRow("pipeline") << "pipeline" << 2 << 1 << 2 << 0;
    QTest::newRow("servers") << "parameter-server" << 3 << 1 << 1 << 1;
    QTest::newRow("local") << "local-sgd" << 2 << 1 << 1 << 0;
  }
  void everyStrategyStartsThere() {
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QFETCH(int, modelRanks);
    QFETCH(int, stages);
    QFETCH(int, servers);
    RunSettings settings = still();
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.modelRanks = modelRanks;
    settings.stages = stages;
    settings.servers = servers;
    if (stages > 1) settings.microBatches = 2;
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    const QString given = file("gpt2.safetensors");
    QCOMPARE(oracle({"same", given, exported(settings)}).exit, 0);
    const Said said = oracle({"loss", given, "--text", file("text"), "--heads", "4", "--batch",
                              QString::number(kBatch), "--tokens", "6"});
    if (said.exit == kSkipped) return;
    const double expected = said.out.trimmed().toDouble();
    QVERIFY2(std::abs(out.steps.front().loss - expected) < 1e-10,
             qPrintable(QString("%1 %2").arg(out.steps.front().loss, 0, 'g', 17).arg(expected)));
  }

  // Older files, files of 16 bits, and those with the tied weight twice.
  void filesDiffer_data() {
    QTest::addColumn<QStringList>("written");
    QTest::newRow("bare") << QStringList{"--bare"};
    QTest::newRow("f16") << QStringList{"--type", "F16"};
    QTest::newRow("bf16") << QStringList{"--type", "BF16", "--head"};
  }
  void filesDiffer() {
    QFETCH(QStringList, written);
    RunSettings settings = still();
    const QString given = made(QTest::currentDataTag(), written);
    settings.trainer.initFrom.file = given.toStdString();
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    const Said said = oracle({"loss", given, "--text", file("text"), "--heads", "4", "--batch",
                              QString::number(kBatch), "--tokens", "6"});
    if (said.exit != kSkipped)
      QVERIFY(std::abs(out.steps.front().loss - said.out.trimmed().toDouble()) < 1e-10);
  }

  // Checkpoints in parts and model files of other runs, of any number of ranks.
  void startsFromOtherRuns() {
    QTemporaryDir kept;
    RunSettings first = still();
    first.trainer.initFrom = {};
    first.trainer.schedule.peak = 0.1;
    first.strategy = "zero-3";
    first.ranks = 3;
    first.trainer.checkpointFolder = kept.path().toStdString();
    const RunOutcome before = trained(first);
    QVERIFY2(before.ok(), before.error().c_str());
    const std::string model = file("first.safetensors").toStdString();
    std::filesystem::copy_file(first.trainer.modelFile, model);
    for (const bool checkpoint : {true, false}) {
      RunSettings next = still();
      next.ranks = next.modelRanks = 2;
      next.strategy = "tensor-parallel";
      next.trainer.seed = 9;
      next.optimizer.kind = "adam";
      next.trainer.initFrom = {};
      (checkpoint ? next.trainer.initFrom.checkpoint : next.trainer.initFrom.file) =
          checkpoint ? first.trainer.checkpointFolder : model;
      const RunOutcome after = trained(next);
      QVERIFY2(after.ok(), after.error().c_str());
      QCOMPARE(after.steps.front().step, std::int64_t{1});
      QCOMPARE(after.ranks[0]->weightsSha256, before.ranks[0]->weightsSha256);
    }
  }

  // What a file lacks keeps its random values, if that is asked for; the rest is told.
  void onlyAPart() {
    models::Model model = smallGpt(kVocabulary);
    model.layers.back().tied.clear();
    model.layers.back().bias = false;
    RunSettings settings = still(model);
    const RunOutcome refused = trained(settings);
    QVERIFY(!refused.ok());
    QCOMPARE(refused.ranks[0].error().why.text(), "missing are lm_head.weight");
    settings.trainer.initFrom.partial = true;
    std::vector<std::string> told;
    settings.trainer.warn = [&](const Error& warning) { told.push_back(warning.why); };
    settings.ranks = 2;
    const RunOutcome taken = trained(settings);
    QVERIFY2(taken.ok(), taken.error().c_str());
    QCOMPARE(told, std::vector<std::string>{"missing are lm_head.weight"});
    // The other way round: the file has more than the model.
    RunSettings less = still();
    less.trainer.initFrom.names.copies.clear();
    less.trainer.initFrom.file = made("head", {"--head"}).toStdString();
    QVERIFY(trained(less).error().find("left over are lm_head.weight") != std::string::npos);
  }

  // A part that is nothing is refused: of a file, of a model file, and of a checkpoint.
  void aPartMustShareTensors() {
    QTemporaryDir kept;
    RunSettings first = still();
    first.trainer.initFrom = {};
    first.trainer.checkpointFolder = kept.path().toStdString();
    const RunOutcome before = trained(first);
    QVERIFY2(before.ok(), before.error().c_str());
    const std::string model = file("shared.safetensors").toStdString();
    std::filesystem::rename(first.trainer.modelFile, model);
    models::Model other = smallGpt(kVocabulary);
    for (models::Layer& layer : other.layers) {
      layer.name = "my" + layer.name;
      if (!layer.tied.empty()) layer.tied = "my" + layer.tied;
    }
    for (const auto& [from, checkpoint] : {std::pair{file("gpt2.safetensors").toStdString(), false},
                                           {model, false},
                                           {first.trainer.checkpointFolder, true}}) {
      RunSettings settings = still();
      settings.model = other;
      settings.ranks = 2;
      settings.trainer.initFrom = {};
      settings.trainer.initFrom.partial = true;
      (checkpoint ? settings.trainer.initFrom.checkpoint : settings.trainer.initFrom.file) = from;
      const RunOutcome out = trained(settings);
      QVERIFY2(!out.ok(), from.c_str());
      QVERIFY2(out.error().find("do not fit the model") != std::string::npos, out.error().c_str());
    }
  }

  void weightsThatAreNotFinite() {
    std::ifstream in(made("gpt2.safetensors").toStdString(), std::ios::binary);
    std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(content.data() + content.size() - sizeof nan, &nan, sizeof nan);
    RunSettings settings = still();
    settings.ranks = 2;
    settings.trainer.initFrom.file = file("nan").toStdString();
    std::ofstream(settings.trainer.initFrom.file, std::ios::binary) << content;
    const RunOutcome out = trained(settings);
    QVERIFY(!out.ok());
    QVERIFY2(
        out.error().find("the weights in " + settings.trainer.initFrom.file) != std::string::npos,
        out.error().c_str());
    QVERIFY(out.ranks[0].error().next.text().find("model.init_from") != std::string::npos);
  }

  void tensorsOfOtherShapesAreRefused() {
    models::Model model = smallGpt(kVocabulary);
    model.input = {5};
    RunSettings settings = still(model);
    settings.train = nullptr;
    const SyntheticText text(60, 5, kVocabulary);
    settings.train = &text;
    settings.trainer.initFrom.partial = true;
    const RunOutcome out = trained(settings);
    QVERIFY(!out.ok());
    QVERIFY2(out.error().find("transformer.wpe.weight is f32[6x24] there, the model has") !=
                 std::string::npos,
             out.error().c_str());
  }

  // A second lm_head that differs, cut files, and headers that lie.
  void damageIsRefused() {
    std::ifstream in(made("tied", {"--head"}).toStdString(), std::ios::binary);
    const std::string good((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const auto with = [&](const std::string& from, const std::string& to) {
      std::string out = good;
      out.replace(out.find(from), from.size(), to);
      return out;
    };
    std::string differs = good;
    differs.back() = static_cast<char>(differs.back() ^ 1);
    for (const std::string& bad :
         {differs, good.substr(0, good.size() - 10), good.substr(0, 5), std::string("x"),
          with("h.0.ln_1.bias", "h.0.ln_1.biaz"), with("[24, 72]", "[72, 24]"),
          with("\"F32\", \"shape\": [24]", "\"I32\", \"shape\": [24]"),
          with("\"data_offsets\": [0,", "\"data_offsets\": [8,")}) {
      RunSettings settings = still();
      settings.ranks = 2;
      settings.trainer.initFrom.file = file("bad").toStdString();
      std::ofstream(settings.trainer.initFrom.file, std::ios::binary) << bad;
      const RunOutcome out = trained(settings);
      QVERIFY(!out.ok());
      QVERIFY2(out.error().find("/bad") != std::string::npos, out.error().c_str());
    }
  }
};

QTEST_GUILESS_MAIN(InitFromTest)
#include "init_from_test.moc"
