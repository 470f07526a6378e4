#include "app/advice/choice.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "app/runs/quantity_text.h"
#include "engine/cluster/assumed.h"
#include "engine/cluster/strategies.h"
#include "engine/specs/field.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using Values = std::map<std::string, std::string>;  // by path

constexpr const char* kKind = "strategy.kind";
constexpr const char* kTensor = "strategy.tensor";
constexpr const char* kStages = "strategy.stages";
constexpr const char* kServers = "strategy.servers";
constexpr const char* kMicroBatches = "strategy.micro_batches";
constexpr const char* kSchedule = "strategy.schedule";
constexpr const char* kRecompute = "strategy.recompute";
constexpr const char* kPrecision = "training.precision";
constexpr const char* kOverlap = "strategy.overlap";
constexpr const char* kBucketBytes = "strategy.bucket_bytes";

constexpr std::array<std::string_view, 4> kUnsharded{"multi-worker-mirrored", "mirrored",
                                                     "tensor-parallel", "pipeline"};
constexpr std::array<std::string_view, 3> kSharded{"zero-1", "zero-2", "zero-3"};
constexpr std::array<std::string_view, 2> kServed{"parameter-server", "central-storage"};
constexpr std::array<std::string_view, 3> kSchedules{"1f1b", "zb-h1", "gpipe"};
constexpr double kGrowth = 1.5;  // of successive numbers of micro-batches
constexpr int kMostMicroBatches = 1024;

template <typename List>
bool contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

Values valuesOf(const Choice& choice) {
  return {{kKind, choice.kind},
          {kTensor, fmt::format("{}", choice.tensor)},
          {kStages, fmt::format("{}", choice.stages)},
          {kServers, fmt::format("{}", choice.servers)},
          {kMicroBatches, fmt::format("{}", choice.microBatches)},
          {kSchedule, choice.schedule},
          {kRecompute, choice.recompute},
          {kPrecision, choice.precision},
          {kOverlap, choice.overlap},
          {kBucketBytes, fmt::format("{}", choice.bucketBytes)}};
}

std::optional<std::string> pinned(const SearchSpace& space, const char* path) {
  const auto found = space.pinned.find(path);
  if (found == space.pinned.end()) return std::nullopt;
  return found->second;
}
template <typename Number>
std::optional<Number> pinnedNumber(const SearchSpace& space, const char* path) {
  const auto text = pinned(space, path);
  Number out = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), out).ec != std::errc())
    return std::nullopt;
  return out;
}
std::vector<std::string> valuesIn(const SearchSpace& space, const char* path,
                                  std::vector<std::string> all) {
  if (auto value = pinned(space, path)) return {*std::move(value)};
  return all;
}

std::vector<int> divisors(int number) {
  std::vector<int> out;
  for (int d = 1; d <= number; ++d)
    if (number % d == 0) out.push_back(d);
  return out;
}

// Numbers of micro-batches, about twice as many each time, that divide the batch and leave each of
// the ranks that share it a sample of each; in a pipeline as many samples.
std::vector<int> microBatchesFor(const SearchSpace& space, int dataRanks, bool isPipeline,
                                 int current) {
  if (const auto value = pinnedNumber<int>(space, kMicroBatches)) return {*value};
  std::vector<int> out;
  const std::int64_t most =
      std::min<std::int64_t>(kMostMicroBatches, space.batch / std::max(1, dataRanks));
  for (int m = 1; m <= most; ++m) {
    if (space.batch % m != 0 || (isPipeline && space.batch / m % dataRanks != 0)) continue;
    if (m == current || out.empty() || m >= kGrowth * out.back()) out.push_back(m);
  }
  return out;
}

// Several names stand for what shards nothing: the one that is pinned, else the plainest.
std::string unshardedKind(const SearchSpace& space, const Choice& current, int tensor, int stages) {
  if (const auto kind = pinned(space, kKind); kind && contains(kUnsharded, *kind)) return *kind;
  if (stages > 1 || tensor > 1) return stages > 1 ? "pipeline" : "tensor-parallel";
  return current.kind == "mirrored" ? current.kind : std::string(kUnsharded[0]);
}

