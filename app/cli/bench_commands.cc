// bench train, bench collective, bench gemm, bench memory: run by the worker of a local agent.
#include <grpcpp/channel.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/launch_request.h"
#include "app/cli/local_agent.h"
#include "app/cli/profile.h"
#include "app/cli/terminal.h"
#include "app/core/rpc.h"
#include "app/runs/preview.h"
#include "engine/base/file.h"
#include "engine/base/statistics.h"
#include "engine/planner/pricing.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

struct Bench {
  LaunchRequest request;
  Preview preview;
  int ranks = 1, threads = 1;
  double seconds = 5;
};

Result<Bench> benchOf(const Globals& globals, const Arguments& arguments) {
  Bench out;
  LOCKSTEP_ASSIGN(const std::int64_t ranks, arguments.integer("ranks", 1, 1, 64));
  LOCKSTEP_ASSIGN(const std::int64_t threads, arguments.integer("threads", 1, 1, 1024));
  LOCKSTEP_ASSIGN(out.seconds, arguments.number("seconds", 5, 0.1, 600));
  LOCKSTEP_ASSIGN(const std::int64_t batch, arguments.integer("batch", 0, 1, 1'000'000'000));
  out.ranks = static_cast<int>(ranks);
  out.threads = static_cast<int>(threads);
  std::vector<std::string> sets = arguments.all("set");
  if (batch > 0) sets.push_back(fmt::format("training.batch={}", batch));
  LOCKSTEP_ASSIGN(const RunSpecFile spec,
                  loadRunSpec(modelFile(arguments.text("model", "fashion-mlp")), sets));
  LOCKSTEP_TRY(mustHaveModel(spec));
  const std::string comm = arguments.text("comm", "shm");
  // One node holds all ranks, whatever they talk through.
  const ClusterSpecFile local = localCluster(out.ranks, globals.home.root + "/local", "shm");
  auto cluster = std::make_shared<spec::v1::ClusterSpec>(*local.spec);
  cluster->set_comm(comm);
  for (auto& device : *cluster->mutable_nodes(0)->mutable_devices())
    device.set_threads(out.threads);
  out.request.spec = spec.spec;
  out.request.cluster = cluster;
  out.request.specYaml = spec.yaml;
  out.request.comm = comm;
  auto preview = [&]() -> Result<Preview> {
    const std::vector<HostFacts> hosts = hostsHere(*cluster);
    LOCKSTEP_ASSIGN(out.request, withStrategy(std::move(out.request), spec, hosts, arguments));
    return makePreview(out.request, hosts);
  }();
  if (!preview.ok()) return withSourceLocation(preview.error(), spec, local.written, local.file);
  if (!out.request.chosen.empty()) put(stderr, out.request.chosen.text() + "\n");
  out.preview = std::move(*preview);
  return out;
}

Result<node::v1::BenchReply> benchmarked(const Globals& globals,
                                         std::shared_ptr<const spec::v1::ClusterSpec> cluster,
                                         const node::v1::BenchRequest& request) {
  constexpr double kBesides = 90;  // seconds to start and to end
  node::v1::BenchReply reply;
  LOCKSTEP_TRY(onLocalAgent(globals, std::move(cluster), "the benchmark",
                            [&](NodeAccess& access, std::stop_token stop) -> Status {
                              LOCKSTEP_ASSIGN(const auto channel, access.agent());
                              const auto stub = node::v1::Agent::NewStub(channel);
                              grpc::ClientContext context;
                              setLimit(context, std::chrono::milliseconds(static_cast<std::int64_t>(
                                                    (request.seconds() + kBesides) * 1e3)));
                              const CancelOnStop cancel(context, stop);
                              return rpcStatus(stub->Bench(&context, request, &reply),
                                               "the benchmark failed", access.name());
                            }));
  return reply;
}

// A step as it is, with barriers alone, and with no communication: medians of rounds, and those of
// the shares that they are of the first in their round.
void sayCommunication(const Bench& bench, const node::v1::BenchReply::Communication& rounds,
                      bool json) {
  struct Way {
    const char *name, *said;
    const google::protobuf::RepeatedField<double>& seconds;
  };
  const std::array ways{Way{"real", "communication", rounds.real()},
                        Way{"barrier", "barriers alone", rounds.barrier()},
                        Way{"none", "none", rounds.none()}};
  const auto share = [&](const Way& way) {
    std::vector<double> shares;
    for (int i = 0; i < std::min(way.seconds.size(), rounds.real_size()); ++i)
      shares.push_back(way.seconds[i] / rounds.real(i));
    return median(std::move(shares));
  };
  JsonLine line("bench");
  line.add("model", bench.request.spec->model().name())
      .add("batch", bench.preview.plan.globalBatch);
  line.add("ranks", bench.ranks).add("threads", bench.threads).add("comm", bench.preview.comm);
  line.add("rounds", rounds.real_size());
  Table table;
  table.header = {"between ranks", "ms a step", "÷ communication"};
  table.right = {false, true, true};
  for (const Way& way : ways) {
    const double seconds = median({way.seconds.begin(), way.seconds.end()});
    line.add(fmt::format("{}_seconds", way.name), seconds)
        .add(fmt::format("{}_share", way.name), share(way));
    table.rows.push_back({way.said, fmt::format("{:.4f}", seconds * 1e3),
                          fmt::format("{:.1f} %", share(way) * 1e2)});
  }
  if (json) {
    line.print();
    return;
  }
  put(stdout, fmt::format("medians of {} rounds\n\n{}", rounds.real_size(), table.text()));
}

// What was measured is told before the trace is written: a file that cannot be written does not
// take it along.
Status writeTrace(const Bench& bench, const node::v1::BenchReply& reply,
                  const std::string& profile) {
  if (profile.empty()) return {};
  return writeFileAtomically(
      profile, chromeTrace(bench.preview.plan, {reply.steps().begin(), reply.steps().end()}));
}

void printTrainingJson(const Bench& bench, const node::v1::BenchReply& reply) {
  std::string windows, ops;
  for (double window : reply.windows())
    windows += (windows.empty() ? "" : ",") + fmt::format("{:.9g}", window);
  for (const auto& op : reply.ops()) {
    JsonLine line;
    line.add("name", op.name()).add("milliseconds", op.milliseconds());
    ops += (ops.empty() ? "" : ",") + line.text();
  }
  JsonLine line("bench");
  line.add("model", bench.request.spec->model().name());
  line.add("batch", bench.preview.plan.globalBatch).add("ranks", bench.ranks);
  line.add("threads", bench.threads).add("comm", bench.preview.comm);
  line.add("seconds", bench.seconds).add("samples_per_second", reply.samples_per_second());
  line.addRaw("tokens_per_second", "null");  // no model here reads tokens
  line.add("flops_per_second", reply.flops_per_second())
      .add("bytes_per_second", reply.bytes_per_second());
  line.addRaw("windows", "[" + windows + "]").addRaw("ops", "[" + ops + "]");
  line.print();
}

void printSlowestOps(const node::v1::BenchReply& reply) {
  Table table;
  table.header = {"op", "ms"};
  table.right = {false, true};
  std::vector<int> order(static_cast<std::size_t>(reply.ops_size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return reply.ops(a).milliseconds() > reply.ops(b).milliseconds();
  });
  for (int i : order)
    table.rows.push_back({reply.ops(i).name(), fmt::format("{:.4f}", reply.ops(i).milliseconds())});
  put(stdout, table.text());
}

Status printTraining(const Bench& bench, const node::v1::BenchReply& reply,
                     const std::string& profile) {
  put(stdout, fmt::format("{:.0f} samples/s, median of {} windows\n\n", reply.samples_per_second(),
                          reply.windows_size()));
  if (profile.empty() || reply.steps_size() == 0) {
    printSlowestOps(reply);
    return writeTrace(bench, reply, profile);
  }
  const MachineLimits limits{reply.flops_per_second(), reply.bytes_per_second()};
  const std::string text = profileTable(bench.preview.plan, reply.steps(0), limits).text();
  put(stdout,
      fmt::format("a step of rank 0; limits in this run: a product of 1024³ {:.1f} GFLOP/s, adding "
                  "large arrays {:.1f} GB/s\n{}\n",
                  limits.flopsPerSecond * 1e-9, limits.bytesPerSecond * 1e-9, text));
  LOCKSTEP_TRY(writeTrace(bench, reply, profile));
  put(stdout, fmt::format("all ranks' step is in {}, for chrome://tracing or Perfetto\n", profile));
  return {};
}

Status benchTrain(const Globals& globals, const Arguments& arguments, bool json) {
  LOCKSTEP_ASSIGN(const Bench bench, benchOf(globals, arguments));
  node::v1::BenchRequest request;
  *request.mutable_spec() = *bench.request.spec;
  request.set_plan(bench.preview.planText);
  request.set_ranks(bench.ranks);
  request.set_threads(bench.threads);
  request.set_seconds(bench.seconds);
  request.set_comm(bench.preview.comm);
  request.set_communication(arguments.has("communication"));
  if (request.communication() && arguments.has("profile"))
    return invalidArgument(
        "--communication and --profile are two measurements, expected one of them");
  std::fprintf(stderr, "training %s for %g s: batch %lld, %d ranks of %d threads\n",
               bench.request.spec->model().name().c_str(), bench.seconds,
               static_cast<long long>(bench.preview.plan.globalBatch), bench.ranks, bench.threads);
  LOCKSTEP_ASSIGN(const node::v1::BenchReply reply,
                  benchmarked(globals, bench.request.cluster, request));
  if (request.communication()) {
    sayCommunication(bench, reply.communication(), json);
    return {};
  }
  const std::string profile = arguments.text("profile", "");
  if (!json) return printTraining(bench, reply, profile);
  printTrainingJson(bench, reply);
  return writeTrace(bench, reply, profile);
}

}  // namespace

int benchTrainCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  return conclude(benchTrain(globals, arguments, json), json);
}

