// What plan steps, collectives and training cost on this machine, run by the same executor and
// trainer that runs use.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include "agent/host/cores.h"
#include "agent/host/speed.h"
#include "agent/worker/rank_groups.h"
#include "agent/worker/telemetry.h"
#include "agent/worker/worker_link.h"
#include "engine/backends/backend.h"
#include "engine/base/random.h"
#include "engine/base/statistics.h"
#include "engine/comm/stand_ins.h"
#include "engine/ir/model_graph.h"
#include "engine/planner/planner.h"
#include "engine/runtime/all_reduce.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/trainer.h"

namespace lockstep::agent {
namespace {

double since(Nanoseconds begin) { return static_cast<double>(monotonicNow() - begin) * 1e-9; }

// Groups of which only this rank is there, one for each axis of a mesh: what runs between
// collectives is measured alone.
class AloneGroups {
 public:
  AloneGroups(int rank, const cluster::Mesh& mesh) {
    for (const cluster::Axis& axis : mesh.groupAxes()) {
      if (mesh.coordinate(rank, axis.name) < 0) continue;  // a server's
      owned_.push_back(comm::makeAlone(mesh.coordinate(rank, axis.name), axis.size));
      groups_.set(axis.name, owned_.back().get());
    }
  }
  const runtime::Groups& groups() const { return groups_; }

 private:
  std::vector<std::unique_ptr<comm::Communicator>> owned_;
  runtime::Groups groups_;
};

// Samples that fit the inputs of the plan's step program, made up: bytes that look like images,
// labels within the classes, categories of which few are frequent. Images lie in `bytes` of noise.
class MadeUp final : public data::Dataset {
 public:
  MadeUp(std::vector<data::Field> fields, std::int64_t size, std::int32_t classes,
         std::int64_t categories, std::int64_t bytes)
      : fields_(std::move(fields)), size_(size), classes_(classes), categories_(categories) {
    std::int64_t image = 64;
    for (const data::Field& field : fields_) image = std::max(image, field.bytes());
    places_ = std::max<std::int64_t>(1, bytes / image);
    noise_.resize(static_cast<std::size_t>(places_ * image / 8 + 1));
    for (std::size_t i = 0; i < noise_.size(); ++i) noise_[i] = randomBits(7, i);
  }
  std::int64_t size() const override { return size_; }
  const std::vector<data::Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    const data::Field& one = fields_[field];
    if (one.dtype == DType::kU8) {
      std::memcpy(out,
                  reinterpret_cast<const std::byte*>(noise_.data()) + index % places_ * one.bytes(),
                  static_cast<std::size_t>(one.bytes()));
    } else if (one.name == "categories") {
      auto* ids = reinterpret_cast<std::int32_t*>(out);
      for (std::int64_t i = 0; i < one.bytes() / 4; ++i) {
        const double u =
            randomUniform(static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(i));
        ids[i] = static_cast<std::int32_t>(u * u * u * u * static_cast<double>(categories_));
      }
    } else if (one.dtype == DType::kI32) {
      const auto label = static_cast<std::int32_t>(
          randomBits(9, static_cast<std::uint64_t>(index)) % static_cast<std::uint64_t>(classes_));
      for (std::int64_t i = 0; i < one.bytes(); i += 4) std::memcpy(out + i, &label, 4);
    } else {
      std::memset(out, 0, static_cast<std::size_t>(one.bytes()));
    }
  }

