#include "app/cli/history_json.h"

#include <fmt/ranges.h>

#include <cmath>
#include <type_traits>

#include "app/cli/energy_text.h"
#include "app/runs/run_environment.h"
#include "engine/base/clock.h"

namespace lockstep::app::cli {
namespace {

constexpr std::int64_t kMostValues = 2'000'000;  // more take a second and longer to read

std::string timeOf(std::int64_t wallNs) { return wallNs > 0 ? isoTime(wallNs) : std::string(); }

JsonLine lineOf(const StragglerRow& row) {
  JsonLine out;
  out.add("time", timeOf(row.wallNs)).add("until", timeOf(row.endNs)).add("rank", row.rank);
  out.add("node", row.node).add("to", row.to).add("since_step", row.sinceStep);
  out.add("until_step", row.untilStep).add("factor", row.factor).add("phase", row.phase);
  out.add("cause", row.cause).add("stopped", row.halted).add("lost_seconds", row.lostSeconds);
  return out.add("text", row.text);
}

JsonLine lineOf(const RestartRow& row) {
  JsonLine out;
  out.add("generation", row.generation).add("time", timeOf(row.wallNs));
  out.add("until", timeOf(row.endNs));
  out.add("cause", row.cause ? row.cause->text() : std::string());
  return out.add("lost_steps", row.lostSteps).add("seconds", row.seconds);
}

JsonLine lineOf(const NodeEnvironment& node) {
  JsonLine out;
  const auto add = [&](const char* name, const auto& value) {
    if (value != std::decay_t<decltype(value)>()) out.add(name, value);
  };
  out.add("node", node.node).add("host", node.host);
  out.addRaw("ranks", fmt::format("[{}]", fmt::join(node.ranks, ",")));
  add("os", node.os);
  add("kernel", node.kernel);
  add("cpu", node.cpu);
  add("cores", node.cores);
  add("memory_bytes", node.memoryBytes);
  if (!node.gpus.empty()) out.addRaw("gpus", jsonTexts(node.gpus));
  add("gpu_driver", node.gpuDriver);
  add("agent", node.agent);
  JsonLine versions;
  for (const auto& [name, version] : node.versions) versions.add(name, version);
  if (!node.versions.empty()) out.addRaw("versions", versions.text());
  return out;
}

template <typename Row>
std::string listOf(const std::vector<Row>& rows) {
  std::string out;
  for (const Row& row : rows) out += (out.empty() ? "" : ",") + lineOf(row).text();
  return "[" + out + "]";
}

std::string numberOf(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : std::string("null");
}

std::string jsonOf(const KnownArtifacts& artifacts) {
  if (!artifacts.found) return "null";
  std::vector<std::string> problems;
  for (const Message& one : artifacts.found->problems) problems.push_back(one.text());
  JsonLine out;
  out.add("folder", artifacts.found->folder).add("files", artifacts.found->files);
  return out.add("bytes", artifacts.found->bytes).addRaw("problems", jsonTexts(problems)).text();
}

}  // namespace

Recorded recordedIn(const History& history, const std::string& run, const RunStore& store) {
  Recorded out{store.epochs(), store.stragglers(), store.restarts(), store.series(),
               artifactsIn(store)};
  std::int64_t values = 0;  // of steps of ranks
  for (const SeriesInfo& series : out.series)
    if (series.name.starts_with("rank/")) values += series.points;
  auto drawn = values <= kMostValues ? readRunEnergy(history, run) : readEnergySoFar(history, run);
  if (drawn.ok()) out.energy = *std::move(drawn);
  return out;
}

JsonLine jsonLineOf(const RunRow& row, const RunDocuments& documents, const Recorded& recorded) {
  JsonLine line("run");
  line.add("run", row.run).add("name", row.name).add("state", stateName(row.phase));
  if (row.unreachableNs != 0) line.add("unreachable_since", isoTime(row.unreachableNs));
  line.add("created", isoTime(row.createdNs));
  line.add("started", row.startedNs > 0 ? isoTime(row.startedNs) : std::string());
  line.add("finished", row.finishedNs > 0 ? isoTime(row.finishedNs) : std::string());
  line.add("cluster", row.clusterName).add("world", row.world).add("strategy", row.strategy);
  line.add("comm", row.comm).add("plan_hash", row.planHash).add("version", row.version);
  line.add("resumed_from", row.resumedFrom);
  line.add("predicted_step_seconds", row.predictedStepSeconds);
  line.add("measured_step_seconds", row.measuredStepSeconds);
  line.add("effective_time", effectiveTime(row));
  line.add(row.figures).add("model_file", row.modelFile);
  const std::string metric = row.figures.metric.empty() ? "" : "eval_" + row.figures.metric;
  line.add("error", row.error).add("notes", row.notes).addRaw("tags", jsonTexts(row.tags));
  if (recorded.energy) addEnergy(line, row, *recorded.energy);
  if (recorded.artifacts.wanted) line.addRaw("artifacts", jsonOf(recorded.artifacts));
  line.addRaw("stragglers", listOf(recorded.stragglers));
  line.addRaw("restarts", listOf(recorded.restarts));
  line.addRaw("nodes", listOf(nodeEnvironments(documents.nodes)));
  line.add("spec", documents.specYaml).add("spec_resolved", documents.specResolved);
  line.add("cluster_spec", documents.clusterYaml);
  if (!documents.codePatch.empty()) line.add("code_patch", documents.codePatch);
  if (!documents.prediction.empty()) line.addRaw("prediction", documents.prediction);
  std::string rows, names;
  for (const EpochRow& epoch : recorded.epochs) {
    JsonLine one;
    one.add("epoch", epoch.epoch).add("step", epoch.step).add("train_loss", epoch.trainLoss);
    one.add("eval_loss", epoch.evalLoss);
    if (!metric.empty()) one.add(metric, epoch.evalMetric);
    rows += (rows.empty() ? "" : ",") + one.text();
  }
  for (const SeriesInfo& info : recorded.series) {
    JsonLine one;
    one.add("name", info.name).add("points", info.points);
    names += (names.empty() ? "" : ",") + one.text();
  }
  line.addRaw("epoch_rows", "[" + rows + "]").addRaw("series", "[" + names + "]");
  return line;
}

Result<std::string> jsonOfRun(const History& history, const std::string& run) {
  LOCKSTEP_ASSIGN(const RunRow row, history.row(run));
  LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(run));
  LOCKSTEP_ASSIGN(const auto store, history.openRun(run));
  const Recorded recorded = recordedIn(history, run, *store);
  JsonLine points;
  for (const SeriesInfo& series : recorded.series) {
    LOCKSTEP_ASSIGN(const std::vector<Point> all, store->readAll(series.name));
    std::string list;
    for (const Point& point : all)
      list +=
          fmt::format("{}[{},{}]", list.empty() ? "" : ",", numberOf(point.x), numberOf(point.y));
    points.addRaw(series.name, "[" + list + "]");
  }
  return jsonLineOf(row, documents, recorded).addRaw("points", points.text()).text() + "\n";
}

}  // namespace lockstep::app::cli