namespace {

struct CollectiveTerms {
  std::string_view name;
  std::optional<ir::Op> op;  // none: nothing is sent
};
constexpr CollectiveTerms kCollectives[] = {
    {"all-reduce", ir::Op::kAllReduce}, {"reduce-scatter", ir::Op::kReduceScatter},
    {"all-gather", ir::Op::kAllGather}, {"broadcast", ir::Op::kBroadcast},
    {"all-to-all", ir::Op::kAllToAll},  {"send-recv", ir::Op::kSend},
    {"barrier", std::nullopt},
};

const CollectiveTerms* collectiveNamed(std::string_view name) {
  for (const CollectiveTerms& one : kCollectives)
    if (one.name == name) return &one;
  return nullptr;
}

Result<node::v1::CollectiveBench> collectivesAsked(const Arguments& arguments) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  node::v1::CollectiveBench out;
  for (const std::string& word : arguments.words()) {
    if (collectiveNamed(word) == nullptr) {
      std::string names;
      for (const CollectiveTerms& one : kCollectives)
        names += (names.empty() ? "" : ", ") + std::string(one.name);
      return invalidArgument("no collective is named '{}', expected {}", word, names);
    }
    out.add_kinds(word);
  }
  if (out.kinds().empty())
    for (const CollectiveTerms& one : kCollectives) out.add_kinds(std::string(one.name));
  LOCKSTEP_ASSIGN(const std::int64_t least, arguments.byteSize("min", 4 << 10, 4, kMost));
  LOCKSTEP_ASSIGN(const std::int64_t most,
                  arguments.byteSize("max", std::max<std::int64_t>(least, 64 << 20), least, kMost));
  out.set_min_bytes(least);
  out.set_max_bytes(most);
  out.set_algorithm(arguments.text("algorithm", "direct"));
  const std::vector<std::string> algorithms{"direct", "ring", "halving-doubling", "tree"};
  if (std::find(algorithms.begin(), algorithms.end(), out.algorithm()) == algorithms.end())
    return invalidArgument("--algorithm is '{}', expected direct, ring, halving-doubling or tree",
                           out.algorithm());
  return out;
}

}  // namespace

int benchCollectiveCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  return conclude(
      [&]() -> Status {
        node::v1::BenchRequest request;
        LOCKSTEP_ASSIGN(*request.mutable_collectives(), collectivesAsked(arguments));
        LOCKSTEP_ASSIGN(const std::int64_t ranks, arguments.integer("ranks", 2, 2, 64));
        LOCKSTEP_ASSIGN(const double seconds, arguments.number("seconds", 5, 0.1, 600));
        const std::string comm = arguments.text("comm", "shm");
        if (comm != "shm" && comm != "gloo")
          return invalidArgument("--comm is '{}', expected shm or gloo", comm);
        request.set_ranks(static_cast<int>(ranks));
        request.set_threads(1);
        request.set_seconds(seconds);
        request.set_comm(comm);
        const ClusterSpecFile local =
            localCluster(static_cast<int>(ranks), globals.home.root + "/local", "shm");
        LOCKSTEP_ASSIGN(const node::v1::BenchReply reply,
                        benchmarked(globals, local.spec, request));
        Table table;
        table.header = {"collective", "size", "µs", "algbw", "busbw"};
        table.right = {false, true, true, true, true};
        for (const auto& one : reply.collectives()) {
          const double algorithmic =
              one.seconds() > 0 ? static_cast<double>(one.bytes()) / one.seconds() : 0;
          const CollectiveTerms* terms = collectiveNamed(one.kind());
          const std::optional<ir::Op> op = terms == nullptr ? std::nullopt : terms->op;
          const double bus = op ? algorithmic * planner::sentShare(*op, one.ranks()) : 0;
          const bool sized = one.bytes() > 0;
          if (json) {
            JsonLine line("bench");
            line.add("kind", one.kind()).add("comm", comm).add("ranks", one.ranks());
            if (one.kind() == "all-reduce")
              line.add("algorithm", request.collectives().algorithm());
            line.add("bytes", std::int64_t{one.bytes()}).add("seconds", one.seconds());
            if (sized)
              line.add("algorithm_bytes_per_second", algorithmic).add("bus_bytes_per_second", bus);
            line.print();
          } else {
            table.rows.push_back({one.kind(),
                                  sized ? bytesText(static_cast<double>(one.bytes())) : "",
                                  fmt::format("{:.1f}", one.seconds() * 1e6),
                                  sized ? rateText(algorithmic) : "", sized ? rateText(bus) : ""});
          }
        }
        if (!json) {
          const std::string text = table.text();
          put(stdout, text);
        }
        return {};
      }(),
      json);
}

