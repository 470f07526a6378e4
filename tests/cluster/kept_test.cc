// Writers of spools, histories and checkpoints are killed at random moments; nothing they were told
// is kept may be lost or torn. tests/cluster/kept runs it as often as wanted.
#include <QTemporaryDir>
#include <QTest>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>

#include "agent/supervisor/spool.h"
#include "app/history/history.h"
#include "app/history/integrity.h"
#include "engine/runtime/checkpoint.h"
#include "engine/storage/database.h"
#include "tests/support/engine_run.h"

using namespace lockstep;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kSpoolLimit = 300'000;  // so small that old records become an outline
constexpr int kRoundsPerFile = 25;
// Warnings are never downsampled: those of the fastest machine fit in the limit.
constexpr int kWarnings = 500;

struct Told {
  std::int64_t number = 0, points = 0;
};

bool tell(Told told) { return write(STDOUT_FILENO, &told, sizeof told) == sizeof told; }

// Step n has loss n; every kWarnings-th record is a warning that carries its own number.
run::v1::Record recordOf(std::uint64_t number, std::int64_t step) {
  run::v1::Record record;
  if (number % kWarnings == 0) {
    record.mutable_warning()->set_step(static_cast<std::int64_t>(number));
    record.mutable_warning()->set_code("UNAVAILABLE");
    return record;
  }
  auto& chunk = *record.mutable_steps();
  chunk.set_first_step(step);
  chunk.add_begin_ns(step);
  chunk.add_duration_ns(1);
  chunk.add_loss(static_cast<double>(step));
  return record;
}

agent::SpoolOptions spoolOptions() {
  agent::SpoolOptions options;
  options.limitBytes = kSpoolLimit;
  return options;
}

// A record's number says which step it has.
std::int64_t stepOf(std::uint64_t number) {
  return static_cast<std::int64_t>(number - number / kWarnings);
}

int writeSpool(const std::string& path) {
  auto spool = agent::Spool::open(path, spoolOptions());
  if (!spool.ok()) return 1;
  std::mt19937 random(static_cast<unsigned>(getpid()));
  for (;;) {
    for (unsigned i = random() % 400; i > 0; --i) {
      const std::uint64_t number = (*spool)->last() + 1;
      (*spool)->append(recordOf(number, stepOf(number)));
    }
    if (!(*spool)->flush().ok()) return 1;
    if (!tell({static_cast<std::int64_t>((*spool)->last()), 0})) return 1;
  }
}

std::string runName(std::int64_t number) { return fmt::format("run-{:06}", number); }

app::RunDocuments documentsOf(std::int64_t number) {
  app::RunDocuments documents;
  documents.specYaml = fmt::format("{}{}", std::string(3000, 's'), number);
  return documents;
}

app::RunBatch batchOf(std::int64_t first, std::int64_t count) {
  app::RunBatch batch;
  batch.series.push_back({"loss", {}});
  for (std::int64_t i = first; i < first + count; ++i)
    batch.series[0].points.push_back({static_cast<double>(i), static_cast<double>(i)});
  batch.logs.push_back({0, first, "n1", 0, fmt::format("{}", first)});
  batch.cursors.push_back({"n1", static_cast<std::uint64_t>(first + count - 1)});
  return batch;
}

int writeHistory(const std::string& folder) {
  auto history = app::History::open(folder);
  if (!history.ok()) return 1;
  std::int64_t number = std::ssize(*(*history)->list());
  for (;; ++number) {
    app::RunRow row;
    row.run = runName(number);
    row.createdNs = number + 1;
    auto store = (*history)->begin(row, documentsOf(number));
    if (!store.ok()) return 1;
    for (std::int64_t at = 1; at < 2000; at += 100) {
      if (!(*store)->append(batchOf(at, 100)).ok() || !tell({number, at + 99})) return 1;
    }
    row.phase = app::RunState::SUCCEEDED;
    if (!(*history)->update(row).ok()) return 1;
  }
}

// Three ranks of ZeRO-1, as threads of one process.
test::RunSettings training(std::int64_t steps) {
  test::RunSettings settings;
  settings.model.layers[1].units = 4;
  settings.strategy = "zero-1";
  settings.ranks = 3;
  settings.backend = "onednn";
  settings.compute = DType::kF32;
  settings.batch = 24;
  settings.optimizer.kind = "adam";
  settings.trainer.epochs = 0;
  settings.trainer.maxSteps = steps;
  settings.trainer.evaluate = false;
  return settings;
}