// Adds the choices with so many tensor-parallel ranks and stages: all kinds and numbers of
// micro-batches that they allow.
void addMesh(const SearchSpace& space, const Choice& current, int tensor, int stages,
             std::vector<Choice>& out) {
  const int dataRanks = space.workers / tensor / stages;
  std::vector<std::string> kinds{unshardedKind(space, current, tensor, stages)};
  if (dataRanks > 1) kinds.insert(kinds.end(), kSharded.begin(), kSharded.end());
  for (const int parts : microBatchesFor(space, dataRanks, stages > 1, current.microBatches))
    for (const std::string& kind : kinds) {
      const bool isZero1 = kind == "zero-2" && stages == 1 && parts == 1;  // the same plan
      if (isZero1 && !pinned(space, kKind)) continue;
      Choice choice;
      choice.kind = kind;
      choice.tensor = tensor;
      choice.stages = stages;
      choice.microBatches = parts;
      out.push_back(std::move(choice));
    }
}

void addServers(const SearchSpace& space, const Choice& current, std::vector<Choice>& out) {
  std::vector<int> counts{1};
  if (current.servers > 1) counts.push_back(current.servers);
  if (space.servers > 0) counts = {space.servers};
  const int ranks = space.workers + space.servers;
  for (const std::string_view kind : kServed) {
    if (kind == "central-storage" && !space.oneNode) continue;
    for (const int servers : counts) {
      if (servers >= ranks) continue;
      Choice choice;
      choice.kind = kind;
      choice.servers = servers;
      for (const int parts : microBatchesFor(space, ranks - servers, false, current.microBatches)) {
        choice.microBatches = parts;
        out.push_back(choice);
      }
    }
  }
}

// Returns what strategy.shares is set to: the ranks that hold one part of the batch are as fast as
// their slowest device. "" where all parts are equally fast.
std::string sharesBySpeed(const Choice& choice, const SearchSpace& space) {
  std::vector<double> slowest;
  for (std::size_t rank = 0; rank < space.devices.size(); ++rank) {
    const std::size_t part = rank / static_cast<std::size_t>(choice.tensor);
    const double speed =
        cluster::assumedRates(space.devices[rank], choice.precision).flopsPerSecond;
    if (part == slowest.size()) slowest.push_back(speed);
    slowest[part] = std::min(slowest[part], speed);
  }
  const auto [least, most] = std::minmax_element(slowest.begin(), slowest.end());
  if (slowest.empty() || *least == *most) return {};
  std::string out;
  for (const double speed : slowest)
    out += fmt::format("{}{:.4g}", out.empty() ? "" : ", ", speed / *least);
  return fmt::format("[{}]", out);
}

// Whether the spec's shares are no shares of this choice.
bool dropsShares(const spec::v1::RunSpec& spec, const Choice& choice, const SearchSpace& space) {
  return spec.strategy().shares_size() > 0 &&
         (choice.stages > 1 || space.dataRanks(choice) != spec.strategy().shares_size());
}

}  // namespace

int SearchSpace::dataRanks(const Choice& choice) const {
  if (choice.hasServers()) return std::max(1, workers + servers - choice.servers);
  return std::max(1, workers / choice.tensor / choice.stages);
}

Result<cluster::Mesh> SearchSpace::meshOf(const spec::v1::RunSpec& spec) const {
  const bool served = specs::hasServers(spec.strategy());
  return specs::toMesh(spec.strategy(), served ? workers + servers : workers, served ? servers : 0);
}

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

