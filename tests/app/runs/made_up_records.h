// Records as the nodes of a run send them, and what becomes of them.
#pragma once

#include <string>
#include <vector>

#include "app/history/run_data.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app::test {

inline run::v1::Record stepsRecord(std::uint64_t sequence, int rank, std::int64_t first, int count,
                                   double forwardSeconds) {
  run::v1::Record record;
  record.set_sequence(sequence);
  auto* chunk = record.mutable_steps();
  chunk->set_rank(rank);
  chunk->set_first_step(first);
  for (int i = 0; i < count; ++i) {
    const std::int64_t begin = (first + i) * 20'000'000;
    chunk->add_begin_ns(i == 0 ? begin : 20'000'000);
    chunk->add_duration_ns(20'000'000);
    chunk->add_loss(1.0 / static_cast<double>(first + i));
    chunk->add_metric(0.5f);
    chunk->add_data(0.0001f);
    chunk->add_forward(static_cast<float>(forwardSeconds));
    chunk->add_backward(0);
    chunk->add_communication(static_cast<float>(0.0199 - forwardSeconds));
    chunk->add_optimizer(0);
    chunk->add_arrival_ns(static_cast<std::int64_t>(forwardSeconds * 1e9) + 100'000);
    chunk->add_samples(64);
  }
  return record;
}

// A look at the ranks of a node, `seconds` after the first.
inline run::v1::Record sampleRecord(std::uint64_t sequence, double seconds,
                                    const std::vector<run::v1::RankSample>& ranks) {
  run::v1::Record record;
  record.set_sequence(sequence);
  record.set_wall_ns(static_cast<std::int64_t>((1000 + seconds) * 1e9));
  record.mutable_node_sample();
  for (const auto& rank : ranks) *record.mutable_node_sample()->add_rank() = rank;
  return record;
}

inline run::v1::RankSample rankSample(int rank, bool stopped, double waiting, double throttled) {
  run::v1::RankSample sample;
  sample.set_rank(rank);
  sample.set_cpu(0.5);
  sample.set_stopped(stopped);
  sample.set_waiting(waiting);
  sample.set_throttled(throttled);
  return sample;
}

// The lines of a batch that tell of stragglers.
inline std::vector<LogRow> stragglerLines(const RunBatch& batch) {
  std::vector<LogRow> out;
  for (const LogRow& row : batch.logs)
    if (row.text.starts_with("straggler: ")) out.push_back(row);
  return out;
}

inline const RunBatch::Series* find(const RunBatch& batch, const std::string& name) {
  for (const auto& series : batch.series)
    if (series.name == name) return &series;
  return nullptr;
}

inline RunRow rowOf(int world) {
  RunRow row;
  row.run = "r";
  row.world = world;
  return row;
}

}  // namespace lockstep::app::test
