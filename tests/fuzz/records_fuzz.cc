// Records of a run's nodes, as the studio takes them: curves, breakdown, warnings, the run's row.
// An input is a frame for each record, of two nodes in turn.
#include <memory>

#include "app/runs/run_aggregator.h"
#include "engine/specs/error_info.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"

namespace lockstep::fuzz {
namespace {

run::v1::Record stepsOf(int rank, int first) {
  run::v1::Record record;
  auto& steps = *record.mutable_steps();
  steps.set_rank(rank);
  steps.set_first_step(first);
  for (int i = 0; i < 3; ++i) {
    steps.add_begin_ns(i == 0 ? 1'000'000 : 1'000);
    steps.add_duration_ns(900);
    steps.add_arrival_ns(500);
    steps.add_samples(64);
    steps.add_loss(0.5);
    for (auto* list :
         {steps.mutable_metric(), steps.mutable_data(), steps.mutable_forward(),
          steps.mutable_backward(), steps.mutable_communication(), steps.mutable_optimizer(),
          steps.mutable_frozen(), steps.mutable_frozen_arrived(), steps.mutable_staleness(),
          steps.mutable_loss_scale(), steps.mutable_gradient_norm(), steps.mutable_update_ratio(),
          steps.mutable_reading(), steps.mutable_elements()})
      list->Add(1e-4f);
    steps.add_skipped(i);
    steps.add_learning_rate(1e-3);
    steps.set_samples_seen(64 * (first + i));
    steps.set_sample_tokens(16);
  }
  return record;
}

std::vector<run::v1::Record> records() {
  std::vector<run::v1::Record> out(1);
  auto& started = *out[0].mutable_started();
  started.set_node("n1");
  started.set_boot_id("b");
  started.set_world(2);
  started.add_ranks(0);
  out.push_back(stepsOf(0, 0));
  out.push_back(stepsOf(1, 0));
  auto& sample = *out.emplace_back().mutable_node_sample();
  sample.set_cpu(0.5);
  auto& rank = *sample.add_rank();
  rank.set_gpu(0);
  rank.set_stopped(true);
  auto& gpu = *sample.add_gpu();
  gpu.set_name("NVIDIA H200");
  gpu.set_utilisation(0.9);
  gpu.add_throttle("heat");
  gpu.set_xids(3);
  out.emplace_back().mutable_clock()->set_offset_ns(5);
  auto& epoch = *out.emplace_back().mutable_epoch();
  epoch.set_epoch(1);
  epoch.set_step(3);
  *out.emplace_back().mutable_evaluation() = epoch;
  *out.emplace_back().mutable_warning() = specs::toInfo(invalidArgument("{} of {}", 1, "n1"));
  *out.emplace_back().mutable_recovering()->mutable_cause() =
      specs::toInfo(makeError(Code::kAborted, "rank {} ended", 1));
  out.emplace_back().mutable_recovered()->set_lost_steps(2);
  out.emplace_back().mutable_log()->add_lines("2024-05-01T12:00:00.123Z I text");
  out.emplace_back().mutable_events()->add_plan_step(1);
  out.emplace_back().mutable_rank()->set_state("ready");
  out.emplace_back().mutable_lost()->set_to(9);
  *out.emplace_back().mutable_error() = specs::toInfo(makeError(Code::kDataLoss, "a {}", "b"));
  out.emplace_back().mutable_finished()->set_state(run::v1::SUCCEEDED);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].set_sequence(i + 1);
    out[i].set_wall_ns(static_cast<std::int64_t>(i) * 1'000'000'000);
  }
  return out;
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> frames, out;
  for (const auto& record : records()) {
    frames.push_back(record.SerializeAsString());
    out.push_back(framesOf({frames.front(), frames.back()}));
  }
  out.push_back(framesOf(frames));
  return out;
}

std::unique_ptr<google::protobuf::Message> emptyMessage(std::size_t) {
  return std::make_unique<run::v1::Record>();
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  app::RunRow row;
  row.run = "r";
  row.world = 2;
  row.phase = app::RunState::PREPARED;
  row.figures.metric = "accuracy";
  app::RunAggregator aggregator(row, {{"n1", 0}, {"n2", 0}});
  run::v1::Record record;
  std::size_t index = 0;
  for (const std::string& frame : fuzz::splitFrames(fuzz::textOf(bytes, size))) {
    if (!record.ParseFromString(frame)) continue;
    aggregator.add(index++ % 2 == 0 ? "n1" : "n2", record);
    if (index % 4 == 0) (void)aggregator.take();
  }
  (void)aggregator.take();
  return 0;
}
