#include "app/runs/energy.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "app/history/history.h"
#include "app/history/run_store.h"
#include "app/runs/preview.h"
#include "app/runs/quantity_text.h"
#include "app/specs/spec_text.h"
#include "lockstep/spec/v1/cluster.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr double kIdleWatts = 0.74, kBusyWatts = 3.5;  // of a core, see energy.h
constexpr double kSecondsPerHour = 3600, kJoulesPerKwh = 3.6e6;
// Seconds. A sample stands for the time since the previous one, but for no more than this: nodes
// keep no coarser samples, and hours between two jobs of a run are not its energy.
constexpr double kLongestGap = 300;
constexpr double kMostWatts = 1e6;  // more is no power, but damage

// A host, and the ranks that it has in the prediction.
struct RanksOfHost {
  std::string host;
  std::vector<std::string> nodes;  // each once
  std::vector<RankPreview> ranks;
  int cores = 0;  // 0: not known
};

std::vector<RanksOfHost> hostsOf(const Preview& preview) {
  std::map<std::string, int> cores;
  for (const cluster::Host& host : preview.cluster.hosts) cores[host.name] = host.cores;
  std::map<std::string, std::size_t> places;  // in `out`, by host
  std::vector<RanksOfHost> out;
  for (std::size_t i = 0; i < preview.ranks.size(); ++i) {
    const std::string& name = preview.cluster.devices[i].host;
    const auto [place, isNew] = places.try_emplace(name, out.size());
    if (isNew) out.push_back({.host = name, .cores = cores[name]});
    RanksOfHost& host = out[place->second];
    const std::string& node = preview.ranks[i].node;
    if (std::find(host.nodes.begin(), host.nodes.end(), node) == host.nodes.end())
      host.nodes.push_back(node);
    host.ranks.push_back(preview.ranks[i]);
  }
  return out;
}

// Node and number of the GPUs that ranks have, each once.
std::set<std::pair<std::string, std::string>> gpusOf(const RanksOfHost& host) {
  std::set<std::pair<std::string, std::string>> out;
  for (const RankPreview& rank : host.ranks)
    if (!rank.inHostMemory()) out.emplace(rank.node, rank.device.substr(rank.device.find(' ') + 1));
  return out;
}

bool hasPowers(const PowerAndPrices& power) { return power.busyWatts > 0; }

double idleWatts(const PowerAndPrices& power, int cores) {
  return hasPowers(power) ? power.idleWatts : kIdleWatts * cores;
}
double busyWatts(const PowerAndPrices& power, int cores) {
  return hasPowers(power) ? power.busyWatts : kBusyWatts * cores;
}

void setPrices(const PowerAndPrices& prices, Energy& energy) {
  energy.currency = prices.currency;
  const double kwh = energy.joules() / kJoulesPerKwh;
  double hours = 0;
  for (const HostEnergy& host : energy.hosts) hours += host.seconds / kSecondsPerHour;
  if (prices.perKwh > 0 || prices.perNodeHour > 0)
    energy.cost = kwh * prices.perKwh + hours * prices.perNodeHour;
  if (prices.carbonPerKwh > 0) energy.carbonGrams = kwh * prices.carbonPerKwh;
}

struct Integral {
  double seconds = 0;
  double sum = 0;  // of the value times seconds
};

// Of values that each are the mean since the one before.
Integral integralOf(const std::vector<Point>& points, double most) {
  Integral out;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double gap = std::min(points[i].x - points[i - 1].x, kLongestGap);
    if (!(gap > 0) || !(points[i].y >= 0) || points[i].y > most) continue;
    out.seconds += gap;
    out.sum += gap * points[i].y;
  }
  return out;
}

// What a run's nodes told of their load.
class Loads {
 public:
  explicit Loads(const RunStore& store) : store_(store) {
    for (const SeriesInfo& info : store.series()) names_.insert(info.name);
  }

  std::set<std::string> nodes() const {
    std::set<std::string> out;
    for (const std::string& name : names_)
      if (name.starts_with("node/") && name.ends_with("/cpu"))
        out.insert(name.substr(5, name.size() - 9));
    return out;
  }

