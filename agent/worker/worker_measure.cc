// What plan steps and training cost on this machine, run by the same executor and trainer that runs
// use.
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "agent/host/cores.h"
#include "agent/worker/made_up_data.h"
#include "agent/worker/rehearsal.h"
#include "agent/worker/worker_link.h"
#include "engine/backends/backend.h"
#include "engine/base/statistics.h"
#include "engine/comm/stand_ins.h"
#include "engine/planner/planner.h"
#include "engine/runtime/executor.h"

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

}  // namespace lockstep::agent
