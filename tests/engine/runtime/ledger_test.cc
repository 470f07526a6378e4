// Every sample counts once an epoch, whatever happens to the training: the weights are the ledger.
//
// Sample i is a picture of one bright pixel, i. A model without hidden layer and bias then has for
// each sample a row of weights that this sample alone moves, by an amount that depends on the row
// and on nothing else. The trained row says how often the sample was trained on.
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr std::int64_t kSamples = 120, kBatch = 24, kEpochs = 4;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kSteps = kSamples / kBatch * kEpochs;
constexpr double kRate = 3;

class BrightPixels : public data::Dataset {
 public:
  std::int64_t size() const override { return kSamples; }
  const std::vector<data::Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    if (field == 1) {
      *out = static_cast<std::byte>(index % kClasses);
      return;
    }
    std::memset(out, 0, static_cast<std::size_t>(fields_[0].bytes()));
    out[index] = std::byte{255};
  }

 private:
  std::vector<data::Field> fields_{{"x", DType::kU8, {28, 28, 1}}, {"label", DType::kU8, {}}};
};

models::Model oneLayer() {
  models::Model model = fashionMlp();
  model.layers.erase(model.layers.begin() + 1);
  model.layers.back().bias = false;
  return model;
}

using Row = std::vector<double>;
using Rows = std::vector<Row>;  // by sample

// Takes the one parameter of oneLayer().
weights::TensorSink intoRows(Rows& rows) {
  return [&rows](const TensorInfo& tensor, std::span<const std::byte> bytes) {
    rows.assign(kSamples, Row(kClasses));
    for (std::size_t i = 0; i < kSamples * kClasses; ++i) {
      double value = 0;
      if (tensor.dtype == DType::kF64) {
        std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
      } else {
        float narrow = 0;
        std::memcpy(&narrow, bytes.data() + i * sizeof narrow, sizeof narrow);
        value = narrow;
      }
      rows[i / kClasses][i % kClasses] = value;
    }
  };
}

// One update of gradient descent by its sample: the gradient of the cross entropy, of the mean over
// the batch.
void train(Row& row, std::int64_t sample) {
  double sum = 0;
  for (const double value : row) sum += std::exp(value);
  Row next = row;
  for (std::int64_t c = 0; c < kClasses; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const double target = c == sample % kClasses ? 1 : 0;
    next[at] -= kRate / kBatch * (std::exp(row[at]) / sum - target);
  }
  row = next;
}

// How often the sample was trained on, where that leads to its row; -1: no number up to twice the
// epochs does.
std::int64_t timesTrained(Row row, const Row& trained, std::int64_t sample) {
  for (std::int64_t times = 0; times <= 2 * kEpochs; ++times) {
    double worst = 0;
    for (std::size_t c = 0; c < row.size(); ++c)
      worst = std::max(worst, std::abs(row[c] - trained[c]));
    if (worst < 1e-5) return times;
    train(row, sample);
  }
  return -1;
}

}  // namespace

class LedgerTest : public QObject {
  Q_OBJECT

  static RunSettings settings(const BrightPixels& samples) {
    RunSettings out;
    out.model = oneLayer();
    out.train = &samples;
    out.batch = kBatch;
    out.optimizer.kind = "sgd";
    out.trainer.schedule.peak = kRate;
    out.trainer.epochs = kEpochs;
    return out;
  }
  // The samples that were not trained on once an epoch.
  static QString mistakes(const Rows& first, const Rows& trained) {
    QStringList out;
    for (std::int64_t i = 0; i < kSamples; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t times = timesTrained(first[at], trained[at], i);
      if (times != kEpochs) out += QString("sample %1: %2 times").arg(i).arg(times);
    }
    return out.join(", ");
  }

 private Q_SLOTS:
  // That the ledger tells a sample that is left out, or comes again.
  void itTellsMistakes() {
    const BrightPixels samples;
    RunSettings run = settings(samples);
    Rows first, trained;
    run.trainer.onFirstTensor = intoRows(first);
    run.trainer.onTensor = intoRows(trained);
    const RunOutcome whole = test::trained(run);
    QVERIFY2(whole.ok(), whole.error().c_str());
    QCOMPARE(mistakes(first, trained), QString());
    train(trained[17], 17);
    QCOMPARE(mistakes(first, trained), QString("sample 17: %1 times").arg(kEpochs + 1));
    trained[17] = first[17];
    QCOMPARE(mistakes(first, trained), QString("sample 17: 0 times"));
  }

  // Ranks that fail at any call, stops, and going on with another strategy and number of ranks each
  // time, until the training has ended.
  void everySampleCountsOnce_data() {
    QTest::addColumn<int>("seed");
    const int seeds = qEnvironmentVariable("LOCKSTEP_LEDGER_SEEDS", "40").toInt();
    for (int seed = 1; seed <= seeds; ++seed) QTest::addRow("seed %d", seed) << seed;
  }
  void everySampleCountsOnce() {
    QFETCH(int, seed);
    QTemporaryDir folder;
    const std::string checkpoints = folder.path().toStdString() + "/checkpoints";
    const BrightPixels samples;
    Rows first, trained;
    int draws = 0, failures = 0, stops = 0;
    const auto upTo = [&](std::int64_t most) {
      return static_cast<int>(
          randomBits(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(++draws)) %
          static_cast<std::uint64_t>(most));
    };
    bool canResume = false;
    for (int attempt = 0; trained.empty(); ++attempt) {
      QVERIFY2(attempt < 200, "the training does not end");
      RunSettings run = settings(samples);
      const std::vector<std::string> kinds{"multi-worker-mirrored", "zero-1", "zero-2", "zero-3"};
      run.strategy = kinds[static_cast<std::size_t>(upTo(std::ssize(kinds)))];
      run.ranks = 1 + upTo(4);
      run.trainer.checkpointFolder = checkpoints;
      run.trainer.checkpointSteps = 1 + upTo(4);
      if (canResume)
        run.trainer.resumeFrom = checkpoints;
      else
        run.trainer.onFirstTensor = intoRows(first);
      run.trainer.onTensor = intoRows(trained);
      const bool fails = run.ranks > 1 && upTo(4) > 0;
      if (fails) {
        run.failingRank = upTo(run.ranks);
        run.failingCall = upTo(40);
      } else if (upTo(3) > 0) {
        run.stopAt = 1 + upTo(kSteps);
      }
      const RunOutcome outcome = test::trained(run);
      canResume = canResume || !outcome.checkpoints.empty();
      const bool ended = outcome.ok() && outcome.ranks[0]->steps == kSteps;
      if (!ended) trained.clear();
      if (!outcome.ok()) {
        ++failures;
        QVERIFY2(fails, outcome.error().c_str());
      } else if (!ended) {
        ++stops;
        QCOMPARE(outcome.ranks[0]->status, std::string("stopped"));
      }
    }
    qInfo("%d failures, %d stops", failures, stops);
    QCOMPARE(mistakes(first, trained), QString());
  }
};

QTEST_GUILESS_MAIN(LedgerTest)
#include "ledger_test.moc"
