#include "app/sinks/otlp.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "app/history/run_csv.h"
#include "app/history/series_name.h"
#include "engine/base/utf8.h"

namespace lockstep::app {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPointsOfRequest = 2000;
constexpr double kMostSeconds = 9e9;  // that 64 bits of nanoseconds hold

Json attribute(const char* key, const std::string& value) {
  return {{"key", key}, {"value", {{"stringValue", validUtf8(value)}}}};
}
Json attribute(const char* key, int value) {  // 64-bit numbers are texts in Protobuf's JSON
  return {{"key", key}, {"value", {{"intValue", std::to_string(value)}}}};
}

struct Metric {
  std::string name;
  Json attributes;
};
Metric metricOf(const std::string& series, const SeriesName& name) {
  constexpr std::string_view kReported = "scalar/";
  const auto with = [](std::string metric, std::initializer_list<Json> attributes) {
    return Metric{std::move(metric), Json(std::vector<Json>(attributes))};
  };
  if (name.rank >= 0) return with("lockstep.rank." + name.figure, {attribute("rank", name.rank)});
  if (name.node.empty() && series.starts_with(kReported))
    return with("lockstep.scalar", {attribute("tag", series.substr(kReported.size()))});
  if (name.node.empty()) return with("lockstep.run." + series, {});
  const Json node = attribute("node", name.node);
  if (name.gpu >= 0) return with("lockstep.gpu." + name.figure, {node, attribute("gpu", name.gpu)});
  if (!name.to.empty())
    return with("lockstep.link." + name.figure, {node, attribute("to", name.to)});
  return with("lockstep.node." + name.figure, {node});
}

Json valueOf(double y) {
  if (std::isnan(y)) return "NaN";
  if (std::isinf(y)) return y > 0 ? "Infinity" : "-Infinity";
  return y;
}

Json resourceOf(const RunRow& row) {
  return {
      {"attributes",
       {attribute("service.name", "lockstep"), attribute("lockstep.run", row.run),
        attribute("lockstep.model", row.name), attribute("lockstep.cluster", row.clusterName)}}};
}

}  // namespace

struct OtlpRequests::State {
  Json resource;
  Json metrics = Json::array();  // of the next request
  std::size_t points = 0;        // in them
  std::vector<Request> done;
};

OtlpRequests::OtlpRequests(const RunRow& row) : state_(std::make_unique<State>()) {
  state_->resource = resourceOf(row);
}
OtlpRequests::~OtlpRequests() = default;

void OtlpRequests::close() {
  State& state = *state_;
  if (state.points == 0) return;
  const Json scope = {{"scope", {{"name", "lockstep"}}},
                      {"metrics", std::exchange(state.metrics, Json::array())}};
  const Json all = {{"resource", state.resource}, {"scopeMetrics", Json::array({scope})}};
  state.done.push_back(
      {Json{{"resourceMetrics", Json::array({all})}}.dump(), std::exchange(state.points, 0)});
}

void OtlpRequests::add(const std::string& series, std::span<const Point> points,
                       const StepTimes& times) {
  State& state = *state_;
  const Metric metric = metricOf(series, parseSeriesName(series));
  const SeriesAxis axis = seriesAxis(series);
  Json some = Json::array();
  const auto note = [&] {
    if (some.empty()) return;
    state.metrics.push_back({{"name", validUtf8(metric.name)},
                             {"gauge", {{"dataPoints", std::exchange(some, Json::array())}}}});
  };
  for (const auto& [x, y] : points) {
    const double seconds = times.ofPoint(axis, x);
    if (!(seconds > 0 && seconds < kMostSeconds)) continue;
    some.push_back({{"timeUnixNano", std::to_string(std::llround(seconds * 1e9))},
                    {"asDouble", valueOf(y)},
                    {"attributes", metric.attributes}});
    if (++state.points < kPointsOfRequest) continue;
    note();
    close();
  }
  note();
}

std::vector<OtlpRequests::Request> OtlpRequests::take() {
  close();
  return std::exchange(state_->done, {});
}

Result<std::string> otlpOfRun(const History& history, const std::string& run) {
  LOCKSTEP_ASSIGN(const RunRow row, history.row(run));
  LOCKSTEP_ASSIGN(const auto store, history.openRun(run));
  OtlpRequests requests(row);
  std::map<int, StepTimes> times;  // by rank
  std::string out;
  for (const SeriesInfo& info : store->series()) {
    const SeriesName name = parseSeriesName(info.name);
    if (name.rank >= 0 && name.figure == "began") continue;  // the times themselves
    const int rank = std::max(name.rank, 0);
    if (!times.contains(rank)) {
      LOCKSTEP_ASSIGN(times[rank], StepTimes::of(row, *store, rank));
    }
    LOCKSTEP_ASSIGN(const std::vector<Point> points, store->readAll(info.name));
    requests.add(info.name, points, times[rank]);
    for (const OtlpRequests::Request& request : requests.take()) out += request.json + "\n";
  }
  return out;
}

}  // namespace lockstep::app
