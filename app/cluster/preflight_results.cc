// What becomes of a pre-flight's values: their grades, the file of earlier results, texts.
#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "app/cluster/preflight.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/statistics.h"

namespace lockstep::app {
namespace {

using Kind = PreflightValue::Kind;
using Grade = PreflightValue::Grade;

constexpr std::array<std::string_view, 11> kNames{
    "matmul",     "memory",    "disk-write", "disk-free",  "clock-skew", "gpu-matmul",
    "gpu-memory", "gpu-lanes", "bandwidth",  "round-trip", "all-reduce"};
constexpr std::size_t kKept = 20;    // earlier results
constexpr double kWeak = 0.7;        // of the usual value
constexpr double kWeakDisk = 0.4;    // disks vary more
constexpr double kLongTrip = 50e-6;  // seconds above the usual round trip
constexpr double kSkewed = 1;        // seconds
constexpr double kLittleDisk = 5e9;  // bytes

bool isMoreBetter(Kind kind) { return kind != Kind::kRoundTrip && kind != Kind::kClockSkew; }
// Whether it is told what is enough; else a value is compared.
bool hasLimit(Kind kind) {
  return kind == Kind::kDiskFree || kind == Kind::kClockSkew || kind == Kind::kGpuLanes;
}

// Names may differ in what a file's name cannot have: their hash tells them apart.
std::string fileOf(const Home& home, const std::string& cluster) {
  constexpr std::size_t kMostRead = 60, kHash = 12;
  std::string name = cluster.substr(0, kMostRead);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
  return fmt::format("{}/preflight/{}-{}.json", home.root, name.empty() ? "cluster" : name,
                     sha256Hex(cluster).substr(0, kHash));
}

nlohmann::json toJson(const PreflightResult& result) {
  nlohmann::json values = nlohmann::json::array();
  for (const PreflightValue& one : result.values)
    if (!hasLimit(one.kind))
      values.push_back({{"kind", std::string(kindName(one.kind))},
                        {"node", one.node},
                        {"peer", one.peer},
                        {"gpu", one.gpu},
                        {"value", one.value}});
  return values;
}

bool fromJson(const nlohmann::json& json, PreflightResult& out) {
  if (!json.is_array()) return false;
  for (const auto& one : json) {
    if (!one.is_object() || !one.contains("kind") || !one["kind"].is_string() ||
        !one.contains("node") || !one["node"].is_string() || !one.contains("peer") ||
        !one["peer"].is_string() || !one.contains("value") || !one["value"].is_number())
      return false;
    const auto gpu = one.find("gpu");  // earlier versions had none
    if (gpu != one.end() && !gpu->is_number_integer()) return false;
    const auto kind = std::find(kNames.begin(), kNames.end(), one["kind"].get<std::string>());
    if (kind == kNames.end()) continue;  // of a later version
    out.values.push_back({static_cast<Kind>(kind - kNames.begin()), one["node"], one["peer"],
                          one["value"].get<double>()});
    if (gpu != one.end()) out.values.back().gpu = gpu->get<int>();
  }
  return true;
}

}  // namespace

std::string_view kindName(Kind kind) { return kNames[static_cast<std::size_t>(kind)]; }
bool isPair(Kind kind) { return kind == Kind::kBandwidth || kind == Kind::kRoundTrip; }

int PreflightResult::weak() const {
  return static_cast<int>(std::count_if(
      values.begin(), values.end(), [](const auto& value) { return value.grade == Grade::kWeak; }));
}

void grade(PreflightResult& result, const std::vector<PreflightResult>& earlier,
           std::size_t leastPeers) {
  const auto placeOf = [](const PreflightValue& value) {
    return std::tuple(value.kind, value.node, value.peer, value.gpu);
  };
  std::map<std::tuple<Kind, std::string, std::string, int>, std::vector<double>> before;
  for (const PreflightResult& one : earlier)
    for (const PreflightValue& value : one.values) before[placeOf(value)].push_back(value.value);
  result.earlier = earlier.size();
  for (PreflightValue& value : result.values) {
    value.grade = Grade::kUngraded;
    value.usual = 0;
    bool weak = false;
    if (hasLimit(value.kind)) {
      weak = value.kind == Kind::kClockSkew  ? value.value > kSkewed
             : value.kind == Kind::kDiskFree ? value.value < kLittleDisk
                                             : value.value < 1;
    } else {
      std::vector<double> usual = before[placeOf(value)];
      value.earlier = !usual.empty();
      if (!value.earlier) {
        for (const PreflightValue& other : result.values)
          if (other.kind == value.kind && placeOf(other) != placeOf(value))
            usual.push_back(other.value);
        if (usual.size() < leastPeers) continue;
      }
      value.usual = median(std::move(usual));
      weak = isMoreBetter(value.kind)
                 ? value.value < (value.kind == Kind::kDiskWrite ? kWeakDisk : kWeak) * value.usual
                 : value.value > std::max(value.usual / kWeak, value.usual + kLongTrip);
    }
    value.grade = weak ? Grade::kWeak : Grade::kGood;
  }
}

Result<std::vector<PreflightResult>> readPreflights(const Home& home, const std::string& cluster) {
  const std::string path = fileOf(home, cluster);
  const auto text = readFile(path);
  if (!text.ok()) {
    if (text.error().code == Code::kNotFound) return std::vector<PreflightResult>();
    return text.error();
  }
  std::vector<PreflightResult> out;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  bool well = json.is_array();
  for (std::size_t i = 0; well && i < json.size(); ++i)
    well = fromJson(json[i], out.emplace_back());
  if (well) return out;
  Error error = makeError(Code::kDataLoss, "{} is damaged", path);
  error.next = "remove it: later results are then compared with new ones";
  return error;
}

Status addPreflight(const Home& home, const std::string& cluster, const PreflightResult& result) {
  LOCKSTEP_ASSIGN(std::vector<PreflightResult> all, readPreflights(home, cluster));
  all.push_back(result);
  nlohmann::json json = nlohmann::json::array();
  for (std::size_t i = all.size() > kKept ? all.size() - kKept : 0; i < all.size(); ++i)
    json.push_back(toJson(all[i]));
  LOCKSTEP_TRY(makeFolders(home.root + "/preflight", 0700));
  return writeFileAtomically(
      fileOf(home, cluster),
      json.dump(1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n", 0600);
}

Message weakText(const PreflightValue& value) {
  const auto number = [](double of) {
    return of < 9999.5 ? fmt::format("{:.4g}", of) : fmt::format("{:.0f}", of);
  };
  const auto mega = [&](double bytes) { return number(bytes * 1e-6); };
  switch (value.kind) {
    case Kind::kMatmul:
      return message("node {} computes {} GFLOP/s, usually {}", value.node,
                     number(value.value * 1e-9), number(value.usual * 1e-9));
    case Kind::kMemory:
      return message("node {} reads {} MB/s from memory, usually {}", value.node, mega(value.value),
                     mega(value.usual));
    case Kind::kDiskWrite:
      return message("node {} writes {} MB/s to its disk, usually {}", value.node,
                     mega(value.value), mega(value.usual));
    case Kind::kDiskFree:
      return message("node {} has {} MB of free disk", value.node, mega(value.value));
    case Kind::kClockSkew:
      return message("the clock of node {} is off by {} s", value.node, number(value.value));
    case Kind::kGpuMatmul:
      return message("GPU {} of node {} computes {:.4g} TFLOP/s, usually {:.4g}", value.gpu,
                     value.node, value.value * 1e-12, value.usual * 1e-12);
    case Kind::kGpuMemory:
      return message("GPU {} of node {} reads {} MB/s from its memory, usually {}", value.gpu,
                     value.node, mega(value.value), mega(value.usual));
    case Kind::kGpuLanes:
      return message("GPU {} of node {} uses {:.0f} % of its PCIe lanes", value.gpu, value.node,
                     100 * value.value);
    case Kind::kBandwidth:
      return message("link {} → {} sends {} MB/s, usually {}", value.node, value.peer,
                     mega(value.value), mega(value.usual));
    case Kind::kRoundTrip:
      return message("link {} → {} has a round trip of {:.4g} ms, usually {:.4g}", value.node,
                     value.peer, value.value * 1e3, value.usual * 1e3);
    case Kind::kAllReduce:
      return message("all-reduce over all nodes has a bus bandwidth of {} MB/s, usually {}",
                     mega(value.value), mega(value.usual));
  }
  return {};
}

}  // namespace lockstep::app