 private:
  std::vector<data::Field> fields_;
  std::int64_t size_;
  std::int32_t classes_;
  std::int64_t categories_;
  std::int64_t places_ = 1;
  std::vector<std::uint64_t> noise_;
};

const plan::Buffer* inputOf(const plan::Body& body, std::string_view name) {
  for (const plan::Buffer& buffer : body.buffers)
    if (buffer.kind == plan::BufferKind::kInput && buffer.name == name) return &buffer;
  return nullptr;
}

// The number of classes the plan's losses expect.
std::int32_t classesOf(const plan::Plan& plan) {
  for (const plan::Program& program : plan.programs)
    for (const plan::Body& body : program.bodies)
      for (const plan::Step& step : body.steps) {
        const bool divided = step.op == ir::Op::kXentTerms;  // over the ranks of its axis
        if ((step.op != ir::Op::kSoftmaxXent && !divided) || step.inputs.empty()) continue;
        const Shape& shape = body.buffers[static_cast<std::size_t>(step.inputs[0])].type.shape;
        const int ranks = divided ? plan.mesh.axisSize(ir::textAttr(step.attrs, "axis")) : 1;
        if (!shape.empty()) return static_cast<std::int32_t>(shape.back()) * ranks;
      }
  return 2;
}

// The rows of the table that the plan's embeddings look up, on servers the rows of all.
std::int64_t categoriesOf(const plan::Plan& plan) {
  for (const plan::Program& program : plan.programs)
    for (const plan::Body& body : program.bodies)
      for (const plan::Step& step : body.steps) {
        if (step.op == ir::Op::kUnique) return ir::listAttr(step.attrs, "cuts").back();
        if (step.op == ir::Op::kEmbedding)
          return body.buffers[static_cast<std::size_t>(step.inputs[0])].type.shape[0];
      }
  return 1;
}

constexpr std::int64_t kFewBytes = 64 << 10;
constexpr std::int64_t kManyBytes = 48 << 20;  // as data sets usually are: more than caches hold

Result<MadeUp> madeUpData(const plan::Plan& plan, int rank, std::int64_t size,
                          std::int64_t bytes = kFewBytes) {
  std::vector<data::Field> fields;
  for (const char* name : {"x", "categories", "label"}) {
    const plan::Body* body = plan.reader(name, rank);
    const plan::Buffer* buffer = body == nullptr ? nullptr : inputOf(*body, name);
    if (buffer == nullptr || buffer->type.shape.empty()) continue;
    data::Field field;
    field.name = name;
    field.dtype = buffer->type.dtype;
    field.shape.assign(buffer->type.shape.begin() + 1, buffer->type.shape.end());
    fields.push_back(std::move(field));
  }
  return MadeUp(std::move(fields), size, classesOf(plan), categoriesOf(plan), bytes);
}

// The training data many times over, so that no epoch ends while the clock runs.
class Repeated final : public data::Dataset {
 public:
  Repeated(const data::Dataset& data, std::int64_t times) : data_(data), times_(times) {}
  std::int64_t size() const override { return data_.size() * times_; }
  const std::vector<data::Field>& fields() const override { return data_.fields(); }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    data_.read(index % data_.size(), field, out);
  }

 private:
  const data::Dataset& data_;
  std::int64_t times_;
};

// The table that the run trains on, where it is here and not too large to be read for this; null
// else.
std::unique_ptr<data::Dataset> tableHere(const node::v1::WorkerStart& start) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 30;
  if (start.spec().data().format() != "table") return nullptr;
  const auto path = start.data_paths().find("train.table");
  std::error_code unknown;
  if (path == start.data_paths().end() ||
      std::filesystem::file_size(path->second, unknown) > kMostBytes || unknown)
    return nullptr;
  auto data = openData(start, true);
  return data.ok() && (*data)->size() > 0 ? std::move(*data) : nullptr;
}

void fill(runtime::Executor& executor, const data::Dataset& data) {
  for (std::size_t f = 0; f < data.fields().size(); ++f) {
    const backends::Operand to = executor.input(data.fields()[f].name);
    if (to.data == nullptr) continue;
    const std::int64_t each = data.fields()[f].bytes();
    for (std::int64_t i = 0; i * each < to.type.bytes(); ++i)
      data.read(i, f, static_cast<std::byte*>(to.data) + i * each);
  }
  for (const auto& [name, value] :
       {std::pair{"weight", 1.0}, {"lr", 1e-4}, {"t", 100.0}, {"stop", 0.0}}) {
    const backends::Operand to = executor.input(name);
    if (to.data == nullptr) continue;
    for (std::int64_t i = 0; i < to.type.count(); ++i) {
      if (to.type.dtype == DType::kF64)
        static_cast<double*>(to.data)[i] = value;
      else
        static_cast<float*>(to.data)[i] = static_cast<float>(value);
    }
  }
}

