// Event files of a run: what our own reader of such files reads is what the history has.
#include "app/sinks/tensorboard.h"

#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <sstream>

#include "agent/workload/event_files.h"
#include "app/history/history.h"
#include "app/history/run_csv.h"
#include "engine/base/tf_record.h"
#include "lockstep/run/v1/tensorboard.pb.h"

using namespace lockstep;
using namespace lockstep::app;

namespace fs = std::filesystem;

namespace {

constexpr double kBegan = 1'780'000'000;

// A series and what our reader calls it: the path of its folder, and its tag.
struct Case {
  std::string series, read;
};
const std::vector<Case> kCases{
    {"loss", "loss"},
    {"samples_per_second", "samples_per_second"},
    {"epoch/train_loss", "epoch/train_loss"},
    {"scalar/train/loss", "train/loss"},
    {"scalar/x/cpu", "x/cpu"},
    {"scalar/\"a\\\nb\" {}", "\"a\\\nb\" {}"},
    {"rank/0/step", "rank/0/rank/step"},
    {"rank/12/forward", "rank/12/rank/forward"},
    {"rank/012/forward", "rank/012/forward"},
    {"rank/0/cpu", "rank/0/rank/cpu"},
    {"node/n1/cpu", "node/n1/node/cpu"},
    {"node/n1.lab/memory", "node/n1.lab/node/memory"},
    {"node/n1/gpu/3/utilisation", "node/n1/gpu/3/gpu/utilisation"},
    {"node/n1/gpu/x/utilisation", "node/n1/node/gpu/x/utilisation"},
    {"node/n1/to/n2/rate", "node/n1/to/n2/link/rate"},
    {"node/../cpu", "node/%2E%2E/node/cpu"},
    {"node/./to/../rate", "node/%2E/to/%2E%2E/link/rate"},
    {"node/a\n\"b\"\x01/cpu", "node/a%0A%22b%22%01/node/cpu"},
    {"node/模型/cpu", "node/%E6%A8%A1%E5%9E%8B/node/cpu"},
    {"node/\xff/cpu", "node/%FF/node/cpu"},
    {"node/", "node/"},
};

bool isOverTime(const std::string& series) { return seriesAxis(series) == SeriesAxis::kTime; }

std::vector<Point> made(std::mt19937_64& random, const std::string& series) {
  std::vector<Point> out;
  double x = isOverTime(series) ? kBegan : 0;
  for (std::size_t left = 1 + random() % 6000; left > 0; --left) {
    x += isOverTime(series) ? 0.001 * static_cast<double>(1 + random() % 5000)
                            : static_cast<double>(1 + random() % 3);
    double y = std::exp(static_cast<double>(random() % 200'000) / 1000 - 100);
    if (random() % 2 == 0) y = static_cast<double>(static_cast<float>(y));
    if (random() % 40 == 0) y = std::numeric_limits<double>::quiet_NaN();
    if (random() % 40 == 0) y = -std::numeric_limits<double>::infinity();
    if (random() % 40 == 0) y = random() % 2 == 0 ? 1e300 : -1e300;
    out.push_back({x, y});
  }
  return out;
}

// Whether `is` is `was` as a float.
bool isSame(double is, double was) {
  if (std::isnan(was)) return std::isnan(is);
  if (std::abs(was) > std::numeric_limits<float>::max())
    return is == (was > 0 ? HUGE_VAL : -HUGE_VAL);
  return is == static_cast<double>(static_cast<float>(was));
}

using Curves = std::map<std::string, std::vector<Point>>;

// By our reader: x is the step.
Curves readBack(const fs::path& folder) {
  agent::EventFiles files({folder});
  Curves out;
  for (const auto& scalar : files.poll(~std::size_t{0}))
    out[scalar.tag()].push_back({static_cast<double>(scalar.step()), scalar.value()});
  return files.takeErrors().empty() ? out : Curves();
}

std::string bytesOf(const fs::path& path) {
  std::stringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

std::vector<fs::path> filesIn(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) out.push_back(entry.path());
  return out;
}

std::vector<run::v1::TensorBoardEvent> eventsOf(const fs::path& file) {
  std::vector<run::v1::TensorBoardEvent> out;
  const std::string bytes = bytesOf(file);
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    out.emplace_back().ParseFromString(bytes.substr(at + kTfRecordHeader, length));
    at += kTfRecordHeader + length + kTfRecordTrailer;
  }
  return out;
}

}  // namespace

class TensorBoardTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    dir_ = std::make_unique<QTemporaryDir>();
    auto opened = History::open(dir_->path().toStdString() + "/history");
    QVERIFY(opened.ok());
    history_ = std::move(opened).value();
    out_ = dir_->path().toStdString() + "/out/folder";
  }
  void cleanup() {
    history_.reset();
    fs::remove_all(dir_->path().toStdString());  // QTemporaryDir does not remove all names
  }

  void allSeriesAreRead_data() {
    QTest::addColumn<quint64>("seed");
    for (const quint64 seed : {1, 2, 3, 4, 5, 6})
      QTest::newRow(QByteArray::number(seed).constData()) << seed;
  }
  void allSeriesAreRead() {
    QFETCH(quint64, seed);
    std::mt19937_64 random(seed);
    RunBatch batch;
    for (const Case& one : kCases) batch.series.push_back({one.series, made(random, one.series)});
    add("a", batch);
    const Status written = writeTensorBoard(*history_, {"a"}, out_);
    QVERIFY2(written.ok(), written.ok() ? "" : written.error().text().c_str());
    const Curves read = readBack(out_ / "a");
    QCOMPARE(read.size(), kCases.size());
    for (std::size_t i = 0; i < kCases.size(); ++i) {
      const auto found = read.find(kCases[i].read);
      QVERIFY2(found != read.end(), kCases[i].read.c_str());
      const std::vector<Point>&is = found->second, &was = batch.series[i].points;
      QCOMPARE(is.size(), was.size());
      for (std::size_t k = 0; k < is.size(); ++k) {
        const double step = isOverTime(kCases[i].series) ? static_cast<double>(k) : was[k].x;
        QVERIFY(is[k].x == step && isSame(is[k].y, was[k].y));
      }
    }
    // Nothing is outside of the run's folder, nor left in the one beside it.
    QCOMPARE(std::distance(fs::directory_iterator(out_), {}), 1);
    for (const fs::path& file : filesIn(out_))
      QVERIFY(file.filename().native().ends_with(".lockstep"));
  }

  void timesAreThoseRecorded() {
    RunBatch batch;
    batch.series = {{"loss", {{1, 0.5}, {3, 0.25}, {4, 0.1}, {9, 0.1}}},
                    {"rank/0/began", {{1, kBegan + 0.25}, {2, kBegan + 1}, {4, kBegan + 3.5}}},
                    {"rank/1/step", {{1, 0.5}, {2, 0.5}}},
                    {"rank/1/began", {{1, kBegan + 0.5}, {2, kBegan + 0.75}}},
                    {"epoch/eval_loss", {{1, 0.5}, {2, 0.5}}},
                    {"node/n1/cpu", {{kBegan + 0.125, 0.5}, {kBegan + 7.75, 0.5}}}};
    batch.epochs = {{1, 4, 0.5, 0.5, 0.5}};
    add("a", batch);
    QVERIFY(writeTensorBoard(*history_, {"a"}, out_).ok());
    std::map<std::string, std::vector<double>> times;
    for (const fs::path& file : filesIn(out_ / "a")) {
      const auto events = eventsOf(file);
      QCOMPARE(events.front().file_version(), std::string("brain.Event:2"));
      for (std::size_t i = 1; i < events.size(); ++i) {
        run::v1::TensorBoardValue value;
        QVERIFY(value.ParseFromString(events[i].summary().value(0)));
        times[value.tag()].push_back(events[i].wall_time() - kBegan);
      }
    }
    using Times = std::vector<double>;
    QCOMPARE(times["loss"], (Times{0.25, 2.25, 3.5, 3.5}));  // step 3: between its neighbours
    QCOMPARE(times["rank/step"], (Times{0.5, 0.75}));
    QVERIFY(!times.contains("rank/began"));
    QCOMPARE(times["epoch/eval_loss"], (Times{3.5, 10}));  // the second is not known
    QCOMPARE(times["node/cpu"], (Times{0.125, 7.75}));
  }

  // Of earlier versions, or programs whose steps are not measured.
  void timesThatWereNotRecorded() {
    RunBatch summed, none;
    summed.series = {{"loss", {{1, 0.5}, {2, 0.5}}}, {"rank/0/step", {{1, 0.5}, {2, 0.25}}}};
    none.series = {{"loss", {{1, 0.5}, {2, 0.5}}}};
    add("summed", summed);
    add("none", none);
    QVERIFY(writeTensorBoard(*history_, {"none", "summed"}, out_).ok());
    const auto timesOf = [&](const fs::path& folder) {
      std::vector<double> out;
      for (const auto& event : eventsOf(fs::directory_iterator(out_ / folder)->path()))
        if (event.has_summary()) out.push_back(event.wall_time() - kBegan);
      return out;
    };
    QCOMPARE(timesOf("none"), (std::vector<double>{10, 10}));
    for (const auto& entry : fs::directory_iterator(out_ / "summed"))
      if (entry.is_regular_file())
        for (const auto& event : eventsOf(entry.path()))
          if (event.step() == 2) QCOMPARE(event.wall_time() - kBegan, 10.5);
  }

  void whatIsThereIsKept() {
    RunBatch batch;
    batch.series = {{"loss", {{1, 0.5}}}};
    add("a", batch);
    add("b", batch);
    fs::create_directories(out_ / "b/kept");
    const Status refused = writeTensorBoard(*history_, {"a", "b"}, out_);
    QVERIFY(!refused.ok() && refused.code() == Code::kAlreadyExists);
    QVERIFY(refused.error().text().find((out_ / "b").native()) != std::string::npos);
    QVERIFY(!fs::exists(out_ / "a") && fs::exists(out_ / "b/kept"));
    fs::remove_all(out_ / "b");
    QVERIFY(writeTensorBoard(*history_, {"a", "b", "a"}, out_).ok());
    QCOMPARE(readBack(out_).size(), std::size_t{2});
    // A folder that cannot be made.
    std::ofstream(dir_->path().toStdString() + "/file") << "x";
    QVERIFY(!writeTensorBoard(*history_, {"a"}, dir_->path().toStdString() + "/file/out").ok());
    QVERIFY(!writeTensorBoard(*history_, {"absent"}, out_).ok());
  }

  void nothingIsLeftOfACancelledExport() {
    RunBatch batch;
    batch.series = {{"loss", {{1, 0.5}}}};
    add("a", batch);
    std::stop_source stop;
    stop.request_stop();
    const Status written = writeTensorBoard(*history_, {"a"}, out_, stop.get_token());
    QVERIFY(!written.ok() && written.code() == Code::kCancelled);
    QVERIFY(fs::is_empty(out_));
  }

  void aRunWithoutCurves() {
    add("a", {});
    QVERIFY(writeTensorBoard(*history_, {"a"}, out_).ok());
    QVERIFY(readBack(out_ / "a").empty());
    QCOMPARE(filesIn(out_ / "a").size(), std::size_t{1});
    QCOMPARE(eventsOf(filesIn(out_ / "a")[0]).size(), std::size_t{1});
  }

 private:
  void add(const std::string& run, const RunBatch& batch) {
    RunRow row;
    row.run = run;
    row.phase = RunState::SUCCEEDED;
    row.createdNs = static_cast<std::int64_t>(kBegan) * 1'000'000'000;
    row.startedNs = row.createdNs + 10'000'000'000;
    auto store = history_->begin(row, {});
    QVERIFY(store.ok());
    QVERIFY((*store)->append(batch).ok());
  }

  std::unique_ptr<QTemporaryDir> dir_;
  std::unique_ptr<History> history_;
  fs::path out_;
};

QTEST_GUILESS_MAIN(TensorBoardTest)
#include "tensorboard_test.moc"