// Trains without an end, from the newest checkpoint on, and writes as many as it can.
int writeCheckpoints(const std::string& folder) {
  test::RunSettings settings = training(1'000'000'000);
  settings.trainer.checkpointFolder = folder;
  settings.trainer.checkpointSteps = 1;
  if (weights::newestCheckpoint(folder).ok()) settings.trainer.resumeFrom = folder;
  settings.onCheckpoint = [](std::int64_t step) { tell({step, 0}); };
  return test::trained(settings).ok() ? 0 : 1;
}

// Starts this program as a writer, kills it after a random time and returns what it said last.
Told killWriter(const char* what, const std::string& where, std::mt19937& random) {
  int pipe[2];
  if (::pipe(pipe) != 0) return {-1, 0};
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe[1], STDOUT_FILENO);
    close(pipe[0]);  // so that it ends with this program
    execl("/proc/self/exe", "kept_test", what, where.c_str(), nullptr);
    _exit(127);
  }
  close(pipe[1]);
  Told last;
  const auto until = Clock::now() + std::chrono::microseconds(10'000 + random() % 90'000);
  const auto limit = Clock::now() + std::chrono::seconds(20);  // for its first word
  bool heard = false;
  while (Clock::now() < (heard ? until : limit)) {
    pollfd one{pipe[0], POLLIN, 0};
    if (poll(&one, 1, 1) <= 0) continue;
    if (read(pipe[0], &last, sizeof last) != sizeof last) break;
    heard = true;
  }
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  while (read(pipe[0], &last, sizeof last) == sizeof last) {
  }
  close(pipe[0]);
  return WIFSIGNALED(status) && heard ? last : Told{-1, 0};
}

}  // namespace

class KeptTest : public QObject {
  Q_OBJECT

  std::mt19937 random_{qEnvironmentVariable("LOCKSTEP_KEPT_SEED", "1").toUInt()};
  const int rounds_ = qEnvironmentVariable("LOCKSTEP_KEPT_ROUNDS", "20").toInt();
  std::int64_t acknowledged_ = 0, outlined_ = 0;

  // Reads the spool as a client does. Returns what is wrong with it.
  std::string faultOf(const std::string& path, std::int64_t told) {
    if (const Status intact = storage::Database::check(path); !intact.ok())
      return intact.error().text();
    auto spool = agent::Spool::open(path, spoolOptions());
    if (!spool.ok()) return spool.error().text();
    if ((*spool)->last() < static_cast<std::uint64_t>(told)) return "its end is lost";
    std::uint64_t after = 0;
    std::int64_t step = 1, warning = kWarnings;
    bool least = false;  // an outline's first record came
    while (after < (*spool)->last())
      for (const auto& kept : *(*spool)->read(after, 1000, 0)) {
        run::v1::Record record;
        if (!record.ParseFromString(kept.bytes)) return "a record is torn";
        after = kept.sequence;
        if (record.has_lost()) return fmt::format("records to {} are lost", after);
        if (record.has_warning()) {
          if (record.warning().step() != warning) return fmt::format("warning {} is lost", warning);
          warning += kWarnings;
          continue;
        }
        const auto& chunk = record.steps();
        if (chunk.loss(0) != static_cast<double>(chunk.first_step())) return "a step is torn";
        if (!least && chunk.first_step() != step) return fmt::format("step {} is lost", step);
        least = record.outline_from() > 0 && !least;
        outlined_ += least;
        step = chunk.first_step() + 1;
      }
    if (step <= stepOf(static_cast<std::uint64_t>(told))) return "its last steps are lost";
    return {};
  }

  std::string faultOf(const app::History& history, std::int64_t number, std::int64_t points) {
    const auto row = history.row(runName(number));
    if (!row.ok()) return row.error().text();
    const auto documents = history.documents(runName(number));
    if (!documents.ok()) return documents.error().text();
    if (documents->specYaml != documentsOf(number).specYaml) return "documents are torn";
    const auto store = history.openRun(runName(number));
    if (!store.ok()) return store.error().text();
    const auto read = (*store)->readAll("loss");
    const auto logs = (*store)->logs({}, 0, 1000);
    if (!read.ok() || !logs.ok()) return "a run cannot be read";
    if (std::ssize(*read) < points) return fmt::format("points of run {} are lost", number);
    if (static_cast<std::uint64_t>(read->size()) != (*store)->cursor("n1") ||
        read->size() != logs->size() * 100)
      return fmt::format("run {} is torn", number);
    for (std::size_t i = 0; i < read->size(); ++i)
      if ((*read)[i].y != static_cast<double>(i + 1)) return "a point is torn";
    return {};
  }

