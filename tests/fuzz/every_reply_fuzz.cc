// What the client takes from each reply of a node, for every method of the services of agent and
// supervisor: a new one without its line in replies() fails here. Frames: a reply of each method,
// in the order of the services; empty frames are left out.
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "app/cluster/all_reduce_bench.h"
#include "app/cluster/kept_items.h"
#include "app/cluster/node.h"
#include "app/cluster/node_debug.h"
#include "app/cluster/peer_addresses.h"
#include "app/cluster/preflight.h"
#include "app/runs/artifacts.h"
#include "app/runs/data_calls.h"
#include "app/runs/launch_calls.h"
#include "app/runs/launch_data.h"
#include "app/runs/measure.h"
#include "app/runs/preview.h"
#include "app/runs/rank_debug.h"
#include "app/runs/run_aggregator.h"
#include "app/runs/run_nodes.h"
#include "app/runs/step_events.h"
#include "app/runs/step_matrix.h"
#include "app/runs/step_timeline.h"
#include "app/specs/spec_text.h"
#include "engine/base/below.h"
#include "engine/specs/error_info.h"
#include "engine/specs/protocol.h"
#include "engine/specs/specs.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"
#include "tests/support/paths.h"

namespace lockstep::fuzz {
namespace {

using namespace node::v1;
using AnyMessage = google::protobuf::Message;
using run::v1::NodeSample;
using run::v1::Record;

bool isAmount(double value) { return std::isfinite(value) && value >= 0; }

// Of a run of two ranks on this machine.
const app::Preview& preview() {
  static const app::Preview made = [] {
    app::LaunchRequest request;
    const auto spec =
        app::loadRunSpec(lockstep::test::sourcePath("resources/examples/fashion-mlp.yaml"), {});
    LOCKSTEP_CHECK(spec.ok(), "{}", spec.error().text());
    request.spec = spec->spec;
    request.cluster = app::localCluster(2, "/nowhere", "shm").spec;
    auto out = app::makePreview(request, {});
    LOCKSTEP_CHECK(out.ok(), "{}", out.error().text());
    return std::move(*out);
  }();
  return made;
}

// ---- of the agent

void speak(const specs::Protocols& theirs) {
  const specs::Protocols own = specs::ownProtocols("test");
  const auto common = specs::commonProtocol("the agent", theirs, own);
  LOCKSTEP_CHECK(!common.ok() || (*common >= own.oldest && *common <= own.newest), "{}", *common);
  for (const specs::Feature& feature : specs::features())
    (void)specs::checkFeature("the agent", theirs, feature.name);
}
void take(const HandshakeReply& reply) {
  constexpr Nanoseconds kAsked = 1'700'000'000'000'000'000;
  const app::NodeInventory node = app::inventoryOf(reply, kAsked, kAsked + 1'000'000);
  LOCKSTEP_CHECK(node.cores >= 0 && node.memoryBytes >= 0 && node.memoryAvailable >= 0 &&
                 node.diskFreeBytes >= 0);
  for (const std::int64_t bytes : app::gpuMemory(node.gpus)) LOCKSTEP_CHECK(bytes >= 0);
  speak(node.agentSpeaks);
  for (const bool oneHost : {false, true})
    (void)app::addressCandidates(spec::v1::NodeSpec(), node, oneHost);
  LOCKSTEP_CHECK(app::onOneHost({&node, &node}));
}
void take(const NodeSample& sample) {
  const app::NodeLoad load = app::loadOf(sample);
  LOCKSTEP_CHECK(load.cpu >= 0 && load.cpu <= 1 && isAmount(load.load1));
  for (const double bytes : {load.memoryUsed, load.memoryTotal, load.networkIn, load.networkOut,
                             load.loopback, load.diskRead, load.diskWrite, load.diskFree})
    LOCKSTEP_CHECK(bytes >= 0 && bytes <= 1e18, "{}", bytes);
  for (const app::GpuLoad& gpu : load.gpus) {
    LOCKSTEP_CHECK(std::isfinite(gpu.temperature.value_or(0)));
    LOCKSTEP_CHECK(std::isfinite(gpu.utilisation.value_or(0)));
    for (const app::GpuTrouble trouble : app::troublesOf(gpu))
      LOCKSTEP_CHECK(!app::troubleText(gpu, trouble).empty());
  }
}
template <typename Reply>
void follow(const Reply& reply) {
  if (!reply.has_progress()) return;
  const app::DataActivity activity = app::activityOf(reply.progress(), "n1");
  LOCKSTEP_CHECK(activity.bytesDone >= 0 && activity.bytesTotal >= 0);
  (void)activity.text();
}
void take(const PrepareReply& reply) {
  follow(reply);
  app::Participants nodes(2);
  nodes[0].name = "n1";
  nodes[1].name = "n2";
  nodes[0].paths = {{"train.images", "/data/images"}};
  nodes[1].paths = nodes[0].paths;
  nodes[1].data = {{"train.images", "aa"}};
  nodes[1].versions = {{"torch", "2.3"}};
  app::takeFound(reply, nodes[0]);
  for (int i = 0; i < 2; ++i) {
    (void)app::checkSameData(nodes, {{"train.images", "aa"}, {"train.labels", "bb"}});
    (void)app::checkSameVersions(nodes);
    std::swap(nodes[0], nodes[1]);
  }
}
void take(const FindFileReply& reply) { follow(reply); }
void take(const FetchFileReply& reply) { follow(reply); }
void take(const ListenForPeersReply& reply) {
  const auto listeners = app::listenersOf(reply, 2, "n1");
  if (!listeners.ok()) return;
  LOCKSTEP_CHECK(listeners->size() == 2);
  for (const app::PeerListener& one : *listeners)
    LOCKSTEP_CHECK(!one.problem.empty() || (one.port >= 1 && one.port <= 65535), "{}", one.port);
}
void take(const ReachPeersReply& reply) { LOCKSTEP_CHECK(app::outcomesOf(reply, 3).size() == 3); }
void take(const RunOnNode& run) {
  speak(specs::fromProto(run.speaks()));
  (void)specs::stateName(run.state());
  (void)specs::isFinal(run.state());
}
void take(const ListRunsReply& reply) {
  for (const RunOnNode& run : reply.runs()) take(run);
}
void take(const MeasureReply& reply) {
  auto cost = app::costsOf(reply, "n1");
  if (!cost.ok()) return;
  if (reply.step_seconds() > 0)
    planner::calibrate(*cost, preview().plan, preview().cluster, reply.step_seconds());
}
void grade(app::PreflightResult result) {
  for (const app::PreflightValue& one : result.values)
    LOCKSTEP_CHECK(isAmount(one.value), "{}", one.value);
  const app::PreflightResult earlier = result;
  for (const auto& before : {std::vector<app::PreflightResult>{}, {earlier, earlier}}) {
    app::grade(result, before, 1);
    for (const app::PreflightValue& one : result.values)
      LOCKSTEP_CHECK(!app::weakText(one).empty());
  }
}
void take(const MeasurePeerReply& reply) { grade(app::linkOf(reply, "n1", "n2")); }
void take(const BenchReply& reply) {
  using Kind = app::PreflightValue::Kind;
  for (const Kind kind : {Kind::kMatmul, Kind::kMemory, Kind::kDiskWrite, Kind::kGpuMatmul})
    grade(app::speedsOf(reply, kind, "n1"));
}
void take(const BenchTogetherReply& reply) {
  const auto seconds = app::allReduceSecondsOf(reply);
  LOCKSTEP_CHECK(!seconds.ok() || (*seconds > 0 && std::isfinite(1 / *seconds)));
}
void take(const WorkdirItem& item) {
  app::CollectedGarbage node{{app::keptItem(item)}, {}};
  LOCKSTEP_CHECK(node.items[0].bytes >= 0 && node.items[0].idleSeconds >= 0);
  app::keepRunsUnderWay({&node, &node});
}
void take(const ListProcessesReply& reply) {
  const app::NodeProcesses list = app::processesOf(reply);
  LOCKSTEP_CHECK(std::isfinite(list.seconds));
  for (const app::NodeProcess& one : list.processes)
    LOCKSTEP_CHECK(isAmount(one.cores) && isAmount(one.ageSeconds) && one.memoryBytes >= 0 &&
                   one.threads >= 0 && one.rank >= -1);
}
void take(const ReadKernelLogReply& reply) {
  for (const app::KernelLine& line : app::kernelLinesOf(reply))
    LOCKSTEP_CHECK(line.level >= 0 && !app::kernelLevelName(line.level).empty());
}

// ---- of the supervisor

// What comes of its events and series; the target records has what becomes of the run's row.
void take(const Record& record) {
  app::RunRow row;
  row.run = "r";
  row.world = 2;
  row.phase = app::RunState::RUNNING;
  app::RunAggregator aggregator(row, {{"n1", 0}, {"n2", 0}});
  for (const char* node : {"n1", "n2"}) aggregator.add(node, record);
  const app::RunBatch batch = aggregator.take().batch;
  app::StepMatrix matrix(std::size_t{1} << 16);
  for (const auto& series : batch.series) matrix.add(series);
  LOCKSTEP_CHECK(matrix.ranks() <= specs::kMaxRanks, "{}", matrix.ranks());
  std::vector<plan::Event> events;
  for (const app::SpanEvents& packed : batch.events) {
    run::v1::EventChunk chunk;
    LOCKSTEP_CHECK(chunk.ParseFromString(packed.packed));
    const auto more = app::eventsOf(chunk, packed.step);
    events.insert(events.end(), more.begin(), more.end());
  }
  const app::StepTimeline timeline = app::makeTimeline(preview().plan, events);
  LOCKSTEP_CHECK(timeline.length >= 0);
  for (const auto& lane : timeline.lanes)
    for (const app::TimelineSpan& span : lane.spans)
      LOCKSTEP_CHECK(span.length() > 0 && span.name < std::ssize(timeline.names) &&
                     span.collective < std::ssize(timeline.collectives));
}
void take(const ProfileReply& reply) {
  const app::RunAnswer answer = app::answerOf(reply);
  LOCKSTEP_CHECK(answer.firstStep >= 0 && answer.steps >= 0 &&
                 answer.firstStep + answer.steps >= answer.firstStep);
}
void take(const ListArtifactsReply& reply) {
  for (const Artifact& file : reply.files())
    if (app::whyLeftOut(file).empty())
      LOCKSTEP_CHECK(file.bytes() >= 0 && whyNotBelow(file.path()).empty());
}
void take(const ReadRankStacksReply& reply) {
  const app::RankStacks stacks = app::stacksOf(reply);
  LOCKSTEP_CHECK(isAmount(stacks.longestStop()));
  (void)app::stacksText(stacks);
}
void take(const DebugRankReply& reply) {
  LOCKSTEP_CHECK(isAmount(app::newsOf(reply).patienceSeconds));
}

// ---- the table

struct Reply {
  const AnyMessage* empty = nullptr;
  std::function<void(const AnyMessage&)> take = {};
};

template <typename Type>
Reply read() {
  return {&Type::default_instance(),
          [](const AnyMessage& message) { take(static_cast<const Type&>(message)); }};
}
// Its texts and bytes go on as they are, it comes from this machine, or another target has it.
template <typename Type>
Reply unread() {
  return {&Type::default_instance(), [](const AnyMessage&) {}};
}
// There is nothing to read.
template <typename Type>
Reply empty() {
  LOCKSTEP_CHECK(Type::descriptor()->field_count() == 0, "{}", Type::descriptor()->name());
  return unread<Type>();
}

std::vector<Reply> replies() {
  return {
      read<HandshakeReply>(),
      read<NodeSample>(),
      read<PrepareReply>(),
      read<FindFileReply>(),
      unread<StageFileReply>(),  // a path on the node
      read<FetchFileReply>(),
      unread<SetUpReply>(),  // lines
      read<ListenForPeersReply>(),
      read<ReachPeersReply>(),
      unread<ListenForMeasurementsReply>(),  // a port and a key, for another node
      read<MeasurePeerReply>(),
      read<ListRunsReply>(),
      read<RunOnNode>(),
      empty<RemoveRunReply>(),
      read<MeasureReply>(),
      read<BenchReply>(),
      read<BenchTogetherReply>(),
      unread<VerifyReply>(),  // of this machine's agent
      read<WorkdirItem>(),
      unread<WorkdirRemoval>(),  // a message: target message
      read<ListProcessesReply>(),
      read<ReadKernelLogReply>(),
      empty<CommitReply>(),
      read<Record>(),
      empty<StopReply>(),
      empty<CheckpointReply>(),
      empty<ExcludeReply>(),
      empty<RestartReply>(),
      empty<RebalanceReply>(),
      read<ProfileReply>(),
      empty<KillReply>(),
      unread<FetchChunk>(),  // bytes, with their hash
      read<ListArtifactsReply>(),
      read<ReadRankStacksReply>(),
      read<DebugRankReply>(),
      unread<ToPeer>(),  // target peer_messages
  };
}

// In the order of the services' methods, each of which has one.
const std::vector<Reply>& table() {
  static const std::vector<Reply> all = [] {
    std::map<std::string, Reply> byType;
    for (Reply& one : replies()) byType[one.empty->GetTypeName()] = std::move(one);
    std::vector<Reply> out;
    std::set<std::string> seen;
    const auto& file = *PrepareRequest::descriptor()->file();
    for (int i = 0; i < file.service_count(); ++i)
      for (int j = 0; j < file.service(i)->method_count(); ++j) {
        const auto& method = *file.service(i)->method(j);
        const auto found = byType.find(std::string(method.output_type()->full_name()));
        LOCKSTEP_CHECK(found != byType.end(), "nothing is said of the reply of {}",
                       method.full_name());
        out.push_back(found->second);
        seen.insert(found->first);
      }
    LOCKSTEP_CHECK(seen.size() == byType.size(), "a reply is of no method");
    return out;
  }();
  return all;
}

// ---- seeds

run::v1::Text text(const char* what) { return specs::toText(message("{} of {}", what, 1)); }

void fill(HandshakeReply& reply) {
  reply.set_protocol(specs::kNewestProtocol);
  *reply.mutable_speaks() = specs::toProto(specs::ownProtocols("v1"));
  auto& node = *reply.mutable_inventory();
  node.set_cores(8);
  node.set_memory_bytes(1 << 30);
  node.set_memory_available_bytes(1 << 29);
  node.set_disk_free_bytes(1 << 30);
  node.set_wall_ns(1'700'000'000'500'000'000);
  node.add_addresses("eth0 10.0.0.5");
  node.add_gpus("NVIDIA H200, 143771 MiB");
}
void fill(NodeSample& sample) {
  sample.set_cpu(0.5);
  sample.add_core(0.5);
  sample.set_memory_used(1e9);
  sample.set_memory_total(2e9);
  sample.set_load1(1.5);
  auto& gpu = *sample.add_gpu();
  gpu.set_utilisation(0.9);
  gpu.set_temperature_c(60);
  gpu.set_throttle_known(true);
  gpu.add_throttle("heat");
  gpu.set_pcie_width(8);
  gpu.set_pcie_width_max(16);
}
void fill(Record& record) {
  record.set_sequence(1);
  record.set_wall_ns(1'700'000'000'000'000'000);
  auto& events = *record.mutable_events();
  events.set_step(50);
  for (int i = 0; i < 8; ++i) {
    events.add_plan_step(i);
    events.add_kind(i % 4);
    events.add_phase(2 + i % 3);
    events.add_begin_ns(1'000'000 + 10'000 * i);
    events.add_end_ns(1'009'000 + 10'000 * i);
  }
}
void fill(DataProgress& progress) {
  progress.set_activity(DataProgress::FETCHING);
  progress.set_file("/data/images");
  progress.set_bytes_done(12'000'000);
}
void fill(PrepareReply& reply) {
  (*reply.mutable_data_hashes())["train.images"] = "aa";
  (*reply.mutable_data_hashes())["train.labels"] = "cc";
  (*reply.mutable_versions())["torch"] = "2.4";
  fill(*reply.mutable_progress());
}
void fill(ListenForPeersReply& reply) {
  auto& one = *reply.add_listeners();
  one.set_address("10.0.0.5");
  one.set_port(4000);
  *reply.add_listeners()->mutable_problem() = text("none");
}
void fill(MeasureReply& reply) {
  for (const auto& program : preview().plan.programs)
    for (const auto& body : program.bodies)
      for (const auto& step : body.steps) {
        if (reply.steps_size() >= 20) break;
        auto& cost = *reply.add_steps();
        cost.set_signature(planner::signature(body, step));
        cost.set_seconds(1e-4);
      }
  auto& one = *reply.add_collectives();
  one.set_kind("shm");
  one.set_ranks(2);
  one.set_bytes(1 << 20);
  one.set_seconds(1e-4);
  reply.set_step_overhead_seconds(1e-5);
  reply.set_step_seconds(1e-2);
}
void fill(BenchReply& reply) {
  for (const char* name : {"fp32", "read"}) {
    auto& speed = *reply.add_speeds();
    speed.set_name(name);
    speed.set_seconds(0.1);
    speed.set_work(1e9);
  }
  auto& one = *reply.add_collectives();
  one.set_kind("all-reduce");
  one.set_seconds(1e-3);
}
void fill(ListProcessesReply& reply) {
  auto& one = *reply.add_processes();
  one.set_pid(4711);
  one.set_cores(0.5);
  one.set_age_seconds(12);
  one.set_rank(0);
}
void fill(ReadRankStacksReply& reply) {
  auto& thread = *reply.add_threads();
  thread.set_name("main");
  thread.add_frames("f (a.cc:1)");
  thread.set_stopped_ns(1000);
}

// What a reply is worth reading with.
void fill(AnyMessage& message) {
  if (auto* one = dynamic_cast<HandshakeReply*>(&message)) fill(*one);
  if (auto* one = dynamic_cast<NodeSample*>(&message)) fill(*one);
  if (auto* one = dynamic_cast<Record*>(&message)) fill(*one);
  if (auto* one = dynamic_cast<PrepareReply*>(&message)) fill(*one);
  if (auto* one = dynamic_cast<FindFileReply*>(&message)) fill(*one->mutable_progress());
  if (auto* one = dynamic_cast<FetchFileReply*>(&message)) fill(*one->mutable_progress());
  if (auto* one = dynamic_cast<ListenForPeersReply*>(&message)) fill(*one);
  if (auto* one = dynamic_cast<ReachPeersReply*>(&message)) *one->add_problems() = text("refused");
  if (auto* one = dynamic_cast<MeasurePeerReply*>(&message)) one->set_bytes_per_second(1e9);
  if (auto* one = dynamic_cast<ListRunsReply*>(&message)) one->add_runs()->set_run("r1");
  if (auto* one = dynamic_cast<MeasureReply*>(&message)) fill(*one);
  if (auto* one = dynamic_cast<BenchReply*>(&message)) fill(*one);
  if (auto* one = dynamic_cast<BenchTogetherReply*>(&message)) fill(*one->mutable_result());
  if (auto* one = dynamic_cast<WorkdirItem*>(&message)) *one->mutable_problem() = text("unread");
  if (auto* one = dynamic_cast<ListProcessesReply*>(&message)) fill(*one);
  if (auto* one = dynamic_cast<ReadKernelLogReply*>(&message)) one->add_lines()->set_level(3);
  if (auto* one = dynamic_cast<ProfileReply*>(&message)) one->mutable_profiled()->set_count(20);
  if (auto* one = dynamic_cast<ListArtifactsReply*>(&message)) one->add_files()->set_path("a/b");
  if (auto* one = dynamic_cast<ReadRankStacksReply*>(&message)) fill(*one);
  if (auto* one = dynamic_cast<DebugRankReply*>(&message)) one->set_patience_seconds(60);
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < table().size(); ++i) {
    std::unique_ptr<AnyMessage> message(table()[i].empty->New());
    fill(*message);
    std::vector<std::string> frames(i);
    frames.push_back(message->SerializeAsString());
    out.push_back(framesOf(frames));
  }
  return out;
}

std::unique_ptr<AnyMessage> emptyMessage(std::size_t frame) {
  return std::unique_ptr<AnyMessage>(table()[frame % table().size()].empty->New());
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep::fuzz;
  const std::vector<std::string> frames = splitFrames(textOf(bytes, size));
  for (std::size_t i = 0; i < std::min(frames.size(), table().size()); ++i) {
    const auto message = emptyMessage(i);
    if (!frames[i].empty() && message->ParseFromString(frames[i])) table()[i].take(*message);
  }
  return 0;
}
