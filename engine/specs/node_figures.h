// The figures in the samples of a node and of its GPUs, by the names of their series
// (app/runs/run_update.h) and metrics (engine/metrics/prometheus_page.h).
#pragma once

#include <string_view>
#include <vector>

#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::specs {

struct NodeFigure {
  std::string_view name;
  double value = 0;
  bool counter = false;  // counts since the driver or the agent started
};

// Figures that were not measured are absent.
std::vector<NodeFigure> figuresOf(const run::v1::NodeSample& sample);
std::vector<NodeFigure> figuresOf(const run::v1::GpuSample& sample);

// Returns whether a GPU is throttled other than by its power limit.
bool isSlowed(const run::v1::GpuSample& sample);

}  // namespace lockstep::specs