  // Of a host with several nodes the node with the longest record tells.
  Result<HostEnergy> energyOf(const RanksOfHost& host, const PowerAndPrices& power) const {
    HostEnergy out{.host = host.nodes.front()};
    std::string best;
    Integral busy;
    for (const std::string& node : host.nodes) {
      LOCKSTEP_ASSIGN(const Integral one, integral("node/" + node + "/cpu", 1));
      if (one.seconds <= busy.seconds) continue;
      busy = one;
      best = node;
    }
    LOCKSTEP_TRY(addGpus(host, out));
    if (best.empty()) return out;
    out.seconds = busy.seconds;
    LOCKSTEP_ASSIGN(const Integral measured,
                    integral("node/" + best + "/package_power", kMostWatts));
    out.isMeasured = !hasPowers(power) && measured.seconds > 0;
    if (out.isMeasured) {
      out.isKnown = true;
      out.hostJoules = measured.sum / measured.seconds * busy.seconds;
      return out;
    }
    LOCKSTEP_ASSIGN(const int cores, coresOf(host, best));
    out.isKnown = hasPowers(power) || cores > 0;
    const double idle = idleWatts(power, cores);
    out.hostJoules = idle * busy.seconds + (busyWatts(power, cores) - idle) * busy.sum;
    return out;
  }

 private:
  Result<Integral> integral(const std::string& series, double most) const {
    if (!names_.contains(series)) return Integral();
    LOCKSTEP_ASSIGN(const std::vector<Point> points, store_.readAll(series));
    return integralOf(points, most);
  }
  Result<int> coresOf(const RanksOfHost& host, const std::string& node) const {
    if (host.cores > 0 || !names_.contains("node/" + node + "/cores")) return host.cores;
    LOCKSTEP_ASSIGN(const std::vector<Point> points, store_.readAll("node/" + node + "/cores"));
    constexpr double kMostCores = 1e5;
    return points.empty() ? 0 : static_cast<int>(std::clamp(points.back().y, 0.0, kMostCores));
  }
  // The GPUs of the ranks. A node without ranks in the prediction may have got some: all its GPUs.
  Status addGpus(const RanksOfHost& host, HostEnergy& out) const {
    std::set<std::string> series;
    for (const auto& [node, number] : gpusOf(host))
      series.insert("node/" + node + "/gpu/" + number + "/power");
    if (host.ranks.empty()) {
      const std::string prefix = "node/" + host.nodes.front() + "/gpu/";
      for (const std::string& name : names_)
        if (name.starts_with(prefix) && name.ends_with("/power")) series.insert(name);
    }
    for (const std::string& one : series) {
      LOCKSTEP_ASSIGN(const Integral watts, integral(one, kMostWatts));
      ++out.gpus;
      if (watts.seconds <= 0) ++out.silent;
      out.gpuJoules += watts.sum;
    }
    return {};
  }

  const RunStore& store_;
  std::set<std::string> names_;
};

// The host's name of each node, as the launch wrote it.
std::map<std::string, std::string> hostNames(const std::string& nodes) {
  std::map<std::string, std::string> out;
  const auto in = nlohmann::json::parse(nodes, nullptr, false);
  if (!in.is_array()) return out;
  for (const auto& one : in)
    if (one.is_object() && one.contains("node") && one["node"].is_string() &&
        one.contains("host") && one["host"].is_string())
      out[one["node"].get<std::string>()] = one["host"].get<std::string>();
  return out;
}

// The prediction's hosts, and those of spares, evaluators and nodes that came later.
std::vector<RanksOfHost> hostsOf(const Preview& prediction, const std::string& nodes,
                                 const std::set<std::string>& told) {
  std::vector<RanksOfHost> out = hostsOf(prediction);
  const std::map<std::string, std::string> names = hostNames(nodes);
  const auto nameOf = [&](const std::string& node) {
    const auto name = names.find(node);
    return name == names.end() ? std::string() : name->second;
  };
  for (const std::string& node : told) {
    const auto isOn = [&](const RanksOfHost& host, bool same) {
      return std::any_of(host.nodes.begin(), host.nodes.end(), [&](const std::string& other) {
        return same ? other == node : !nameOf(node).empty() && nameOf(other) == nameOf(node);
      });
    };
    if (std::any_of(out.begin(), out.end(), [&](const auto& host) { return isOn(host, true); }))
      continue;
    const auto host =
        std::find_if(out.begin(), out.end(), [&](const auto& one) { return isOn(one, false); });
    if (host != out.end())
      host->nodes.push_back(node);
    else
      out.push_back({.host = node, .nodes = {node}});
  }
  return out;
}

struct PhaseSeconds {
  double compute = 0, transfer = 0, waiting = 0;
  double sum() const { return compute + transfer + waiting; }
};

// `spent`: of all ranks of the host.
void addPhases(double joules, PhaseSeconds spent, double rankSeconds, EnergyPhases& out) {
  const double of = std::max(rankSeconds, spent.sum());
  const double perSecond = of > 0 ? joules / of : 0;
  out.compute += spent.compute * perSecond;
  out.transfer += spent.transfer * perSecond;
  out.waiting += spent.waiting * perSecond;
  out.other += joules - spent.sum() * perSecond;
}

