#include "app/advice/choice.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "engine/cluster/strategies.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using Values = std::map<std::string, std::string>;  // by path

constexpr std::array<std::string_view, 4> kSharded{"multi-worker-mirrored", "zero-1", "zero-2",
                                                   "zero-3"};
constexpr double kGrowth = 1.5;  // of successive numbers of micro-batches
constexpr int kMostMicroBatches = 1024;

Values valuesOf(const Choice& choice) {
  return {{"strategy.kind", choice.kind},
          {"strategy.tensor", fmt::format("{}", choice.tensor)},
          {"strategy.stages", fmt::format("{}", choice.stages)},
          {"strategy.servers", fmt::format("{}", choice.servers)},
          {"strategy.micro_batches", fmt::format("{}", choice.microBatches)},
          {"strategy.schedule", choice.schedule},
          {"strategy.recompute", choice.recompute},
          {"training.precision", choice.precision},
          {"strategy.overlap", choice.overlap},
          {"strategy.bucket_bytes", fmt::format("{}", choice.bucketBytes)}};
}

bool isPlain(const cluster::Strategy& kind) { return !kind.servers && !kind.local; }

std::vector<int> divisors(int number) {
  std::vector<int> out;
  for (int d = 1; d <= number; ++d)
    if (number % d == 0) out.push_back(d);
  return out;
}

std::optional<int> pinnedNumber(const SearchSpace& space, const std::string& path) {
  const auto found = space.pinned.find(path);
  if (found == space.pinned.end()) return std::nullopt;
  return std::atoi(found->second.c_str());
}

// Numbers of micro-batches, about twice as many each time, that divide the batch and leave each of
// the ranks that share it a sample of each.
std::vector<int> microBatchesFor(const SearchSpace& space, int dataRanks, int current) {
  if (const auto pinned = pinnedNumber(space, "strategy.micro_batches")) return {*pinned};
  std::vector<int> out;
  const std::int64_t most =
      std::min<std::int64_t>(kMostMicroBatches, space.batch / std::max(1, dataRanks));
  for (int m = 1; m <= most; ++m) {
    if (space.batch % m != 0) continue;
    if (m == current || m == 1 || m >= kGrowth * out.back() || m == most) out.push_back(m);
  }
  return out;
}

// What this mesh can be, by kind.
std::vector<std::string> kindsOf(const SearchSpace& space, const Choice& current, int tensor,
                                 int stages, int dataRanks) {
  std::vector<std::string> out;
  // Several names stand for what shards nothing: the one that is pinned, else the plainest.
  const auto pinned = space.pinned.find("strategy.kind");
  const auto isUnsharded = [](std::string_view kind) {
    return kind == kSharded[0] || kind == "mirrored" || kind == "tensor-parallel" ||
           kind == "pipeline";
  };
  if (pinned != space.pinned.end() && isUnsharded(pinned->second))
    out.push_back(pinned->second);
  else if (stages > 1 || tensor > 1)
    out.emplace_back(stages > 1 ? "pipeline" : "tensor-parallel");
  else
    out.push_back(current.kind == "mirrored" ? current.kind : std::string(kSharded[0]));
  if (dataRanks > 1) out.insert(out.end(), kSharded.begin() + 1, kSharded.end());
  return out;
}

void addServers(const SearchSpace& space, const Choice& current, std::vector<Choice>& out) {
  std::vector<int> counts{1};
  if (space.servers > 0) counts = {space.servers};
  if (const auto pinned = pinnedNumber(space, "strategy.servers")) counts = {*pinned};
  for (const std::string_view kind : {"parameter-server", "central-storage"}) {
    if (kind == "central-storage" && !space.oneNode) continue;
    for (const int servers : counts) {
      if (servers < 1 || servers >= space.ranks) continue;
      Choice choice;
      choice.kind = kind;
      choice.servers = servers;
      choice.precision = current.precision;
      for (const int parts : microBatchesFor(space, space.ranks - servers, 1)) {
        choice.microBatches = parts;
        out.push_back(choice);
      }
    }
  }
}

}  // namespace

Choice choiceOf(const spec::v1::RunSpec& spec, const cluster::Mesh& mesh) {
  const auto& strategy = spec.strategy();
  Choice out;
  out.kind = strategy.kind();
  out.tensor = mesh.axisSize(cluster::kModelAxis);
  out.stages = mesh.axisSize(cluster::kStageAxis);
  out.servers = mesh.servers();
  out.microBatches = std::max(1, strategy.micro_batches());
  out.schedule = strategy.schedule();
  out.recompute = strategy.recompute();
  out.precision = spec.training().precision();
  out.overlap = strategy.overlap();
  out.bucketBytes = strategy.bucket_bytes();
  return out;
}

