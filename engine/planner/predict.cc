#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <optional>
#include <vector>

#include "engine/passes/programs.h"
#include "engine/plan/inputs.h"
#include "engine/planner/overlap.h"
#include "engine/planner/planner.h"
#include "engine/planner/pricing.h"

namespace lockstep::planner {
namespace {

std::string attrText(const ir::Attr& attr) {
  if (const auto* number = std::get_if<std::int64_t>(&attr)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<double>(&attr)) return fmt::format("{}", *number);
  if (const auto* text = std::get_if<std::string>(&attr)) return *text;
  return fmt::format("[{}]", fmt::join(std::get<std::vector<std::int64_t>>(attr), " "));
}

// Linear between the measurements round `bytes`; outside them along the nearest two.
double interpolate(const std::vector<CostModel::CollectiveCost>& points, std::int64_t bytes) {
  if (points.size() == 1) {
    const double share = static_cast<double>(bytes) / static_cast<double>(points[0].bytes);
    return points[0].seconds * std::max(share, 1.0);
  }
  std::size_t right = 1;
  while (right + 1 < points.size() && points[right].bytes < bytes) ++right;
  const auto& a = points[right - 1];
  const auto& b = points[right];
  const double slope = (b.seconds - a.seconds) / static_cast<double>(b.bytes - a.bytes);
  const double value = a.seconds + slope * static_cast<double>(bytes - a.bytes);
  const double least =
      std::min_element(points.begin(), points.end(), [](const auto& x, const auto& y) {
        return x.seconds < y.seconds;
      })->seconds;
  return std::max(value, least);
}

// Predictions are read by people, and are no better than that.
double fourDigits(double value) {
  const std::string text = fmt::format("{:.3e}", value);
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The measurement under this name.
std::vector<CostModel::CollectiveCost> measured(const CostModel& cost, std::string_view kind,
                                                int ranks) {
  std::vector<CostModel::CollectiveCost> points;
  for (const auto& point : cost.collectives) {
    if (point.kind == kind && point.ranks == ranks && point.bytes > 0) points.push_back(point);
  }
  std::sort(points.begin(), points.end(),
            [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  points.erase(std::unique(points.begin(), points.end(),
                           [](const auto& a, const auto& b) { return a.bytes == b.bytes; }),
               points.end());
  return points;
}

}  // namespace

std::string signature(const plan::Body& body, const plan::Step& step) {
  fmt::memory_buffer out;
  const auto put = [&](std::string_view text) {
    out.append(text.data(), text.data() + text.size());
  };
  const auto type = [&](plan::BufferId id) {
    const ir::TensorType& t = body.buffers[static_cast<std::size_t>(id)].type;
    return fmt::format(" {}[{}]", dtypeName(t.dtype), shapeText(t.shape));
  };
  put(ir::info(step.op).name);
  for (const plan::BufferId input : step.inputs) put(type(input));
  put(" ->");
  for (const plan::BufferId output : step.outputs) put(type(output));
  for (const auto& [key, value] : step.attrs) {
    // The stream of random numbers and the shape of the output make no difference to the work.
    if (key != "key" && key != "shape" && key != "dtype") {
      put(fmt::format(" {}={}", key, attrText(value)));
    }
  }
  return fmt::to_string(out);
}

std::string costKind(std::string_view link, const plan::Step& step) {
  const std::string_view name = step.op == ir::Op::kAllReduce
                                    ? ir::textAttr(step.attrs, "algorithm")
                                : step.op == ir::Op::kRecv ? ir::info(ir::Op::kSend).name
                                                           : ir::info(step.op).name;
  return name.empty() ? std::string(link) : fmt::format("{} {}", link, name);
}

Prices::Prices(const plan::Plan& plan, const cluster::Cluster& cluster, const CostModel& cost)
    : plan_(plan), cluster_(cluster), cost_(cost) {
  for (const cluster::Axis& axis : plan.mesh.groupAxes())
    links_[axis.name] = linkAlong(plan.mesh, cluster, axis.name);
}

double Prices::collective(const plan::Step& step, const cluster::Link& link) const {
  const int ranks = plan_.mesh.axisSize(step.axis);
  if (ranks < 2) return 0;
  if (const auto own = measured(cost_, costKind(link.kind, step), ranks); !own.empty())
    return interpolate(own, step.bytes);
  const auto algorithm = ir::algorithmFromName(ir::textAttr(step.attrs, "algorithm", "direct"));
  const bool isDirect = *algorithm == ir::Algorithm::kDirect;
  const bool isAllReduce = step.op == ir::Op::kAllReduce;
  if (!isAllReduce)
    if (const auto others = measured(cost_, link.kind, ranks); !others.empty())
      return interpolate(others, step.bytes) * sentShare(step.op, ranks) /
             sentShare(ir::Op::kAllReduce, ranks);
  const bool byHosts = link.kind == "gloo" || !isDirect;
  const std::vector<std::int64_t> hosts =
      byHosts ? hostCuts(plan_.mesh, cluster_, step.axis) : std::vector<std::int64_t>();
  return isAllReduce ? allReduceSeconds(*algorithm, ranks, step.bytes, hosts, link)
                     : collectiveSeconds(step.op, ranks, step.bytes, hosts, link);
}

double Prices::of(const plan::Body& body, const plan::Step& step,
                  const cluster::DeviceRates& rates) const {
  const auto known = links_.find(step.axis);
  const cluster::Link& link = known == links_.end() ? cluster_.link : known->second;
  if (const int count = plan::peersOf(step).count; count > 0) {  // each of the messages
    if (const auto own = measured(cost_, costKind(link.kind, step), 2); !own.empty())
      return interpolate(own, step.bytes / count);
    return link.latency + static_cast<double>(step.bytes) / count / link.bytesPerSecond;
  }
  if (step.kind == plan::StepKind::kCollective) return collective(step, link);
  if (!cost_.stepSeconds.empty()) {
    const auto measured = cost_.stepSeconds.find(signature(body, step));
    if (measured != cost_.stepSeconds.end()) return measured->second;
  }
  return std::max(step.flops / rates.flopsPerSecond,
                  static_cast<double>(step.bytes) / rates.bytesPerSecond) +
         rates.launchSeconds;
}

cluster::Link linkAlong(const cluster::Mesh& mesh, const cluster::Cluster& cluster,
                        std::string_view axis) {
  if (const auto known = cluster.links.find(axis); known != cluster.links.end())
    return known->second;
  const bool hosts =
      std::any_of(cluster.devices.begin(), cluster.devices.end(),
                  [&](const auto& device) { return device.host != cluster.devices[0].host; });
  const bool inside = hosts && !spansHosts(mesh, cluster, axis);
  return inside ? cluster::assumedLink(cluster.link.kind, false) : cluster.link;
}

cluster::DeviceRates ratesOf(std::span<const int> ranks, const cluster::Cluster& cluster,
                             std::string_view precision, const CostModel& cost) {
  std::optional<cluster::DeviceRates> slowest;
  const cluster::Device* before = nullptr;  // most are alike
  for (const int rank : ranks) {
    static const cluster::Device kUnknown{"", "", "cpu"};
    const auto index = static_cast<std::size_t>(rank);
    const cluster::Device& device =
        index < cluster.devices.size() ? cluster.devices[index] : kUnknown;
    if (before != nullptr && before->kind == device.kind && before->figures == device.figures)
      continue;
    before = &device;
    const cluster::DeviceRates one = cluster::assumedRates(device, precision);
    if (!slowest) slowest = one;
    slowest->flopsPerSecond = std::min(slowest->flopsPerSecond, one.flopsPerSecond);
    slowest->bytesPerSecond = std::min(slowest->bytesPerSecond, one.bytesPerSecond);
    slowest->launchSeconds = std::max(slowest->launchSeconds, one.launchSeconds);
  }
  cluster::DeviceRates rates = slowest.value_or(cluster::DeviceRates());
  if (cost.flopsPerSecond > 0) rates.flopsPerSecond = cost.flopsPerSecond;
  return rates;
}

cluster::DeviceRates workerRates(const cluster::Cluster& cluster, std::string_view precision,
                                 const CostModel& cost) {
  std::vector<int> workers(static_cast<std::size_t>(cluster.mesh.workers()));
  std::iota(workers.begin(), workers.end(), 0);
  return ratesOf(workers, cluster, precision, cost);
}

void predict(plan::Plan& plan, const cluster::Cluster& cluster, const CostModel& cost) {
  const Prices prices(plan, cluster, cost);
  for (plan::Program& program : plan.programs) {
    std::vector<std::vector<int>> ranks(program.bodies.size());
    for (std::size_t rank = 0; rank < program.bodyOfRank.size(); ++rank)
      if (const int body = program.bodyOfRank[rank]; body >= 0)
        ranks[static_cast<std::size_t>(body)].push_back(static_cast<int>(rank));
    for (std::size_t b = 0; b < program.bodies.size(); ++b) {
      plan::Body& body = program.bodies[b];
      const cluster::DeviceRates rates = ratesOf(ranks[b], cluster, plan.precision, cost);
      for (plan::Step& step : body.steps) step.seconds = fourDigits(prices.of(body, step, rates));
    }
  }
}

std::int64_t gatheredWindow(const plan::Plan& plan, int rank) {
  std::int64_t most = 0;
  for (const plan::ScheduleEntry& entry : plan.entriesOf(rank)) {
    most = std::max(most, peakGatheredBytes(*plan.find(entry.program, rank)));
  }
  return most;
}

// Returns the part of a rank's memory that state of a role counts as. What servers stash are
// gradients on their way.
static std::int64_t& memoryOf(RankMemory& memory, plan::StateRole role, bool servers) {
  switch (role) {
    case plan::StateRole::kParameters:
    case plan::StateRole::kStatistics:
      return memory.parameters;
    case plan::StateRole::kGradientSum:
      return memory.gradients;
    case plan::StateRole::kStash:
      return servers ? memory.gradients : memory.activations;
    case plan::StateRole::kOptimizer:
    case plan::StateRole::kLossScale:
    case plan::StateRole::kResidual:
      break;
  }
  return memory.optimizer;
}

RankMemory memory(const plan::Plan& plan, int rank, bool onDevice) {
  RankMemory result;
  if (onDevice) result.activations += plan::waitingSampleBytes(plan, rank);
  for (const plan::StateSlot& slot : plan.state) {
    if (slot.stage != plan.stageOf(rank)) continue;
    memoryOf(result, slot.role, plan.mesh.servers() > 0) += slot.type.bytes() * slot.copies;
  }
  const auto gradients = [](const plan::Body& body) {
    const std::vector<bool> whole = isTransientlyGathered(body);
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < body.buffers.size(); ++i) {
      const plan::Buffer& buffer = body.buffers[i];
      const bool one = buffer.base < 0 && buffer.kind == plan::BufferKind::kTemp &&
                       buffer.name.starts_with(passes::kGroupGradients);
      if (one && !whole[i]) bytes += buffer.type.bytes();
    }
    return bytes;
  };
  std::int64_t inArena = 0;
  for (const plan::Program& program : plan.programs) {
    const plan::Body* body = plan.find(program.name, rank);
    if (body == nullptr || program.name == "init") continue;
    if (std::find(plan::kServerSession.begin(), plan::kServerSession.end(), program.name) ==
        plan::kServerSession.end()) {
      inArena = std::max(inArena, gradients(*body));
      continue;
    }
    result.gradients += plan.mesh.workers() * gradients(*body);
    result.activations += plan.mesh.workers() * (body->arenaBytes - gradients(*body));
  }
  // some take the memory of others that are done with
  inArena = std::min(inArena, plan.arenaBytesOf(rank));
  result.gradients += inArena;
  result.activations += plan.arenaBytesOf(rank) - inArena;
  return result;
}

EncodedGradients encodedGradients(const plan::Plan& plan, int rank) {
  EncodedGradients result{"none"};
  const std::int64_t ranks = plan.mesh.axisSize(cluster::kDataAxis);
  for (const plan::ScheduleEntry& entry : plan.entriesOf(rank)) {
    const plan::Body& body = *plan.find(entry.program, rank);
    const auto bytesOf = [&](plan::BufferId id) {
      return body.buffers[static_cast<std::size_t>(id)].type.bytes();
    };
    for (const plan::Step& step : body.steps) {
      if (step.op == ir::Op::kEncode) {
        result.coding = ir::textAttr(step.attrs, "coding");
        const std::int64_t bytes = bytesOf(step.inputs[0]), payload = bytesOf(step.outputs[1]);
        const bool inParts = ir::intAttr(step.attrs, "parts", 1) > 1;  // for a reduce-scatter
        result.bytes += bytes;
        result.payload += payload;
        result.moved += inParts ? (ranks - 1) * payload / ranks : (ranks - 1) * payload;
        result.plain += (inParts ? 1 : 2) * (ranks - 1) * bytes / ranks;
        result.seconds += step.seconds;
      } else if (step.op == ir::Op::kDecodeSum) {
        result.seconds += step.seconds;
      }
    }
  }
  return result;
}

}  // namespace lockstep::planner
