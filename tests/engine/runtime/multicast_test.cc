// Multicasts, and what ranks receive of a checkpoint: no more than they lack.
#include "engine/runtime/multicast.h"

#include <QTemporaryDir>
#include <QTest>

#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/random.h"
#include "engine/runtime/checkpoint.h"
#include "tests/support/counting_communicator.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;
namespace fs = std::filesystem;

namespace {

constexpr Nanoseconds kTimeout = 30'000'000'000;

// The groups of all ranks of a mesh, which count.
class CountedGroups {
 public:
  explicit CountedGroups(const cluster::Mesh& mesh)
      : groups_(runtime::LocalGroups::make(
                    mesh, kTimeout,
                    [this](int rank, std::unique_ptr<comm::Communicator> group) {
                      auto counting =
                          std::make_unique<tests::CountingCommunicator>(std::move(group));
                      counted_[rank].push_back(counting.get());
                      return std::unique_ptr<comm::Communicator>(std::move(counting));
                    })
                    .value()) {}
  runtime::Groups of(int rank) const { return groups_.of(rank); }
  std::int64_t received(int rank) const {
    std::int64_t out = 0;
    const auto found = counted_.find(rank);
    if (found == counted_.end()) return out;
    for (const auto* group : found->second) out += group->received();
    return out;
  }

 private:
  std::map<int, std::vector<const tests::CountingCommunicator*>> counted_;
  runtime::LocalGroups groups_;
};

// Runs `body` for every rank on a thread; returns the first error.
Status onRanks(int ranks, const std::function<Status(int rank)>& body) {
  std::vector<Status> done(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { done[static_cast<std::size_t>(rank)] = body(rank); });
  for (std::thread& thread : threads) thread.join();
  for (Status& status : done) LOCKSTEP_TRY(std::move(status));
  return {};
}

struct Sent {
  Status status;
  std::vector<std::string> there;      // by rank; "": not reached
  std::vector<std::int64_t> received;  // bytes, by rank
};

Sent multicast(const cluster::Mesh& mesh, int from, const std::set<int>& to,
               const std::string& text) {
  CountedGroups groups(mesh);
  Sent out;
  out.there.resize(static_cast<std::size_t>(mesh.size()));
  out.status = onRanks(mesh.size(), [&](int rank) -> Status {
    const runtime::Multicast sends(mesh, from, to);
    std::string& own = out.there[static_cast<std::size_t>(rank)];
    if (sends.reaches(rank)) own = rank == from ? text : std::string(text.size(), '?');
    return sends.send(groups.of(rank), rank, reinterpret_cast<std::byte*>(own.data()),
                      std::ssize(text));
  });
  for (int rank = 0; rank < mesh.size(); ++rank) out.received.push_back(groups.received(rank));
  return out;
}

// Four hosts of one rank each, with disks of their own, that train with optimizer state in parts.
RunSettings fourHosts() {
  RunSettings settings;
  settings.strategy = "zero-3";
  settings.ranks = 4;
  settings.compute = DType::kF32;
  settings.backend = "onednn";
  settings.optimizer.kind = "adam";
  settings.trainer.maxSteps = 3;
  return settings;
}

// The state of all ranks, and what each has received for it.
struct Read {
  Status status;
  std::vector<std::unique_ptr<runtime::StateArena>> states;
  std::vector<std::int64_t> received;

  bool hasStatesOf(const Read& other) const {
    for (std::size_t rank = 0; rank < states.size(); ++rank)
      if (std::memcmp(states[rank]->data(), other.states[rank]->data(),
                      static_cast<std::size_t>(states[rank]->bytes())) != 0)
        return false;
    return true;
  }
};

Read readBy(const plan::Plan& plan, const std::function<std::string(int rank)>& diskOf) {
  Read out;
  const int ranks = plan.mesh.size();
  for (int rank = 0; rank < ranks; ++rank)
    out.states.push_back(runtime::StateArena::make(plan, rank).value());
  CountedGroups groups(plan.mesh);
  out.status = onRanks(ranks, [&](int rank) {
    return runtime::readCheckpoint(
               diskOf(rank), {},
               {plan, rank, *out.states[static_cast<std::size_t>(rank)], groups.of(rank)})
        .status();
  });
  for (int rank = 0; rank < ranks; ++rank) out.received.push_back(groups.received(rank));
  return out;
}

std::int64_t bytesHeldBy(const plan::Plan& plan, int rank) {
  std::int64_t out = 0;
  for (const plan::HeldPiece& held : plan::piecesHeldBy(plan, rank)) out += held.piece.bytes();
  return out;
}

}  // namespace

class MulticastTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // Those that need the bytes have them; of the others, only those on the way received any.
  void seededMeshes() {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      std::uint64_t drawn = 0;
      const auto random = [&](std::uint64_t below) {
        return static_cast<int>(randomBits(seed, drawn++) % below);
      };
      std::vector<cluster::Axis> axes;
      for (const char* name : {"stage", "data", "model"})
        if (random(3) > 0) axes.push_back({name, 1 + random(4)});
      const cluster::Mesh mesh(axes, random(4) == 0 ? 1 + random(3) : 0);
      const int from = random(static_cast<std::uint64_t>(mesh.size()));
      std::set<int> to;
      for (int rank = 0; rank < mesh.size(); ++rank)
        if (random(3) == 0) to.insert(rank);
      const std::string text(static_cast<std::size_t>(1 + random(5000)), 'x');
      const Sent sent = multicast(mesh, from, to, text);
      const std::string where = fmt::format("seed {}: {}", seed, mesh.text());
      QVERIFY2(sent.status.ok(), where.c_str());
      const runtime::Multicast sends(mesh, from, to);
      const bool isOneAxis = mesh.servers() > 0 || axes.size() < 2;
      for (int rank = 0; rank < mesh.size(); ++rank) {
        const auto at = static_cast<std::size_t>(rank);
        if (to.contains(rank)) QVERIFY2(sends.reaches(rank), where.c_str());
        if (isOneAxis)
          QVERIFY2(sends.reaches(rank) == (rank == from || to.contains(rank)), where.c_str());
        QVERIFY2(sent.there[at] == (sends.reaches(rank) ? text : ""), where.c_str());
        const bool receives = rank != from && sends.reaches(rank);
        QVERIFY2(sent.received[at] == (receives ? std::ssize(text) : 0), where.c_str());
      }
    }
  }

  void largeOnesAreSentInSlices() {
    const cluster::Mesh mesh({{"data", 3}, {"model", 2}});
    std::string text(std::size_t{70} << 20, '\0');
    for (std::size_t i = 0; i < text.size(); i += 4096) text[i] = static_cast<char>(i >> 12);
    const Sent sent = multicast(mesh, 1, {3}, text);
    QVERIFY2(sent.status.ok(), sent.status.ok() ? "" : sent.status.error().text().c_str());
    QVERIFY(sent.there[3] == text);
    for (const int rank : {0, 1, 2, 4, 5})
      QCOMPARE(sent.received[static_cast<std::size_t>(rank)], 0);
  }

  // A host is lost with its disk, and another has a copy of its file: the new host receives its
  // part, and the others nothing but the list of the parts.
  void ranksReceiveWhatTheyLack() {
    QTemporaryDir dir;
    const auto diskOf = [&](int rank) {
      return dir.filePath(QString("host%1").arg(rank)).toStdString();
    };
    RunSettings settings = fourHosts();
    settings.adapt = [&](int rank, runtime::TrainerOptions& options) {
      options.checkpointFolder = diskOf(rank);
    };
    const RunOutcome outcome = trained(settings);
    QVERIFY2(outcome.ok(), outcome.error().c_str());
    const auto plan = planOf(settings);
    QVERIFY(plan.ok());
    const Read whole = readBy(*plan, diskOf);
    QVERIFY2(whole.status.ok(), whole.status.ok() ? "" : whole.status.error().text().c_str());

    const auto checkpoint = weights::checkpointsIn(diskOf(1)).back();
    fs::copy(checkpoint.second / weights::shardFile(1),
             weights::checkpointAt(diskOf(2), checkpoint.first));
    fs::remove_all(diskOf(1));
    const Read read = readBy(*plan, diskOf);
    QVERIFY2(read.status.ok(), read.status.ok() ? "" : read.status.error().text().c_str());
    QVERIFY(read.hasStatesOf(whole));
    constexpr std::int64_t kList = 64 << 10;
    QVERIFY(bytesHeldBy(*plan, 1) > 4 * kList);
    for (int rank = 0; rank < 4; ++rank) {
      const std::int64_t received = read.received[static_cast<std::size_t>(rank)];
      const std::int64_t lacks = rank == 1 ? bytesHeldBy(*plan, 1) : 0;
      QVERIFY2(received >= lacks && received < lacks + kList,
               fmt::format("rank {} received {} bytes", rank, received).c_str());
    }
  }
};

QTEST_GUILESS_MAIN(MulticastTest)
#include "multicast_test.moc"
