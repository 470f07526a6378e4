#include "app/runs/energy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "app/history/history.h"
#include "app/history/run_store.h"
#include "app/runs/preview.h"
#include "app/runs/rank_costs.h"
#include "app/specs/spec_text.h"
#include "lockstep/spec/v1/cluster.pb.h"

namespace lockstep::app {
namespace {

constexpr double kIdleWatts = 0.74, kBusyWatts = 3.5;  // of a core, see energy.h
constexpr int kMostPoints = 50'000;  // of longer series, the middles of as many spans
constexpr double kSecondsPerHour = 3600, kJoulesPerKwh = 3.6e6;

// A host and the ranks that it has in the prediction.
struct RanksOfHost {
  std::string host;
  std::vector<std::string> nodes;  // in rank order, each once
  std::vector<RankPreview> ranks;
  int cores = 0;  // 0: not known
};

std::vector<RanksOfHost> hostsOf(const Preview& preview) {
  std::vector<RanksOfHost> out;
  for (std::size_t i = 0; i < preview.ranks.size(); ++i) {
    const std::string& name = preview.cluster.devices[i].host;
    auto host =
        std::find_if(out.begin(), out.end(), [&](const auto& one) { return one.host == name; });
    if (host == out.end()) {
      host = out.insert(out.end(), {.host = name});
      for (const cluster::Host& known : preview.cluster.hosts)
        if (known.name == name) host->cores = known.cores;
    }
    const std::string& node = preview.ranks[i].node;
    if (std::find(host->nodes.begin(), host->nodes.end(), node) == host->nodes.end())
      host->nodes.push_back(node);
    host->ranks.push_back(preview.ranks[i]);
  }
  return out;
}

double hostWatts(const PowerAndPrices& power, int cores, double busyShare) {
  const double idle = power.idleWatts > 0 ? power.idleWatts : kIdleWatts * cores;
  const double busy = power.busyWatts > 0 ? power.busyWatts : kBusyWatts * cores;
  return idle + std::max(0.0, busy - idle) * std::clamp(busyShare, 0.0, 1.0);
}

double computeOf(const RankPreview& rank) { return rank.forward + rank.backward + rank.optimizer; }

// Adds the host's joules to the phases, by the seconds of a step that each rank spends on them and
// the part of the run's time that is steps.
void addPhases(double joules, double partOfSteps, const EnergyPhases& seconds, double stepSeconds,
               EnergyPhases& out) {
  const double perSecond = stepSeconds > 0 ? joules * partOfSteps / stepSeconds : 0;
  out.compute += seconds.compute * perSecond;
  out.transfer += seconds.transfer * perSecond;
  out.waiting += seconds.waiting * perSecond;
  const double named = (seconds.compute + seconds.transfer + seconds.waiting) * perSecond;
  out.other += std::max(0.0, joules - named);
}

void setPrices(const PowerAndPrices& prices, Energy& energy) {
  energy.currency = prices.currency;
  const double kwh = energy.joules() / kJoulesPerKwh;
  if (prices.perKwh > 0 || prices.perNodeHour > 0)
    energy.cost = kwh * prices.perKwh + static_cast<double>(energy.hosts.size()) * energy.seconds /
                                            kSecondsPerHour * prices.perNodeHour;
  if (prices.carbonPerKwh > 0) energy.carbonGrams = kwh * prices.carbonPerKwh;
}

// The mean of a rate that nodes sample, from `from` to `to`; each value is the mean since the one
// before it. Nothing if no value is within.
std::optional<double> meanBetween(const std::vector<Point>& points, double from, double to) {
  double sum = 0, time = 0, before = from;
  for (const Point& point : points) {
    const double x = std::min(point.x, to);
    if (point.x > from && x > before && std::isfinite(point.y)) {
      sum += point.y * (x - before);
      time += x - before;
      before = x;
    }
  }
  if (time <= 0) return {};
  return sum / time;
}

class Meter {
 public:
  Meter(const RunStore& store, const RunRow& row, const PowerAndPrices& power)
      : store_(store), power_(power), from_(static_cast<double>(row.startedNs) * 1e-9) {
    to_ = from_;
    for (const SeriesInfo& info : store.series()) {
      points_[info.name] = info.points;
      if (info.name.starts_with("node/")) to_ = std::max(to_, info.lastX);
    }
    if (row.finishedNs > 0) to_ = static_cast<double>(row.finishedNs) * 1e-9;
  }

  double seconds() const { return to_ - from_; }

