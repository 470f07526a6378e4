// Looking for numbers that are not finite, in made-up data.
#include <QTest>

#include <cstring>
#include <random>
#include <vector>

#include "engine/runtime/finite.h"

using lockstep::DType;
using lockstep::runtime::firstNonFinite;

namespace {

struct Kind {
  DType dtype;
  std::size_t bytes;
  std::uint64_t exponent;  // its bits
};
constexpr Kind kKinds[] = {{DType::kF64, 8, 0x7ff0000000000000u},
                           {DType::kF32, 4, 0x7f800000u},
                           {DType::kBf16, 2, 0x7f80u},
                           {DType::kF16, 2, 0x7c00u}};

class FiniteTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void theFirstIsFound();
  void integersAreFinite();
};

void FiniteTest::theFirstIsFound() {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    const Kind& kind = kKinds[seed % std::size(kKinds)];
    const auto count = static_cast<std::int64_t>(random() % 5000);
    const std::size_t unaligned = random() % 8;
    std::vector<std::byte> memory(unaligned + static_cast<std::size_t>(count) * kind.bytes);
    const std::span<std::byte> data = std::span(memory).subspan(unaligned);
    const auto put = [&](std::int64_t at, std::uint64_t word) {
      std::memcpy(data.data() + static_cast<std::size_t>(at) * kind.bytes, &word, kind.bytes);
    };
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t word = random();
      // Any number with a bit of its exponent unset.
      put(i, word & ~(kind.exponent & (~kind.exponent + 1)));
    }
    QCOMPARE(firstNonFinite(data, kind.dtype), std::int64_t{-1});
    std::int64_t first = -1;
    for (std::uint64_t planted = count > 0 ? random() % 3 : 0; planted > 0; --planted) {
      const auto at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
      put(at, random() | kind.exponent);
      first = first < 0 ? at : std::min(first, at);
    }
    QVERIFY2(firstNonFinite(data, kind.dtype) == first, qPrintable(QString("seed %1").arg(seed)));
  }
}

void FiniteTest::integersAreFinite() {
  const std::vector<std::byte> ones(64, std::byte{0xff});
  QCOMPARE(firstNonFinite(ones, DType::kI32), std::int64_t{-1});
}

}  // namespace

QTEST_APPLESS_MAIN(FiniteTest)
#include "finite_test.moc"
