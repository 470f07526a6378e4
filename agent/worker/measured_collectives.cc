// Measures the collectives and messages of a plan among its ranks.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <tuple>

#include "agent/host/cores.h"
#include "agent/worker/made_up_data.h"
#include "agent/worker/rank_groups.h"
#include "agent/worker/rehearsal.h"
#include "agent/worker/worker_link.h"
#include "engine/backends/backend.h"
#include "engine/base/statistics.h"
#include "engine/planner/planner.h"
#include "engine/runtime/all_reduce.h"
#include "engine/runtime/executor.h"

namespace lockstep::agent {
namespace {

double since(Nanoseconds begin) { return static_cast<double>(monotonicNow() - begin) * 1e-9; }

// A collective of a plan, on memory of its own.
class Collective {
 public:
  Collective(comm::Communicator& group, const plan::Body& body, const plan::Step& step)
      : group_(group),
        op_(step.op),
        dtype_(body.buffers[static_cast<std::size_t>(step.outputs[0])].type.dtype),
        count_(step.bytes / static_cast<std::int64_t>(sizeOf(dtype_))),
        cuts_(ir::listAttr(step.attrs, "cuts")),
        exchanges_(
            plan::exchanges(*ir::algorithmFromName(ir::textAttr(step.attrs, "algorithm", "direct")),
                            group.rank(), group.size(), count_, ir::listAttr(step.attrs, "hosts"))),
        staging_(static_cast<std::size_t>(runtime::stagingBytes(exchanges_, dtype_))) {}
  Status allocate() {
    LOCKSTEP_ASSIGN(memory_, runtime::allocateAligned(bytes(), "collectives"));
    const bool needsOther = op_ == ir::Op::kAllToAll || op_ == ir::Op::kReduceScatter;
    LOCKSTEP_ASSIGN(other_, runtime::allocateAligned(needsOther ? bytes() : 0, "collectives"));
    return {};
  }
  Status run() {
    if (op_ == ir::Op::kAllToAll)
      return group_.allToAll(memory_.get(), other_.get(), bytes() / group_.size());
    if (op_ == ir::Op::kReduceScatter)
      return group_.reduceScatter(memory_.get(), other_.get(), cuts_, dtype_, comm::ReduceOp::kMax);
    if (op_ == ir::Op::kAllGather) {
      const std::int64_t own = cuts_[static_cast<std::size_t>(group_.rank())];
      return group_.allGather(memory_.get() + own * static_cast<std::int64_t>(sizeOf(dtype_)),
                              memory_.get(), cuts_, dtype_);
    }
    if (exchanges_.empty())
      return group_.allReduce(memory_.get(), count_, dtype_, comm::ReduceOp::kMax);
    return runtime::allReduce(group_, exchanges_, memory_.get(), dtype_, comm::ReduceOp::kMax,
                              staging_);
  }

 private:
  std::int64_t bytes() const { return count_ * static_cast<std::int64_t>(sizeOf(dtype_)); }