namespace {

// Sizes from `least` to `most` where nothing is said, and to `limit` at most.
int benchSpeed(const Globals& globals, const Arguments& arguments,
               const node::v1::SpeedBench& asked, std::int64_t least, std::int64_t most,
               std::int64_t limit) {
  watchInterrupts();
  const bool json = arguments.has("json"), products = asked.kind() == "gemm";
  return conclude(
      [&]() -> Status {
        node::v1::BenchRequest request;
        node::v1::SpeedBench& speed = *request.mutable_speed();
        speed = asked;
        const auto size = [&](const char* flag, std::int64_t fallback, std::int64_t low) {
          return products ? arguments.integer(flag, fallback, low, limit)
                          : arguments.byteSize(flag, fallback, low, limit);
        };
        LOCKSTEP_ASSIGN(least, size("min", least, 4));
        LOCKSTEP_ASSIGN(most, size("max", std::max(least, most), least));
        constexpr std::array<std::string_view, 4> kPrecisions{"fp32", "tf32", "bf16", "fp16"};
        for (const std::string& one : speed.precisions())
          if (std::find(kPrecisions.begin(), kPrecisions.end(), one) == kPrecisions.end())
            return invalidArgument("no precision is named '{}', expected {}", one,
                                   fmt::join(kPrecisions, ", "));
        speed.set_min(least);
        speed.set_max(most);
        speed.set_backend(arguments.text("backend", "onednn"));
        if (speed.backend() != "onednn" && speed.backend() != "reference" &&
            speed.backend() != "cuda")
          return invalidArgument("--backend is '{}', expected onednn, reference or cuda",
                                 speed.backend());
        LOCKSTEP_ASSIGN(const std::int64_t threads, arguments.integer("threads", 1, 1, 1024));
        LOCKSTEP_ASSIGN(const double seconds, arguments.number("seconds", 5, 0.1, 600));
        request.set_ranks(1);
        request.set_threads(static_cast<int>(threads));
        request.set_seconds(seconds);
        const ClusterSpecFile local = localCluster(1, globals.home.root + "/local", "shm");
        LOCKSTEP_ASSIGN(const node::v1::BenchReply reply,
                        benchmarked(globals, local.spec, request));
        Table table;
        table.header = {products ? "factors" : "memory", products ? "side" : "array", "µs",
                        products ? "GFLOP/s" : "rate"};
        table.right = {false, true, true, true};
        for (const auto& one : reply.speeds()) {
          const bool measured = one.why_not().empty();
          const double rate = measured && one.seconds() > 0 ? one.work() / one.seconds() : 0;
          if (json) {
            JsonLine line("bench");
            line.add("name", one.name()).add(products ? "side" : "bytes", std::int64_t{one.size()});
            line.add("threads", threads).add("backend", speed.backend());
            if (measured)
              line.add("seconds", one.seconds())
                  .add(products ? "flops_per_second" : "bytes_per_second", rate);
            else
              line.add("why_not", one.why_not());
            line.print();
            continue;
          }
          table.rows.push_back(
              {one.name(),
               products ? fmt::format("{}", one.size())
                        : bytesText(static_cast<double>(one.size())),
               measured ? fmt::format("{:.1f}", one.seconds() * 1e6) : one.why_not(),
               !measured  ? ""
               : products ? fmt::format("{:.1f}", rate * 1e-9)
                          : rateText(rate)});
        }
        if (!json) put(stdout, table.text());
        return {};
      }(),
      json);
}

}  // namespace

int benchGemmCommand(const Globals& globals, const Arguments& arguments) {
  node::v1::SpeedBench asked;
  asked.set_kind("gemm");
  for (const std::string& one : arguments.words()) asked.add_precisions(one);
  if (asked.precisions().empty())
    for (const char* one : {"fp32", "bf16"}) asked.add_precisions(one);
  return benchSpeed(globals, arguments, asked, 128, 2048, 1 << 15);
}

int benchMemoryCommand(const Globals& globals, const Arguments& arguments) {
  node::v1::SpeedBench asked;
  asked.set_kind("memory");
  return benchSpeed(globals, arguments, asked, 16 << 10, 64 << 20, std::int64_t{1} << 34);
}

}  // namespace lockstep::app::cli
