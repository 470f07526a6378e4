// For tests of one node of a run: the test plays the run's other nodes, and its program is also the
// worker of the nodes that are real.
#pragma once

#include <QCoreApplication>
#include <QTest>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/channel.h"
#include "agent/supervisor/spool.h"
#include "agent/worker/worker_process.h"
#include "lockstep/node/v1/worker.pb.h"
#include "tests/agent/agent_node.h"

namespace lockstep::agent_test {

// max_steps of a run whose ranks end as soon as they may begin.
inline constexpr std::int64_t kEndsAtOnce = 1;
// Of one whose first generation trains to step 100, and whose second begins at step 11 again, and
// has a checkpoint of step 20 when it is asked for one.
inline constexpr std::int64_t kLosesSteps = 1000;
// Of one that has a checkpoint of step 20 when it is asked for one, and tells no steps.
inline constexpr std::int64_t kSaves = 1001;

inline std::vector<run::v1::Record> recordsOf(agent::Spool& spool) {
  std::vector<run::v1::Record> out;
  for (const auto& kept : must(spool.read(0, 100'000, 0)))
    out.emplace_back().ParseFromString(kept.bytes);
  return out;
}

// A worker that trains nothing.
class PlayedWorker {
 public:
  void send(const node::v1::FromWorker& message) { channel_.send(message); }
  void sendReady() {
    node::v1::FromWorker ready;
    ready.mutable_ready();
    send(ready);
  }
  // Steps of 10 ms each.
  void sendSteps(std::int64_t first, std::int64_t last) {
    node::v1::FromWorker message;
    run::v1::StepChunk& steps = *message.mutable_steps();
    steps.set_first_step(first);
    for (std::int64_t step = first; step <= last; ++step) {
      steps.add_loss(1);
      steps.add_duration_ns(10'000'000);
    }
    send(message);
  }
  void sendCheckpoint(std::int64_t step) {
    node::v1::FromWorker checkpoint;
    checkpoint.mutable_checkpoint()->set_step(step);
    send(checkpoint);
  }
  void sendFinished(run::v1::RunState state, std::int64_t steps = 0) {
    node::v1::FromWorker finished;
    finished.mutable_finished()->set_state(state);
    finished.mutable_finished()->set_steps(steps);
    send(finished);
  }
  // Waits for a message of the supervisor; nothing once the supervisor has ended.
  std::optional<node::v1::ToWorker> receive() {
    for (std::string frame; channel_.receive(frame);) {
      node::v1::ToWorker message;
      if (!message.ParseFromString(frame)) continue;
      if (message.has_start()) {
        maxSteps_ = message.start().spec().training().max_steps();
        generation_ = message.start().generation();
      }
      return message;
    }
    return std::nullopt;
  }
  std::int64_t maxSteps() const { return maxSteps_; }  // of the run; 0: it has no last step
  int generation() const { return generation_; }

 private:
  agent::BlockingChannel channel_{agent::kWorkerChannelFd};
  std::int64_t maxSteps_ = 0;
  int generation_ = 0;
};

// The main function of such a test: its supervisors start it again with the word "worker".
template <typename Test>
int runTestOrWorker(int argc, char** argv, int (*runWorker)()) {
  if (argc > 1 && std::string_view(argv[1]) == "worker") return runWorker();
  QCoreApplication application(argc, argv);
  Test test;
  return QTest::qExec(&test, argc, argv);
}

}  // namespace lockstep::agent_test
