#include "app/runs/plan_figures.h"

#include <algorithm>
#include <map>

#include "engine/ir/ops.h"
#include "engine/plan/sent_bytes.h"

namespace lockstep::app {
namespace {

using Unit = PlanFigure::Unit;

void addTimes(const Preview& preview, std::vector<PlanFigure>& out) {
  const RankPreview mean = meanOfWorkers(preview);
  out.push_back({"time/data", Unit::kSeconds, mean.data});
  out.push_back({"time/forward", Unit::kSeconds, mean.forward});
  out.push_back({"time/backward", Unit::kSeconds, mean.backward});
  out.push_back({"time/optimizer", Unit::kSeconds, mean.optimizer});
  out.push_back({"time/waiting", Unit::kSeconds, mean.waiting});
  out.push_back({"time/exchanging", Unit::kSeconds, mean.transfer});
  out.push_back({"time/exchanging, hidden", Unit::kSeconds, mean.hidden});
}

void addMemory(const Preview& preview, std::vector<PlanFigure>& out) {
  const auto fullest = std::max_element(
      preview.ranks.begin(), preview.ranks.end(),
      [](const auto& a, const auto& b) { return a.totalBytes() < b.totalBytes(); });
  if (fullest == preview.ranks.end()) return;
  const auto add = [&](const char* name, std::int64_t bytes) {
    out.push_back({name, Unit::kBytes, static_cast<double>(bytes)});
  };
  add("memory", fullest->totalBytes());
  add("memory/parameters", fullest->parameterBytes);
  add("memory/optimizer", fullest->optimizerBytes);
  add("memory/gradients", fullest->gradientBytes);
  add("memory/activations", fullest->activationBytes);
  add("memory/workspace", fullest->workspaceBytes);
}

void addWork(const plan::Plan& plan, std::vector<PlanFigure>& out) {
  struct Exchange {
    double count = 0, bytes = 0;
  };
  std::map<std::string, Exchange> exchanges;  // by operation and axis
  double flops = 0, moved = 0, operations = 0;
  for (int rank = 0; rank < plan.mesh.size(); ++rank) {
    for (const plan::ScheduleEntry& entry : plan.entriesOf(rank)) {
      const plan::Body* body = plan.find(entry.program, rank);
      if (body == nullptr) continue;
      for (const plan::Step& step : body->steps) {
        if (step.kind == plan::StepKind::kCompute) {
          flops += step.flops;
          moved += static_cast<double>(step.bytes);
          ++operations;
        } else {
          Exchange& one = exchanges[fmt::format("{} {}", ir::info(step.op).name, step.axis)];
          ++one.count;
          one.bytes += static_cast<double>(plan::sentBytesIn(plan, rank, entry, *body, step));
        }
      }
    }
  }
  for (const auto& [name, one] : exchanges) {
    out.push_back({"exchanges/" + name, Unit::kCount, one.count});
    if (one.bytes > 0) out.push_back({"sent/" + name, Unit::kBytes, one.bytes});
  }
  out.push_back({"operations", Unit::kCount, operations});
  out.push_back({"computation", Unit::kFlops, flops});
  out.push_back({"memory traffic", Unit::kBytes, moved});
}

}  // namespace

std::vector<PlanFigure> planFigures(const Preview& preview) {
  std::vector<PlanFigure> out;
  out.push_back({"step", Unit::kSeconds, preview.stepSeconds});
  out.push_back({"samples", Unit::kPerSecond, preview.samplesPerSecond});
  out.push_back({"ranks", Unit::kCount, static_cast<double>(preview.ranks.size())});
  addTimes(preview, out);
  if (const Energy energy = predictedEnergy(preview); energy.isComplete())
    out.push_back({"energy", Unit::kJoules, energy.joules()});
  addMemory(preview, out);
  addWork(preview.plan, out);
  if (const std::int64_t link = linkBytes(preview); link > 0)
    out.push_back({"busiest link", Unit::kBytes, static_cast<double>(link)});
  return out;
}

std::vector<FigurePair> sideBySide(const std::vector<PlanFigure>& first,
                                   const std::vector<PlanFigure>& second) {
  std::vector<FigurePair> out;
  for (const PlanFigure& one : first) out.push_back({one.name, one.unit, one.value, 0});
  std::size_t place = 0;  // where the next figure of `second` alone goes
  for (const PlanFigure& one : second) {
    const auto known =
        std::find_if(out.begin(), out.end(), [&](const auto& row) { return row.name == one.name; });
    if (known != out.end()) {
      known->second = one.value;
      place = static_cast<std::size_t>(known - out.begin()) + 1;
    } else {
      out.insert(out.begin() + static_cast<std::ptrdiff_t>(place++),
                 {one.name, one.unit, 0, one.value});
    }
  }
  return out;
}

}  // namespace lockstep::app