double computeOf(const RankPreview& rank) { return rank.forward + rank.backward + rank.optimizer; }

std::string pricesText(double cost, const std::string& currency, double grams) {
  std::string out;
  if (cost > 0) out += ", " + costText(cost, currency);
  if (grams > 0) out += ", " + carbonText(grams) + " CO2e";
  return out;
}

std::string powerText(const Energy& energy) {
  std::string out = fmt::format("({} W, {}", threeDigits(energy.watts()),
                                energy.isMeasured() ? "measured" : "modelled");
  int silent = 0;
  for (const HostEnergy& host : energy.hosts) {
    silent += host.silent;
    if (!host.isKnown) out += ", without " + host.host;
  }
  if (silent > 0)
    out += fmt::format(", without {} {} of unknown power", silent, silent == 1 ? "GPU" : "GPUs");
  return out + ")";
}

}  // namespace

PowerAndPrices powerAndPrices(const spec::v1::ClusterSpec& cluster) {
  const spec::v1::EnergySpec& spec = cluster.energy();
  PowerAndPrices out{.idleWatts = spec.idle_watts(),
                     .busyWatts = spec.busy_watts(),
                     .gpuWatts = spec.gpu_watts(),
                     .perKwh = spec.price_per_kwh(),
                     .perNodeHour = spec.price_per_node_hour(),
                     .carbonPerKwh = spec.carbon_per_kwh()};
  if (spec.overhead() > 0) out.overhead = spec.overhead();
  if (!spec.currency().empty()) out.currency = spec.currency();
  return out;
}

double Energy::joules() const {
  return overhead *
         std::accumulate(hosts.begin(), hosts.end(), 0.0,
                         [](double sum, const HostEnergy& host) { return sum + host.joules(); });
}

bool Energy::isComplete() const {
  return std::all_of(hosts.begin(), hosts.end(),
                     [](const HostEnergy& host) { return host.isKnown && host.silent == 0; });
}

bool Energy::isMeasured() const {
  return isComplete() &&
         std::all_of(hosts.begin(), hosts.end(), [](const auto& host) { return host.isMeasured; });
}

Energy predictedEnergy(const Preview& preview) {
  Energy out{.seconds = preview.stepSeconds, .overhead = preview.power.overhead};
  for (const RanksOfHost& host : hostsOf(preview)) {
    HostEnergy energy{.host = host.nodes.front(), .seconds = out.seconds};
    double busyCores = 0;  // times seconds
    for (const RankPreview& rank : host.ranks)
      if (rank.inHostMemory())
        busyCores += rank.threads * computeOf(rank) + rank.data + rank.transfer;
    const double idle = idleWatts(preview.power, host.cores);
    const double busy = host.cores > 0 ? std::min(busyCores / host.cores, out.seconds) : 0;
    energy.isKnown = hasPowers(preview.power) || host.cores > 0;
    energy.hostJoules = idle * out.seconds + (busyWatts(preview.power, host.cores) - idle) * busy;
    energy.gpus = static_cast<int>(gpusOf(host).size());
    energy.gpuJoules = energy.gpus * preview.power.gpuWatts * out.seconds;
    if (preview.power.gpuWatts <= 0) energy.silent = energy.gpus;
    out.hosts.push_back(std::move(energy));
  }
  setPrices(preview.power, out);
  return out;
}

Result<Energy> measuredEnergy(const RunStore& store, const RunDocuments& documents) {
  LOCKSTEP_ASSIGN(const Preview prediction, parsePrediction(documents.prediction));
  LOCKSTEP_ASSIGN(const ClusterSpecFile cluster,
                  completeClusterSpec(documents.clusterYaml, "cluster.yaml"));
  const PowerAndPrices power = powerAndPrices(*cluster.spec);
  const Loads loads(store);
  Energy out{.overhead = power.overhead};
  for (const RanksOfHost& host : hostsOf(prediction, documents.nodes, loads.nodes())) {
    LOCKSTEP_ASSIGN(HostEnergy energy, loads.energyOf(host, power));
    out.seconds = std::max(out.seconds, energy.seconds);
    out.hosts.push_back(std::move(energy));
  }
  if (out.seconds <= 0)
    return makeError(Code::kFailedPrecondition,
                     "the energy of the run is not known: no node has told of its load");
  setPrices(power, out);
  return out;
}