// One rank for each different body of a program.
std::vector<int> representatives(const plan::Program& program) {
  std::vector<int> out;
  std::set<int> seen;
  for (std::size_t rank = 0; rank < program.bodyOfRank.size(); ++rank)
    if (seen.insert(program.bodyOfRank[rank]).second) out.push_back(static_cast<int>(rank));
  return out;
}

using Samples = std::map<std::string, std::vector<double>>;

// Runs one body in order, again and again, so that caches are as in a run.
Status runBody(const plan::Plan& plan, std::string_view program, int rank,
               const data::Dataset* table, backends::Backend& backend, double seconds,
               Samples& samples) {
  const AloneGroups alone(rank, plan.mesh);
  LOCKSTEP_ASSIGN(const auto state, runtime::StateArena::make(plan, rank, &backend));
  LOCKSTEP_ASSIGN(const auto init,
                  runtime::Executor::bind(plan, "init", rank, backend, alone.groups(), *state));
  LOCKSTEP_TRY(init->run(0, nullptr));
  LOCKSTEP_ASSIGN(const auto executor,
                  runtime::Executor::bind(plan, program, rank, backend, alone.groups(), *state));
  LOCKSTEP_ASSIGN(const MadeUp madeUp, madeUpData(plan, rank, 1024));
  const Repeated repeated(table != nullptr ? *table : madeUp, std::int64_t{1} << 20);
  fill(*executor, repeated);
  std::vector<plan::Event> events;
  events.reserve(executor->steps());
  const plan::Body& body = executor->body();
  std::vector<std::string> names;
  for (const plan::Step& step : body.steps) names.push_back(planner::signature(body, step));
  const Nanoseconds begin = monotonicNow();
  for (int runs = 0;; ++runs) {
    events.clear();
    LOCKSTEP_TRY(executor->run(runs, &events));
    const double spent = since(begin);
    const bool isLong = spent > 4 * seconds;
    if (runs >= 3 || (runs >= 1 && spent > seconds * 0.5) || isLong)  // the first are warm-up
      for (const plan::Event& event : events) {
        if (event.kind != plan::EventKind::kCompute || event.planStep < 0) continue;
        samples[names[static_cast<std::size_t>(event.planStep)]].push_back(
            static_cast<double>(event.end - event.begin) * 1e-9);
      }
    if ((runs >= 5 && spent > seconds) || runs >= 20000 || isLong) break;
  }
  runtime::Sender* const sender = alone.groups().sender();
  return sender == nullptr ? Status() : sender->drain();
}

// Keeps what a trainer says of its steps, and tells it as a run does.
class Recorder final : public runtime::TrainerObserver {
 public:
  Recorder(int rank, BlockingChannel& channel) : telemetry_(rank, channel, [](std::int64_t) {}) {
    steps.reserve(1 << 20);
  }
  void onReady(std::int64_t) override {}
  void onStep(const runtime::StepRecord& record) override {
    if (steps.size() < steps.capacity()) steps.push_back(record);
    telemetry_.onStep(record);
    if (afterStep) afterStep();
  }
  void onEvents(const std::vector<plan::Event>& events) override { telemetry_.onEvents(events); }
  void onEpoch(const runtime::EpochRecord&) override {}
  void onCheckpoint(std::int64_t, const std::string&) override {}
  void finish() { telemetry_.finish(); }
  std::vector<runtime::StepRecord> steps;
  std::function<void()> afterStep;

 private:
  Telemetry telemetry_;
};

// Sets `stop` when the time is over.
class Deadline {
 public:
  Deadline(double seconds, std::atomic<bool>& stop)
      : thread_([seconds, &stop](const std::stop_token& ended) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any().wait_for(
              lock, ended, std::chrono::duration<double>(seconds), [] { return false; });
          stop = true;
        }) {}

 private:
  std::jthread thread_;
};

