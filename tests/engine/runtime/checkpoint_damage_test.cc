// Checkpoints that are damaged or of another model, disks that cannot be written, and runs without
// memory.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <QScopeGuard>
#include <QTest>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "engine/base/file.h"
#include "engine/base/random.h"
#include "engine/runtime/checkpoint.h"
#include "engine/weights/safetensors.h"
#include "tests/engine/runtime/small_run.h"
#include "tests/support/checkpoint_content.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;
namespace fs = std::filesystem;

namespace {

// Of few parameters, so that many runs take little.
models::Model small4() {
  models::Model model = fashionMlp();
  model.layers[1].units = 4;
  return model;
}

// Damages the content of a checkpoint's file; returns the tensor whose checksum tells it, where one
// is known. 10 kinds.
std::string damaged(std::string& content, const weights::TensorFile& data, std::uint64_t damage,
                    std::uint64_t at, const std::string& wrongShapes) {
  const auto hit = [&](std::size_t begin, std::size_t end) {
    char& byte = content[begin + at % (end - begin)];
    byte = static_cast<char>(byte ^ static_cast<char>(1 << (at >> 40) % 8));
  };
  switch (damage) {
    case 0:
      hit(0, 8);
      break;  // the header's length
    case 1:
      hit(8, data.dataOffset);
      break;  // the header
    case 2:
      hit(data.dataOffset, content.size());
      break;  // the data
    case 3:
      content.resize(at % content.size());
      break;
    case 4:
      content.clear();
      break;
    case 5:
      content.append(1 + at % 100, static_cast<char>(at));
      break;
    case 6:
      content = wrongShapes;
      break;
    case 7:
      content.replace(8, data.dataOffset - 8, data.dataOffset - 8, '[');
      break;
    case 8:
      std::fill(content.begin() + static_cast<std::ptrdiff_t>(content.size() / 2), content.end(),
                '\0');
      break;
    default: {  // an exponent bit of forty weights
      const auto& [name, entry] =
          *std::next(data.entries.begin(), static_cast<std::ptrdiff_t>(at % data.entries.size()));
      for (std::size_t k = 0; k < std::min<std::size_t>(40, entry.size / 4); ++k) {
        char& byte = content[data.dataOffset + entry.offset + 4 * k + 3];
        byte = static_cast<char>(byte ^ 0x10);
      }
      return name;
    }
  }
  return {};
}

// The files of a run's checkpoints, each a manifest and two files of tensors.
struct CheckpointFiles {
  static constexpr std::uint64_t kDamages = 11;
  struct Damage {
    std::vector<std::string> files;  // the newest checkpoint's first; "": any of its files
    std::string tensor;              // the newest's that is damaged; "": none alone
  };

  CheckpointFiles(const std::vector<std::string>& checkpoints, std::string scratchPath)
      : scratch(std::move(scratchPath)) {
    for (const std::string& checkpoint : checkpoints) {
      files.push_back(filesIn(checkpoint));
      for (const std::string& path : files.back()) good[path] = *readFile(path);
    }
  }

  // Writes all of them as they were, but one file in each of the newest `bad`: the newest's has
  // the damage whose turn it is by `seed`, the others' are drawn.
  Damage damageNewest(std::size_t bad, std::uint64_t seed) {
    Damage out;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const bool isNewest = i + 1 == files.size(), isDamaged = i >= files.size() - bad;
      const std::size_t which = randomBits(seed, 30 + i) % 3;
      const std::uint64_t damage = (isNewest ? seed : randomBits(seed, 10 + i)) % kDamages;
      for (std::size_t f = 0; f < 3; ++f) {
        const std::string& path = files[i][f];
        fs::remove_all(path);
        if (!isDamaged || f != which) {
          std::ofstream(path, std::ios::binary | std::ios::trunc) << good[path];
          continue;
        }
        out.files.insert(out.files.begin(), damage == 6 ? "" : path);
        const std::string tensor = damageFile(path, f, damage, randomBits(seed, 20 + i));
        if (isNewest) out.tensor = tensor;
      }
    }
    return out;
  }