  comm::Communicator& group_;
  ir::Op op_;
  DType dtype_;
  std::int64_t count_;
  std::vector<std::int64_t> cuts_;
  std::vector<plan::Exchange> exchanges_;
  std::vector<std::byte> staging_;
  runtime::AlignedMemory memory_, other_;
};

// What the devices of a group do of a plan, all at once, on memory of its own: a collective, or a
// message of each to the next, which receives it from the one before.
class DeviceCollective {
 public:
  static Result<DeviceCollective> make(device::Device& device, device::Group& group,
                                       const plan::Body& body, const plan::Step& step) {
    const auto typeOf = [&](plan::BufferId id) {
      return body.buffers[static_cast<std::size_t>(id)].type;
    };
    DeviceCollective out(device, group);
    out.op_ = step.op;
    out.cuts_ = ir::listAttr(step.attrs, "cuts");
    const ir::TensorType in = typeOf(step.inputs.empty() ? step.outputs[0] : step.inputs[0]);
    const ir::TensorType result = typeOf(step.outputs.empty() ? step.inputs[0] : step.outputs[0]);
    out.type_ = in.bytes() > result.bytes() ? in : result;
    for (device::Memory* memory : {&out.from_, &out.to_}) {
      LOCKSTEP_ASSIGN(*memory,
                      device::Memory::allocate(device, out.type_.bytes(), device::Where::kDevice));
    }
    for (auto* event : {&out.begun_, &out.ended_}) {
      LOCKSTEP_ASSIGN(*event, device.makeEvent());
    }
    return out;
  }
  // Seconds of each of so many, one after another: that ranks do not begin at once is shared by
  // all.
  Result<double> run(int times) {
    device_->record(*begun_, device::Queue::kExchange);
    for (int time = 0; time < times; ++time) give();
    device_->record(*ended_, device::Queue::kExchange);
    device_->wait(*ended_, device::Queue::kCompute);
    LOCKSTEP_TRY(device_->synchronize());
    return device_->seconds(*begun_, *ended_) / times;
  }
  bool isMessage() const { return op_ == ir::Op::kSend || op_ == ir::Op::kRecv; }

 private:
  DeviceCollective(device::Device& device, device::Group& group)
      : device_(&device), group_(&group) {}
  void give() {
    const std::int64_t bytes = type_.bytes();
    switch (op_) {
      case ir::Op::kAllReduce:
        return group_->allReduce(to_.data(), type_.count(), type_.dtype, device::Reduce::kMax);
      case ir::Op::kReduceScatter:
        return group_->reduceScatter(from_.data(), to_.data(), cuts_, type_.dtype,
                                     device::Reduce::kMax);
      case ir::Op::kAllGather:
        return group_->allGather(from_.data(), to_.data(), cuts_, type_.dtype);
      case ir::Op::kAllToAll:
        return group_->allToAll(from_.data(), to_.data(), bytes / group_->size());
      case ir::Op::kBroadcast:
        return group_->broadcast(to_.data(), bytes, 0);
      default:
        break;
    }
    const int size = group_->size(), rank = group_->rank();
    const std::array<device::Group::Message, 2> messages{
        {{true, from_.data(), bytes, (rank + 1) % size},
         {false, to_.data(), bytes, (rank + size - 1) % size}}};
    group_->exchange(messages);
  }