// Trains on the table, or on made-up data, with the real trainer, its loader and its telemetry
// until rank 0's clock says that it is enough, `mostSteps` steps at most where it is above 0. The
// clock runs from the first step's end: what comes before, a server's making of large tables too,
// is no step. Where steps are long it is enough after some, and in any case after ten times as
// long. The records of the steps, the first of them left out.
Result<std::vector<runtime::StepRecord>> rehearse(const plan::Plan& plan,
                                                  const node::v1::WorkerStart& start,
                                                  WorkerLink& link, backends::Backend& backend,
                                                  const runtime::Groups& groups,
                                                  const data::Dataset* table, double seconds,
                                                  std::int64_t mostSteps = 0) {
  constexpr std::size_t kLeastSteps = 4;          // of which the first is left out
  constexpr std::int64_t kMostSamples = 1 << 18;  // an epoch, which a rehearsal seldom reaches
  const int rank = start.rank();
  const std::int64_t samples = std::max(plan.globalBatch * 8, kMostSamples);
  LOCKSTEP_ASSIGN(const MadeUp madeUp, madeUpData(plan, rank, samples, kManyBytes));
  const Repeated data(table != nullptr ? *table : madeUp,
                      table != nullptr ? samples / table->size() + 1 : 1);
  LOCKSTEP_ASSIGN(const MadeUp tiny, madeUpData(plan, rank, plan.globalBatch));
  runtime::TrainerOptions options;
  options.nonFinite = runtime::NonFinite::kTaken;  // it is of made-up data
  options.epochs = 1 << 20;
  options.maxSteps = mostSteps;
  options.schedule.peak = 1e-4;
  options.eventsEvery = start.events_every();
  std::atomic<bool> stop{false};
  Recorder recorder(rank, link.channel());
  std::optional<Deadline> deadline;
  if (rank == 0)
    recorder.afterStep = [&] {
      if (!deadline) deadline.emplace(10 * seconds, stop);
      const auto& steps = recorder.steps;
      const double spent = static_cast<double>(steps.back().end - steps.front().end) * 1e-9;
      if (spent > seconds && steps.size() > kLeastSteps) stop = true;
    };
  LOCKSTEP_TRY(
      runtime::train(plan, rank, options, data, tiny, backend, groups, stop, recorder).status());
  recorder.finish();
  auto& steps = recorder.steps;
  // the first, where there is another
  const std::size_t few = std::min<std::size_t>(steps.size(), 2) / 2;
  const std::size_t warmUp = std::max(few, steps.size() > 40 ? steps.size() / 8 : steps.size() / 3);
  steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(warmUp));
  return std::move(steps);
}

// How many of rank 0's training steps take so long, by what their computing was measured to take.
std::int64_t stepsIn(double seconds, const plan::Plan& plan, Samples& samples) {
  double step = 1e-6;
  for (const plan::ScheduleEntry& entry : plan.entriesOf(0)) {
    const plan::Body& body = *plan.find(entry.program, 0);
    for (const plan::Step& one : body.steps)
      if (const auto found = samples.find(planner::signature(body, one)); found != samples.end())
        step += median(found->second);
  }
  return std::max<std::int64_t>(5, static_cast<std::int64_t>(seconds / step));
}