Result<Remedy> settingsFor(const spec::v1::RunSpec& spec, const Choice& current,
                           const Choice& choice, const SearchSpace& space,
                           const SpecWith& specWith) {
  Remedy out;
  if (choice == current) return out;
  const Values before = valuesOf(current), values = valuesOf(choice);
  for (const auto& [path, value] : values)
    if (before.at(path) != value) out.push_back({path, value});
  // What belongs to the strategy before.
  const auto& strategy = spec.strategy();
  const bool otherKind = choice.kind != current.kind;
  if (strategy.pins_size() > 0 && (otherKind || choice.stages != current.stages))
    out.push_back({"strategy.pins", ""});
  if (choice.balanced)
    out.push_back({"strategy.shares", sharesBySpeed(choice, space)});
  else if (dropsShares(spec, choice, space))
    out.push_back({"strategy.shares", ""});
  if (otherKind && strategy.local_steps() != 0) out.push_back({"strategy.local_steps", "0"});
  if (otherKind && strategy.staleness() != 0) out.push_back({"strategy.staleness", "0"});
  if (otherKind && strategy.dense() != "servers") out.push_back({"strategy.dense", "servers"});
  // What is left out in the spec follows from the rest, so that it may be another number now.
  LOCKSTEP_ASSIGN(const auto made, specWith(out));
  const auto mesh = space.meshOf(*made);
  Choice plain = choice;
  plain.balanced = false;  // which follows from the shares
  if (mesh.ok() && choiceOf(*made, *mesh) == plain) return out;
  for (const char* const path : {kTensor, kStages})
    if (before.at(path) == values.at(path)) out.push_back({path, values.at(path)});
  return out;
}

std::vector<std::string> searchedOptions() {
  std::vector<std::string> out;
  for (const auto& [path, value] : valuesOf({})) out.push_back(path);
  return out;
}

bool isSearched(const std::string& path) { return valuesOf({}).contains(path); }

bool isAllowed(const Choice& choice, const SearchSpace& space) {
  if (space.pinned.empty()) return true;
  const Values values = valuesOf(choice);
  return std::all_of(space.pinned.begin(), space.pinned.end(), [&](const auto& pin) {
    if (pin.first == kSchedule && choice.stages == 1) return true;
    return values.at(pin.first) == pin.second;
  });
}

Status pin(SearchSpace& space, const Choice& current, const std::vector<Setting>& options,
           const SpecWith& specWith) {
  const Values values = valuesOf(current);
  for (const auto& [path, value] : options) {
    const auto known = values.find(path);
    if (known == values.end()) {
      Error error = invalidArgument("{} cannot be pinned: it is not searched", path);
      error.why = message("what is searched: {}", fmt::join(searchedOptions(), ", "));
      return error;
    }
    const std::string& kept = value.empty() ? known->second : value;
    const bool isNumber = path == kTensor || path == kStages || path == kMicroBatches;
    space.pinned[path] = kept;
    if (isNumber && pinnedNumber<int>(space, path.c_str()).value_or(0) < 1)
      return invalidArgument("{} cannot be pinned at {}: a number from 1 is expected", path, kept);
    if (path == kKind) {
      if (contains(kUnsharded, kept) || contains(kSharded, kept) || contains(kServed, kept))
        continue;
      Error error = invalidArgument("strategy {} is not searched", kept);
      error.why = message("what is searched: {}, {}, {}", fmt::join(kUnsharded, ", "),
                          fmt::join(kSharded, ", "), fmt::join(kServed, ", "));
      return error;
    }
    // Whether the option can have the value at all; with other settings it may not apply.
    if (path == kPrecision || path == kRecompute || path == kOverlap || path == kBucketBytes) {
      LOCKSTEP_ASSIGN(const auto made, specWith({{path, kept}}));
      if (path == kBucketBytes)  // which may have been given with a unit
        space.pinned[path] = fmt::format("{}", made->strategy().bucket_bytes());
    }
    if (path == kSchedule && !value.empty()) LOCKSTEP_TRY(specs::checkKind(path, kept, kSchedules));
  }
  return {};
}