  // What resumes from the newest has the bits of a training that was never killed.
  static std::string checkpointFault(const std::string& folder, std::int64_t told) {
    const auto newest = weights::newestCheckpoint(folder);
    if (!newest.ok()) return newest.error().text();
    const std::int64_t step = std::stoll(newest->substr(newest->rfind('-') + 1));
    if (step < told) return fmt::format("step {} is lost, {} is the newest", told, step);
    test::RunSettings settings = training(step);
    const test::RunOutcome never = test::trained(settings);
    std::string warned;
    settings.trainer.resumeFrom = folder;
    settings.trainer.warn = [&](const Error& warning) { warned = warning.text(); };
    const test::RunOutcome resumed = test::trained(settings);
    if (!never.ok() || !resumed.ok()) return never.error() + resumed.error();
    if (!warned.empty()) return warned;
    const std::string& bits = resumed.ranks[0]->weightsSha256;
    if (bits.empty() || bits != never.ranks[0]->weightsSha256)
      return fmt::format("step {} has other weights", step);
    return {};
  }

  // Runs `round` with a file that is new every few rounds.
  void repeat(const std::function<std::string(const std::string& folder)>& round) {
    std::unique_ptr<QTemporaryDir> folder;
    int faults = 0;
    acknowledged_ = 0;
    for (int i = 0; i < rounds_; ++i) {
      if (i % kRoundsPerFile == 0) folder = std::make_unique<QTemporaryDir>();
      const std::string fault = round(folder->path().toStdString());
      if (fault.empty()) continue;
      std::fprintf(stderr, "kill %d: %s\n", i + 1, fault.c_str());
      ++faults;
      folder = std::make_unique<QTemporaryDir>();
    }
    std::fprintf(stderr, "%d kills: %lld acknowledged, torn or lost in %d\n", rounds_,
                 static_cast<long long>(acknowledged_), faults);
    QCOMPARE(faults, 0);
    QVERIFY(acknowledged_ >= rounds_);
  }

 private Q_SLOTS:
  void killedSpools() {
    std::int64_t before = 0;
    repeat([&](const std::string& folder) -> std::string {
      const std::string path = folder + "/spool.db";
      if (!QFile::exists(QString::fromStdString(path))) before = 0;
      const Told told = killWriter("--spool", path, random_);
      if (told.number < 0) return "the writer did not write";
      acknowledged_ += told.number - std::exchange(before, told.number);
      return faultOf(path, told.number);
    });
    QVERIFY(outlined_ > 0);
  }

  void killedHistories() {
    repeat([&](const std::string& folder) -> std::string {
      const Told told = killWriter("--history", folder, random_);
      if (told.number < 0) return "the writer did not write";
      auto history = app::History::open(folder);
      if (!history.ok()) return history.error().text();
      if (!app::filesSetAside(folder).empty()) return "a file is damaged";
      acknowledged_ += told.points / 100;
      // Of the last run what was told, and of those before all.
      for (std::int64_t number = std::max<std::int64_t>(0, told.number - 3); number <= told.number;
           ++number)
        if (const std::string fault =
                faultOf(**history, number, number < told.number ? 0 : told.points);
            !fault.empty())
          return fault;
      return {};
    });
  }

  void killedCheckpoints() {
    std::int64_t before = 0;
    repeat([&](const std::string& folder) -> std::string {
      const std::string checkpoints = folder + "/checkpoints";
      if (!QFile::exists(QString::fromStdString(checkpoints))) before = 0;
      const Told told = killWriter("--checkpoints", checkpoints, random_);
      if (told.number < 0) return "the writer did not write";
      acknowledged_ += told.number - std::exchange(before, told.number);
      return checkpointFault(checkpoints, told.number);
    });
  }
};

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--spool") return writeSpool(argv[2]);
  if (argc == 3 && std::string(argv[1]) == "--history") return writeHistory(argv[2]);
  if (argc == 3 && std::string(argv[1]) == "--checkpoints") return writeCheckpoints(argv[2]);
  QCoreApplication application(argc, argv);
  KeptTest test;
  return QTest::qExec(&test, argc, argv);
}
#include "kept_test.moc"
