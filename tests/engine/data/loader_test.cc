// The order of samples, and the batches that a loader makes of them.
#include <QElapsedTimer>
#include <QTest>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <tuple>

#include "engine/base/clock.h"
#include "engine/data/dataset.h"
#include "tests/support/sanitizers.h"

namespace lockstep::tests {
namespace {

using data::Batch;
using data::Loader;

std::vector<std::int64_t> epochOrder(std::int64_t size, std::uint64_t seed, std::int64_t epoch,
                                     bool shuffle,
                                     std::int64_t tableSamples = data::SampleOrder::kTableSamples) {
  data::SampleOrder order(size, seed, shuffle, tableSamples);
  order.begin(epoch);
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < size; ++i) out.push_back(order.at(i));
  return out;
}

// Sample i holds the number i.
class Numbers final : public data::Dataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const std::vector<data::Field>& fields() const override { return fields_; }
  // Not inlined: devirtualization would cause warnings about other data sets' sizes.
  [[gnu::noinline]] void read(std::int64_t index, std::size_t, std::byte* out) const override {
    std::memcpy(out, &index, sizeof index);
  }

 private:
  std::int64_t size_;
  std::vector<data::Field> fields_{{"n", DType::kI64, {}}};
};

// Images of 4×5 pixels of two bytes, all distinct.
class Pictures final : public data::Dataset {
 public:
  explicit Pictures(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const std::vector<data::Field>& fields() const override { return fields_; }
  [[gnu::noinline]] void read(std::int64_t index, std::size_t, std::byte* out) const override {
    for (std::int64_t i = 0; i < 40; ++i) out[i] = static_cast<std::byte>(1 + i + index);
  }

 private:
  std::int64_t size_;
  std::vector<data::Field> fields_{{"x", DType::kU8, {4, 5, 2}}};
};

// As Numbers, of which each takes `milliseconds`: asleep, as behind a slow disk, or computing.
class SlowNumbers final : public data::Dataset {
 public:
  SlowNumbers(int milliseconds, bool sleeps) : milliseconds_(milliseconds), sleeps_(sleeps) {}
  std::int64_t size() const override { return numbers_.size(); }
  const std::vector<data::Field>& fields() const override { return numbers_.fields(); }
  [[gnu::noinline]] void read(std::int64_t index, std::size_t field,
                              std::byte* out) const override {
    numbers_.read(index, field, out);
    if (sleeps_) return std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
    const Nanoseconds end = threadCpuNow() + milliseconds_ * Nanoseconds{1'000'000};
    while (threadCpuNow() < end) {
    }
  }

 private:
  Numbers numbers_{1000};
  int milliseconds_;
  bool sleeps_;
};

std::int64_t numberAt(const Batch& batch, std::size_t place) {
  std::int64_t number = 0;
  std::memcpy(&number, batch.fields[0].data() + place * 8, 8);
  return number;
}

}  // namespace

class LoaderTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void orders() {
    QElapsedTimer clock;
    clock.start();
    const auto order = epochOrder(60'000, 1, 0, true);
    QVERIFY(clock.elapsed() < 5000);
    auto sorted = order;
    std::sort(sorted.begin(), sorted.end());
    const auto identity = epochOrder(60'000, 1, 0, false);
    QCOMPARE(sorted, identity);
    QVERIFY(order != identity);
    QCOMPARE(order, epochOrder(60'000, 1, 0, true));
    QVERIFY(order != epochOrder(60'000, 1, 1, true));
    QVERIFY(order != epochOrder(60'000, 2, 0, true));
    // Every position is equally likely: 3! orders of 3 over 60,000 epochs, within 5 standard
    // deviations.
    std::vector<int> counts(27);
    for (int epoch = 0; epoch < 60'000; ++epoch) {
      const auto small = epochOrder(3, 5, epoch, true);
      ++counts[static_cast<std::size_t>(small[0] * 9 + small[1] * 3 + small[2])];
    }
    for (const int count : counts) QVERIFY(count == 0 || std::abs(count - 10'000) < 5 * 92);
    QVERIFY(epochOrder(0, 1, 0, true).empty());
  }

  // A computed order is a permutation like a table, for any size.
  void ordersWithoutTables() {
    for (std::int64_t size = 1; size <= 300; ++size)
      for (const std::uint64_t seed : {1u, 2u, 77u}) {
        const auto order = epochOrder(size, seed, 3, true, 0);
        auto sorted = order;
        std::sort(sorted.begin(), sorted.end());
        QCOMPARE(sorted, epochOrder(size, seed, 3, false));
        QCOMPARE(order, epochOrder(size, seed, 3, true, 0));
        if (size > 20)
          QVERIFY(order != epochOrder(size, seed, 4, true, 0) &&
                  order != epochOrder(size, seed + 1, 3, true, 0));
      }
    std::vector<int> counts(10);  // every place is equally likely; 5 standard deviations
    for (int epoch = 0; epoch < 60'000; ++epoch) {
      data::SampleOrder order(1000, 5, true, 0);
      order.begin(epoch);
      ++counts[static_cast<std::size_t>(order.at(17) / 100)];
    }
    for (const int count : counts)
      QVERIFY2(std::abs(count - 6'000) < 5 * 74, fmt::format("{}", count).c_str());
    // Neighbours are spread: the mean distance of two positions is a third of the size, within five
    // standard deviations.
    const auto wide = epochOrder(100'000, 9, 0, true, 0);
    double distance = 0;
    for (std::size_t i = 1; i < wide.size(); ++i)
      distance += static_cast<double>(std::abs(wide[i] - wide[i - 1])) / 1e5;
    QVERIFY2(std::abs(distance / 1e5 - 1.0 / 3) < 5 * 0.25 / std::sqrt(1e5),
             fmt::format("{}", distance / 1e5).c_str());
  }

  // More samples than fit 32 bits: no table, every sample below the size, no duplicates.
  void moreSamplesThan32Bits() {
    for (const std::int64_t size :
         {(std::int64_t{1} << 26) + 1, (std::int64_t{1} << 32) - 1, std::int64_t{1} << 32,
          (std::int64_t{1} << 32) + 5, (std::int64_t{1} << 45) + 12345}) {
      data::SampleOrder order(size, 7, true);
      order.begin(2);
      std::set<std::int64_t> seen;
      std::int64_t beyond = 0;
      for (std::int64_t i = 0; i < 20'000; ++i) {
        const std::int64_t sample = order.at(i < 10'000 ? i : size - 1 - (i - 10'000));
        QVERIFY(sample >= 0 && sample < size);
        QVERIFY(seen.insert(sample).second);
        beyond += sample > size / 2 ? 1 : 0;
      }
      QVERIFY2(std::abs(static_cast<double>(beyond) - 10'000) < 5 * std::sqrt(5000.0),
               fmt::format("{}", beyond).c_str());
    }
    const Numbers numbers((std::int64_t{1} << 32) + 3);
    const std::int64_t steps = data::stepsPerEpoch(numbers.size(), 8);
    QCOMPARE(steps, (std::int64_t{1} << 29) + 1);
    Loader::Options options{8, 0, 8, 9, true, steps - 2, steps + 2, 2};
    const auto loader = Loader::make(numbers, options);
    QVERIFY(loader.ok());
    std::int64_t count = 0;
    while (const Batch* batch = (*loader)->next()) {
      QCOMPARE(batch->position.epoch, batch->step < steps ? 0 : 1);
      QCOMPARE(batch->position.count, batch->step == steps - 1 ? 3 : 8);
      ++count;
    }
    QCOMPARE(count, 4);
  }

  // Without memory for the batches: an error that names purpose and size.
  void batchesThatNoMemoryHolds() {
    if (test::kSanitized) QSKIP("the address sanitizer ends a process that asks for so much");
    const Numbers numbers(1000);
    Loader::Options options;
    options.globalBatch = options.end = std::int64_t{1} << 50;
    const auto loader = Loader::make(numbers, options);
    QVERIFY(!loader.ok());
    QCOMPARE(loader.error().code, Code::kResourceExhausted);
    QVERIFY2(loader.error().what.text().starts_with("out of memory for 8 batches of samples: "),
             loader.error().what.text().c_str());
    QVERIFY2(loader.error().what.text().ends_with(" GiB"), loader.error().what.text().c_str());
  }

  void positions() {
    QCOMPARE(data::stepsPerEpoch(100, 32), 4);
    QCOMPARE(data::stepsPerEpoch(96, 32), 3);
    const auto last = data::batchPosition(100, 32, 7);
    QCOMPARE(last.epoch, 1);
    QCOMPARE(last.first, 96);
    QCOMPARE(last.count, 4);
  }

  void everySampleOncePerEpoch() {
    const Numbers numbers(103);
    for (const std::int64_t world : {1, 2, 3, 4, 7}) {
      std::vector<std::vector<std::int64_t>> seen(3);
      for (std::int64_t rank = 0; rank < world; ++rank) {
        Loader::Options options;
        options.globalBatch = 16;
        options.begin = 16 * rank / world;
        options.end = 16 * (rank + 1) / world;
        options.seed = 3;
        options.lastStep = 3 * data::stepsPerEpoch(103, 16);
        Loader loader(numbers, options);
        std::int64_t step = 0;
        while (const Batch* batch = loader.next()) {
          QCOMPARE(batch->step, step++);
          for (std::size_t i = 0; i < batch->weights.size(); ++i) {
            const std::int64_t place = options.begin + static_cast<std::int64_t>(i);
            QCOMPARE(batch->weights[i], place < batch->position.count ? 1.0f : 0.0f);
            if (batch->weights[i] == 0.0f)
              QCOMPARE(numberAt(*batch, i), 0);
            else
              seen[static_cast<std::size_t>(batch->position.epoch)].push_back(numberAt(*batch, i));
          }
        }
        QCOMPARE(step, options.lastStep);
        QVERIFY(loader.next() == nullptr);
      }
      for (auto& epoch : seen) {
        std::sort(epoch.begin(), epoch.end());
        QCOMPARE(epoch, epochOrder(103, 0, 0, false));
      }
    }
  }

  void resumedLoaderGoesOnAlike() {
    const Numbers numbers(50);
    Loader::Options options{8, 0, 8, 9, true, 0, 20, 2};
    Loader whole(numbers, options);
    for (int i = 0; i < 11; ++i) QVERIFY(whole.next() != nullptr);
    options.firstStep = 11;
    Loader resumed(numbers, options);
    while (const Batch* batch = whole.next()) {
      const Batch* other = resumed.next();
      QVERIFY(other != nullptr);
      QCOMPARE(other->step, batch->step);
      QVERIFY(other->fields == batch->fields && other->weights == batch->weights);
    }
    QVERIFY(resumed.next() == nullptr);
  }

  // Augmentation depends neither on the number of ranks nor on which one loads a sample.
  void augmentedImagesAreTheSameWhateverTheWorldSize() {
    const Pictures pictures(30);
    const std::size_t bytes = static_cast<std::size_t>(pictures.fields()[0].bytes());
    const auto loaded = [&](std::int64_t world) {
      std::vector<std::vector<std::byte>> out;
      std::vector<std::unique_ptr<Loader>> loaders;
      for (std::int64_t rank = 0; rank < world; ++rank) {
        Loader::Options options{12, 12 * rank / world, 12 * (rank + 1) / world, 5, true, 0, 6};
        options.augment = {2, true};
        loaders.push_back(std::make_unique<Loader>(pictures, options));
      }
      for (int step = 0; step < 6; ++step)
        for (auto& loader : loaders) {
          const Batch* batch = loader->next();
          for (std::size_t i = 0; i < batch->weights.size(); ++i)
            out.emplace_back(
                batch->fields[0].begin() + static_cast<std::ptrdiff_t>(i * bytes),
                batch->fields[0].begin() + static_cast<std::ptrdiff_t>((i + 1) * bytes));
        }
      return out;
    };
    const auto one = loaded(1);
    QCOMPARE(one.size(), std::size_t{72});
    QVERIFY(loaded(2) == one);
    QVERIFY(loaded(3) == one);
  }

  // Every shift within the limit and both orientations are equally frequent; pixel values are
  // preserved.
  void augmentedImagesAreShiftedAndMirrored() {
    const Pictures pictures(1);
    std::vector<std::byte> image(4 * 5 * 2), out(image.size());
    pictures.read(0, 0, image.data());
    const data::ImageSize size{4, 5, 2};
    const auto expected = [&](std::int64_t down, std::int64_t right, bool mirrored) {
      std::vector<std::byte> moved(image.size(), std::byte{0});
      for (std::int64_t y = 0; y < 4; ++y)
        for (std::int64_t x = 0; x < 5; ++x) {
          const std::int64_t fromY = y - down, left = x - right, fromX = mirrored ? 4 - left : left;
          if (fromY < 0 || fromY >= 4 || fromX < 0 || fromX >= 5) continue;
          std::copy_n(image.begin() + (fromY * 5 + fromX) * 2, 2, moved.begin() + (y * 5 + x) * 2);
        }
      return moved;
    };
    std::map<std::tuple<int, int, bool>, int> counts;
    for (int epoch = 0; epoch < 9000; ++epoch) {
      data::augmentImage({1, true}, size, 3, epoch, 0, image.data(), out.data());
      int found = 0;
      for (int down = -1; down <= 1; ++down)
        for (int right = -1; right <= 1; ++right)
          for (const bool mirrored : {false, true})
            if (out == expected(down, right, mirrored)) ++found, ++counts[{down, right, mirrored}];
      QCOMPARE(found, 1);
    }
    QCOMPARE(counts.size(), std::size_t{18});
    for (const auto& [place, count] : counts) QVERIFY(std::abs(count - 500) < 120);
    data::augmentImage({}, size, 3, 0, 0, image.data(), out.data());
    QVERIFY(out == image);
    data::augmentImage({40, false}, size, 3, 1, 0, image.data(), out.data());
  }

  void batchesStayUntilTheNextCall() {
    const Numbers numbers(64);
    Loader loader(numbers, {4, 0, 4, 1, false, 0, 64, 1});
    for (std::int64_t step = 0; step < 64; ++step) {
      const Batch* batch = loader.next();
      for (int yields = 0; yields < 20; ++yields) std::this_thread::yield();
      for (std::size_t i = 0; i < 4; ++i)
        QCOMPARE(numberAt(*batch, i), (step * 4 + static_cast<std::int64_t>(i)) % 64);
    }
  }

  // What other work of this machine does to it is not the files'.
  void waitingForFilesIsTold() {
    if (ThreadTime::now().queued < 0) QSKIP("the kernel does not count the wait for cores");
    for (const bool sleeps : {true, false}) {
      const SlowNumbers numbers(4, sleeps);
      Loader loader(numbers, {5, 0, 5, 1, false, 0, 10, 1});
      double least = 1;  // a host may take its cores from a virtual machine now and then
      for (int i = 0; i < 10; ++i) least = std::min(least, loader.next()->readingSeconds);
      QVERIFY2(sleeps ? least >= 0.019 : least < 0.01, qPrintable(QString::number(least)));
    }
  }

  void endsAtAnyTime() {
    const Numbers numbers(1000);
    for (int taken = 0; taken < 30; ++taken) {
      Loader loader(numbers, {10, 0, 10, 1, true, 0, 1000, 3});
      for (int i = 0; i < taken; ++i) QVERIFY(loader.next() != nullptr);
    }
    Loader none(numbers, {10, 0, 10, 1, true, 5, 5, 3});
    QVERIFY(none.next() == nullptr);
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::LoaderTest)
#include "loader_test.moc"
