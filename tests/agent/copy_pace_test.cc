// The pace of copies, by a clock of its own.
#include "agent/supervisor/copy_pace.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/random.h"

using namespace lockstep;
using agent::CopyPace;

namespace {

constexpr std::int64_t kChunk = 1 << 20;
constexpr double kGigabit = 125e6;  // bytes per second
constexpr Nanoseconds kSecond = 1'000'000'000, kLimit = 1800 * kSecond;

double secondsOf(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

// Returns the time in which a file comes over a link that brings so many bytes per second.
Nanoseconds copied(CopyPace& pace, std::int64_t bytes, double brings) {
  const Nanoseconds begin = 7 * kSecond;
  Nanoseconds now = begin;
  for (std::int64_t came = 0; came < bytes; came += kChunk) {
    now += static_cast<Nanoseconds>(static_cast<double>(kChunk) / brings * 1e9);
    now += pace.after(kChunk, bytes, now);
  }
  return now - begin;
}

}  // namespace

class CopyPaceTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void aTenthOfTheLinkIsUsed() {
    for (const double link : {kGigabit, 10 * kGigabit, 100 * kGigabit}) {
      CopyPace pace(link, kLimit);
      const double seconds = secondsOf(copied(pace, 500 * kChunk, link));
      const double wanted = 500.0 * kChunk / (link / 10);
      QVERIFY2(std::abs(seconds / wanted - 1) < 0.02, std::to_string(seconds).c_str());
    }
  }

  // Nor does it make a slow network slower.
  void withoutALinkNothingWaits() {
    CopyPace pace(0, kLimit);
    for (int i = 0; i < 100; ++i) QCOMPARE(pace.after(kChunk, 100 * kChunk, kSecond), 0);
    CopyPace ample(1000 * kGigabit, kLimit);
    const double seconds = secondsOf(copied(ample, 500 * kChunk, kGigabit));
    QVERIFY(std::abs(seconds / (500.0 * kChunk / kGigabit) - 1) < 0.01);
  }

  // However large the file and slow the link, the pace is not what makes the copy fail.
  void itEndsWithinItsLimit() {
    const std::int64_t bytes = 20'000 * kChunk;
    CopyPace pace(kGigabit, 600 * kSecond);
    const double seconds = secondsOf(copied(pace, bytes, kGigabit));
    QVERIFY2(seconds < 310, std::to_string(seconds).c_str());
    QVERIFY2(seconds > 290, std::to_string(seconds).c_str());
  }

  // The connection shows that it lives, also on a slow link.
  void aChunkComesEverySecond() {
    CopyPace pace(1e5, kLimit);
    Nanoseconds now = kSecond;
    for (int i = 0; i < 100; ++i) {
      const Nanoseconds wait = pace.after(kChunk, 100 * kChunk, now);
      QVERIFY(wait <= kSecond + 1);
      now += wait;
    }
  }

  // Whatever the chunks and pauses, no interval has more than a tenth and the bucket.
  void seededSeries() {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      std::uint64_t drawn = 0;
      const auto random = [&](std::uint64_t below) {
        return static_cast<std::int64_t>(randomBits(seed, drawn++) % below);
      };
      const double link = static_cast<double>(100'000'000 + random(10'000'000'000));
      CopyPace pace(link, kLimit);
      std::vector<std::pair<Nanoseconds, std::int64_t>> came;
      Nanoseconds now = kSecond + random(kSecond);
      for (int i = 0; i < 60; ++i) {
        const std::int64_t bytes = 1 + random(kChunk);
        came.emplace_back(now, bytes);
        now += pace.after(bytes, 100 * kChunk, now);
        if (random(5) == 0) now += random(kSecond / 2);
      }
      for (std::size_t first = 0; first < came.size(); ++first) {
        std::int64_t bytes = 0;
        for (std::size_t i = first; i < came.size(); ++i) {
          bytes += came[i].second;
          const double seconds = secondsOf(came[i].first - came[first].first);
          const double most = seconds * std::max(link / 10, double{kChunk}) + 2.0 * kChunk + 64;
          QVERIFY(static_cast<double>(bytes) <= most);
        }
      }
    }
  }
};

QTEST_GUILESS_MAIN(CopyPaceTest)
#include "copy_pace_test.moc"