// An all-reduce, all-gather or all-to-all of a plan, on memory of its own.
class Collective {
 public:
  Collective(comm::Communicator& group, const plan::Body& body, const plan::Step& step)
      : group_(group),
        op_(step.op),
        dtype_(body.buffers[static_cast<std::size_t>(step.outputs[0])].type.dtype),
        count_(body.buffers[static_cast<std::size_t>(step.outputs[0])].type.count()),
        cuts_(ir::listAttr(step.attrs, "cuts")),
        exchanges_(
            plan::exchanges(*ir::algorithmFromName(ir::textAttr(step.attrs, "algorithm", "direct")),
                            group.rank(), group.size(), count_, ir::listAttr(step.attrs, "hosts"))),
        staging_(static_cast<std::size_t>(runtime::stagingBytes(exchanges_, dtype_))) {}
  Status allocate() {
    LOCKSTEP_ASSIGN(memory_, runtime::allocateAligned(bytes(), "collectives"));
    LOCKSTEP_ASSIGN(
        other_, runtime::allocateAligned(op_ == ir::Op::kAllToAll ? bytes() : 0, "collectives"));
    return {};
  }
  Status run() {
    if (op_ == ir::Op::kAllToAll)
      return group_.allToAll(memory_.get(), other_.get(), bytes() / group_.size());
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

double medianDuration(const std::vector<runtime::StepRecord>& steps) {
  std::vector<double> durations;
  for (const auto& step : steps)
    durations.push_back(static_cast<double>(step.end - step.begin) * 1e-9);
  return median(durations);
}

// From one step's begin to the next, less the compute in it.
double overheadOf(const std::vector<runtime::StepRecord>& steps) {
  std::vector<double> rest;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    if (steps[i + 1].epoch != steps[i].epoch) continue;  // evaluation lies between
    rest.push_back(static_cast<double>(steps[i + 1].begin - steps[i].begin) * 1e-9 -
                   static_cast<double>(steps[i].forward + steps[i].backward + steps[i].optimizer));
  }
  return std::max(0.0, median(rest));
}

}  // namespace

