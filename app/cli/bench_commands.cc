// bench train, bench allreduce: played by the worker of a local agent.
#include <grpcpp/channel.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/local_agent.h"
#include "app/cli/terminal.h"
#include "app/core/rpc.h"
#include "app/runs/preview.h"
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
  if (arguments.has("algorithm")) sets.push_back("strategy.all_reduce=" + arguments.text("algorithm"));
  if (batch > 0) sets.push_back(fmt::format("training.batch={}", batch));
  LOCKSTEP_ASSIGN(const RunSpecFile spec,
                  loadRunSpec(modelFile(arguments.text("model", "fashion-mlp")), sets));
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
  auto preview = makePreview(out.request, hostsHere(*cluster));
  if (!preview.ok()) return placed(preview.error(), spec.yaml, spec.file, local.written, local.file);
  out.preview = std::move(*preview);
  return out;
}

}  // namespace

int benchTrainCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  return conclude(
      [&]() -> Status {
        LOCKSTEP_ASSIGN(const Bench bench, benchOf(globals, arguments));
        node::v1::BenchRequest request;
        *request.mutable_spec() = *bench.request.spec;
        request.set_plan(bench.preview.planText);
        request.set_ranks(bench.ranks);
        request.set_threads(bench.threads);
        request.set_seconds(bench.seconds);
        request.set_comm(bench.preview.comm);
        std::fprintf(stderr, "training %s for %.0f s: batch %lld, %d ranks of %d threads\n",
                     bench.request.spec->model().name().c_str(), bench.seconds,
                     static_cast<long long>(bench.preview.plan.globalBatch), bench.ranks,
                     bench.threads);
        node::v1::BenchReply reply;
        LOCKSTEP_TRY(
            onLocalAgent(globals, bench.request.cluster, "the benchmark", [&](NodeAccess& access, std::stop_token stop) -> Status {
              LOCKSTEP_ASSIGN(const auto channel, access.agent());
              const auto stub = node::v1::Agent::NewStub(channel);
              grpc::ClientContext context;
              setLimit(context, std::chrono::milliseconds(
                                    static_cast<std::int64_t>((bench.seconds + 90) * 1e3)));
              const CancelOnStop cancel(context, stop);
              return rpcStatus(stub->Bench(&context, request, &reply), "the benchmark failed",
                               access.name());
            }));
        if (json) {
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
          line.addRaw("windows", "[" + windows + "]").addRaw("ops", "[" + ops + "]");
          line.print();
          return {};
        }
        std::printf("%.0f samples/s, median of %d windows\n\n", reply.samples_per_second(),
                    reply.windows_size());
        Table table;
        table.header = {"op", "ms"};
        table.right = {false, true};
        std::vector<int> order(static_cast<std::size_t>(reply.ops_size()));
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
          return reply.ops(a).milliseconds() > reply.ops(b).milliseconds();
        });
        for (int i : order)
          table.rows.push_back(
              {reply.ops(i).name(), fmt::format("{:.4f}", reply.ops(i).milliseconds())});
        const std::string text = table.text();
        std::fwrite(text.data(), 1, text.size(), stdout);
        return {};
      }(),
      json);
}

int benchAllreduceCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  return conclude(
      [&]() -> Status {
        LOCKSTEP_ASSIGN(const Bench bench, benchOf(globals, arguments));
        if (bench.ranks < 2)
          return invalidArgument("--ranks {}: an all-reduce needs at least 2", bench.ranks);
        node::v1::MeasureRequest request;
        request.set_plan(bench.preview.planText);
        request.set_ranks(bench.ranks);
        request.set_backend(bench.request.spec->training().backend());
        request.set_threads(bench.threads);
        request.set_comm(bench.preview.comm);
        request.set_seconds(bench.seconds);
        node::v1::MeasureReply reply;
        LOCKSTEP_TRY(
            onLocalAgent(globals, bench.request.cluster, "the benchmark", [&](NodeAccess& access, std::stop_token stop) -> Status {
              LOCKSTEP_ASSIGN(const auto channel, access.agent());
              const auto stub = node::v1::Agent::NewStub(channel);
              grpc::ClientContext context;
              setLimit(context, std::chrono::milliseconds(
                                    static_cast<std::int64_t>((bench.seconds + 90) * 1e3)));
              const CancelOnStop cancel(context, stop);
              return rpcStatus(stub->Measure(&context, request, &reply), "the benchmark failed",
                               access.name());
            }));
        Table table;
        table.header = {"collective", "ranks", "size", "µs", "bus bandwidth"};
        table.right = {false, true, true, true, true};
        for (const auto& one : reply.collectives()) {
          if (one.kind().ends_with(" all-gather") || one.kind().ends_with(" all-to-all")) continue;
          const std::size_t space = one.kind().find(' ');
          const std::string algorithm = space == std::string::npos ? "direct" : one.kind().substr(space + 1);
          // Bytes each link carries: 2·(n−1)/n of the payload for an all-reduce.
          const double bus = one.seconds() > 0
                                 ? 2.0 * (one.ranks() - 1) / one.ranks() *
                                       static_cast<double>(one.bytes()) / one.seconds()
                                 : 0;
          if (json)
            JsonLine("bench")
                .add("kind", "all-reduce")
                .add("algorithm", algorithm)
                .add("comm", bench.preview.comm)
                .add("ranks", one.ranks())
                .add("bytes", std::int64_t{one.bytes()})
                .add("seconds", one.seconds())
                .add("bus_bytes_per_second", bus)
                .print();
          else
            table.rows.push_back({"all-reduce " + algorithm, fmt::format("{}", one.ranks()),
                                  bytesText(static_cast<double>(one.bytes())),
                                  fmt::format("{:.1f}", one.seconds() * 1e6), rateText(bus)});
        }
        if (!json) {
          const std::string text = table.text();
          std::fwrite(text.data(), 1, text.size(), stdout);
        }
        return {};
      }(),
      json);
}

}  // namespace lockstep::app::cli
