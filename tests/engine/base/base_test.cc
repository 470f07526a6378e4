// Tests of engine/base: errors, hashes, random numbers, durable files, suggestions.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <QElapsedTimer>
#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numbers>
#include <random>
#include <thread>

#include "engine/base/byte_size.h"
#include "engine/base/clock.h"
#include "engine/base/crc32c.h"
#include "engine/base/dtype.h"
#include "engine/base/file.h"
#include "engine/base/file_system.h"
#include "engine/base/find_program.h"
#include "engine/base/float16.h"
#include "engine/base/hash.h"
#include "engine/base/hex.h"
#include "engine/base/random.h"
#include "engine/base/remove_tree.h"
#include "engine/base/shell_text.h"
#include "engine/base/status.h"
#include "engine/base/subnormals.h"
#include "engine/base/suggest.h"
#include "engine/base/unique_fd.h"

using namespace lockstep;

namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return invalidArgument("{} is odd", number);
  return number / 2;
}
Result<int> quarter(int number) {
  LOCKSTEP_ASSIGN(const int once, half(number));
  LOCKSTEP_ASSIGN(const int twice, half(once));
  return twice;
}
Status even(int number) {
  LOCKSTEP_TRY(half(number).status());
  return {};
}

Status write(const std::string& path, std::string_view text, PageCache cache) {
  return writeFileAtomically(
      path, [&](const Append& append) { return append(text); }, 0600, cache);
}

// Returns how many bytes of a file are in memory; -1 on an error.
std::int64_t cachedBytes(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info {};
  if (!file || fstat(file.get(), &info) != 0) return -1;
  const auto size = static_cast<std::size_t>(info.st_size);
  void* const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return -1;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((size + page - 1) / page);
  const bool isKnown = mincore(mapped, size, pages.data()) == 0;
  munmap(mapped, size);
  if (!isKnown) return -1;
  return static_cast<std::int64_t>(page) *
         std::count_if(pages.begin(), pages.end(), [](unsigned char one) { return one & 1; });
}

// Each number and what lies between it and the next one, which is rounded to the nearer of the two
// and, in the middle, to the even one.
template <typename Half>
void roundsToNearest(std::uint16_t infinity) {
  const auto value = [](int bits) {
    return static_cast<double>(Half{static_cast<std::uint16_t>(bits)});
  };
  QCOMPARE(value(infinity), std::numeric_limits<double>::infinity());
  for (int bits = 0; bits < infinity; ++bits) {
    const double low = value(bits);
    QCOMPARE(Half::of(low).bits, bits);
    QCOMPARE(Half::of(-low).bits, bits | 0x8000);
    // What would follow the largest number stands at infinity's place.
    const double high = bits + 1 < infinity ? value(bits + 1) : low + (low - value(bits - 1));
    const double middle = low + (high - low) / 2;
    QVERIFY(low < high);
    QCOMPARE(Half::of(middle).bits, bits + bits % 2);
    QCOMPARE(Half::of(std::nextafter(middle, low)).bits, bits);
    QCOMPARE(Half::of(std::nextafter(middle, high)).bits, bits + 1);
  }
  QCOMPARE(Half::of(std::numeric_limits<double>::max()).bits, infinity);
  QCOMPARE(Half::of(-std::numeric_limits<double>::infinity()).bits, infinity | 0x8000);
  QCOMPARE(Half::of(std::numeric_limits<double>::denorm_min()).bits, 0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  QVERIFY(std::isnan(static_cast<double>(Half::of(nan))));
}

}  // namespace

class BaseTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // A kernel that counts no waits for cores writes zeros.
  void theWaitForCoresIsKnownWhereItIsCounted() {
    QCOMPARE(ThreadTime::queuedOf("5 7 1\n"), Nanoseconds{7});
    QCOMPARE(ThreadTime::queuedOf("0 2421145 3"), Nanoseconds{2421145});
    QCOMPARE(ThreadTime::queuedOf("0 0 1\n"), Nanoseconds{0});
    for (const char* text : {"0 0 0\n", "", "\n", "5", "5 7", "5 7 x", "a b c", "5 7 "})
      QCOMPARE(ThreadTime::queuedOf(text), Nanoseconds{-1});
    const ThreadTime begin{100, 10, 5}, unknown{100, 10, -1};
    QCOMPARE((ThreadTime{200, 40, 25}).blockedSince(begin), Nanoseconds{50});
    QCOMPARE((ThreadTime{200, 40, -1}).blockedSince(begin), Nanoseconds{0});
    QCOMPARE((ThreadTime{200, 40, 25}).blockedSince(unknown), Nanoseconds{0});
  }

  void byteSizes() {
    const std::pair<std::string_view, std::int64_t> good[] = {
        {"0", 0},
        {"65536", 65536},
        {"7B", 7},
        {"256MiB", 256 << 20},
        {"256 MiB", 256 << 20},
        {"1.5GiB", std::int64_t{3} << 29},
        {"0.3kB", 300},
        {"10GB", 10'000'000'000},
        {"9223372036854775807", std::numeric_limits<std::int64_t>::max()},
        {"8388607TiB", std::int64_t{8388607} << 40},
    };
    for (const auto& [text, size] : good) {
      QVERIFY2(parseByteSize(text).has_value(), std::string(text).c_str());
      QCOMPARE(*parseByteSize(text), size);
    }
    for (const std::string_view wrong :
         {"",           "MiB",          ".",        ".MiB",
          "-1",         "+1",           "1e3",      "1mib",
          "1 ",         "1  MiB",       "1.2.3",    "1.5",
          "1.5B",       "1MiBx",        "0x10",     "9223372036854775808",
          "8388608TiB", "9999999.5TiB", "1 TiBTiB", "inf",
          "nan"})
      QVERIFY2(!parseByteSize(wrong), std::string(wrong).c_str());
  }

  void errorsPassThrough() {
    QCOMPARE(*quarter(12), 3);
    QCOMPARE(quarter(6).error().what, std::string("3 is odd"));
    QVERIFY(even(4).ok());
    QVERIFY(even(5).code() == Code::kInvalidArgument);
    QVERIFY(Status().code() == Code::kOk);
  }

  // Known values (RFC 3720 B.4); both implementations agree on any bytes in any pieces.
  void checksums() {
    const auto of = [](std::string_view text) { return crc32c(std::as_bytes(std::span(text))); };
    QCOMPARE(of(""), 0u);
    QCOMPARE(of("123456789"), 0xe3069283u);
    QCOMPARE(of(std::string(32, '\0')), 0x8a9136aau);
    QCOMPARE(of(std::string(32, '\xff')), 0x62a8ab43u);
    std::string bytes(20'000, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(randomBits(1, i));
    const auto all = std::as_bytes(std::span(std::as_const(bytes)));
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      const std::size_t from = randomBits(seed, 0) % 100,
                        count = randomBits(seed, 1) % (bytes.size() - from);
      const auto part = all.subspan(from, count);
      const std::uint32_t sum = crc32c(part);
      QCOMPARE(crc32cByTables(part), sum);
      const std::size_t cut = count == 0 ? 0 : randomBits(seed, 2) % count;
      QCOMPARE(crc32c(part.subspan(cut), crc32c(part.first(cut))), sum);
      if (count == 0) continue;
      char& hit = bytes[from + randomBits(seed, 3) % count];
      hit = static_cast<char>(hit ^ 1 << seed % 8);
      QVERIFY(crc32c(part) != sum);
      hit = static_cast<char>(hit ^ 1 << seed % 8);
    }
    const std::vector<std::byte> large(std::size_t{64} << 20);
    const auto rate = [&](auto sum) {
      QElapsedTimer clock;
      clock.start();
      const std::uint32_t found = sum(std::span<const std::byte>(large), 0u);
      return fmt::format(
          "{:.1f} GB/s ({:08x})",
          static_cast<double>(large.size()) / static_cast<double>(clock.nsecsElapsed()), found);
    };
    qInfo("crc32c: %s, by tables %s", rate([](auto b, auto c) { return crc32c(b, c); }).c_str(),
          rate([](auto b, auto c) { return crc32cByTables(b, c); }).c_str());
  }

  void subnormalsAreZeroWhereTheyAreFlushed() {
    volatile float least = std::numeric_limits<float>::min();
    volatile float subnormal = least / 2;
    const auto flushed = [&] { return least / 2 == 0 && subnormal * 2 == 0; };
    QVERIFY(!flushed());
#if defined(__x86_64__) || defined(__aarch64__)
    {
      const FlushSubnormals here;
      QVERIFY(flushed());
      bool there = false;
      std::thread([&] { there = flushed(); }).join();
      QVERIFY(there);
    }
#endif
    QVERIFY(!flushed());
  }

  void errorTextSaysWhereWhatWhyNext() {
    Error error = makeError(Code::kUnavailable, "cannot reach peer");
    QCOMPARE(error.text(), std::string("cannot reach peer"));
    error.node = "n2";
    error.rank = 1;
    error.step = 40;
    error.why = "connection refused";
    error.next = "start its agent";
    QCOMPARE(error.text(), std::string("node n2, rank 1, step 40: cannot reach peer: connection "
                                       "refused (start its agent)"));
    error.why = "its last lines:\nstarts\nfails";
    QCOMPARE(error.text(), std::string("node n2, rank 1, step 40: cannot reach peer: its last "
                                       "lines:\nstarts\nfails\n(start its agent)"));
  }

  void messagesKeepPatternAndArguments() {
    const Message nested = message("rank {} was lost", 3);
    const Message all =
        message("{0}: {1:.2f} s of {{most}}, {2} and {0}", nested, 1.234, std::string("x {}"));
    QCOMPARE(all.text(),
             std::string("rank 3 was lost: 1.23 s of {most}, x {} and rank 3 was lost"));
    QCOMPARE(all.id(), std::string("%1: %2 s of {most}, %3 and %4"));
    QCOMPARE(all.arguments().size(), std::size_t{4});
    QCOMPARE(all.arguments()[0].id(), std::string("rank %1 was lost"));
    QCOMPARE(all.arguments()[0].arguments()[0], Message("3"));
    QCOMPARE(all.arguments()[1].text(), std::string("1.23"));
    // A message alone is itself, a text without arguments is its own id.
    QCOMPARE(message("{}", nested).id(), nested.id());
    QCOMPARE(message("100 % {{}}").id(), std::string("100 % {}"));
    QCOMPARE(Message("plain {}").text(), std::string("plain {}"));
    QVERIFY(Message().empty() && Message(static_cast<const char*>(nullptr)).empty());
  }

  void remediesAreSaid() {
    const Error error = withRemedies(
        invalidArgument("too few"),
        {{{"training.batch", "20"}}, {{"strategy.tensor", "1"}, {"strategy.shares", ""}}});
    QCOMPARE(error.text(),
             std::string("too few (set training.batch to 20, or set strategy.tensor to 1 and leave "
                         "strategy.shares out)"));
    QCOMPARE(error.remedies[1][1], (Setting{"strategy.shares", ""}));
    QVERIFY(withRemedies(error, {}).next.empty());
  }

  void codeNamesReadBack() {
    for (int i = 0; i <= static_cast<int>(Code::kInternal); ++i) {
      const Code code = static_cast<Code>(i);
      QVERIFY(codeFromName(codeName(code)) == code);
    }
    QVERIFY(!codeFromName("no-such-code"));
    QVERIFY(systemError(ENOSPC, "x").code == Code::kResourceExhausted);
    QVERIFY(systemError(EACCES, "x").code == Code::kPermissionDenied);
    QCOMPARE(systemError(ENOSPC, "x").next, std::string("free space there"));
    QVERIFY(systemError(EINVAL, "x").next.empty());
  }

  void dtypes() {
    for (DType dtype : {DType::kF32, DType::kF64, DType::kBf16, DType::kF16, DType::kI32,
                        DType::kI64, DType::kU8})
      QVERIFY(dtypeFromName(dtypeName(dtype)) == dtype);
    QVERIFY(!dtypeFromName("f8"));
    QCOMPARE(sizeOf(DType::kBf16), std::size_t{2});
    QCOMPARE(shapeText({64, 784}), std::string("64x784"));
    QCOMPARE(elementCount({}), std::int64_t{1});
  }

  void sixteenBitFloatsRoundToNearest() {
    roundsToNearest<F16>(0x7c00);
    roundsToNearest<Bf16>(0x7f80);
  }

  void hexadecimalDigits() {
    QCOMPARE(toHex(std::string("\0\x0f\xa5\xff", 4)), std::string("000fa5ff"));
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    QCOMPARE(*fromHex(toHex(all)), all);
    QCOMPARE(*fromHex("A5"), std::string("\xa5"));
    QVERIFY(fromHex("")->empty());
    for (const char* wrong : {"a", "0g", "g0", "-1", " 1", "0x00", "00 "})
      QVERIFY2(!fromHex(wrong), wrong);
  }

  void wordsForAShell() {
    QCOMPARE(shellQuote("it's"), std::string("'it'\\''s'"));
    QCOMPARE(shellLine({"lockstep", "cluster", "deploy", "/home/me/my lab.yaml", ""}),
             std::string("lockstep cluster deploy '/home/me/my lab.yaml' ''"));
  }

  void programsAreFoundInFolders() {
    const QByteArray path = qgetenv("PATH");
    const QString current = QDir::currentPath();
    const auto restore = qScopeGuard([&] {
      qputenv("PATH", path);
      QDir::setCurrent(current);
    });
    const QTemporaryDir first, second;
    const std::string text = first.filePath("tool").toStdString(),
                      tool = second.filePath("tool").toStdString();
    QVERIFY(writeFileAtomically(text, "", 0644).ok());  // not executable
    QVERIFY(writeFileAtomically(tool, "", 0755).ok());
    qputenv("PATH", (first.path() + "::" + second.path()).toUtf8());
    QCOMPARE(findProgram("tool"), tool);
    QCOMPARE(findProgram("tools"), std::string());
    qunsetenv("PATH");
    QCOMPARE(findProgram("tool"), std::string());
    QCOMPARE(findProgram("tool", second.path().toStdString()), tool);
    QCOMPARE(findProgram(tool), tool);
    QCOMPARE(findProgram(text), std::string());
    QVERIFY(QDir::setCurrent(second.path()));
    qputenv("PATH", ".:");
    QCOMPARE(findProgram("tool"), std::string());
  }

  void hashes() {
    QCOMPARE(sha256Hex("abc"),
             std::string("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
    Sha256 parts;
    parts.update("a");
    parts.update("bc");
    QCOMPARE(parts.hex(), sha256Hex("abc"));
    QVERIFY(stableHash("dense1.weight") != stableHash("dense1.bias"));
    QCOMPARE(stableHash("dense1.weight"), stableHash(std::string("dense1.") + "weight"));
  }

  void randomStreamsAreFunctionsOfTheirIndex() {
    const std::uint64_t key = randomKey(1, stableHash("dense1.weight"));
    QCOMPARE(randomUniform(key, 7), randomUniform(key, 7));
    QVERIFY(randomUniform(key, 7) != randomUniform(key, 8));
    QVERIFY(randomUniform(key, 7) != randomUniform(key + 1, 7));
    double sum = 0, squares = 0, normal = 0, normalSquares = 0;
    constexpr int kCount = 100000;
    for (int i = 0; i < kCount; ++i) {
      const double u = randomUniform(key, static_cast<std::uint64_t>(i));
      QVERIFY(u >= 0 && u < 1);
      sum += u;
      squares += u * u;
      const double n = randomNormal(key, static_cast<std::uint64_t>(i));
      normal += n;
      normalSquares += n * n;
    }
    // Within six standard deviations of the mean.
    QVERIFY(std::abs(sum / kCount - 0.5) < 6 * 0.2887 / std::sqrt(kCount));
    QVERIFY(std::abs(squares / kCount - 1.0 / 3) < 6 * 0.2981 / std::sqrt(kCount));
    QVERIFY(std::abs(normal / kCount) < 6 / std::sqrt(kCount));
    QVERIFY(std::abs(normalSquares / kCount - 1) < 6 * std::sqrt(2.0 / kCount));
    // Compares with the math library on the same random words.
    for (std::uint64_t i = 0; i < 200000; ++i) {
      const double u = 1.0 - randomUniform(key, 2 * i), v = randomUniform(key, 2 * i + 1);
      const double expected = std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
      // The library rounds the cosine's argument.
      const double rounding = std::sqrt(-2.0 * std::log(u)) * 1e-15;
      QVERIFY(std::abs(randomNormal(key, i) - expected) <= rounding + 4e-16 * std::abs(expected));
    }
    // The sequence determines every trained model: it must never change.
    QCOMPARE(randomNormal(1, 0), 0x1.ce0d00fd648ddp-3);
    QCOMPARE(randomNormal(77, 5), -0x1.edab4f703bbep+0);
    QCOMPARE(mix64(0), std::uint64_t{0xe220a8397b1dcdafu});
    QCOMPARE(mix64(1), std::uint64_t{0x910a2dec89025cc1u});
  }

  // Within two units in the last place, including range ends and zeros.
  void logarithmAndCosine() {
    const auto units = [](double got, long double exact) {
      int exponent = 0;
      std::frexp(static_cast<double>(exact), &exponent);
      return std::abs(static_cast<double>((static_cast<long double>(got) - exact) /
                                          std::ldexp(1.0L, exponent - 53)));
    };
    const auto log = [](double x) { return random::logarithm<double, std::uint64_t>(x); };
    const auto cosine = [](double v) { return random::cosineOfTurns<double, std::uint64_t>(v); };
    for (std::uint64_t i = 0; i < 200000; ++i) {
      double u = 1.0 - randomUniform(3, i);
      if (i % 3 == 0) u = std::max(std::ldexp(u, -static_cast<int>(i % 53)), 0x1p-53);
      if (i % 3 == 1) u = 1.0 - std::ldexp(1.0 - u, -static_cast<int>(i % 50));
      QVERIFY2(u == 1.0 || units(log(u), std::log(static_cast<long double>(u))) <= 2.001,
               std::to_string(u).c_str());
      double v = randomUniform(4, i);
      if (i % 2 == 0)
        v = 0.25 * static_cast<double>(i % 4) + std::ldexp(v, -2 - static_cast<int>(i % 45));
      // Subtracts the nearest quarter turn exactly; otherwise the error of the library's π would
      // dominate.
      const double quarter = std::nearbyint(4 * v), rest = v - quarter / 4;
      const long double y = 2 * std::numbers::pi_v<long double> * static_cast<long double>(rest);
      const long double exact[] = {std::cos(y), -std::sin(y), -std::cos(y), std::sin(y)};
      const long double expected = exact[static_cast<int>(quarter) % 4];
      QVERIFY2(expected == 0 ? cosine(v) == 0 : units(cosine(v), expected) <= 2.001,
               std::to_string(v).c_str());
    }
    QCOMPARE(log(1.0), 0.0);
    QCOMPARE(cosine(0.0), 1.0);
    QCOMPARE(cosine(0.5), -1.0);
    QCOMPARE(std::abs(cosine(0.25)) + std::abs(cosine(0.75)), 0.0);
    QVERIFY(std::isfinite(log(0x1p-53)) && cosine(1 - 0x1p-53) > 0.999);
  }

  // In pieces of any size, to a disk and to memory; kernels before 6.6 have no O_DIRECT in memory.
  void filesAroundThePageCache() {
    constexpr std::size_t kBuffer = std::size_t{1} << 20;
    QTemporaryDir disk, memory("/dev/shm/XXXXXX");
    std::mt19937 random(7);
    std::string whole(3 * kBuffer, '\0');
    for (char& c : whole) c = static_cast<char>(random());
    std::vector<std::size_t> sizes{0,           1,       4095,        4096,
                                   kBuffer - 1, kBuffer, kBuffer + 1, 2 * kBuffer};
    for (int i = 0; i < 8; ++i) sizes.push_back(random() % whole.size());
    for (const QTemporaryDir* folder : {&disk, &memory})
      for (const std::size_t size : sizes) {
        const std::string path = folder->filePath("f").toStdString();
        const auto fill = [&](const Append& append) -> Status {
          for (std::size_t at = 0; at < size;) {
            const std::size_t count = std::min<std::size_t>(size - at, random() % (2 * kBuffer));
            LOCKSTEP_TRY(append(std::string_view(whole).substr(at, count)));
            at += count;
          }
          return {};
        };
        QVERIFY(writeFileAtomically(path, fill, 0600, PageCache::kAvoid).ok());
        QVERIFY(*readFile(path) == std::string_view(whole).substr(0, size));
      }
  }

  // All but the end, which may be less than a block.
  void whatGoesAroundThePageCacheIsNotInIt() {
    QTemporaryDir folder;
    struct statfs info {};
    QCOMPARE(statfs(folder.path().toUtf8().constData(), &info), 0);
    if (info.f_type != 0xef53 && info.f_type != 0x58465342) QSKIP("needs ext4 or XFS");
    const std::string path = folder.filePath("f").toStdString();
    const std::string text((std::size_t{5} << 20) + 1000, 'x');
    QVERIFY(write(path, text, PageCache::kAvoid).ok());
    const std::int64_t cached = cachedBytes(path);
    QVERIFY2(cached >= 0 && cached <= 1 << 20, std::to_string(cached).c_str());
    QVERIFY(write(path, text, PageCache::kUse).ok());
    QVERIFY(cachedBytes(path) > 4 << 20);
  }

  // A limit of a file's size ends a write in the middle of a block, as a full disk may.
  void noSpaceAroundThePageCache() {
    QTemporaryDir disk, memory("/dev/shm/XXXXXX");
    rlimit before{};
    QCOMPARE(getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = signal(SIGXFSZ, SIG_IGN);
    const auto restore = qScopeGuard([&] {
      setrlimit(RLIMIT_FSIZE, &before);
      signal(SIGXFSZ, handler);
    });
    const std::string text(std::size_t{5} << 20, 'x');
    for (const QTemporaryDir* folder : {&disk, &memory})
      for (const rlim_t most : {rlim_t{100}, rlim_t{3 << 20}, rlim_t{(3 << 20) + 1000}}) {
        const std::string path = folder->filePath("f").toStdString();
        QVERIFY(write(path, "old", PageCache::kAvoid).ok());
        const rlimit low{most, before.rlim_max};
        QCOMPARE(setrlimit(RLIMIT_FSIZE, &low), 0);
        const Status written = write(path, text, PageCache::kAvoid);
        QCOMPARE(setrlimit(RLIMIT_FSIZE, &before), 0);
        QVERIFY(!written.ok());
        QVERIFY2(written.error().why.text().find("too large") != std::string::npos,
                 written.error().text().c_str());
        QCOMPARE(*readFile(path), std::string("old"));
        QCOMPARE(QDir(folder->path()).entryList(QDir::Files).size(), qsizetype{1});
      }
  }

  void fileSystemsOfANetworkAreKnown() {
    for (const std::uint32_t type : {0x6969u, 0xff534d42u, 0xfe534d42u, 0x65735546u, 0x0bd00bd0u})
      QVERIFY(isNetworkFilesystem(type));
    for (const std::uint32_t type : {0xef53u, 0x58465342u, 0x9123683eu, 0x01021994u, 0x794c7630u})
      QVERIFY(!isNetworkFilesystem(type));  // ext4, XFS, Btrfs, tmpfs, overlay
    QVERIFY(isLocalFilesystem("/proc"));
    QVERIFY(!isLocalFilesystem("/not/there"));
  }

  void filesAreReplacedWhole() {
    QTemporaryDir folder;
    const std::string path = folder.filePath("a").toStdString();
    QVERIFY(readFile(path).status().code() == Code::kNotFound);
    QVERIFY(writeFileAtomically(path, "one", 0600).ok());
    QVERIFY(writeFileAtomically(path, std::string("two\0bytes", 9), 0600).ok());
    QCOMPARE(*readFile(path), std::string("two\0bytes", 9));
    QCOMPARE(*sha256File(path), sha256Hex(std::string_view("two\0bytes", 9)));
    struct stat info {};
    QCOMPARE(stat(path.c_str(), &info), 0);
    QCOMPARE(static_cast<int>(info.st_mode & 0777), 0600);
    QVERIFY(readFile(path, 4).status().code() == Code::kResourceExhausted);
    QCOMPARE(QDir(folder.path()).entryList(QDir::Files).size(), 1);
    QVERIFY(!writeFileAtomically(folder.filePath("none/b").toStdString(), "x").ok());
  }

  void whatIsNoFileStays() {
    QTemporaryDir folder;
    const std::string pipe = folder.filePath("pipe").toStdString(),
                      link = folder.filePath("link").toStdString();
    const std::string file = folder.filePath("file").toStdString();
    QCOMPARE(mkfifo(pipe.c_str(), 0600), 0);
    const int end = open(pipe.c_str(), O_RDWR | O_CLOEXEC);
    QVERIFY(writeFileAtomically(pipe, "one").ok());
    struct stat info {};
    QVERIFY(stat(pipe.c_str(), &info) == 0 && S_ISFIFO(info.st_mode));
    char text[4] = {};
    QCOMPARE(read(end, text, sizeof text), ssize_t{3});
    close(end);
    QCOMPARE(symlink(file.c_str(), link.c_str()), 0);
    QVERIFY(writeFileAtomically(link, "two").ok());
    QVERIFY(lstat(link.c_str(), &info) == 0 && S_ISLNK(info.st_mode));
    QCOMPARE(*readFile(file), std::string("two"));
    // A failed write keeps the previous contents, also through a link.
    QVERIFY(!writeFileAtomically(link, [&](const Append& append) -> Status {
               LOCKSTEP_TRY(append("thr"));
               return invalidArgument("no more");
             }).ok());
    QCOMPARE(*readFile(file), std::string("two"));
    const Status status = writeFileAtomically(folder.path().toStdString(), "x");
    QVERIFY2(status.error().what.text().ends_with("write " + folder.path().toStdString()),
             status.error().what.text().c_str());
  }

  void aFullDiskLeavesTheOldFile() {
    const Status status = writeFileAtomically("/dev/full/x", "x");
    QVERIFY(!status.ok());
    QVERIFY(status.error().what.text().find("/dev/full/x") != std::string::npos);
  }

  // As archives have them.
  void foldersThatMayNotBeWrittenAreRemoved() {
    const QTemporaryDir folder;
    const std::filesystem::path top = folder.filePath("top").toStdString(),
                                other = folder.filePath("other").toStdString();
    for (const auto& made : {top / "a" / "b", top / "c", other})
      QVERIFY(std::filesystem::create_directories(made));
    for (const auto& file : {top / "a" / "b" / "file", top / "c" / "file", other / "file"})
      QVERIFY(writeFileAtomically(file.string(), "text").ok());
    std::filesystem::create_directory_symlink(other, top / "a" / "link");
    for (const auto& [path, mode] : {std::pair{top / "a" / "b", 0500},
                                     {top / "a", 0500},
                                     {top / "c", 0},
                                     {top, 0500},
                                     {other, 0500}})
      QCOMPARE(chmod(path.c_str(), static_cast<mode_t>(mode)), 0);
    QVERIFY(!removeTree(top));
    QVERIFY(!std::filesystem::exists(top) && std::filesystem::exists(other / "file"));
    struct stat info {};
    QVERIFY(stat(other.c_str(), &info) == 0 && (info.st_mode & 0777) == 0500);
    QVERIFY(!removeTree(top));  // it is not there
    QCOMPARE(chmod(other.c_str(), 0700), 0);
  }

  void twoMayRemoveTheSame() {
    const QTemporaryDir folder;
    for (int round = 0; round < 5; ++round) {
      const std::filesystem::path top = folder.filePath("top").toStdString();
      for (int at = 0; at < 1000; ++at)
        QVERIFY(std::filesystem::create_directories(top / std::to_string(at) / "in"));
      std::error_code here, there;
      std::thread other([&] { there = removeTree(top); });
      here = removeTree(top);
      other.join();
      QVERIFY2(!here && !there, (here.message() + ", " + there.message()).c_str());
      QVERIFY(!removeTree(top) && !std::filesystem::exists(top));
    }
  }

  void suggestions() {
    const std::string_view known[] = {"dense", "conv2d", "flatten"};
    QCOMPARE(nearest("dnese", known), std::string("dense"));
    QCOMPARE(nearest("conv3d", known), std::string("conv2d"));
    QCOMPARE(nearest("lstm", known), std::string());
    QCOMPARE(nearest("", known), std::string());
    QCOMPARE(editDistance("kitten", "sitting"), std::size_t{3});
    QCOMPARE(expectedOneOf("flat", known),
             std::string("dense, conv2d or flatten; did you mean flatten?"));
    QCOMPARE(expectedOneOf("flaten", known),
             std::string("dense, conv2d or flatten; did you mean flatten?"));
  }
};

QTEST_GUILESS_MAIN(BaseTest)
#include "base_test.moc"
