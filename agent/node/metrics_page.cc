#include "agent/node/metrics_page.h"

#include <filesystem>
#include <span>
#include <vector>

#include "agent/base/run_folder.h"
#include "engine/metrics/prometheus_page.h"
#include "engine/specs/node_figures.h"
#include "engine/specs/states.h"

namespace lockstep::agent {
namespace {

using metrics::Labels;
using metrics::PrometheusPage;

void add(PrometheusPage& page, std::span<const metrics::Figure> names, const Labels& labels,
         const std::vector<specs::NodeFigure>& figures) {
  for (const specs::NodeFigure& one : figures)
    if (const auto* known = metrics::figureOf(names, one.name); known != nullptr)
      page.add(known->metric, labels, one.value * known->scale);
}

}  // namespace

std::string metricsPage(const std::string& node, const run::v1::NodeSample& sample,
                        const Workdir& workdir) {
  PrometheusPage page;
  add(page, metrics::kOfNode, {{"node", node}}, specs::figuresOf(sample));
  for (const auto& gpu : sample.gpu())
    add(page, metrics::kOfGpu, {{"node", node}, {"gpu", fmt::format("{}", gpu.index())}},
        specs::figuresOf(gpu));
  for (const RunFolder& folder : findRuns(workdir, "")) {
    const run::v1::RunState state = folder.readState();
    if (isFinal(state) || !isLocked(folder.lock())) continue;
    page.add(metrics::kRunState,
             {{"run", std::filesystem::path(folder.path).parent_path().filename().string()},
              {"node", std::filesystem::path(folder.path).filename().string()},
              {"state", std::string(specs::stateName(state))}},
             1);
  }
  return page.text();
}

}  // namespace lockstep::agent