Status measureSteps(const node::v1::WorkerStart& start, WorkerLink& link) {
  LOCKSTEP_ASSIGN(plan::Plan plan, readPlan(start));
  plan.uncompressedWarmupSteps = 0;  // the first steps are not what a run is made of
  LOCKSTEP_ASSIGN(const auto backend, openBackend(start));
  const PinnedThread pinned(start);
  const AloneGroups alone(0, plan.mesh);
  std::size_t bodies = 0;
  for (const plan::Program& program : plan.programs)
    if (program.name != "init") bodies += representatives(program).size();
  const std::unique_ptr<data::Dataset> table = tableHere(start);
  Samples samples;
  const double each = start.seconds() * 0.7 / static_cast<double>(std::max<std::size_t>(1, bodies));
  for (const plan::Program& program : plan.programs)
    if (program.name != "init")
      for (int rank : representatives(program))
        LOCKSTEP_TRY(runBody(plan, program.name, rank, table.get(), *backend, each, samples));

  node::v1::FromWorker message;
  node::v1::MeasureReply* reply = message.mutable_measured();
  for (auto& [name, values] : samples) {
    auto* cost = reply->add_steps();
    cost->set_signature(name);
    cost->set_seconds(median(values));
  }
  // By its steps, since a worker hears of a stop from its servers, and they are not there.
  const double rehearsal = start.seconds() * 0.3;
  LOCKSTEP_ASSIGN(const auto steps,
                  rehearse(plan, start, link, *backend, alone.groups(), table.get(), rehearsal,
                           stepsIn(rehearsal, plan, samples)));
  reply->set_step_overhead_seconds(overheadOf(steps));
  if (plan.mesh.size() == 1) reply->set_step_seconds(medianDuration(steps));
  link.channel().send(message);
  return {};
}

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
  using Name = std::tuple<std::string, std::string, std::int64_t>;  // axis, kind, bytes
  std::map<Name, Collective> collectives;
  std::map<Name, DeviceCollective> ofDevices;
  for (const plan::Program& program : plan.programs)
    for (const plan::Body& body : program.bodies)
      for (const plan::Step& step : body.steps) {
        comm::Communicator* const group = groups.groups().along(step.axis);
        if (device::Group* const there = all.devicesAlong(step.axis);
            there != nullptr && step.kind == plan::StepKind::kCollective) {
          const Name name{step.axis, planner::costKind(start.link(), step), step.bytes};
          if (ofDevices.contains(name)) continue;
          LOCKSTEP_ASSIGN(auto one, DeviceCollective::make(*backend->device(), *there, body, step));
          ofDevices.emplace(name, std::move(one));
          continue;
        }
        const bool isMeasured = step.op == ir::Op::kAllReduce || step.op == ir::Op::kAllGather ||
                                step.op == ir::Op::kAllToAll;
        if (!isMeasured || group == nullptr || step.axis == plan.mesh.messageAxis()) continue;
        const auto [at, isNew] = collectives.try_emplace(
            {step.axis, planner::costKind(start.link(), step), step.bytes}, *group, body, step);
        if (isNew) LOCKSTEP_TRY(at->second.allocate());
      }
  node::v1::FromWorker ready;
  ready.mutable_ready();
  link.channel().send(ready);
  link.waitGo();

  node::v1::FromWorker message;
  node::v1::MeasureReply* reply = message.mutable_measured();
  const double each =
      start.seconds() * 0.3 /
      static_cast<double>(std::max<std::size_t>(1, collectives.size() + ofDevices.size()));
  // All ranks of a group run equally often: its first one's clock decides.
  const auto measure = [&](const Name& name, int ranks,
                           const std::function<Result<double>()>& once) -> Status {
    const auto& [axis, kind, bytes] = name;
    comm::Communicator* const group = groups.groups().along(axis);
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
    auto* cost = reply->add_collectives();
    cost->set_kind(kind);
    cost->set_ranks(ranks);
    cost->set_bytes(bytes);
    cost->set_seconds(median(seconds));
    return {};
  };
  for (auto& [name, collective] : collectives) {
    LOCKSTEP_TRY(measure(name, groups.groups().along(std::get<0>(name))->size(),
                         [&, &one = collective]() -> Result<double> {
                           const Nanoseconds from = monotonicNow();
                           LOCKSTEP_TRY(one.run());
                           return since(from);
                         }));
  }
  constexpr int kTogether = 8;
  for (auto& [name, collective] : ofDevices) {
    const bool isMessage = std::get<1>(name).ends_with(" send");
    LOCKSTEP_TRY(measure(name, isMessage ? 2 : all.devicesAlong(std::get<0>(name))->size(),
                         [&one = collective] { return one.run(kTogether); }));
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

namespace {

class BenchObserver final : public runtime::TrainerObserver {
 public:
  BenchObserver(const plan::Plan& plan, int rank, WorkerLink& link, double seconds)
      : link_(link), end_(static_cast<Nanoseconds>(seconds * 1e9)) {
    std::map<std::string_view, std::size_t> first;  // a program's first operation
    for (const plan::ScheduleEntry& entry : plan.entriesOf(rank)) {
      const plan::Body& body = *plan.find(entry.program, rank);
      const auto [at, isNew] = first.emplace(entry.program, names_.size());
      for (std::size_t i = 0; i < body.steps.size(); ++i) {
        if (isNew) names_.push_back(body.steps[i].name);
        operation_.push_back(at->second + i);
      }
    }
    sum_.resize(names_.size());
    count_.resize(names_.size());
    windows_.reserve(1 << 14);
  }
  void onReady(std::int64_t) override {
    node::v1::FromWorker ready;
    ready.mutable_ready();
    link_.channel().send(ready);
    link_.waitGo();
  }
  void onStep(const runtime::StepRecord& record) override {
    if (start_ == 0)
      start_ = windowBegin_ = record.end;  // the first step is warm-up
    else
      samples_ += record.samples;
    constexpr Nanoseconds kWindow = 250'000'000;
    if (record.end - windowBegin_ >= kWindow) {
      if (windows_.size() < windows_.capacity())
        windows_.push_back(static_cast<double>(samples_) /
                           (static_cast<double>(record.end - windowBegin_) * 1e-9));
      windowBegin_ = record.end;
      samples_ = 0;
    }
    if (record.end - start_ > end_ && timed_) link_.askStop();
  }
  void onEvents(const std::vector<plan::Event>& events) override {
    timed_ = true;
    last_ = events;
    for (const plan::Event& event : events) {
      if (event.planStep < 0) continue;
      const std::size_t at = operation_[static_cast<std::size_t>(event.planStep)];
      sum_[at] += static_cast<double>(event.end - event.begin) * 1e-6;
      count_[at] += 1;
    }
  }
  void onEpoch(const runtime::EpochRecord&) override {}
  void onCheckpoint(std::int64_t, const std::string&) override {}

  void reply(node::v1::BenchReply& out) const {
    // The first window is still warming up where there are others.
    std::vector<double> windows(windows_.begin() + (windows_.size() > 2 ? 1 : 0), windows_.end());
    for (double one : windows) out.add_windows(one);
    out.set_samples_per_second(median(windows));
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (count_[i] == 0) continue;
      auto* op = out.add_ops();
      op->set_name(names_[i]);
      op->set_milliseconds(sum_[i] / count_[i]);
    }
    writeEvents(last_, out.add_steps());
  }

 private:
  WorkerLink& link_;
  Nanoseconds end_, start_ = 0, windowBegin_ = 0;
  bool timed_ = false;                  // the operations of a step
  std::vector<plan::Event> last_;       // of them
  std::vector<std::size_t> operation_;  // by plan step
  std::int64_t samples_ = 0;
  std::vector<double> windows_;
  std::vector<std::string> names_;
  std::vector<double> sum_, count_;
};

// What this machine does at most, for what was measured to be held against.
Status measureLimits(backends::Backend& backend, node::v1::BenchReply& out) {
  constexpr std::int64_t kSide = 1024, kArray = 64 << 20;  // bytes
  constexpr double kSeconds = 0.3;
  LOCKSTEP_ASSIGN(const RunTime product, timeProduct(backend, DType::kF32, kSide, kSeconds));
  LOCKSTEP_ASSIGN(const RunTime sum, timeMemory(backend, kMemoryAdd, kArray, kSeconds));
  out.set_flops_per_second(2.0 * kSide * kSide * kSide / product.least);
  out.set_bytes_per_second(static_cast<double>(kMemoryAdd.arrays * kArray) / sum.least);
  return {};
}

}  // namespace