  Result<HostEnergy> energyOf(const RanksOfHost& host) {
    HostEnergy out{.host = host.nodes.front()};
    for (const std::string& node : host.nodes) {
      const std::string prefix = "node/" + node + "/";
      LOCKSTEP_ASSIGN(const auto measured, mean(prefix + "package_power"));
      LOCKSTEP_ASSIGN(const auto busy, mean(prefix + "cpu"));
      if (!measured && !busy) continue;
      known_ = true;
      out.isMeasured = measured.has_value();
      out.hostJoules = (measured ? *measured : hostWatts(power_, host.cores, *busy)) * seconds();
      LOCKSTEP_TRY(addGpus(prefix + "gpu/", gpusOf(host, node), out));
      if (out.gpus >= gpuCount(host)) break;
    }
    return out;
  }
  bool known() const { return known_; }  // whether any host has reported

  static int gpuCount(const RanksOfHost& host) {
    return static_cast<int>(std::count_if(host.ranks.begin(), host.ranks.end(),
                                          [](const auto& rank) { return !rank.inHostMemory(); }));
  }

 private:
  // Names of the devices of GPUs: "cuda 3".
  static std::set<std::string> gpusOf(const RanksOfHost& host, const std::string& node) {
    std::set<std::string> out;
    for (const RankPreview& rank : host.ranks)
      if (rank.node == node && !rank.inHostMemory())
        out.insert(rank.device.substr(rank.device.find(' ') + 1));
    return out;
  }
  Status addGpus(const std::string& prefix, const std::set<std::string>& numbers, HostEnergy& out) {
    for (const std::string& number : numbers) {
      LOCKSTEP_ASSIGN(const auto watts, mean(prefix + number + "/power"));
      if (!watts) continue;
      out.gpuJoules += *watts * seconds();
      ++out.gpus;
    }
    return {};
  }
  Result<std::optional<double>> mean(const std::string& series) {
    const auto known = points_.find(series);
    if (known == points_.end()) return std::optional<double>();
    std::vector<Point> points;
    if (known->second <= kMostPoints) {
      LOCKSTEP_ASSIGN(points, store_.readAll(series));
    } else {
      LOCKSTEP_ASSIGN(const std::vector<Span> spans, store_.read(series, from_, to_, kMostPoints));
      for (const Span& span : spans) points.push_back({span.x, (span.low + span.high) / 2});
    }
    return meanBetween(points, from_, to_);
  }