  // Returns the tensor that is damaged, if it is one alone.
  std::string damageFile(const std::string& path, std::size_t f, std::uint64_t damage,
                         std::uint64_t at) {
    std::string content = good[path];
    if (damage == 10) {  // torn: without the file, or with something else of its name
      if (at % 2 == 0) fs::create_directory(path);
      return {};
    }
    weights::TensorFile data;  // of a manifest, as if half of it were header
    data.dataOffset = content.size() / 2;
    data.entries["x"] = {DType::kF32, {1}, 0, 4, 0};
    if (f > 0) {
      std::ofstream(scratch, std::ios::binary | std::ios::trunc) << content;
      data = weights::readTensors(scratch).value();
    }
    const std::string tensor = damaged(content, data, damage, at, *readFile(ofOtherShapes[f]));
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    return f > 0 ? tensor : std::string();
  }

  std::vector<std::vector<std::string>> files;  // by checkpoint
  std::map<std::string, std::string> good;      // by path
  std::vector<std::string> ofOtherShapes;       // of a checkpoint of another model
  std::string scratch;
};

}  // namespace

class CheckpointDamageTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void wrongCheckpointsAreRefused() {
    QTemporaryDir dir;
    RunSettings settings = smallRun();
    settings.trainer.maxSteps = 2;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    QVERIFY(trained(settings).ok());
    RunSettings other = settings;
    other.model = fashionCnn();
    other.trainer.resumeFrom = settings.trainer.checkpointFolder;
    other.trainer.checkpointFolder.clear();
    const RunOutcome refused = trained(other);
    QVERIFY(!refused.ok());
    QVERIFY(refused.ranks[0].error().code == Code::kInvalidArgument);
    QVERIFY(refused.ranks[1].error().code == Code::kAborted);
    auto plan = planOf(settings);
    const auto state = runtime::StateArena::make(*plan, 0).value();
    QVERIFY(
        runtime::readCheckpoint(dir.filePath("nothing").toStdString(), {}, {*plan, 0, *state, {}})
            .error()
            .code == Code::kNotFound);
  }

  // No flipped bit, no cut and nothing appended goes unseen where there are checksums.
  void checksumsSeeAnyDamage() {
    QTemporaryDir dir;
    const std::string path = dir.filePath("t.safetensors").toStdString();
    std::vector<float> values(12);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 5.5f;
    const auto bytes = [&](std::size_t i) -> Result<std::span<const std::byte>> {
      return std::as_bytes(std::span(values)).first(i == 0 ? 48 : 20);
    };
    QVERIFY(weights::writeTensors(
                path,
                {{"params/a.weight", DType::kF32, {3, 4}}, {"params/b.bias", DType::kF32, {5}}},
                {{"step", "17"}}, bytes, weights::Checksums::kCrc32c)
                .ok());
    const std::string good = *readFile(path);
    const auto read = [&](const std::string& content) {
      std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
      return weights::readTensors(path);
    };
    const auto whole = read(good);
    QVERIFY2(whole.ok(), whole.ok() ? "" : whole.error().text().c_str());
    QVERIFY(whole->verified && whole->entries.size() == 2 && whole->metadata.at("step") == "17");
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
      const auto found = read(bad);
      QVERIFY2(!found.ok() && found.error().code == Code::kDataLoss,
               fmt::format("bit {}", bit).c_str());
      QVERIFY(found.error().what.text().find(path) != std::string::npos);
      const std::size_t data = whole->dataOffset;
      if (bit / 8 >= data && bit / 8 < data + 48)
        QCOMPARE(found.error().why, "the checksum of tensor params/a.weight does not match");
      else if (bit / 8 >= data + 48 && bit / 8 < data + 68)
        QCOMPARE(found.error().why, "the checksum of tensor params/b.bias does not match");
    }
    for (std::size_t size = 0; size < good.size(); ++size)
      QVERIFY(!read(good.substr(0, size)).ok());
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      std::string more = good;
      for (std::uint64_t i = 0; i <= seed % 40; ++i)
        more += seed % 3 == 0 ? '\0' : static_cast<char>(randomBits(seed, i));
      QVERIFY(!read(more).ok());
      // A run of bytes, or two places exchanged.
      std::string bad = good;
      const std::size_t at = randomBits(seed, 50) % (good.size() - 16),
                        count = 1 + randomBits(seed, 51) % 16;
      for (std::size_t i = 0; i < count; ++i)
        bad[at + i] = static_cast<char>(randomBits(seed, 60 + i));
      if (seed % 2 == 0) {
        bad = good;
        std::swap_ranges(bad.begin(), bad.begin() + 8,
                         bad.begin() + 8 + static_cast<std::ptrdiff_t>(at % (good.size() - 16)));
      }
      if (bad != good) QVERIFY2(!read(bad).ok(), fmt::format("seed {}", seed).c_str());
    }
  }

  // Whatever became of the newest checkpoints, the newest whole one is used, and those passed over
  // are named, with their file and what is wrong with it.
  void theNewestWholeOneIsUsed() {
    QTemporaryDir dir;
    RunSettings settings = smallRun();
    settings.model = small4();
    settings.ranks = 2;
    settings.samples = 192;
    settings.trainer.epochs = 4;
    settings.trainer.keepCheckpoints = 4;
    const std::string folder = dir.filePath("checkpoints").toStdString();
    settings.trainer.checkpointFolder = folder;
    const RunOutcome whole = trained(settings);
    QVERIFY2(whole.ok(), whole.error().c_str());
    QCOMPARE(whole.checkpoints.size(), std::size_t{4});  // after steps 3, 6, 9 and 12
    CheckpointFiles kept(whole.checkpoints, dir.filePath("copy").toStdString());
    for (const auto& files : kept.files) QCOMPARE(files.size(), std::size_t{3});
    RunSettings other = settings;  // whose tensors have other shapes
    other.model.layers[1].units = 9;
    other.trainer.checkpointFolder = dir.filePath("other").toStdString();
    other.trainer.maxSteps = 1;
    const RunOutcome others = trained(other);
    QVERIFY2(others.ok(), others.error().c_str());
    kept.ofOtherShapes = filesIn(others.checkpoints.back());

    settings.trainer.checkpointFolder.clear();
    settings.trainer.resumeFrom = folder;
    std::vector<std::string> warnings;
    settings.trainer.warn = [&](const Error& warning) { warnings.push_back(warning.text()); };
    for (std::uint64_t seed = 0; seed < 12 * CheckpointFiles::kDamages; ++seed) {
      const std::size_t bad = 1 + randomBits(seed, 0) % 3;  // so many of the newest
      const CheckpointFiles::Damage damage = kept.damageNewest(bad, seed);
      warnings.clear();
      const RunOutcome rest = trained(settings);
      QVERIFY2(rest.ok(), fmt::format("seed {}: {}", seed, rest.error()).c_str());
      const auto from = static_cast<std::int64_t>(3 * (whole.checkpoints.size() - bad));
      QCOMPARE(rest.steps.front().step, from + 1);
      QCOMPARE(rest.ranks[0]->weightsSha256, whole.ranks[0]->weightsSha256);
      QCOMPARE(warnings.size(), bad);
      const std::string to = fmt::format("step-{:09}", from);
      for (std::size_t i = 0; i < bad; ++i) {
        const std::string& checkpoint = whole.checkpoints[whole.checkpoints.size() - 1 - i];
        const std::string& file = damage.files[i].empty() ? checkpoint : damage.files[i];
        QVERIFY2(warnings[i].find(file) != std::string::npos &&
                     warnings[i].find(to) != std::string::npos,
                 fmt::format("seed {}: {}", seed, warnings[i]).c_str());
      }
      if (!damage.tensor.empty()) {
        const std::string words = "the checksum of tensor " + damage.tensor + " does not match";
        QVERIFY2(warnings[0].find(words) != std::string::npos, warnings[0].c_str());
      }
    }
    // None is whole; one that is asked for by its own name has no other in its place.
    for (const auto& [file, content] : kept.good)
      std::ofstream(file, std::ios::binary | std::ios::trunc) << "torn";
    const RunOutcome none = trained(settings);
    QVERIFY(!none.ok());
    QCOMPARE(none.ranks[0].error().code, Code::kDataLoss);
    QVERIFY2(none.ranks[0].error().what.text().find(whole.checkpoints.back()) != std::string::npos,
             none.error().c_str());
    QVERIFY2(none.ranks[0].error().next.text().starts_with("none of the 4 checkpoints there"),
             none.error().c_str());
    for (const std::string& file : kept.files[0])
      std::ofstream(file, std::ios::binary | std::ios::trunc) << kept.good[file];
    settings.trainer.resumeFrom = whole.checkpoints.back();
    QVERIFY(!trained(settings).ok());
  }

  // What an earlier version wrote has no checksums: it is read, and said to have none.
  void checkpointsWithoutChecksums() {
    QTemporaryDir dir;
    RunSettings settings = smallRun();
    settings.ranks = 1;
    settings.trainer.maxSteps = 2;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    const RunOutcome before = trained(settings);
    QVERIFY2(before.ok(), before.error().c_str());
    const std::string path = before.checkpoints.back() + "/state.safetensors";
    auto file = weights::readTensors(path);
    QVERIFY(file.ok());
    std::vector<TensorInfo> tensors;
    std::vector<weights::TensorFile::Entry> entries;
    for (const auto& [name, entry] : file->entries) {
      tensors.push_back({name, entry.dtype, entry.shape});
      entries.push_back(entry);
    }
    file->metadata.erase("checksums");
    QVERIFY(weights::writeTensors(path, tensors, file->metadata,
                                  [&](std::size_t i) -> Result<std::span<const std::byte>> {
                                    return file->bytes(entries[i]);
                                  })
                .ok());
    std::vector<std::string> warnings;
    settings.trainer.warn = [&](const Error& warning) { warnings.push_back(warning.what); };
    settings.trainer.resumeFrom = settings.trainer.checkpointFolder;
    settings.trainer.maxSteps = 4;
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    QCOMPARE(warnings.size(), std::size_t{1});
    QVERIFY2(warnings[0].ends_with("has no checksums, so damage to it would go unnoticed"),
             warnings[0].c_str());
  }

  // Where an address space is too small for a run, at whatever place, the run ends with an error
  // that says so.
  void withoutMemoryRunsEndWithErrors_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 0; seed < 9; ++seed) QTest::addRow("%d", seed) << seed;
  }
  void withoutMemoryRunsEndWithErrors() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    QSKIP("a sanitizer's own memory is part of the address space");