Status runBench(const node::v1::WorkerStart& start, WorkerLink& link) {
  LOCKSTEP_ASSIGN(plan::Plan plan, readPlan(start));
  plan.uncompressedWarmupSteps = 0;  // the first steps are not what a run is made of
  LOCKSTEP_ASSIGN(const auto data, openData(start, true));
  const auto& training = start.spec().training();
  LOCKSTEP_ASSIGN(const auto backend, openBackend(start));
  LOCKSTEP_ASSIGN(const RankGroups groups,
                  RankGroups::form(start, plan.mesh, link, collectiveLimit(plan)));
  runtime::Groups all = groups.groups();
  LOCKSTEP_ASSIGN(const runtime::DeviceGroups devices,
                  joinDevices(start, plan, *backend, link, all));
  const PinnedThread pinned(start);
  constexpr std::int64_t kMostSamples = 4'000'000;
  const Repeated repeated(
      *data, std::max<std::int64_t>(1, kMostSamples / std::max<std::int64_t>(1, data->size())));
  LOCKSTEP_ASSIGN(const MadeUp evaluation, madeUpData(plan, start.rank(), 1));
  runtime::TrainerOptions options;
  options.nonFinite = runtime::NonFinite::kTaken;  // it is of made-up data
  options.epochs = 1 << 20;
  options.seed = training.seed();
  options.shuffle = !training.no_shuffle();
  options.augment = augmentOf(start.spec().data());
  options.schedule.peak = training.optimizer().learning_rate();
  options.eventsEvery = 8;
  BenchObserver observer(plan, start.rank(), link, start.seconds());
  LOCKSTEP_TRY(runtime::train(plan, start.rank(), options, repeated, evaluation, *backend, all,
                              link.stopAsked(), observer)
                   .status());
  node::v1::FromWorker message;
  observer.reply(*message.mutable_benched());
  if (start.rank() == 0) LOCKSTEP_TRY(measureLimits(*backend, *message.mutable_benched()));
  link.channel().send(message);
  return {};
}

}  // namespace lockstep::agent