  const RunStore& store_;
  const PowerAndPrices& power_;
  std::map<std::string, std::int64_t> points_;  // how many, by series
  double from_, to_;                            // wall clock, seconds
  bool known_ = false;
};

// Means over the steps of the host's ranks, in seconds.
EnergyPhases phasesOf(const StepMatrix& matrix, const RanksOfHost& host, double& stepSeconds) {
  EnergyPhases out;
  double ranks = 0;
  stepSeconds = 0;
  for (const RankPreview& rank : host.ranks) {
    if (rank.rank >= matrix.ranks()) continue;
    const auto mean = [&](StepMeasure measure) {
      const double seconds = matrix.mean(measure, rank.rank);
      return std::isfinite(seconds) ? seconds : 0;
    };
    for (const auto part : {StepMeasure::kForward, StepMeasure::kBackward, StepMeasure::kOptimizer})
      out.compute += mean(part);
    out.transfer += mean(StepMeasure::kTransfer);
    out.waiting += mean(StepMeasure::kWaiting);
    stepSeconds += mean(StepMeasure::kStep);
    ++ranks;
  }
  if (ranks == 0) return out;
  for (double* value : {&out.compute, &out.transfer, &out.waiting, &stepSeconds}) *value /= ranks;
  return out;
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
  double sum = 0;
  for (const HostEnergy& host : hosts) sum += host.joules();
  return sum * overhead;
}

bool Energy::isMeasured() const {
  return uncountedGpus == 0 && !hosts.empty() &&
         std::all_of(hosts.begin(), hosts.end(), [](const auto& host) { return host.isMeasured; });
}

Energy predictedEnergy(const Preview& preview) {
  Energy out{.seconds = preview.stepSeconds, .overhead = preview.power.overhead};
  for (const RanksOfHost& host : hostsOf(preview)) {
    HostEnergy energy{.host = host.nodes.front()};
    double busyCores = 0;  // times seconds
    EnergyPhases phases;
    for (const RankPreview& rank : host.ranks) {
      phases.compute += computeOf(rank);
      phases.transfer += rank.transfer;
      phases.waiting += rank.waiting;
      if (rank.inHostMemory()) {
        busyCores += rank.threads * computeOf(rank) + rank.data + rank.transfer;
      } else if (preview.power.gpuWatts > 0) {
        energy.gpuJoules += preview.power.gpuWatts * out.seconds;
        ++energy.gpus;
      } else {
        ++out.uncountedGpus;
      }
    }
    const double ranks = static_cast<double>(host.ranks.size());
    for (double* value : {&phases.compute, &phases.transfer, &phases.waiting}) *value /= ranks;
    const double busy =
        out.seconds > 0 && host.cores > 0 ? busyCores / (out.seconds * host.cores) : 0;
    energy.hostJoules = hostWatts(preview.power, host.cores, busy) * out.seconds;
    addPhases(energy.joules() * out.overhead, 1, phases, out.seconds, out.phases);
    out.hosts.push_back(energy);
  }
  setPrices(preview.power, out);
  return out;
}

Result<Energy> measuredEnergy(const RunStore& store, const RunRow& row,
                              const RunDocuments& documents) {
  LOCKSTEP_ASSIGN(const Preview prediction, parsePrediction(documents.prediction));
  LOCKSTEP_ASSIGN(const ClusterSpecFile cluster,
                  completeClusterSpec(documents.clusterYaml, "cluster of run " + row.run));
  const PowerAndPrices power = powerAndPrices(*cluster.spec);
  Meter meter(store, row, power);
  Energy out{.seconds = meter.seconds(), .overhead = power.overhead};
  LOCKSTEP_ASSIGN(const StepMatrix matrix, storedSteps(store));
  for (const RanksOfHost& host : hostsOf(prediction)) {
    LOCKSTEP_ASSIGN(HostEnergy energy, meter.energyOf(host));
    out.uncountedGpus += Meter::gpuCount(host) - energy.gpus;
    double stepSeconds = 0;
    const EnergyPhases phases = phasesOf(matrix, host, stepSeconds);
    const double inSteps = stepSeconds * static_cast<double>(row.figures.steps);
    addPhases(energy.joules() * out.overhead,
              out.seconds > 0 ? std::min(1.0, inSteps / out.seconds) : 0, phases, stepSeconds,
              out.phases);
    out.hosts.push_back(std::move(energy));
  }
  if (!meter.known() || out.seconds <= 0)
    return makeError(Code::kFailedPrecondition,
                     "the energy of run {} is not known: no node has reported a load", row.run);
  setPrices(power, out);
  return out;
}

double predictedStepJoules(const std::string& prediction) {
  const auto in = nlohmann::json::parse(prediction, nullptr, false);
  const auto joules = nlohmann::json::json_pointer("/energy/joules");
  return in.is_object() && in.contains(joules) && in[joules].is_number() ? in[joules].get<double>()
                                                                         : 0;
}

std::string joulesText(double joules) {
  if (joules < 1000) return fmt::format("{:.3g} J", joules);
  if (joules < kJoulesPerKwh / 10) return fmt::format("{:.3g} kJ", joules / 1000);
  return fmt::format("{:.3g} kWh", joules / kJoulesPerKwh);
}

std::string costText(double cost, const std::string& currency) {
  return cost < 1 ? fmt::format("{:.2g} {}", cost, currency)
                  : fmt::format("{:.2f} {}", cost, currency);
}

std::string carbonText(double grams) {
  return grams < 1000 ? fmt::format("{:.3g} g", grams) : fmt::format("{:.3g} kg", grams / 1000);
}

namespace {
std::string pricesText(double cost, const std::string& currency, double grams) {
  std::string out;
  if (cost > 0) out += ", " + costText(cost, currency);
  if (grams > 0) out += ", " + carbonText(grams) + " CO2e";
  return out;
}
}  // namespace

std::string energyText(const RunFigures& figures) {
  if (figures.joules <= 0) return {};
  return joulesText(figures.joules) +
         pricesText(figures.cost, figures.currency, figures.carbonGrams);
}

namespace {
std::string powerText(const Energy& energy) {
  std::string out =
      fmt::format("({:.3g} W, {}", energy.watts(), energy.isMeasured() ? "measured" : "modelled");
  if (energy.uncountedGpus > 0)
    out += fmt::format(", without {} {} of unknown power", energy.uncountedGpus,
                       energy.uncountedGpus == 1 ? "GPU" : "GPUs");
  return out + ")";
}
}  // namespace

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

std::string energyJson(const Energy& energy) {
  nlohmann::json out = {{"seconds", energy.seconds},
                        {"joules", energy.joules()},
                        {"watts", energy.watts()},
                        {"measured", energy.isMeasured()},
                        {"overhead", energy.overhead},
                        {"uncounted_gpus", energy.uncountedGpus},
                        {"compute_joules", energy.phases.compute},
                        {"transfer_joules", energy.phases.transfer},
                        {"waiting_joules", energy.phases.waiting},
                        {"other_joules", energy.phases.other},
                        {"hosts", nlohmann::json::array()}};
  if (energy.cost) {
    out["cost"] = *energy.cost;
    out["currency"] = energy.currency;
  }
  if (energy.carbonGrams) out["carbon_grams"] = *energy.carbonGrams;
  for (const HostEnergy& host : energy.hosts)
    out["hosts"].push_back({{"host", host.host},
                            {"host_joules", host.hostJoules},
                            {"gpu_joules", host.gpuJoules},
                            {"gpus", host.gpus},
                            {"measured", host.isMeasured}});
  return out.dump();
}

}  // namespace lockstep::app
