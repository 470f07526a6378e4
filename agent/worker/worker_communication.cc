// What of a training step is communication: steps with it, with a barrier in place of every
// collective, and with neither, in turn by the same ranks on the same memory.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "agent/host/cores.h"
#include "agent/worker/rank_groups.h"
#include "agent/worker/worker_link.h"
#include "engine/backends/backend.h"
#include "engine/comm/stand_ins.h"
#include "engine/runtime/trainer.h"

namespace lockstep::agent {
namespace {

using comm::Communication;

// The groups of a mesh, each one that is switched.
class SwitchedGroups {
 public:
  SwitchedGroups(const runtime::Groups& real, const cluster::Mesh& mesh) {
    for (const cluster::Axis& axis : mesh.groupAxes()) {
      comm::Communicator* const group = real.along(axis.name);
      if (group == nullptr) continue;
      owned_.push_back(comm::makeSwitched(*group));
      groups_.set(axis.name, owned_.back().get());
    }
  }
  const runtime::Groups& groups() const { return groups_; }
  void setCommunication(Communication as) {
    for (const auto& one : owned_) one->setCommunication(as);
  }

 private:
  std::vector<std::unique_ptr<comm::SwitchedCommunicator>> owned_;
  runtime::Groups groups_;
};

// Rounds of three blocks of equally many steps, one for each way to communicate. A block's first
// step is not counted: there the ranks come together again. Which step runs how follows from
// its number alone, so that all ranks switch together.
class Rounds final : public runtime::TrainerObserver {
 public:
  Rounds(const runtime::Groups& real, SwitchedGroups& switched, WorkerLink& link, double seconds)
      : real_(real),
        switched_(switched),
        link_(link),
        length_(static_cast<Nanoseconds>(seconds * 1e9)) {
    for (auto& one : seconds_) one.reserve(1 << 16);
  }
  void onReady(std::int64_t) override { link_.awaitStart(); }
  void onStep(const runtime::StepRecord& record) override {
    if (perBlock_ == 0) {
      warmUp(record);
      return;
    }
    if (++stepsInBlock_ == 1) blockBegin_ = record.end;
    if (stepsInBlock_ <= perBlock_) return;
    seconds_[way_].push_back(static_cast<double>(record.end - blockBegin_) * 1e-9 /
                             static_cast<double>(perBlock_));
    stepsInBlock_ = 0;
    way_ = (way_ + 1) % kWays.size();
    switched_.setCommunication(kWays[way_]);
    // The next step agrees on the end: it is one with communication.
    if (way_ == 0 && record.end - begin_ > length_) link_.askStop();
  }
  void onEvents(const std::vector<plan::Event>&) override {}
  void onEpoch(const runtime::EpochRecord&) override {}
  void onCheckpoint(std::int64_t, const std::string&) override {}

  const Status& status() const { return status_; }
  void reply(node::v1::BenchReply::Communication& out) const {
    const auto& [real, barrier, none] = seconds_;
    out.mutable_real()->Assign(real.begin(), real.end());
    out.mutable_barrier()->Assign(barrier.begin(), barrier.end());
    out.mutable_none()->Assign(none.begin(), none.end());
  }

 private:
  static constexpr std::array kWays = {Communication::kReal, Communication::kBarrier,
                                       Communication::kNone};
  static constexpr std::int64_t kWarmUp = 5;
  static constexpr double kBlockSeconds = 0.1;

  // By the last of these steps it is known how many make a block; rank 0 says.
  void warmUp(const runtime::StepRecord& record) {
    if (record.step < kWarmUp) return;
    const double step = static_cast<double>(record.end - record.begin) * 1e-9;
    std::int64_t steps =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(kBlockSeconds / step), 2, 2000);
    status_ = real_.broadcast(&steps, sizeof steps);
    if (!status_.ok()) link_.askStop();
    perBlock_ = steps;
    begin_ = record.end;
  }

  const runtime::Groups& real_;
  SwitchedGroups& switched_;
  WorkerLink& link_;
  const Nanoseconds length_;
  Status status_;
  Nanoseconds begin_ = 0, blockBegin_ = 0;
  std::int64_t perBlock_ = 0, stepsInBlock_ = 0;
  std::size_t way_ = 0;
  std::array<std::vector<double>, kWays.size()> seconds_;
};

}  // namespace

Status runCommunication(const node::v1::WorkerStart& start, WorkerLink& link) {
  LOCKSTEP_ASSIGN(plan::Plan plan, readPlan(start));
  plan.uncompressedWarmupSteps = 0;  // the first steps are not what a run is made of
  if (plan.mesh.size() < 2) return invalidArgument("one rank has no communication: use more ranks");
  if (plan.mesh.stages() > 1)
    return invalidArgument(
        "this strategy sends messages between ranks, which a barrier cannot replace");
  for (const plan::Program& program : plan.programs)
    for (const plan::Body& body : program.bodies)
      for (const plan::Step& step : body.steps)
        if (const std::string_view algorithm = ir::textAttr(step.attrs, "algorithm");
            step.op == ir::Op::kAllReduce && !algorithm.empty() && algorithm != "direct")
          return invalidArgument(
              "all-reduce {} is made of messages, which a barrier cannot replace; set "
              "strategy.all_reduce to direct",
              algorithm);
  LOCKSTEP_ASSIGN(const auto data, openData(start, true));
  const auto& training = start.spec().training();
  LOCKSTEP_ASSIGN(const auto backend, openBackend(start));
  LOCKSTEP_ASSIGN(const RankGroups groups,
                  RankGroups::form(start, plan.mesh, link, collectiveLimit(plan)));
  const PinnedThread pinned(start);
  SwitchedGroups switched(groups.groups(), plan.mesh);
  runtime::TrainerOptions options;
  options.nonFinite = runtime::NonFinite::kTaken;  // it is of made-up data
  options.epochs = 1 << 20;
  options.evaluate = false;
  options.seed = training.seed();
  options.shuffle = !training.no_shuffle();
  options.augment = augmentOf(start.spec().data());
  options.schedule.peak = training.optimizer().learning_rate();
  Rounds rounds(groups.groups(), switched, link, start.seconds());
  LOCKSTEP_TRY(runtime::train(plan, start.rank(), options, *data, *data, *backend,
                              switched.groups(), link.stopAsked(), rounds)
                   .status());
  LOCKSTEP_TRY(rounds.status());
  node::v1::FromWorker message;
  rounds.reply(*message.mutable_benched()->mutable_communication());
  link.channel().send(message);
  return {};
}

}  // namespace lockstep::agent