EnergyPhases predictedPhases(const Preview& preview, const Energy& energy) {
  EnergyPhases out;
  const std::vector<RanksOfHost> hosts = hostsOf(preview);
  for (std::size_t i = 0; i < hosts.size() && i < energy.hosts.size(); ++i) {
    PhaseSeconds spent;
    for (const RankPreview& rank : hosts[i].ranks) {
      spent.compute += computeOf(rank);
      spent.transfer += rank.transfer;
      spent.waiting += rank.waiting;
    }
    addPhases(energy.hosts[i].joules() * energy.overhead, spent,
              energy.seconds * static_cast<double>(hosts[i].ranks.size()), out);
  }
  return out;
}

Result<EnergyPhases> measuredPhases(const RunStore& store, const RunDocuments& documents,
                                    const Energy& energy, const std::stop_token& stop) {
  LOCKSTEP_ASSIGN(const Preview prediction, parsePrediction(documents.prediction));
  std::map<int, PhaseSeconds> ranks;
  for (const SeriesInfo& info : store.series()) {
    if (stop.stop_requested()) return makeError(Code::kCancelled, "reading was cancelled");
    int rank = -1;
    char phase[16];
    if (std::sscanf(info.name.c_str(), "rank/%d/%15s", &rank, phase) != 2) continue;
    PhaseSeconds& spent = ranks[rank];
    double* const sum = std::string_view(phase) == "transfer"  ? &spent.transfer
                        : std::string_view(phase) == "waiting" ? &spent.waiting
                        : std::string_view(phase) == "forward" ||
                                std::string_view(phase) == "backward" ||
                                std::string_view(phase) == "optimizer"
                            ? &spent.compute
                            : nullptr;
    if (sum == nullptr) continue;
    LOCKSTEP_ASSIGN(const std::vector<Point> points, store.readAll(info.name));
    for (const Point& point : points)
      if (point.y >= 0 && std::isfinite(point.y)) *sum += point.y;
  }
  EnergyPhases out;
  const std::vector<RanksOfHost> hosts = hostsOf(prediction);
  for (std::size_t i = 0; i < energy.hosts.size(); ++i) {
    const HostEnergy& host = energy.hosts[i];
    PhaseSeconds spent;
    const std::size_t count = i < hosts.size() ? hosts[i].ranks.size() : 0;
    for (std::size_t r = 0; r < count; ++r) {
      const PhaseSeconds& own = ranks[hosts[i].ranks[r].rank];
      spent.compute += own.compute;
      spent.transfer += own.transfer;
      spent.waiting += own.waiting;
    }
    addPhases(host.joules() * energy.overhead, spent, host.seconds * static_cast<double>(count),
              out);
  }
  return out;
}

std::int64_t recordedSteps(const RunStore& store) {
  double first = 0, last = 0;
  for (const SeriesInfo& info : store.series())
    if (info.name.starts_with("rank/") && info.name.ends_with("/step") && info.points > 0) {
      first = first == 0 ? info.firstX : std::min(first, info.firstX);
      last = std::max(last, info.lastX);
    }
  return last >= first && first > 0 ? static_cast<std::int64_t>(last - first) + 1 : 0;
}

Result<Energy> predictedEnergy(const RunDocuments& documents) {
  LOCKSTEP_ASSIGN(Preview prediction, parsePrediction(documents.prediction));
  LOCKSTEP_ASSIGN(const ClusterSpecFile cluster,
                  completeClusterSpec(documents.clusterYaml, "cluster.yaml"));
  prediction.power = powerAndPrices(*cluster.spec);
  return predictedEnergy(prediction);
}

namespace {
std::int64_t epochStepsOf(const RunStore& store, const RunDocuments& documents) {
  const std::vector<EpochRow> epochs = store.epochs();
  if (epochs.empty()) return 0;
  const auto spec = completeRunSpec(documents.specAsRun(), "run.yaml");
  if (!spec.ok()) return 0;
  // The limit of steps may have ended an epoch before its end.
  const std::int64_t limit = spec->spec->training().max_steps();
  for (const EpochRow& row : epochs)
    if (row.epoch > 0 && row.step != limit) return row.step / row.epoch;
  return 0;
}

Result<RunEnergy> drawnOf(const RunStore& store, const RunDocuments& documents) {
  RunEnergy out;
  LOCKSTEP_ASSIGN(out.energy, measuredEnergy(store, documents));
  out.steps = recordedSteps(store);
  out.epochSteps = epochStepsOf(store, documents);
  if (const auto step = predictedEnergy(documents);
      step.ok() && step->isComplete() && step->seconds > 0 && out.steps > 0)
    out.predictedJoules = step->joules() * static_cast<double>(out.steps);
  return out;
}
}  // namespace