#endif
    QFETCH(int, seed);
    QTemporaryDir dir;
    RunSettings settings = smallRun();
    settings.backend = seed % 3 == 2 ? "onednn" : "reference";
    settings.ranks = 1 + seed % 2;
    settings.model.layers[1].units = 8'000;  // parameters and their two moments: 76 MB
    settings.batch = 8;
    settings.trainer.maxSteps = 1;
    settings.trainer.evaluate = false;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    const auto plan = planOf(settings);
    QVERIFY(plan.ok());
    // From hardly anything to nearly enough.
    const std::int64_t more =
        (std::int64_t{1} << 20) *
        (4 + static_cast<std::int64_t>(randomBits(7, static_cast<std::uint64_t>(seed)) % 160));
    int ends[2];
    QCOMPARE(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      std::int64_t pages = 0;
      std::ifstream("/proc/self/statm") >> pages;
      const rlimit limit{static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + more),
                         static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + more)};
      setrlimit(RLIMIT_AS, &limit);
      const RunOutcome out = run(settings, *plan);
      const std::string said = out.ok() ? "succeeded" : out.error();
      if (write(ends[1], said.data(), said.size()) < 0) _exit(3);
      _exit(0);
    }
    ::close(ends[1]);
    std::string said(4096, '\0');
    std::size_t size = 0;
    for (ssize_t count = 0; (count = ::read(ends[0], said.data() + size, said.size() - size)) > 0;)
      size += static_cast<std::size_t>(count);
    ::close(ends[0]);
    said.resize(size);
    int status = 0;
    QCOMPARE(waitpid(child, &status, 0), child);
    QVERIFY2(WIFEXITED(status) && WEXITSTATUS(status) == 0,
             fmt::format("{} MiB, {}: status {}, said \"{}\"", more >> 20, settings.backend, status,
                         said)
                 .c_str());
    qInfo("%ld MiB more, %d ranks: %s", static_cast<long>(more >> 20), settings.ranks,
          said.substr(0, 200).c_str());
    QVERIFY2(said == "succeeded" || said.find("out of memory") != std::string::npos, said.c_str());
    if (said != "succeeded") QVERIFY2(said.find("rank ") != std::string::npos, said.c_str());
  }

  // No input makes the reader crash: truncations and seeded mutations of a real file.
  void damagedFilesAreErrors() {
    QTemporaryDir dir;
    const std::string path = dir.filePath("t.safetensors").toStdString();
    const std::vector<float> values(12, 1.5f);
    const auto bytes = [&](std::size_t) -> Result<std::span<const std::byte>> {
      return std::as_bytes(std::span(values));
    };
    QVERIFY(weights::writeTensors(path, {{"a", DType::kF32, {3, 4}}}, {{"step", "1"}}, bytes).ok());
    const std::string good = *readFile(path);
    auto file = weights::readTensors(path);
    QVERIFY(file.ok() && file->metadata.at("step") == "1");
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      std::string bad = good;
      if (seed < good.size()) {
        bad.resize(seed);
      } else {
        for (std::uint64_t k = 0; k < 1 + seed % 4; ++k)
          bad[randomBits(seed, 2 * k) % bad.size()] =
              static_cast<char>(randomBits(seed, 2 * k + 1));
      }
      std::ofstream(path, std::ios::binary | std::ios::trunc) << bad;
      auto read = weights::readTensors(path);
      if (read.ok())
        for (const auto& [name, entry] : read->entries)
          QVERIFY(read->bytes(entry).size() == entry.size);
    }
  }

  // A disk that cannot be written for a while: one warning, the training goes on, later checkpoints
  // are written, nothing half-written stays, and the weights are the same.
  void aDiskThatCannotBeWrittenIsWarnedOf_data() {
    QTest::addColumn<QString>("what");
    QTest::addColumn<int>("ranks");
    for (const int ranks : {1, 3})
      for (const QString what : {"full", "not mounted", "not mounted at a restart"})
        QTest::addRow("%s, %d ranks", qPrintable(what), ranks) << what << ranks;
  }
  void aDiskThatCannotBeWrittenIsWarnedOf() {
    QFETCH(QString, what);
    QFETCH(int, ranks);
    QTemporaryDir dir;
    const std::string mount = dir.filePath("disk").toStdString();
    fs::create_directory(mount);
    RunSettings settings = smallRun();
    settings.ranks = ranks;
    settings.model = small4();
    settings.trainer.epochs = 4;
    const std::string expected = trained(settings).ranks[0]->weightsSha256;
    const bool isFull = what == "full", isRestart = what == "not mounted at a restart";
    if (isFull) {
      if (geteuid() != 0) QSKIP("needs root to mount a small file system");
      if (system(fmt::format("mount -t tmpfs -o size=2m tmpfs {} 2>/dev/null", mount).c_str()) != 0)
        QSKIP("this machine lets no tmpfs be mounted");
    }
    const auto unmount = qScopeGuard([&] {
      if (isFull) (void)!system(fmt::format("umount -l {}", mount).c_str());
    });
    const std::string folder = mount + "/run/checkpoints", filler = mount + "/filler";
    settings.trainer.checkpointFolder = folder;
    settings.trainer.checkpointFolderMade = isRestart;
    if (isRestart) fs::create_directories(mount + "/away/checkpoints");
    std::vector<Error> warnings;
    std::atomic<bool> away{isRestart};
    settings.trainer.onFirstTensor = [&](const TensorInfo&, std::span<const std::byte>) {
      if (away.exchange(true)) return;
      if (!isFull) return fs::rename(mount + "/run", mount + "/away");
      std::ofstream file(filler, std::ios::binary);
      const std::string block(4096, 'x');
      while (file.write(block.data(), std::ssize(block)).flush()) {
      }
    };
    settings.trainer.warn = [&](const Error& warning) {
      warnings.push_back(warning);
      if (isFull)
        fs::remove(filler);
      else
        fs::rename(mount + "/away", mount + "/run");
    };
    const RunOutcome out = trained(settings);
    std::vector<std::string> left;
    for (const auto& entry : fs::directory_iterator(folder))
      left.push_back(entry.path().filename());
    std::sort(left.begin(), left.end());
    QVERIFY2(out.ok(), out.error().c_str());
    QCOMPARE(out.ranks[0]->weightsSha256, expected);
    QCOMPARE(warnings.size(), std::size_t{1});
    const std::string why = warnings[0].why.text();
    QVERIFY2(why.find(isFull ? "No space left" : "No such file") != std::string::npos, why.c_str());
    QCOMPARE(out.checkpoints.size(), std::size_t{3});
    QCOMPARE(left, (std::vector<std::string>{"step-000000048", "step-000000064"}));
  }

  // Of a run that restarts, one node has not mounted the volume that all share: nothing is written
  // beneath, and once it is mounted checkpoints are written there again, whole.
  void aVolumeThatOneRankLacksAtARestart_data() {
    QTest::addColumn<int>("lacking");
    for (const int lacking : {0, 2}) QTest::addRow("rank %d", lacking) << lacking;
  }
  void aVolumeThatOneRankLacksAtARestart() {
    QFETCH(int, lacking);
    QTemporaryDir dir;
    const std::string volume = dir.filePath("volume").toStdString();
    const std::string mount = dir.filePath("mount").toStdString();
    fs::create_directories(volume + "/run");
    RunSettings settings = smallRun();
    settings.model = small4();
    settings.trainer.epochs = 4;
    const std::string expected = trained(settings).ranks[0]->weightsSha256;
    settings.trainer.checkpointFolderMade = true;
    settings.adapt = [&](int rank, runtime::TrainerOptions& options) {
      options.checkpointFolder = (rank == lacking ? mount : volume) + "/run";
    };
    std::vector<Error> warnings;
    bool wasUntouched = false;
    settings.trainer.warn = [&](const Error& warning) {
      warnings.push_back(warning);
      wasUntouched = !fs::exists(mount);
      std::error_code none;
      fs::create_directory_symlink(volume, mount, none);
    };
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    QCOMPARE(out.ranks[0]->weightsSha256, expected);
    QCOMPARE(warnings.size(), std::size_t{1});
    QVERIFY2(warnings[0].text().find(mount + "/run/") != std::string::npos,
             warnings[0].text().c_str());
    QVERIFY(wasUntouched);
    QCOMPARE(out.checkpoints.size(), std::size_t{3});
    settings.trainer.resumeFrom = volume + "/run";
    settings.trainer.epochs = 5;
    const RunOutcome resumed = trained(settings);
    QVERIFY2(resumed.ok(), resumed.error().c_str());
    QCOMPARE(resumed.steps.front().step, std::int64_t{65});
  }

  // A checkpoint that may not be read: no older one is taken in its place, but a newer one is.
  void whatMayNotBeRead() {
    QTemporaryDir dir;
    const std::string unreadable = "/proc/sys/vm/compact_memory";  // for root as well
    const auto read = readFile(unreadable);
    if (read.ok() || read.error().code != Code::kPermissionDenied)
      QSKIP("this machine has no file that root may not read");
    RunSettings settings = smallRun();
    settings.model = small4();
    settings.trainer.epochs = 2;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    QCOMPARE(out.checkpoints.size(), std::size_t{2});
    settings.trainer.resumeFrom = settings.trainer.checkpointFolder;
    settings.trainer.checkpointFolder.clear();
    settings.trainer.epochs = 3;
    const auto hide = [&](const std::string& checkpoint) {
      const fs::path manifest = fs::path(checkpoint) / weights::kManifestFile;
      fs::remove(manifest);
      fs::create_symlink(unreadable, manifest);
    };
    hide(out.checkpoints[0]);
    const RunOutcome resumed = trained(settings);
    QVERIFY2(resumed.ok(), resumed.error().c_str());
    QCOMPARE(resumed.steps.front().step, std::int64_t{33});
    hide(out.checkpoints[1]);
    const RunOutcome refused = trained(settings);
    QVERIFY(!refused.ok());
    QCOMPARE(refused.ranks[0].error().code, Code::kPermissionDenied);
  }

  // No rank has the folder that it is to resume from: it is named, and not made.
  void aFolderThatIsGoneIsNotMadeAnew() {
    QTemporaryDir dir;
    RunSettings settings = smallRun();
    settings.model = small4();
    settings.trainer.checkpointFolder = dir.filePath("mount/run").toStdString();
    settings.trainer.checkpointFolderMade = true;
    settings.trainer.resumeFrom = settings.trainer.checkpointFolder;
    const RunOutcome out = trained(settings);
    QVERIFY(!out.ranks[0].ok());
    const Error& error = out.ranks[0].error();
    QCOMPARE(error.code, Code::kNotFound);
    QVERIFY2(error.text().find("no folder " + settings.trainer.resumeFrom) != std::string::npos,
             error.text().c_str());
    QVERIFY(!fs::exists(dir.filePath("mount").toStdString()));
  }

  // A full disk: a clear error, and nothing half-written stays.
  void noSpaceIsAnError() {
    QTemporaryDir dir;
    if (geteuid() != 0) QSKIP("needs root to mount a small file system");
    const std::string mount = dir.filePath("small").toStdString();
    fs::create_directory(mount);
    if (system(fmt::format("mount -t tmpfs -o size=64k tmpfs {} 2>/dev/null", mount).c_str()) != 0)
      QSKIP("this machine lets no tmpfs be mounted");
    RunSettings settings = smallRun();
    settings.trainer.maxSteps = 2;
    settings.trainer.checkpointFolder = mount + "/checkpoints";
    const RunOutcome out = trained(settings);
    std::error_code ignored;
    const bool empty = fs::is_empty(settings.trainer.checkpointFolder, ignored);
    QCOMPARE(system(fmt::format("umount {}", mount).c_str()), 0);
    int full = 0;
    for (const auto& rank : out.ranks) {
      QVERIFY(!rank.ok());
      QVERIFY2(rank.error().code == Code::kResourceExhausted || rank.error().code == Code::kAborted,
               rank.error().text().c_str());
      if (rank.error().code != Code::kResourceExhausted) continue;
      ++full;
      QCOMPARE(rank.error().next.text(),
               "free space on the disk of " + settings.trainer.checkpointFolder + ", then resume");
    }
    QVERIFY(full > 0);
    QVERIFY(empty);
  }
};

QTEST_GUILESS_MAIN(CheckpointDamageTest)
#include "checkpoint_damage_test.moc"
