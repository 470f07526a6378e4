// A small handwritten plan: three ranks with two bodies, one group, one all-reduce.
#pragma once

#include "engine/plan/plan.h"

namespace lockstep::plan {

inline ir::TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

inline Body sampleBody(std::string role, std::int64_t rows) {
  Body body;
  body.role = std::move(role);
  body.buffers = {
      {"x", f32({rows, 16}), BufferKind::kInput, -1, 0},
      {"params.0", f32({16}), BufferKind::kState, -1, 0},
      {"grads.0", f32({32}), BufferKind::kTemp, -1, 4096},
      {"b.gradient", f32({16}), BufferKind::kTemp, 2, 0},
      {"metrics", f32({16}), BufferKind::kTemp, 2, 64},
      {"y", f32({rows, 16}), BufferKind::kTemp, -1, 8192},
  };
  body.arenaBytes = 16384;
  Step add, reduceRows, fill, allReduce, update;
  add.name = "b.add";
  add.op = ir::Op::kBiasAdd;
  add.inputs = {0, 1};
  add.outputs = {5};
  add.flops = static_cast<double>(16 * rows);
  add.bytes = 128 * rows;
  add.seconds = 1.5e-6;
  reduceRows.name = "b.gradient";
  reduceRows.op = ir::Op::kReduceRows;
  reduceRows.phase = ir::Phase::kBackward;
  reduceRows.inputs = {5};
  reduceRows.outputs = {3};
  fill.name = "metrics";
  fill.op = ir::Op::kFill;
  fill.attrs = {{"dtype", std::string("f32")}, {"shape", Shape{16}}, {"value", 0.0}};
  fill.phase = ir::Phase::kBackward;
  fill.outputs = {4};
  allReduce.name = "grads.0.all-reduce";
  allReduce.kind = StepKind::kCollective;
  allReduce.op = ir::Op::kAllReduce;
  allReduce.attrs = {{"axis", std::string("data")}, {"op", std::string("sum")}};
  allReduce.phase = ir::Phase::kBackward;
  allReduce.stream = 1;
  allReduce.inputs = {2};
  allReduce.outputs = {2};
  allReduce.axis = "data";
  allReduce.bytes = 128;
  update.name = "update";
  update.op = ir::Op::kAdd;
  update.phase = ir::Phase::kOptimizer;
  update.inputs = {1, 3};
  update.outputs = {1};
  update.after = {3};
  body.steps = {add, reduceRows, fill, allReduce, update};
  body.results = {{"metrics", 4}};
  return body;
}

inline Plan samplePlan() {
  Plan plan;
  plan.name = "sample \"é\"";
  plan.strategy = "multi-worker-mirrored";
  plan.mesh = cluster::Mesh({{"data", 3}});
  plan.globalBatch = 10;
  plan.batchCuts = {0, 4, 7, 10};
  plan.evaluateCuts = {0, 4, 7, 10};
  plan.state = {{"params.0",
                 StateRole::kParameters,
                 f32({16}),
                 0,
                 0,
                 1,
                 "",
                 {{"a", {3, 2}, 0}, {"scalar", {}, 8}, {"b", {7}, 9}}}};
  plan.stateBytes = 64;
  plan.schedule = {{{"step", 0, 0}}};
  plan.programs = {{"step", {sampleBody("worker.4", 4), sampleBody("worker.3", 3)}, {0, 1, 1}}};
  return plan;
}

}  // namespace lockstep::plan
