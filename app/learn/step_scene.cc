// The scene of a training step: the planner's plan of the lesson's spec, simulated.
#include <algorithm>
#include <array>
#include <map>

#include "app/learn/scene_parts.h"
#include "app/specs/spec_text.h"
#include "engine/base/random.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr double kMebi = 1 << 20;
constexpr int kHeatSteps = 24;

std::shared_ptr<spec::v1::ClusterSpec> clusterOf(const Circumstances& at, int nodes) {
  auto out = std::make_shared<spec::v1::ClusterSpec>();
  out->set_version(1);
  out->set_name("lesson");
  if (nodes > 1 && at.text("cluster.device") == "cpu") out->set_comm("gloo");
  for (int i = 0; i < nodes; ++i) {
    auto* node = out->add_nodes();
    node->set_name(fmt::format("n{}", i + 1));
    auto* device = node->add_devices();
    device->set_kind(at.text("cluster.device"));
    device->set_count(at.whole("cluster.ranks_per_node"));
    device->set_threads(1);
  }
  const auto addLink = [&](const char* from, const char* to, double bandwidth) {
    auto* link = out->add_links();
    link->set_from(from);
    link->set_to(to);
    link->set_bandwidth_mbit(bandwidth);
    link->set_latency_us(at.number("cluster.latency_us"));
  };
  if (nodes < 2) return out;
  if (const double slow = at.number("cluster.slow_link_mbit"); slow > 0) {
    addLink("n1", "n2", slow);
    addLink("n2", "n1", slow);
  }
  addLink("*", "*", at.number("cluster.bandwidth_mbit"));
  return out;
}

std::vector<double> slowdownOf(const Circumstances& at, int ranks) {
  std::vector<double> out(static_cast<std::size_t>(ranks), 1.0);
  int slow = at.whole("cluster.slow_rank");
  if (const auto riddle = static_cast<std::uint64_t>(at.number("cluster.riddle")); riddle > 0)
    slow = static_cast<int>(randomBits(riddle, 1) % static_cast<std::uint64_t>(ranks));
  if (slow >= 0 && slow < ranks && slow != at.whole("cluster.repaired"))
    out[static_cast<std::size_t>(slow)] = at.number("cluster.slow_factor");
  return out;
}

// Steps of ranks whose compute time varies, as in a run.
std::shared_ptr<StepMatrix> matrixOf(Preview preview, const Circumstances& at,
                                     const std::vector<double>& slowdown) {
  auto out = std::make_shared<StepMatrix>();
  const double jitter = at.number("cluster.jitter");
  for (int step = 1; step <= kHeatSteps; ++step) {
    planner::SimulateOptions options;
    options.steps = 2;
    options.events = false;
    options.slowdown = slowdown;
    for (std::size_t r = 0; r < slowdown.size(); ++r)
      options.slowdown[r] *=
          1 + jitter * randomUniform(randomKey(7, r), static_cast<std::uint64_t>(step));
    simulate(preview, options);
    for (const RankPreview& rank : preview.ranks) {
      const double whole =
          rank.data + rank.forward + rank.backward + rank.waiting + rank.transfer + rank.optimizer;
      const std::array<std::pair<const char*, double>, 7> kParts{{{"step", whole},
                                                                  {"data", rank.data},
                                                                  {"forward", rank.forward},
                                                                  {"backward", rank.backward},
                                                                  {"waiting", rank.waiting},
                                                                  {"transfer", rank.transfer},
                                                                  {"optimizer", rank.optimizer}}};
      for (const auto& [name, seconds] : kParts)
        out->add(
            {fmt::format("rank/{}/{}", rank.rank, name), {{static_cast<double>(step), seconds}}});
    }
  }
  return out;
}