Result<RunEnergy> readEnergySoFar(const History& history, const std::string& run) {
  LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(run));
  LOCKSTEP_ASSIGN(const auto store, history.openRun(run));
  return drawnOf(*store, documents);
}

Result<RunEnergy> readRunEnergy(const History& history, const std::string& run,
                                const std::stop_token& stop) {
  LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(run));
  LOCKSTEP_ASSIGN(const auto store, history.openRun(run));
  LOCKSTEP_ASSIGN(RunEnergy out, drawnOf(*store, documents));
  LOCKSTEP_ASSIGN(out.phases, measuredPhases(*store, documents, out.energy, stop));
  return out;
}

bool setEnergy(const Energy& energy, RunFigures& figures) {
  if (!energy.isComplete() || !std::isfinite(energy.joules())) return false;
  figures.joules = energy.joules();
  figures.cost = energy.cost.value_or(0);
  figures.carbonGrams = energy.carbonGrams.value_or(0);
  if (energy.cost) figures.currency = energy.currency;
  return true;
}

double RunEnergy::stepJoules() const {
  return steps > 0 ? energy.joules() / static_cast<double>(steps) : 0;
}

double RunEnergy::epochJoules() const { return stepJoules() * static_cast<double>(epochSteps); }

double pointJoules(const RunRow& row, double joules) {
  const RunFigures& figures = row.figures;
  const bool known = isFinal(row.phase) && row.resumedFrom.empty() &&
                     figures.metric == "accuracy" && figures.evalMetric > 0;
  return known ? joules / (100 * figures.evalMetric) : 0;
}

std::string joulesText(double joules) {
  if (joules < 1000) return threeDigits(joules) + " J";
  if (joules < kJoulesPerKwh / 10) return threeDigits(joules / 1000) + " kJ";
  return threeDigits(joules / kJoulesPerKwh) + " kWh";
}

std::string costText(double cost, const std::string& currency) {
  return cost < 1 ? fmt::format("{:.2g} {}", cost, currency)
                  : fmt::format("{:.2f} {}", cost, currency);
}

std::string carbonText(double grams) {
  return grams < 1000 ? threeDigits(grams) + " g" : threeDigits(grams / 1000) + " kg";
}

std::string energyText(const RunFigures& figures) {
  if (figures.joules <= 0) return {};
  return joulesText(figures.joules) +
         pricesText(figures.cost, figures.currency, figures.carbonGrams);
}

std::string energyText(const Energy& energy) {
  return joulesText(energy.joules()) + " " + powerText(energy) +
         pricesText(energy.cost.value_or(0), energy.currency, energy.carbonGrams.value_or(0));
}

std::string energyOfStepText(const Energy& step) {
  const std::string out = joulesText(step.joules()) + " a step " + powerText(step);
  const double steps = step.seconds > 0 ? kSecondsPerHour / step.seconds : 0;
  const std::string prices = pricesText(steps * step.cost.value_or(0), step.currency,
                                        steps * step.carbonGrams.value_or(0));
  return prices.empty() ? out : out + "; an hour costs " + prices.substr(2);
}

std::string energyJson(const Energy& energy, const EnergyPhases& phases) {
  using nlohmann::json;
  json out = {{"seconds", energy.seconds},       {"joules", energy.joules()},
              {"watts", energy.watts()},         {"complete", energy.isComplete()},
              {"measured", energy.isMeasured()}, {"overhead", energy.overhead},
              {"hosts", json::array()}};
  const bool isRead = phases.joules() > 0;
  for (const auto& [name, joules] : {std::pair("compute_joules", phases.compute),
                                     {"transfer_joules", phases.transfer},
                                     {"waiting_joules", phases.waiting},
                                     {"other_joules", phases.other}})
    out[name] = isRead ? json(joules) : json();
  if (energy.cost) {
    out["cost"] = *energy.cost;
    out["currency"] = energy.currency;
  }
  if (energy.carbonGrams) out["carbon_grams"] = *energy.carbonGrams;
  for (const HostEnergy& host : energy.hosts)
    out["hosts"].push_back({{"host", host.host},
                            {"seconds", host.seconds},
                            {"host_joules", host.hostJoules},
                            {"known", host.isKnown},
                            {"measured", host.isMeasured},
                            {"gpu_joules", host.gpuJoules},
                            {"gpus", host.gpus},
                            {"silent_gpus", host.silent}});
  return out.dump();
}

}  // namespace lockstep::app