  device::Device* device_;
  device::Group* group_;
  ir::Op op_{};
  ir::TensorType type_;
  std::vector<std::int64_t> cuts_;
  device::Memory from_, to_;
  std::unique_ptr<device::Event> begun_, ended_;
};

using Name = std::tuple<std::string, std::string, std::int64_t>;  // axis, kind, bytes
using Collectives = std::map<Name, Collective>;
using DeviceCollectives = std::map<Name, DeviceCollective>;

// Each different one of the plan, once.
Status collect(const plan::Plan& plan, const std::string& link, const runtime::Groups& all,
               const runtime::Groups& groups, backends::Backend* backend, Collectives& collectives,
               DeviceCollectives& ofDevices) {
  for (const plan::Program& program : plan.programs)
    for (const plan::Body& body : program.bodies)
      for (const plan::Step& step : body.steps) {
        comm::Communicator* const group = groups.along(step.axis);
        if (device::Group* const there = all.devicesAlong(step.axis);
            there != nullptr && step.kind == plan::StepKind::kCollective) {
          const Name name{step.axis, planner::costKind(link, step), step.bytes};
          if (ofDevices.contains(name)) continue;
          LOCKSTEP_ASSIGN(auto one, DeviceCollective::make(*backend->device(), *there, body, step));
          ofDevices.emplace(name, std::move(one));
          continue;
        }
        const bool isMeasured = step.op == ir::Op::kAllReduce ||
                                step.op == ir::Op::kReduceScatter ||
                                step.op == ir::Op::kAllGather || step.op == ir::Op::kAllToAll;
        if (!isMeasured || group == nullptr || step.axis == plan.mesh.messageAxis()) continue;
        const auto [at, isNew] = collectives.try_emplace(
            {step.axis, planner::costKind(link, step), step.bytes}, *group, body, step);
        if (isNew) LOCKSTEP_TRY(at->second.allocate());
      }
  return {};
}

// All ranks of a group run equally often: its first one's clock decides.
Status measure(const Name& name, int ranks, const runtime::Groups& groups, double each,
               node::v1::MeasureReply& reply, const std::function<Result<double>()>& once) {
  const auto& [axis, kind, bytes] = name;
  comm::Communicator* const group = groups.along(axis);
  std::vector<double> seconds;
  const Nanoseconds begin = monotonicNow();
  for (int runs = 0; runs < 5000; ++runs) {
    LOCKSTEP_TRY(group->barrier());  // waiting for the others is not counted
    LOCKSTEP_ASSIGN(const double took, once());
    if (runs >= 3) seconds.push_back(took);
    std::int64_t over = group->rank() == 0 && runs >= 8 && since(begin) > each ? 1 : 0;
    if (runs % 8 == 7) {
      LOCKSTEP_TRY(group->broadcast(&over, sizeof over, 0));
      if (over != 0) break;
    }
  }
  auto* cost = reply.add_collectives();
  cost->set_kind(kind);
  cost->set_ranks(ranks);
  cost->set_bytes(bytes);
  cost->set_seconds(median(seconds));
  return {};
}

}  // namespace

Status measureCollectives(const node::v1::WorkerStart& start, WorkerLink& link) {
  LOCKSTEP_ASSIGN(plan::Plan plan, readPlan(start));
  plan.uncompressedWarmupSteps = 0;  // the first steps are not what a run is made of
  LOCKSTEP_ASSIGN(const RankGroups groups,
                  RankGroups::form(start, meshFor(plan, start.world()), link));
  // As the run will: what the ranks' devices exchange among themselves is measured there.
  const bool isOfAll = plan.mesh.size() == start.world();
  std::unique_ptr<backends::Backend> backend;
  runtime::DeviceGroups devices;
  runtime::Groups all = groups.groups();
  if (isOfAll) {
    LOCKSTEP_ASSIGN(backend, openBackend(start));
    LOCKSTEP_ASSIGN(devices, joinDevices(start, plan, *backend, link, all));
  }
  const PinnedThread pinned(start);
  const std::unique_ptr<data::Dataset> table = tableHere(start);
  Collectives collectives;
  DeviceCollectives ofDevices;
  LOCKSTEP_TRY(
      collect(plan, start.link(), all, groups.groups(), backend.get(), collectives, ofDevices));
  link.awaitStart();

  node::v1::FromWorker message;
  node::v1::MeasureReply* reply = message.mutable_measured();
  const double each =
      start.seconds() * 0.3 /
      static_cast<double>(std::max<std::size_t>(1, collectives.size() + ofDevices.size()));
  for (auto& [name, collective] : collectives) {
    LOCKSTEP_TRY(measure(name, groups.groups().along(std::get<0>(name))->size(), groups.groups(),
                         each, *reply, [&, &one = collective]() -> Result<double> {
                           const Nanoseconds from = monotonicNow();
                           LOCKSTEP_TRY(one.run());
                           return since(from);
                         }));
  }
  constexpr int kTogether = 8;
  for (auto& [name, collective] : ofDevices) {
    LOCKSTEP_TRY(
        measure(name, collective.isMessage() ? 2 : all.devicesAlong(std::get<0>(name))->size(),
                groups.groups(), each, *reply, [&one = collective] { return one.run(kTogether); }));
  }
  ofDevices.clear();
  if (isOfAll) {
    LOCKSTEP_ASSIGN(const auto steps,
                    rehearse(plan, start, link, *backend, all, table.get(), start.seconds() * 0.7));
    reply->set_step_seconds(medianDuration(steps));
  }
  link.channel().send(message);
  return {};
}

}  // namespace lockstep::agent
