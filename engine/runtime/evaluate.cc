#include "engine/runtime/evaluate.h"

#include <cmath>
#include <functional>
#include <utility>

#include "engine/runtime/checkpoint.h"
#include "engine/runtime/metric.h"

namespace lockstep::runtime {

Result<Evaluation> evaluate(const plan::Plan& plan, Feed& program, const data::Dataset& data,
                            std::int64_t step, std::uint64_t seed) {
  const std::int64_t batch = plan.evaluateCuts.back();
  data::Loader::Options load;
  load.globalBatch = batch;
  load.begin = program.begin();
  load.end = program.end();
  load.shuffle = false;
  load.lastStep = data::stepsPerEpoch(data.size(), batch);
  LOCKSTEP_ASSIGN(const auto loader, data::Loader::make(data, load));
  Sums total;
  total.metric.resize(metricSums(program.metrics()));
  const data::Batch* share = loader->next();
  bool isAhead = false;  // the next input is written
  std::optional<NonFiniteTensor> nonFinite;
  // Runs while the device is at work.
  const std::function<Status()> writeNext = [&]() -> Status {
    share = loader->next();
    isAhead = true;
    if (share != nullptr) program.write(*share, 0, 1, batch, seed);
    return {};
  };
  while (share != nullptr) {
    if (!std::exchange(isAhead, false)) program.write(*share, 0, 1, batch, seed);
    program.writeScalars(0, 0, Request::kNone);
    LOCKSTEP_TRY(program.executor().run(step, nullptr, {}, writeNext));
    if (!isAhead) share = loader->next();
    if (!nonFinite) nonFinite = program.executor().nonFinite();
    if (program.hasMetrics()) addTo(total, program.metrics());  // servers have none
  }
  LOCKSTEP_TRY(program.executor().awaitSent(step));
  LOCKSTEP_TRY(data.problem());
  if (!program.hasMetrics()) return Evaluation{};
  return Evaluation{total.loss / total.weight,
                    metricValue(plan.metric(), total.metric, total.weight),
                    std::isfinite(total.loss), std::move(nonFinite)};
}

Result<Evaluation> evaluateCheckpoint(const plan::Plan& plan, const std::string& checkpoint,
                                      const data::Dataset& data, backends::Backend& backend) {
  if (plan.mesh.size() != 1)
    return invalidArgument("a checkpoint is evaluated by one rank, and the plan is of {}",
                           plan.mesh.size());
  LOCKSTEP_ASSIGN(const auto state, StateArena::make(plan, 0, &backend));
  LOCKSTEP_ASSIGN(const Arena arena, Arena::make(backend, plan.arenaBytesOf(0)));
  const Groups alone;
  LOCKSTEP_ASSIGN(const auto program, Feed::bind(plan, "evaluate", 0, plan.evaluateCuts, data,
                                                 backend, alone, *state, arena.data()));
  LOCKSTEP_TRY(readModel(checkpoint, {plan, 0, *state, alone}));
  LOCKSTEP_TRY(state->put());
  return evaluate(plan, *program, data, 0, 0);
}

}  // namespace lockstep::runtime
