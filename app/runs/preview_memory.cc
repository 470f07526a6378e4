#include "app/runs/preview_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "app/specs/spec_text.h"
#include "engine/cluster/assumed.h"
#include "engine/cluster/strategies.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr int kReliefsTried = 8;  // making a plan for each takes time
constexpr std::size_t kReliefsTold = 3;

std::string sizeText(std::int64_t bytes) {
  const auto amount = static_cast<double>(bytes);
  if (amount >= 1e12) return fmt::format("{:.1f} TB", amount / 1e12);
  if (amount >= 1e9) return fmt::format("{:.1f} GB", amount / 1e9);
  return fmt::format("{:.1f} MB", amount / 1e6);
}

// A device or a host and what its ranks need of its memory, bytes.
struct Room {
  Message where;
  std::int64_t needed = 0, available = 0;
  int ranks = 0;
  std::int64_t reserved = 0;  // of what is needed: for contexts, workspaces and NCCL
  std::string assumed;        // by the data sheet of this model; "": known
};

// All of which something is known, or of GPUs assumed.
std::vector<Room> roomsOf(const Preview& preview, const std::vector<HostFacts>& hosts) {
  std::map<std::pair<std::string, std::string>, Room> rooms;  // by host or node and device
  const auto factsOf = [&](const std::string& node) -> const HostFacts* {
    const auto found = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const auto& facts) { return facts.node == node; });
    return found == hosts.end() ? nullptr : &*found;
  };
  const auto onHost = [&](const std::string& node, std::int64_t bytes) {
    const HostFacts* facts = factsOf(node);
    if (facts == nullptr || facts->memoryAvailable <= 0) return;
    Room& room = rooms[{facts->host, ""}];
    if (room.ranks == 0) room = {message("the host of node {}", node), 0, facts->memoryAvailable};
    room.available = std::min(room.available, facts->memoryAvailable);
    room.needed += bytes;
    ++room.ranks;
  };
  for (const RankPreview& rank : preview.ranks) {
    if (rank.inHostMemory()) {
      onHost(rank.node, rank.totalBytes());
      continue;
    }
    const HostFacts* facts = factsOf(rank.node);
    const cluster::Device& device = preview.cluster.devices[static_cast<std::size_t>(rank.rank)];
    const auto number = static_cast<std::size_t>(device.index);
    Room& room = rooms[{rank.node, rank.device}];
    room.where = message("GPU {} of node {}", number, rank.node);
    if (facts != nullptr && number < facts->gpuMemory.size() && facts->gpuMemory[number] > 0) {
      room.available = facts->gpuMemory[number];
    } else {
      room.available = cluster::assumedRates(device, preview.plan.precision).memoryBytes;
      if (device.figures.memoryBytes == 0)
        room.assumed =
            device.figures.model.empty() ? std::string(cluster::kAssumedGpu) : device.figures.model;
    }
    const std::int64_t reserved = cluster::reservedBytes(preview.cluster, device);
    room.reserved += reserved;
    room.needed += rank.totalBytes() + reserved;
    ++room.ranks;
  }
  if (preview.evaluator) onHost(preview.evaluator->node, preview.evaluator->totalBytes);
  std::vector<Room> out;
  for (auto& [key, room] : rooms) out.push_back(std::move(room));
  return out;
}

// The one that lacks the most; null where all fit.
const Room* fullest(const std::vector<Room>& rooms) {
  const auto lack = [](const Room& room) { return room.needed - room.available; };
  const auto most = std::max_element(
      rooms.begin(), rooms.end(), [&](const auto& a, const auto& b) { return lack(a) < lack(b); });
  return most == rooms.end() || lack(*most) <= 0 ? nullptr : &*most;
}

// Settings that make a rank need less, and among how many ranks they divide parameters and
// optimizer state; 0: as now.
struct Relief {
  Remedy remedy;
  std::int64_t division = 0;
};