std::vector<Choice> choicesIn(const SearchSpace& space, const Choice& current) {
  std::vector<Choice> shapes;
  for (const int tensor : divisors(space.workers))
    for (const int stages : divisors(space.workers / tensor))
      if (stages <= space.layers) addMesh(space, current, tensor, stages, shapes);
  addServers(space, current, shapes);

  std::vector<std::string> precisions = space.precisions;
  precisions.insert(precisions.begin(), current.precision);
  std::sort(precisions.begin() + 1, precisions.end());
  precisions.erase(std::unique(precisions.begin(), precisions.end()), precisions.end());
  if (const auto end = std::find(precisions.begin() + 1, precisions.end(), current.precision);
      end != precisions.end())
    precisions.erase(end);
  precisions = valuesIn(space, kPrecision, std::move(precisions));
  const auto recomputes = valuesIn(space, kRecompute, {"none", "selective", "full"});
  const auto schedules =
      valuesIn(space, kSchedule, std::vector<std::string>(kSchedules.begin(), kSchedules.end()));

  std::vector<std::pair<int, Choice>> found;  // each with its complexityOf()
  for (Choice& choice : shapes) {
    choice.overlap = pinned(space, kOverlap).value_or(choice.overlap);
    choice.bucketBytes = pinnedNumber<std::int64_t>(space, kBucketBytes).value_or(0);
    for (const std::string& precision : precisions) {
      choice.precision = precision;
      for (const std::string& recompute : recomputes) {
        choice.recompute = recompute;
        for (const std::string& schedule : schedules) {
          if (choice.stages == 1 && schedule != schedules[0]) continue;
          if (schedule == "zb-h1" && recompute != "none" && choice.stages > 1) continue;
          choice.schedule = choice.stages == 1 ? "1f1b" : schedule;
          if (isAllowed(choice, space)) found.emplace_back(complexityOf(choice), choice);
        }
      }
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Choice> out;
  for (auto& [complexity, choice] : found) out.push_back(std::move(choice));
  return out;
}

std::vector<Choice> refinementsOf(const Choice& choice, const SearchSpace& space) {
  std::vector<Choice> out;
  if (choice.hasServers()) return out;
  for (const char* const overlap : {"always", "never"}) {
    out.push_back(choice);
    out.back().overlap = overlap;
  }
  for (const std::int64_t bytes : {4 << 20, 25 << 20, 100 << 20}) {
    out.push_back(choice);
    out.back().bucketBytes = bytes;
  }
  if (choice.stages == 1 && !sharesBySpeed(choice, space).empty()) {
    out.push_back(choice);
    out.back().balanced = true;
  }
  std::erase_if(out, [&](const Choice& one) { return one == choice || !isAllowed(one, space); });
  return out;
}

int complexityOf(const Choice& choice) {
  const Choice plain;
  return (choice.kind != plain.kind) + (choice.tensor != plain.tensor) +
         (choice.stages != plain.stages) + (choice.servers != plain.servers) +
         (choice.microBatches != plain.microBatches) + (choice.schedule != plain.schedule) +
         (choice.recompute != plain.recompute) + (choice.overlap != plain.overlap) +
         (choice.bucketBytes != plain.bucketBytes) + (choice.balanced != plain.balanced);
}

Message textOf(const Choice& choice) {
  Message out = message("{}", choice.kind);
  if (choice.tensor > 1) out = message("{}, tensor {}", out, choice.tensor);
  if (choice.stages > 1) out = message("{}, stages {} {}", out, choice.stages, choice.schedule);
  if (choice.servers > 0) out = message("{}, servers {}", out, choice.servers);
  if (choice.microBatches > 1) out = message("{}, micro-batches {}", out, choice.microBatches);
  if (choice.recompute != "none") out = message("{}, recompute {}", out, choice.recompute);
  if (choice.precision != "fp32") out = message("{}, {}", out, choice.precision);
  if (choice.overlap != "auto") out = message("{}, overlap {}", out, choice.overlap);
  if (choice.bucketBytes > 0) out = message("{}, buckets {}", out, mebibytes(choice.bucketBytes));
  if (choice.balanced) out = message("{}, shares by speed", out);
  return out;
}

}  // namespace lockstep::app