void addTimes(Scene& scene, const Preview& preview) {
  const RankPreview mean = meanOfWorkers(preview);
  const double step = preview.stepSeconds;
  const auto share = [&](double seconds) { return step > 0 ? 100 * seconds / step : 0; };
  const double compute = mean.data + mean.forward + mean.backward + mean.optimizer;
  addFigure(scene, "step_ms", {"Step time", "每步时间"}, "ms", 1e3 * step);
  addFigure(scene, "samples_per_s", {"Samples per second", "每秒样本数"}, "",
            preview.samplesPerSecond);
  addFigure(scene, "compute_ms", {"Computing", "计算"}, "ms", 1e3 * compute);
  addFigure(scene, "forward_ms", {"Forward pass", "前向"}, "ms", 1e3 * mean.forward);
  addFigure(scene, "backward_ms", {"Backward pass", "反向"}, "ms", 1e3 * mean.backward);
  addFigure(scene, "optimizer_ms", {"Optimizer", "优化器"}, "ms", 1e3 * mean.optimizer);
  addFigure(scene, "communication_ms", {"Communication", "通信"}, "ms",
            1e3 * (mean.transfer + mean.hidden));
  addFigure(scene, "exposed_ms", {"Communication that is not hidden", "未被掩盖的通信"}, "ms",
            1e3 * mean.transfer);
  addFigure(scene, "hidden_ms", {"Hidden communication", "被掩盖的通信"}, "ms", 1e3 * mean.hidden);
  addFigure(scene, "waiting_ms", {"Waiting", "等待"}, "ms", 1e3 * mean.waiting);
  addFigure(scene, "bubble", {"Share of waiting (bubble)", "等待占比（气泡）"}, "%",
            share(mean.waiting));
  addFigure(scene, "communication_share", {"Share of communication", "通信占比"}, "%",
            share(mean.transfer));
}

// Pipelines: (p − 1) / (m + p − 1) of a step is idle (Huang et al., "GPipe", 2019, section 2.3).
// Ring: a rank sends 2 (n − 1) / n of the vector (Patarasuk and Yuan 2009).
void addFormulas(Scene& scene, const Preview& preview) {
  const double stages = preview.plan.mesh.axisSize("stage"), m = preview.plan.microBatches;
  if (stages > 1)
    addFigure(scene, "bubble_formula", {"Bubble, by the formula", "气泡（公式）"}, "%",
              100 * (stages - 1) / (m + stages - 1));
  const double n = preview.plan.mesh.axisSize("data");
  if (preview.plan.strategy == "multi-worker-mirrored" && n > 1)
    addFigure(scene, "sent_formula_mib", {"Sent, by the formula", "发送量（公式）"}, "MiB",
              2 * (n - 1) / n * static_cast<double>(preview.ranks[0].parameterBytes) / kMebi);
}

void addBytes(Scene& scene, const Preview& preview) {
  std::map<int, double> sent;
  double all = 0, most = 0;
  for (const plan::Traffic& one : plan::stepTraffic(preview.plan)) {
    sent[one.from] += static_cast<double>(one.bytes);
    all += static_cast<double>(one.bytes);
  }
  for (const auto& [rank, bytes] : sent) most = std::max(most, bytes);
  addFigure(scene, "sent_mib", {"Sent by the rank that sends most", "发送最多的 rank 的发送量"},
            "MiB", most / kMebi);
  addFigure(scene, "traffic_mib", {"Sent by all ranks", "所有 rank 的发送量"}, "MiB", all / kMebi);
  const auto& rank = *std::max_element(
      preview.ranks.begin(), preview.ranks.end(),
      [](const auto& a, const auto& b) { return a.totalBytes() < b.totalBytes(); });
  const auto add = [&](const char* name, Words label, std::int64_t bytes) {
    addFigure(scene, name, std::move(label), "MiB", static_cast<double>(bytes) / kMebi);
  };
  add("memory_mib", {"Memory of a rank", "每个 rank 的内存"}, rank.totalBytes());
  add("parameters_mib", {"of it parameters", "其中参数"}, rank.parameterBytes);
  add("gradients_mib", {"of it gradients", "其中梯度"}, rank.gradientBytes);
  add("optimizer_mib", {"of it optimizer state", "其中优化器状态"}, rank.optimizerBytes);
  add("activations_mib", {"of it activations", "其中激活值"}, rank.activationBytes);
  add("workspace_mib", {"of it workspace", "其中工作区"}, rank.workspaceBytes);
}

// Samples per second of the same training on one rank alone.
Result<double> aloneOf(const ScenePlan& plan, std::int64_t batch, SceneMemo& memo) {
  LaunchRequest request = plan.request;
  auto spec = std::make_shared<spec::v1::RunSpec>(*request.spec);
  spec->clear_strategy();
  spec->mutable_strategy()->set_kind("multi-worker-mirrored");
  spec->mutable_training()->set_batch(batch);
  const std::string key = spec->SerializeAsString();
  if (const auto known = memo.find(key); known != memo.end()) return known->second;
  LOCKSTEP_TRY(specs::checkAndFill(*spec));
  auto cluster = std::make_shared<spec::v1::ClusterSpec>(*request.cluster);
  cluster->mutable_nodes()->DeleteSubrange(1, cluster->nodes_size() - 1);
  cluster->mutable_nodes(0)->mutable_devices(0)->set_count(1);
  cluster->clear_links();
  cluster->clear_comm();
  request.spec = spec;
  request.cluster = cluster;
  LOCKSTEP_ASSIGN(const Preview preview, makeBriefPreview(request, plan.hosts));
  return memo[key] = preview.samplesPerSecond;
}

