#include "app/runs/measure.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/core/rpc.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/specs/specs.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using nlohmann::json;

constexpr double kMostSeconds = 1e5;  // of a step, or a part of one
constexpr const char* kNotMeasured = "cannot measure what the plan costs";

std::string kept(const planner::CostModel& cost) {
  json out = {{"step_overhead", cost.stepOverheadSeconds},
              {"steps", cost.stepSeconds},
              {"collectives", json::array()}};
  for (const auto& one : cost.collectives)
    out["collectives"].push_back({one.kind, one.ranks, one.bytes, one.seconds});
  return out.dump();
}

bool canTake(double seconds) { return seconds >= 0 && seconds <= kMostSeconds; }

bool canBe(const planner::CostModel& cost) {
  return canTake(cost.stepOverheadSeconds) &&
         std::ranges::all_of(cost.stepSeconds,
                             [](const auto& one) { return canTake(one.second); }) &&
         std::ranges::all_of(cost.collectives, [](const auto& one) {
           return one.ranks >= 1 && one.ranks <= specs::kMaxRanks && one.bytes >= 0 &&
                  canTake(one.seconds);
         });
}

std::optional<planner::CostModel> read(const std::string& path) {
  const auto text = readFile(path, std::size_t{16} << 20);
  if (!text.ok()) return std::nullopt;
  try {
    const json in = json::parse(*text);
    planner::CostModel cost;
    cost.stepOverheadSeconds = in.at("step_overhead").get<double>();
    cost.stepSeconds = in.at("steps").get<std::map<std::string, double>>();
    for (const json& one : in.at("collectives")) {
      if (!one.at(1).is_number_integer() || !one.at(2).is_number_integer()) return std::nullopt;
      cost.collectives.push_back({one.at(0).get<std::string>(), one.at(1).get<int>(),
                                  one.at(2).get<std::int64_t>(), one.at(3).get<double>()});
    }
    return canBe(cost) ? std::optional(std::move(cost)) : std::nullopt;
  } catch (const json::exception&) {
    return std::nullopt;  // measured anew
  }
}

}  // namespace

Result<planner::CostModel> costsOf(const node::v1::MeasureReply& reply, const std::string& node) {
  planner::CostModel out;
  for (const auto& step : reply.steps()) out.stepSeconds[step.signature()] = step.seconds();
  for (const auto& one : reply.collectives())
    out.collectives.push_back({one.kind(), one.ranks(), one.bytes(), one.seconds()});
  out.stepOverheadSeconds = reply.step_overhead_seconds();
  if (canBe(out) && canTake(reply.step_seconds())) return out;
  return replyError(kNotMeasured, node);
}

Result<planner::CostModel> measureCosts(const Preview& preview, const LaunchRequest& request,
                                        NodeAccess& first, const NodeInventory& inventory,
                                        const std::map<std::string, std::string>& paths,
                                        const Home& home, Costs costs, std::stop_token stop) {
  const auto& devices = preview.cluster.devices;
  const bool oneHost = std::all_of(devices.begin(), devices.end(), [&](const auto& device) {
    return device.host == devices.front().host;
  });
  const std::string backend = specs::backendOn(devices.front().kind, request.spec->training());
  const auto table = paths.find("train.table");
  std::string indices;  // ranks may share a GPU
  for (const cluster::Device& device : devices) indices += fmt::format(" {}", device.index);
  const std::string key = sha256Hex(
      fmt::format("{} {} {} {} {} {} {} {}{}", inventory.bootId, inventory.agentVersion,
                  preview.planHash, backend, devices.front().threads, preview.comm, oneHost,
                  table == paths.end() ? "" : table->second, backend == "cuda" ? indices : ""));
  const std::string folder = home.root + "/measured";
  const std::string path = folder + "/" + key.substr(0, 32) + ".json";
  if (auto before = read(path)) return *before;
  if (costs == Costs::kEarlier)
    return makeError(Code::kNotFound, "this plan was not measured before");

  node::v1::MeasureRequest ask;
  ask.set_plan(preview.planText);
  ask.set_ranks(oneHost ? static_cast<int>(devices.size()) : 1);
  ask.set_backend(backend);
  ask.set_threads(devices.front().threads);
  ask.set_comm(oneHost && devices.size() > 1 ? preview.comm : "");
  for (const cluster::Device& device : devices) ask.add_devices(device.index);
  ask.set_link(preview.cluster.link.kind);
  ask.set_seconds(1.5);
  ask.set_events_every(request.eventsEvery);
  *ask.mutable_spec() = *request.spec;
  for (const auto& [name, file] : paths) (*ask.mutable_data_paths())[name] = file;
  LOCKSTEP_ASSIGN(const auto channel, first.agent());
  const auto stub = node::v1::Agent::NewStub(channel);
  grpc::ClientContext context;
  setLimit(context, std::chrono::seconds(60));
  const CancelOnStop cancel(context, stop);
  node::v1::MeasureReply reply;
  LOCKSTEP_TRY(rpcStatus(stub->Measure(&context, ask, &reply), kNotMeasured, first.name()));
  LOCKSTEP_ASSIGN(planner::CostModel cost, costsOf(reply, first.name()));
  if (reply.step_seconds() > 0)
    planner::calibrate(cost, preview.plan, preview.cluster, reply.step_seconds());
  if (!canBe(cost)) return replyError(kNotMeasured, first.name());
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  (void)writeFileAtomically(path, kept(cost));  // only saves time later
  return cost;
}

}  // namespace lockstep::app