// The least change first; what does not apply to the run is refused when it is tried.
std::vector<Relief> reliefs(const spec::v1::RunSpec& spec, const cluster::Mesh& mesh) {
  std::vector<Relief> out;
  const auto& strategy = spec.strategy();
  const cluster::Strategy* kind = cluster::findStrategy(strategy.kind());
  const std::int64_t batch = spec.training().batch();
  const int dataRanks = mesh.axisSize(cluster::kDataAxis), workers = mesh.workers();
  const std::int64_t least =
      static_cast<std::int64_t>(std::max(1, strategy.micro_batches())) * dataRanks;
  const Setting recompute{"strategy.recompute", "full"};
  out.push_back({{recompute}});
  // Smaller batches, in which each rank still has one sample or more in each micro-batch.
  for (const std::int64_t part : {batch / 2, batch / 8, least})
    if (const std::int64_t smaller = part - part % least; smaller >= least && smaller < batch)
      out.push_back({{{"training.batch", fmt::format("{}", smaller)}}});
  if (least < batch) out.push_back({{{"training.batch", fmt::format("{}", least)}, recompute}});
  if (kind->local || kind->servers || !strategy.pins().empty()) return out;
  if (!kind->splitParameters && dataRanks > 1) {
    out.push_back({{{"strategy.kind", "zero-3"}}, workers});
    out.push_back({{{"strategy.kind", "zero-3"}, recompute}, workers});
  }
  for (const int tensor : {2, 4, 8})
    if (workers % tensor == 0)
      out.push_back({{{"strategy.kind", tensor < workers ? "zero-3" : "multi-worker-mirrored"},
                      {"strategy.tensor", fmt::format("{}", tensor)},
                      {"strategy.stages", "1"},
                      recompute},
                     workers});
  for (const int tensor : {1, 8})
    for (const int stages : {2, 4, 8, 16})
      if (workers % (stages * tensor) == 0)
        out.push_back({{{"strategy.kind", "pipeline"},
                        {"strategy.stages", fmt::format("{}", stages)},
                        {"strategy.tensor", fmt::format("{}", tensor)},
                        recompute},
                       std::int64_t{stages} * tensor});
  return out;
}

// Bytes of parameters and optimizer state: of the rank with the most, and of the whole model.
struct State {
  std::int64_t ofRank = 0, whole = 0;
};

State stateOf(const Preview& preview, const cluster::Strategy& kind) {
  const cluster::Mesh& mesh = preview.cluster.mesh;
  const std::int64_t data = mesh.axisSize(cluster::kDataAxis),
                     others = std::int64_t{mesh.axisSize(cluster::kModelAxis)} *
                              mesh.axisSize(cluster::kStageAxis);
  State out;
  for (const RankPreview& rank : preview.ranks) {
    out.ofRank = std::max(out.ofRank, rank.parameterBytes + rank.optimizerBytes);
    out.whole =
        std::max(out.whole, others * (rank.parameterBytes * (kind.splitParameters ? data : 1) +
                                      rank.optimizerBytes * (kind.splitOptimizer ? data : 1)));
  }
  return out;
}

}  // namespace

std::optional<Error> misfitOf(const Preview& preview, const std::vector<HostFacts>& hosts) {
  const std::vector<Room> rooms = roomsOf(preview, hosts);
  const Room* room = fullest(rooms);
  if (room == nullptr) return std::nullopt;
  Error error = makeError(
      Code::kResourceExhausted, "the run does not fit in memory: {} has {}, and {}", room->where,
      sizeText(room->available),
      room->ranks == 1 ? message("its rank needs {}", sizeText(room->needed))
                       : message("its {} ranks need {}", room->ranks, sizeText(room->needed)));
  if (room->reserved > 0)
    error.why =
        message("of it, CUDA contexts, workspaces and NCCL take {}", sizeText(room->reserved));
  if (!room->assumed.empty())
    error.why =
        message("{}; it is priced as {} until its node is connected", error.why, room->assumed);
  return error;
}

Error withRelief(Error misfit, const Preview& preview, const spec::v1::RunSpec& spec,
                 const std::vector<HostFacts>& hosts, const Replan& replan) {
  const std::vector<Room> rooms = roomsOf(preview, hosts);
  const Room* room = fullest(rooms);
  if (room == nullptr) return misfit;
  const State state = stateOf(preview, *cluster::findStrategy(spec.strategy().kind()));
  std::set<std::string> tried{spec.SerializeAsString()};
  int plans = 0;
  std::vector<std::pair<double, Remedy>> found;  // seconds of a sample
  for (const Relief& relief : reliefs(spec, preview.cluster.mesh)) {
    if (plans == kReliefsTried || found.size() == kReliefsTold) break;
    const std::int64_t least = relief.division == 0 ? state.ofRank : state.whole / relief.division;
    if (room->ranks * least + room->reserved > room->available) continue;
    auto other = std::make_shared<spec::v1::RunSpec>(spec);
    Status applied;
    for (const auto& [field, value] : relief.remedy)
      if (applied.ok()) applied = applySet(*other, field + "=" + value);
    if (applied.ok()) applied = specs::checkAndFill(*other);
    if (!applied.ok() || !tried.insert(other->SerializeAsString()).second) continue;
    ++plans;
    const auto made = replan(other);
    if (!made.ok()) continue;
    const std::vector<Room> needs = roomsOf(*made, hosts);
    if (fullest(needs) == nullptr) found.emplace_back(1 / made->samplesPerSecond, relief.remedy);
  }
  if (!found.empty()) {
    std::ranges::stable_sort(found, {}, &std::pair<double, Remedy>::first);
    std::vector<Remedy> remedies;
    for (auto& [seconds, remedy] : found) remedies.push_back(std::move(remedy));
    return withRemedies(std::move(misfit), std::move(remedies));
  }
  misfit.next = message(
      "use more ranks, a smaller batch or a smaller model, whose parameters and optimizer state "
      "are {}",
      sizeText(state.whole));
  return misfit;
}

}  // namespace lockstep::app