Remedy settingsFor(const spec::v1::RunSpec& spec, const Choice& current, const Choice& choice) {
  Remedy out;
  if (choice == current) return out;
  // What is left out in the spec has another default with another kind.
  const bool divides = cluster::findStrategy(choice.kind)->axis != cluster::kDataAxis;
  const bool all = divides && choice.kind != current.kind;
  const Values before = valuesOf(current);
  for (auto& [path, value] : valuesOf(choice))
    if (before.at(path) != value ||
        (all && (path == "strategy.tensor" || path == "strategy.stages")))
      out.push_back({path, value});
  // What belongs to the kind before.
  const auto& strategy = spec.strategy();
  if (strategy.pins_size() > 0) out.push_back({"strategy.pins", ""});
  if (choice.kind == current.kind) return out;
  if (strategy.local_steps() != 0) out.push_back({"strategy.local_steps", "0"});
  if (strategy.staleness() != 0) out.push_back({"strategy.staleness", "0"});
  if (strategy.dense() != "servers") out.push_back({"strategy.dense", "servers"});
  return out;
}

bool isAllowed(const Choice& choice, const SearchSpace& space) {
  const Values values = valuesOf(choice);
  return std::all_of(space.pinned.begin(), space.pinned.end(),
                     [&](const auto& pin) { return values.at(pin.first) == pin.second; });
}

Status pin(SearchSpace& space, const Choice& current, const std::vector<Setting>& options) {
  const Values values = valuesOf(current);
  for (const auto& [path, value] : options) {
    const auto known = values.find(path);
    if (known == values.end()) {
      std::vector<std::string> names;
      for (const auto& [name, now] : values) names.push_back(name);
      Error error = invalidArgument("{} cannot be pinned: it is not searched", path);
      error.why = message("what is searched: {}", fmt::join(names, ", "));
      return error;
    }
    space.pinned[path] = value.empty() ? known->second : value;
  }
  return {};
}

std::vector<Choice> choicesIn(const SearchSpace& space, const Choice& current) {
  std::vector<Choice> out;
  const int workers = space.ranks - space.servers;
  std::vector<std::string> precisions{current.precision};
  precisions.insert(precisions.end(), space.precisions.begin(), space.precisions.end());
  for (const int tensor : divisors(workers)) {
    for (const int stages : divisors(workers / tensor)) {
      if (stages > space.layers) break;
      const int dataRanks = workers / tensor / stages;
      for (const std::string& kind : kindsOf(space, current, tensor, stages, dataRanks))
        for (const int parts : microBatchesFor(space, dataRanks, current.microBatches))
          for (const std::string& precision : precisions)
            for (const char* const recompute : {"none", "selective", "full"})
              for (const char* const schedule : {"1f1b", "zb-h1", "gpipe"}) {
                if (stages == 1 && std::string_view(schedule) != "1f1b") continue;
                if (kind == "zero-2" && stages == 1 && parts == 1) continue;  // as zero-1
                Choice choice;
                choice.kind = kind;
                choice.tensor = tensor;
                choice.stages = stages;
                choice.microBatches = parts;
                choice.recompute = recompute;
                choice.schedule = schedule;
                choice.precision = precision;
                out.push_back(std::move(choice));
              }
    }
  }
  addServers(space, current, out);
  std::erase_if(out, [&](const Choice& choice) { return !isAllowed(choice, space); });
  std::stable_sort(out.begin(), out.end(), [](const Choice& a, const Choice& b) {
    return complexityOf(a) < complexityOf(b);
  });
  return out;
}

std::vector<Choice> refinementsOf(const Choice& choice, const SearchSpace& space) {
  std::vector<Choice> out;
  const cluster::Strategy* kind = cluster::findStrategy(choice.kind);
  if (kind == nullptr || !isPlain(*kind)) return out;
  for (const char* const overlap : {"always", "never"}) {
    out.push_back(choice);
    out.back().overlap = overlap;
  }
  for (const std::int64_t bytes : {4 << 20, 25 << 20, 100 << 20}) {
    out.push_back(choice);
    out.back().bucketBytes = bytes;
  }
  std::erase_if(out, [&](const Choice& one) { return !isAllowed(one, space); });
  return out;
}

int complexityOf(const Choice& choice) {
  const Values plain = valuesOf({});
  int out = 0;
  for (const auto& [path, value] : valuesOf(choice))
    if (plain.at(path) != value && path != "training.precision") ++out;
  return out;
}

}  // namespace lockstep::app
