// The spool: what it keeps, in what order, and what becomes of old records.
#include <QTemporaryDir>
#include <QTest>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "agent/supervisor/outline.h"
#include "agent/supervisor/spool.h"

using namespace lockstep;
using namespace lockstep::agent;

namespace {

constexpr int kRanks = 8;

run::v1::Record logRecord(const std::string& text, int rank = 0) {
  run::v1::Record record;
  record.mutable_log()->set_rank(rank);
  record.mutable_log()->add_lines(text);
  return record;
}

run::v1::Record stepsRecord(int rank, std::int64_t first, int steps) {
  run::v1::Record record;
  auto& chunk = *record.mutable_steps();
  chunk.set_rank(rank);
  chunk.set_first_step(first);
  for (std::int64_t step = first; step < first + steps; ++step) {
    chunk.add_begin_ns(step == first ? step * 1'000'000 : 1'000'000);
    chunk.add_duration_ns(900'000 + (step % 97 == 0 ? 5'000'000 : 0));
    chunk.add_loss(std::sin(static_cast<double>(step)) + 1e3 / static_cast<double>(step));
    chunk.add_forward(static_cast<float>(step % 13) * 1e-3f);
    chunk.add_communication(1e-4f);
    chunk.add_arrival_ns(800'000);
    chunk.add_samples(64);
  }
  return record;
}

// A node with a GPU per rank.
run::v1::Record sampleRecord(std::int64_t beat) {
  run::v1::Record record;
  auto& sample = *record.mutable_node_sample();
  sample.set_cpu(0.5 + 0.5 * std::sin(static_cast<double>(beat)));
  for (int core = 0; core < 32; ++core) sample.add_core(0.25);
  for (int i = 0; i < kRanks; ++i) {
    auto& gpu = *sample.add_gpu();
    gpu.set_index(i);
    gpu.set_name("NVIDIA H200");
    if (beat != 3) gpu.set_power_w(300 + static_cast<double>((beat * 7 + i) % 400));
    sample.add_rank()->set_rank(i);
  }
  return record;
}

// Reads as a client does, and checks the order.
std::vector<run::v1::Record> readAll(Spool& spool, std::uint64_t after) {
  std::vector<run::v1::Record> out;
  while (after < spool.last())
    for (const Spool::Kept& kept : *spool.read(after, 100, 0)) {
      run::v1::Record record;
      if (!record.ParseFromString(kept.bytes) || record.sequence() != kept.sequence ||
          record.sequence() <= after)
        return {};
      after = kept.sequence;
      out.push_back(std::move(record));
    }
  return out;
}

std::int64_t sizeOnDisk(const std::string& path) {
  return static_cast<std::int64_t>(std::filesystem::file_size(path));
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  friend bool operator==(const Range&, const Range&) = default;
};

}  // namespace

class SpoolTest : public QObject {
  Q_OBJECT
  QTemporaryDir folder_;
  std::string path(const char* name) { return folder_.filePath(name).toStdString(); }

 private Q_SLOTS:
  void spoolNumbersAndSurvives() {
    {
      auto spool = Spool::open(path("a.db"), {});
      QVERIFY2(spool.ok(), spool.ok() ? "" : spool.error().text().c_str());
      for (int i = 0; i < 10000; ++i) (*spool)->append(logRecord(std::to_string(i)));
      QCOMPARE((*spool)->last(), std::uint64_t{10000});
      const auto records = readAll(**spool, 0);  // beyond what memory keeps
      QCOMPARE(records.size(), std::size_t{10000});
      for (std::size_t i = 0; i < records.size(); ++i) {
        QCOMPARE(records[i].sequence(), i + 1);
        QCOMPARE(records[i].log().lines(0), std::to_string(i));
      }
    }
    auto again = Spool::open(path("a.db"), {});
    QVERIFY(again.ok());
    QCOMPARE((*again)->append(logRecord("more")), std::uint64_t{10001});
    QCOMPARE(readAll(**again, 9999).size(), std::size_t{2});
    QVERIFY(!(*again)->finished());
    run::v1::Record end;
    end.mutable_finished();
    (*again)->append(end);
    QVERIFY((*again)->finished());
  }

  void oldRecordsBecomeAnOutline() {
    constexpr int kBeats = 4000;
    SpoolOptions options;
    options.limitBytes = 2'000'000;
    std::map<std::string, Range> written, read;
    std::size_t lines = 0, bytes = 0;
    {
      auto spool = Spool::open(path("b.db"), options);
      QVERIFY(spool.ok());
      const auto append = [&](const run::v1::Record& record) {
        bytes += record.ByteSizeLong();
        (*spool)->append(record);
      };
      for (int beat = 1; beat <= kBeats; ++beat) {
        for (int rank = 0; rank < kRanks; ++rank) {
          auto steps = stepsRecord(rank, beat * 10, 10);
          for (double loss : steps.steps().loss()) written[std::to_string(rank)].add(loss);
          append(steps);
        }
        auto sample = sampleRecord(beat);
        written["cpu"].add(sample.node_sample().cpu());
        append(sample);
        append(logRecord(beat == 500 ? "CUDA error: misaligned address" : "tick", 1));
        ++lines;
        if (beat % 100 == 0) append(logRecord(fmt::format("node n{} answers again", beat), -1));
        if (beat % 1000 == 0) {
          run::v1::Record warning;
          warning.mutable_warning()->set_code("UNAVAILABLE");
          append(warning);
        }
        if (beat % 50 == 0) QVERIFY((*spool)->flush().ok());
      }
    }
    QVERIFY2(bytes > 5 * static_cast<std::size_t>(options.limitBytes),
             std::to_string(bytes).c_str());
    auto spool = Spool::open(path("b.db"), options);
    QVERIFY(spool.ok());
    QVERIFY2(sizeOnDisk(path("b.db")) < options.limitBytes * 3 / 2,
             std::to_string(sizeOnDisk(path("b.db"))).c_str());
    int warnings = 0, own = 0;
    std::size_t keptLines = 0, droppedLines = 0;
    bool trouble = false;
    std::map<int, std::int64_t> first, last;
    std::size_t whole = 0;
    const auto records = readAll(**spool, 0);
    for (const auto& record : records) {
      QVERIFY(!record.has_lost());
      if (record.outline_from() == 0) whole += record.has_steps();
      QVERIFY(record.outline_from() <= record.sequence());
      warnings += record.has_warning();
      if (record.has_node_sample()) read["cpu"].add(record.node_sample().cpu());
      if (record.has_log() && record.log().rank() < 0) ++own;
      if (record.has_log() && record.log().rank() == 1) {
        keptLines += static_cast<std::size_t>(record.log().lines_size());
        droppedLines += record.log().dropped();
        trouble = trouble || record.log().lines(0).starts_with("CUDA error");
      }
      if (!record.has_steps()) continue;
      const int rank = record.steps().rank();
      for (double loss : record.steps().loss()) read[std::to_string(rank)].add(loss);
      if (!first.contains(rank)) first[rank] = record.steps().first_step();
      QVERIFY(record.steps().first_step() > last[rank]);
      last[rank] = record.steps().first_step() + record.steps().begin_ns_size() - 1;
    }
    // The run in outline: where it begins and ends, and its extremes.
    QCOMPARE(first.size(), std::size_t{kRanks});
    for (int rank = 0; rank < kRanks; ++rank) {
      QCOMPARE(first[rank], std::int64_t{10});
      QCOMPARE(last[rank], std::int64_t{kBeats * 10 + 9});
    }
    QVERIFY(read == written);
    QCOMPARE(warnings, 4);
    QCOMPARE(own, 40);
    QVERIFY(trouble);
    QVERIFY(droppedLines > 0);
    QCOMPARE(keptLines + droppedLines, lines);
    // What is newest is as it was written.
    QVERIFY(whole > 1000);
    QCOMPARE(records.back().outline_from(), std::uint64_t{0});
  }

  // From the first step to the last, whatever is put together with what.
  // Of each value of each rank: the first, the last, the least and the greatest, also once more.
  void reportedValuesKeepTheirExtremes() {
    std::mt19937 random(5);
    for (int round = 0; round < 200; ++round) {
      std::vector<run::v1::Record> records;
      std::map<std::string, std::vector<double>> written;
      const unsigned count = 1 + random() % 60;
      for (unsigned at = 0; at < count; ++at) {
        run::v1::Record& record = records.emplace_back();
        record.set_sequence(at + 1);
        const int rank = static_cast<int>(random() % 2);
        record.mutable_scalars()->set_rank(rank);
        const std::string source = random() % 2 == 0 ? "stdout" : "wandb";
        record.mutable_scalars()->set_source(source);
        for (unsigned one = 0; one < 1 + random() % 9; ++one) {
          run::v1::Scalar& scalar = *record.mutable_scalars()->add_scalars();
          scalar.set_tag(fmt::format("t{}", random() % 4));
          scalar.set_step(at);
          scalar.set_value(random() % 20 == 0 ? std::nan("")
                                              : static_cast<double>(random() % 1000));
          written[fmt::format("{}/{}/{}", rank, source, scalar.tag())].push_back(scalar.value());
        }
      }
      std::vector<run::v1::Record> outline = records;
      for (int times = 0; times < 2; ++times) {
        outline = agent::outlineOf(std::move(outline));
        std::map<std::string, std::vector<double>> read;
        for (const run::v1::Record& record : outline)
          for (const run::v1::Scalar& scalar : record.scalars().scalars())
            read[fmt::format("{}/{}/{}", record.scalars().rank(), record.scalars().source(),
                             scalar.tag())]
                .push_back(scalar.value());
        QCOMPARE(read.size(), written.size());
        for (const auto& [name, values] : written) {
          const auto same = [](double a, double b) { return a == b || (a != a && b != b); };
          const auto range = [](const std::vector<double>& of) {
            Range out;
            for (const double value : of)
              if (value == value) out.add(value);
            return out;
          };
          QVERIFY(read[name].size() <= 5);
          QVERIFY(same(read[name].front(), values.front()));
          QVERIFY(same(read[name].back(), values.back()));
          QVERIFY(range(read[name]) == range(values));
        }
      }
    }
  }

  // Of the nodes' slow steps, which differ, none takes the place of a step that all have.
  void nodesKeepTheSameStep() {
    for (unsigned seed = 1; seed <= 200; ++seed) {
      std::mt19937 random(seed);
      const unsigned sampled = 1 + random() % 4;  // of them, at least one
      std::vector<std::int64_t> kept;
      for (int node = 0; node < 3; ++node) {
        std::map<std::int64_t, bool> steps;  // whether it was slow
        for (unsigned one = 1; one <= sampled; ++one) steps[50 * one] = false;
        for (unsigned one = random() % 12; one > 0; --one) {
          const std::int64_t step = 1 + random() % 230;
          if (step % 50 != 0) steps[step] = true;
        }
        std::vector<run::v1::Record> records;
        for (const auto& [step, slow] : steps)
          for (int rank = 2 * node; rank < 2 * node + 2; ++rank) {
            run::v1::Record& record = records.emplace_back();
            record.set_sequence(records.size());
            record.mutable_events()->set_rank(rank);
            record.mutable_events()->set_step(step);
            record.mutable_events()->set_slow(slow);
          }
        const auto outline = agent::outlineOf(std::move(records));
        QCOMPARE(outline.size(), std::size_t{2});  // of both ranks
        for (const auto& record : outline) kept.push_back(record.events().step());
      }
      QCOMPARE(kept, std::vector<std::int64_t>(6, 50));
    }
    // Where there are slow ones alone, the first.
    std::vector<run::v1::Record> records(2);
    for (int i = 0; i < 2; ++i) {
      records[static_cast<std::size_t>(i)].set_sequence(static_cast<std::uint64_t>(i + 1));
      records[static_cast<std::size_t>(i)].mutable_events()->set_step(60 + i);
      records[static_cast<std::size_t>(i)].mutable_events()->set_slow(true);
    }
    const auto outline = agent::outlineOf(std::move(records));
    QCOMPARE(outline.size(), std::size_t{1});
    QCOMPARE(outline.front().events().step(), std::int64_t{60});
  }

  void theOutlineHasNoGaps() {
    SpoolOptions options;
    options.limitBytes = 300'000;
    auto spool = Spool::open(path("n.db"), options);
    QVERIFY(spool.ok());
    constexpr std::int64_t kSteps = 60'000;
    for (std::int64_t step = 1; step <= kSteps; ++step) {
      (*spool)->append(stepsRecord(0, step, 1));
      if (step % 100 == 0) QVERIFY((*spool)->flush().ok());
    }
    std::int64_t next = 1, outlined = 0;
    bool least = false;  // the first of two came
    for (const auto& record : readAll(**spool, 0)) {
      QVERIFY(record.has_steps());
      if (!least) QCOMPARE(record.steps().first_step(), next);
      least = record.outline_from() > 0 && !least;
      outlined += least;
      next = record.steps().first_step() + 1;
    }
    QCOMPARE(next, kSteps + 1);
    QVERIFY(outlined > 10);
  }

  // What a chunk says of its last step is not said of its first.
  void theOutlineSaysHowMuchWasSeen() {
    std::vector<run::v1::Record> records;
    for (const std::int64_t first : {1, 11, 21}) {
      run::v1::Record& record = records.emplace_back(stepsRecord(0, first, 10));
      record.set_sequence(records.size());
      record.mutable_steps()->set_samples_seen(64 * (first + 9));
    }
    for (int times = 0; times < 2; ++times) {
      records = agent::outlineOf(std::move(records));
      QCOMPARE(records.size(), std::size_t{2});
      QCOMPARE(records[0].steps().first_step(), std::int64_t{1});
      QCOMPARE(records[0].steps().samples_seen(), std::int64_t{64});
      QCOMPARE(records[1].steps().first_step(), std::int64_t{30});
      QCOMPARE(records[1].steps().samples_seen(), std::int64_t{64 * 30});
    }
  }

  // A reader that was on its way goes on with the outline and is told of no loss.
  void aReaderMeetsTheOutline() {
    SpoolOptions options;
    options.limitBytes = 500'000;
    auto spool = Spool::open(path("m.db"), options);
    QVERIFY(spool.ok());
    std::uint64_t after = 0;
    std::int64_t step = 0;
    for (int beat = 1; beat <= 4000; ++beat) {
      for (int rank = 0; rank < kRanks; ++rank) (*spool)->append(stepsRecord(rank, beat * 10, 10));
      if (beat % 100 != 0) continue;
      QVERIFY((*spool)->flush().ok());
      for (const Spool::Kept& kept : *(*spool)->read(after, 300, 0)) {
        run::v1::Record record;
        QVERIFY(record.ParseFromString(kept.bytes));
        QVERIFY(record.has_steps());
        QVERIFY(record.sequence() > after);
        after = kept.sequence;
        if (record.steps().rank() != 0) continue;
        QVERIFY(record.steps().first_step() > step);
        step = record.steps().first_step();
      }
    }
    QTRY_VERIFY_WITH_TIMEOUT(sizeOnDisk(path("m.db")) > 0 && !(*spool)->read(0, 1, 0)->empty(),
                             30000);
    for (const auto& record : readAll(**spool, after)) QVERIFY(!record.has_lost());
  }

  // Errors are not put together: where nothing else is left, the oldest are removed and said to be.
  void aSpoolOfErrorsIsBoundedToo() {
    SpoolOptions options;
    options.limitBytes = 200'000;
    run::v1::Record error;
    error.mutable_error()->set_plain_what(std::string(1000, 'x'));
    {
      auto spool = Spool::open(path("e.db"), options);
      QVERIFY(spool.ok());
      for (int i = 0; i < 5000; ++i) {
        (*spool)->append(error);
        if (i % 20 == 0) QVERIFY((*spool)->flush().ok());
      }
    }
    QVERIFY2(sizeOnDisk(path("e.db")) < 2 * options.limitBytes,
             std::to_string(sizeOnDisk(path("e.db"))).c_str());
    auto spool = Spool::open(path("e.db"), options);
    const auto records = readAll(**spool, 0);
    QVERIFY(records.size() > 100);
    QVERIFY(records.front().has_lost());
    QCOMPARE(records.front().lost().from(), std::uint64_t{1});
    QCOMPARE(records.front().lost().to(), records.front().sequence());
    for (std::size_t i = 1; i < records.size(); ++i)
      QCOMPARE(records[i].sequence(), records[i - 1].sequence() + 1);
    QCOMPARE(records.back().sequence(), std::uint64_t{5000});
  }

  void theAgeLimitHolds() {
    SpoolOptions options;
    {
      auto spool = Spool::open(path("f.db"), options);
      QVERIFY(spool.ok());
      for (int i = 0; i < 10; ++i) (*spool)->append(logRecord("old"));
    }
    options.clock = [&] { return wallNow() + options.maxAge + 1'000'000'000; };
    auto spool = Spool::open(path("f.db"), options);
    QVERIFY(spool.ok());
    (*spool)->append(logRecord("new"));
    const auto records = readAll(**spool, 0);
    QCOMPARE(records.size(), std::size_t{2});
    QCOMPARE(records[0].lost().to(), std::uint64_t{10});
    QCOMPARE(records[1].sequence(), std::uint64_t{11});
  }

  void timesDoNotFollowTheClock() {
    constexpr Nanoseconds kHour = 3'600'000'000'000;
    Nanoseconds jump = 0;
    SpoolOptions options;
    options.clock = [&] { return wallNow() + jump; };
    std::uint64_t after = 0;
    Nanoseconds last = 0;
    const Nanoseconds begin = wallNow();
    const auto check = [&](Spool& spool) {
      for (const Nanoseconds next : {kHour, -kHour, 300 * kHour, Nanoseconds{0}}) {
        jump = next;
        spool.append(sampleRecord(1));
        const auto records = readAll(spool, after);
        QCOMPARE(records.size(), std::size_t{1});
        QVERIFY(records[0].wall_ns() > last);
        QVERIFY(records[0].wall_ns() < begin + kHour / 2);
        last = records[0].wall_ns();
        after = records[0].sequence();
      }
    };
    {
      auto spool = Spool::open(path("g.db"), options);
      QVERIFY(spool.ok());
      check(**spool);
    }
    jump = -kHour;  // set back while nobody wrote
    auto spool = Spool::open(path("g.db"), options);
    QVERIFY(spool.ok());
    check(**spool);
  }

  void spoolGoesOnWhereTheDiskIsFull() {
    SpoolOptions options;
    options.maxPages = 20;  // 80 KiB
    options.pendingBytes = 200'000;
    std::atomic<int> troubles{0};
    options.onTrouble = [&](const Error& error) {
      if (error.code == Code::kResourceExhausted) ++troubles;
    };
    auto spool = Spool::open(path("c.db"), options);
    QVERIFY(spool.ok());
    const std::string text(1000, 'x');
    for (int i = 0; i < 12000; ++i) (*spool)->append(logRecord(text));
    QTRY_VERIFY_WITH_TIMEOUT(troubles.load() > 0, 60000);
    const auto records = readAll(**spool, 0);
    QCOMPARE(records.back().sequence(), std::uint64_t{12000});
    std::uint64_t expected = 1;
    bool lost = false;
    for (const auto& record : records) {
      if (record.has_lost()) {
        lost = true;
        QCOMPARE(record.lost().from(), expected);
      } else {
        QCOMPARE(record.sequence(), expected);
      }
      expected = record.sequence() + 1;
    }
    QVERIFY(lost);
  }

  void readersWaitForTheNext() {
    auto spool = Spool::open(path("d.db"), {});
    QVERIFY(spool.ok());
    std::thread writer([&] { (*spool)->append(logRecord("now")); });
    const auto records = (*spool)->read(0, 10, 5'000'000'000);
    writer.join();
    QVERIFY(records.ok());
    QCOMPARE(records->size(), std::size_t{1});
    QVERIFY((*spool)->read(1, 10, 0)->empty());
  }
};

QTEST_GUILESS_MAIN(SpoolTest)
#include "spool_test.moc"
