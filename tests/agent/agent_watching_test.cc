// A client watches a run: how long records are on the way to it, and what agent and supervisor take
// of the processors for that. It runs alone: other tests would take both from the run.
#include <grpcpp/grpcpp.h>

#include <QTest>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "agent/base/process_stat.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "tests/agent/agent_node.h"

using namespace lockstep;
using namespace lockstep::agent_test;

namespace {

std::int64_t cpuTicks(int pid) {
  const auto text = readFile(fmt::format("/proc/{}/stat", pid), 65536);
  const auto stat = text.ok() ? agent::parseProcessStat(*text) : std::nullopt;
  return stat ? static_cast<std::int64_t>(stat->cpu) : 0;
}

}  // namespace

class AgentWatchingTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void costsLittleAndIsQuick() {
    Node node("n1");
    node.start();
    const auto request =
        prepareRequest({.run = newRunId(), .ranks = 2, .maxSteps = 100'000'000, .backend = ""});
    node::v1::PrepareReply prepared;
    const grpc::Status status = prepare(node.agent(), request, &prepared);
    QVERIFY2(status.ok(), status.error_message().c_str());
    const auto stub = node::v1::Supervisor::NewStub(channelTo(prepared.socket()));
    auto records = std::make_unique<Follower>(prepared.socket());
    node::v1::CommitRequest commit;
    commit.set_run(request.run());
    commit.set_generation(1);
    node::v1::CommitReply reply;
    QVERIFY(stub->Commit(deadline().get(), commit, &reply).ok());
    QVERIFY(eventually([&] { return records->lastStep(0) >= 3; }));
    const int worker0 = records->pidOf(0), worker1 = records->pidOf(1);
    const std::vector<int> processes = processesOfRun(request.run());
    const auto supervisor = std::find_if(processes.begin(), processes.end(),
                                         [&](int pid) { return pid != worker0 && pid != worker1; });
    QVERIFY(supervisor != processes.end());
    const auto watchers = [&] { return cpuTicks(*supervisor) + cpuTicks(node.pid()); };
    const auto workers = [&] { return cpuTicks(worker0) + cpuTicks(worker1); };
    const std::uint64_t seen = records->records().back().sequence();
    records.reset();  // one client, as in life
    const Nanoseconds begin = monotonicNow();
    std::int64_t stepsSeen = 0;
    const auto watchersBefore = watchers(), workersBefore = workers();
    std::vector<double> milliseconds;
    const auto context = deadline(60);
    node::v1::RecordsRequest follow;
    follow.set_after(seen);
    follow.set_follow(true);
    const auto reader = stub->Records(context.get(), follow);
    run::v1::Record record;
    while (milliseconds.size() < 100 && reader->Read(&record)) {
      if (!record.has_steps()) continue;
      const auto& steps = record.steps();
      if (steps.rank() == 0) stepsSeen += steps.loss_size();
      std::int64_t end = steps.duration_ns(steps.duration_ns_size() - 1);
      for (const std::int64_t delta : steps.begin_ns()) end += delta;
      milliseconds.push_back(static_cast<double>(monotonicNow() - end) * 1e-6);
    }
    context->TryCancel();
    reader->Finish();
    std::sort(milliseconds.begin(), milliseconds.end());
    QCOMPARE(milliseconds.size(), std::size_t{100});
    qInfo("from measured to the client: median %.1f ms, 95%% within %.1f ms", milliseconds[50],
          milliseconds[95]);
    QVERIFY(milliseconds[50] < 150);
    const double share = static_cast<double>(watchers() - watchersBefore) /
                         static_cast<double>(std::max<std::int64_t>(1, workers() - workersBefore));
    qInfo("agent and supervisor take %.2f %% of the workers' CPU time at %.0f steps/s", share * 100,
          static_cast<double>(stepsSeen) / (static_cast<double>(monotonicNow() - begin) * 1e-9));
    QVERIFY(share < 0.05);  // the figure is 1 %, measured in ticks of 10 ms
  }
};

QTEST_GUILESS_MAIN(AgentWatchingTest)
#include "agent_watching_test.moc"