Status addEfficiency(Scene& scene, const ScenePlan& plan, const Circumstances& at,
                     const Preview& preview, SceneMemo& memo) {
  const double ranks = static_cast<double>(preview.ranks.size());
  const std::int64_t batch = at.text("step.scaling") == "weak"
                                 ? plan.request.spec->training().batch() / at.whole("cluster.ranks")
                                 : plan.request.spec->training().batch();
  LOCKSTEP_ASSIGN(const double alone, aloneOf(plan, batch, memo));
  const double speedup = alone > 0 ? preview.samplesPerSecond / alone : 0;
  addFigure(scene, "ranks", {"Ranks", "rank 数"}, "", ranks);
  addFigure(scene, "speedup", {"Speed-up over one rank", "相对单个 rank 的加速比"}, "", speedup);
  addFigure(scene, "ideal_formula", {"Ideal speed-up", "理想加速比"}, "", ranks);
  addFigure(scene, "efficiency", {"Efficiency", "并行效率"}, "%", 100 * speedup / ranks);
  return {};
}

}  // namespace

Result<int> nodesOf(const Circumstances& at) {
  const int ranks = at.whole("cluster.ranks"), each = at.whole("cluster.ranks_per_node");
  if (ranks % each != 0)
    return invalidArgument("{} ranks cannot be divided among nodes of {} ranks", ranks, each);
  return ranks / each;
}

Result<ScenePlan> scenePlanOf(const Lesson& lesson, const Circumstances& at) {
  LOCKSTEP_ASSIGN(const int nodes, nodesOf(at));
  ScenePlan out;
  LOCKSTEP_ASSIGN(const RunSpecFile run,
                  completeRunSpec(lesson.specYaml, lesson.id + ".yaml", at.sets()));
  out.request.spec = run.spec;
  if (at.text("step.scaling") == "weak") {
    auto spec = std::make_shared<spec::v1::RunSpec>(*run.spec);
    spec->mutable_training()->set_batch(spec->training().batch() * at.whole("cluster.ranks"));
    out.request.spec = spec;
  }
  out.request.specYaml = run.yaml;
  const auto cluster = clusterOf(at, nodes);
  for (const auto& node : cluster->nodes())
    out.hosts.push_back({node.name(), node.name(), at.whole("cluster.ranks_per_node"), 0});
  out.request.cluster = cluster;
  out.slowdown = slowdownOf(at, at.whole("cluster.ranks"));
  return out;
}

Result<Scene> makeStepScene(const Lesson& lesson, const Circumstances& at, bool whole,
                            SceneMemo& memo) {
  LOCKSTEP_ASSIGN(const ScenePlan plan, scenePlanOf(lesson, at));
  LOCKSTEP_ASSIGN(Preview made, makeBriefPreview(plan.request, plan.hosts));
  planner::SimulateOptions options;
  options.slowdown = plan.slowdown;
  options.events = whole;
  if (!whole) options.steps = 2;
  const bool slowed = std::any_of(plan.slowdown.begin(), plan.slowdown.end(),
                                  [](double factor) { return factor != 1; });
  if (whole || slowed) simulate(made, options);
  Scene out;
  addTimes(out, made);
  addBytes(out, made);
  addFormulas(out, made);
  if (at.number("cluster.riddle") > 0)
    addFigure(out, "riddle", {"Riddle", "谜题"}, "", at.number("cluster.riddle"));
  LOCKSTEP_TRY(addEfficiency(out, plan, at, made, memo));
  if (!whole) return out;
  out.timeline = std::make_shared<const StepTimeline>(simulatedStep(made));
  const auto preview = std::make_shared<const Preview>(std::move(made));
  if (std::find(lesson.views.begin(), lesson.views.end(), LessonView::kHeatMap) !=
      lesson.views.end())
    out.matrix = matrixOf(*preview, at, plan.slowdown);
  out.preview = preview;
  return out;
}

}  // namespace lockstep::app
