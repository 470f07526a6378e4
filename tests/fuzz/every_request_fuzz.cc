// What agent and supervisor check of each request before they do it, for every method of their
// services: a new one without its line in requests() fails here. No process is started, and nothing
// is connected to but this host. Frames: a request of each method, in the order of the services;
// empty frames are left out. The supervisor's come to the coordinator of a run that trains.
#include <arpa/inet.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "agent/base/event_loop.h"
#include "agent/base/run_folder.h"
#include "agent/host/kernel_log.h"
#include "agent/host/processes.h"
#include "agent/node/link_measure.h"
#include "agent/node/reachability.h"
#include "agent/node/staging.h"
#include "agent/node/workdir_items.h"
#include "agent/node/worker_group.h"
#include "agent/supervisor/rank_debugging.h"
#include "agent/supervisor/run_control.h"
#include "agent/supervisor/spool.h"
#include "agent/worker/prepare.h"
#include "agent/workload/artifacts.h"
#include "agent/workload/program_setup.h"
#include "app/specs/spec_text.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/specs/data_url.h"
#include "engine/specs/protocol.h"
#include "engine/specs/specs.h"
#include "engine/weights/checkpoint_files.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"
#include "tests/support/paths.h"

namespace lockstep::fuzz {
namespace {

using namespace agent;
using namespace node::v1;
using AnyMessage = google::protobuf::Message;

bool atOnce() { return true; }

// A run of one node, whose ranks need no processes: there are none.
PrepareRequest ownRequest() {
  static const PrepareRequest own = [] {
    const std::string source = lockstep::test::sourcePath(".");
    PrepareRequest out;
    out.set_run("r1");
    out.set_generation(1);
    out.set_node("n1");
    out.set_coordinator(true);
    out.set_comm("in-process");
    const auto text = fileBytes(source + "/resources/examples/fashion-mlp.yaml");
    const auto spec = app::completeRunSpec(text, source + "/resources/examples/x.yaml");
    LOCKSTEP_CHECK(spec.ok(), "{}", spec.error().text());
    *out.mutable_spec() = *spec->spec;
    out.set_plan(fileBytes(source + "/tests/golden/fashion-mlp.1-ranks.plan"));
    out.set_plan_hash(sha256Hex(out.plan()));
    auto& node = *out.mutable_cluster()->add_nodes();
    node.set_name("n1");
    node.set_address("127.0.0.1");
    auto& device = *node.add_devices();
    device.set_kind("cpu");
    device.set_count(1);
    return out;
  }();
  return own;
}

// The run's supervisor.
class Run {
 public:
  explicit Run(EventLoop& loop) {
    folder_.path = scratchFolder() + "/run";
    folder_.runtime = scratchFolder();
    std::filesystem::remove_all(folder_.path);
    LOCKSTEP_CHECK(makeFolders(folder_.logs()).ok());
    LOCKSTEP_CHECK(writeFileAtomically(folder_.plan(), ownRequest().plan(), 0600).ok());
    auto spool = Spool::open(folder_.spool(), {});
    LOCKSTEP_CHECK(spool.ok(), "{}", spool.error().text());
    spool_ = std::move(*spool);
    control_ = std::make_unique<RunControl>(loop, folder_, ownRequest(), *spool_, "test",
                                            RunLimits(), [] {});
    debugging_ = std::make_unique<RankDebugging>(loop, folder_, control_.get());
    CommitRequest commit;
    commit.set_run(ownRequest().run());
    commit.set_generation(1);
    LOCKSTEP_CHECK(control_->commit(commit).ok());
    LOCKSTEP_CHECK(control_->state() == run::v1::RUNNING);
  }
  const RunFolder& folder() const { return folder_; }
  RunControl& control() { return *control_; }
  RankDebugging& debugging() { return *debugging_; }

 private:
  RunFolder folder_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<RunControl> control_;
  std::unique_ptr<RankDebugging> debugging_;
};

class Node {
 public:
  Node() : workdir_{scratchFolder(), scratchFolder()}, data_(workdir_), staging_(workdir_, data_) {}
  const Workdir& workdir() const { return workdir_; }
  Staging& staging() { return staging_; }
  EventLoop& loop() { return *loop_; }
  Run& run() {
    if (!run_) run_ = std::make_unique<Run>(*loop_);
    return *run_;
  }
  // Runs `work` on a loop of its own.
  void with(const std::function<void()>& work) {
    loop_ = std::make_unique<EventLoop>();
    loop_->post([&] {
      work();
      loop_->post([&] { loop_->quit(); });  // after what that has posted
    });
    loop_->run();
    run_.reset();
    loop_.reset();
  }

 private:
  const Workdir workdir_;
  DataCache data_;
  Staging staging_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Run> run_;
};

// No name is looked up, and no other host is reached.
bool isHere(const std::string& address) {
  in_addr ignored{};
  return address.starts_with("127.") && inet_pton(AF_INET, address.c_str(), &ignored) == 1;
}
int closedPort(int port) { return port >= 1 && port <= 65535 ? 1 : port; }

// ---- of the agent

void take(Node&, const HandshakeRequest& request) {
  specs::Protocols client{request.protocol(), request.protocol(), {}, {}};
  if (request.has_speaks()) client = specs::fromProto(request.speaks());
  const specs::Protocols own = specs::ownProtocols("test");
  const auto common = specs::commonProtocol("the agent", own, client);
  LOCKSTEP_CHECK(!common.ok() || (*common >= own.oldest && *common <= own.newest), "{}", *common);
}
void take(Node&, const PrepareRequest& request) {
  if (!checkNames(request).ok()) return;
  for (const std::string& name : {request.run(), request.node()})
    LOCKSTEP_CHECK(name.find('/') == std::string::npos && !name.starts_with('.'), "{}", name);
}
void take(Node& node, const FindFileRequest& request) { (void)node.staging().find(request); }
void take(Node& node, const StageFileRequest& request) {
  bool isFirst = true;
  (void)node.staging().receive(
      [&](StageFileRequest& part) {
        part = request;
        return std::exchange(isFirst, false);
      },
      [] { return false; });
}
// Of a URL that is one, curl would be asked.
void take(Node& node, const FetchFileRequest& request) {
  if (!specs::parseUrl(request.url()).ok())
    LOCKSTEP_CHECK(!node.staging().fetch(request, [](const auto&) { return false; }).ok());
}
void take(Node&, const SetUpRequest& request) {
  spec::v1::RunSpec spec = request.spec();
  if (!specs::checkAndFill(spec).ok() || !spec.has_workload()) return;
  const std::string key = setupKey(spec.workload(), sha256Hex("code"));
  LOCKSTEP_CHECK(key.find_first_of("/.") == std::string::npos, "{}", key);
}
void take(Node&, const ListenForPeersRequest& request) {
  ListenForPeersRequest here;
  for (const std::string& address : request.addresses())
    if (isHere(address) && here.addresses_size() < 8) here.add_addresses(address);
  listenForPeers(
      here, [](const auto&) { return false; }, atOnce);
}
void take(Node&, const ReachPeersRequest& request) {
  ReachPeersRequest here;
  here.set_seconds(request.seconds());
  for (const auto& target : request.targets()) {
    if (!isHere(target.address()) || here.targets_size() >= 8) continue;
    *here.add_targets() = target;
    here.mutable_targets()->rbegin()->set_port(closedPort(target.port()));
  }
  LOCKSTEP_CHECK(reachPeers(here, atOnce).problems_size() == here.targets_size());
}
void take(Node&, const ListenForMeasurementsRequest& request) {
  if (isHere(request.address()))
    (void)listenForMeasurements(
        request, [](const auto&) { return false; }, atOnce);
}
void take(Node&, const MeasurePeerRequest& request) {
  if (!isHere(request.address())) return;
  MeasurePeerRequest here = request;
  here.set_port(closedPort(request.port()));
  LOCKSTEP_CHECK(!measurePeer(here, atOnce).ok());
}
void take(Node& node, const FindRunRequest& request) {
  if (isPlainName(request.run())) LOCKSTEP_CHECK(findRuns(node.workdir(), request.run()).empty());
}
void take(Node& node, const RemoveRunRequest& request) {
  FindRunRequest asked;
  asked.set_run(request.run());
  take(node, asked);
}
void take(Node&, const MeasureRequest& request) { (void)checkMeasure(request); }
void take(Node& node, const BenchRequest& request) {
  (void)checkBench(request, node.workdir().path);
}
void take(Node&, const BenchTogetherRequest& request) { (void)checkBenchTogether(request.start()); }
void take(Node& node, const RemoveFromWorkdirRequest& request) {
  for (const WorkdirItem& item : WorkdirItems(node.workdir()).list())
    (void)whyKept(item, request.idle_seconds()).text();
}
// Without its interval, which may be long.
void take(Node&, const ListProcessesRequest& request) { (void)listProcesses(request, atOnce); }
void take(Node&, const ReadKernelLogRequest& request) { (void)readKernelLog(request); }

// ---- of the supervisor

void take(Node& node, const CommitRequest& request) { (void)node.run().control().commit(request); }
void take(Node& node, const StopRequest& request) { (void)node.run().control().stop(request); }
void take(Node& node, const CheckpointRequest& request) {
  (void)node.run().control().checkpoint(request.run(), request.generation());
}
void take(Node& node, const ExcludeRequest& request) {
  RunControl& control = node.run().control();  // it is on the only node
  LOCKSTEP_CHECK(!control.exclude(request.run(), request.generation(), request.node()).ok() ||
                 control.hasEnded());
}
void take(Node& node, const RestartRequest& request) {
  (void)node.run().control().restart(request.run(), request.generation());
}
void take(Node& node, const RebalanceRequest& request) {
  (void)node.run().control().rebalance(request.run(), request.generation(),
                                       {request.shares().begin(), request.shares().end()});
}
void take(Node& node, const ProfileRequest& request) {
  (void)node.run().control().profile(request.run(), request.generation(), request.steps());
}
void take(Node& node, const KillRequest& request) {
  RunControl& control = node.run().control();
  const bool killed = control.kill(request.run(), request.generation(), "on request").ok();
  LOCKSTEP_CHECK(!killed || control.hasEnded());
}
void take(Node& node, const FetchArtifactRequest& request) {
  const std::string inside = node.run().folder().path + "/code";
  LOCKSTEP_CHECK(!openArtifact(inside, request.path(), request.modified_ns()).ok());  // it is empty
}
void take(Node& node, const ReadRankStacksRequest& request) {
  LOCKSTEP_CHECK(!node.run().debugging().readStacks(request.rank(), atOnce).ok());
}
void take(Node& node, const DebugRankRequest& request) {
  const auto tell = [](const DebugRankReply&) { return false; };
  LOCKSTEP_CHECK(!node.run().debugging().debug(request, tell, atOnce).ok());
}

// ---- of the run's other supervisors

void take(Node&, const FetchShardRequest& request) {
  if (!weights::isDataFile(request.file())) return;
  LOCKSTEP_CHECK(request.file().find('/') == std::string::npos, "{}", request.file());
}

// ---- the table

struct Request {
  const AnyMessage* empty = nullptr;
  std::function<void(Node&, const AnyMessage&)> take = {};
};

template <typename Type>
Request checked() {
  return {&Type::default_instance(), [](Node& node, const AnyMessage& message) {
            take(node, static_cast<const Type&>(message));
          }};
}
// There is nothing to check, a worker does it, or another target has it.
template <typename Type>
Request unchecked() {
  return {&Type::default_instance(), [](Node&, const AnyMessage&) {}};
}

std::vector<Request> requests() {
  return {
      checked<HandshakeRequest>(),     unchecked<WatchNodeRequest>(),
      checked<PrepareRequest>(),       checked<FindFileRequest>(),
      checked<StageFileRequest>(),     checked<FetchFileRequest>(),
      checked<SetUpRequest>(),         checked<ListenForPeersRequest>(),
      checked<ReachPeersRequest>(),    checked<ListenForMeasurementsRequest>(),
      checked<MeasurePeerRequest>(),   unchecked<ListRunsRequest>(),
      checked<FindRunRequest>(),       checked<RemoveRunRequest>(),
      checked<MeasureRequest>(),       checked<BenchRequest>(),
      checked<BenchTogetherRequest>(), unchecked<VerifyRequest>(),
      unchecked<ListWorkdirRequest>(), checked<RemoveFromWorkdirRequest>(),
      checked<ListProcessesRequest>(), checked<ReadKernelLogRequest>(),
      checked<CommitRequest>(),        unchecked<StatusRequest>(),
      unchecked<RecordsRequest>(),     checked<StopRequest>(),
      checked<CheckpointRequest>(),    checked<ExcludeRequest>(),
      checked<RestartRequest>(),       checked<RebalanceRequest>(),
      checked<ProfileRequest>(),       checked<KillRequest>(),
      unchecked<FetchRequest>(),       unchecked<ListArtifactsRequest>(),
      checked<FetchArtifactRequest>(), checked<ReadRankStacksRequest>(),
      checked<DebugRankRequest>(),
      unchecked<FromPeer>(),  // peer_messages
      checked<FetchShardRequest>(),
  };
}

// In the order of the services' methods, each of which has one.
const std::vector<Request>& table() {
  static const std::vector<Request> all = [] {
    std::map<std::string, Request> byType;
    for (Request& one : requests()) byType[one.empty->GetTypeName()] = std::move(one);
    std::vector<Request> out;
    const auto& file = *PrepareRequest::descriptor()->file();
    for (int i = 0; i < file.service_count(); ++i)
      for (int j = 0; j < file.service(i)->method_count(); ++j) {
        const auto& method = *file.service(i)->method(j);
        const auto found = byType.find(std::string(method.input_type()->full_name()));
        LOCKSTEP_CHECK(found != byType.end(), "nothing is said of {}", method.full_name());
        out.push_back(found->second);
      }
    LOCKSTEP_CHECK(out.size() == byType.size(), "a request is of no method");
    return out;
  }();
  return all;
}

// Fields that bring a request past its first check.
void fill(AnyMessage& message) {
  const auto set = [&](const char* name, const std::string& value) {
    const auto* field = message.GetDescriptor()->FindFieldByName(name);
    if (field != nullptr && !field->is_repeated() &&
        field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING)
      message.GetReflection()->SetString(&message, field, value);
  };
  set("run", "r1");
  set("node", "n1");
  set("address", "127.0.0.1");
  set("file", weights::shardFile(0));
  set("sha256", sha256Hex("content"));
  set("name", "name.gz");
  set("url", "file:///name");
  const auto* generation = message.GetDescriptor()->FindFieldByName("generation");
  if (generation != nullptr) message.GetReflection()->SetInt32(&message, generation, 1);
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < table().size(); ++i) {
    std::unique_ptr<AnyMessage> message(table()[i].empty->New());
    fill(*message);
    if (auto* peers = dynamic_cast<ListenForPeersRequest*>(message.get()))
      peers->add_addresses("127.0.0.1");
    if (auto* peers = dynamic_cast<ReachPeersRequest*>(message.get())) {
      auto& target = *peers->add_targets();
      target.set_address("127.0.0.1");
      target.set_port(1);
    }
    if (auto* prepare = dynamic_cast<PrepareRequest*>(message.get())) *prepare = ownRequest();
    if (auto* setUp = dynamic_cast<SetUpRequest*>(message.get()))
      *setUp->mutable_spec() = ownRequest().spec();
    if (auto* shares = dynamic_cast<RebalanceRequest*>(message.get())) shares->add_shares(1);
    if (auto* bench = dynamic_cast<BenchRequest*>(message.get())) {
      bench->set_ranks(2);
      bench->mutable_collectives()->set_min_bytes(4);
      bench->mutable_collectives()->set_max_bytes(1 << 20);
    }
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
  static Node node;
  const std::vector<std::string> frames = splitFrames(textOf(bytes, size));
  node.with([&] {
    for (std::size_t i = 0; i < std::min(frames.size(), table().size()); ++i) {
      const auto message = emptyMessage(i);
      if (!frames[i].empty() && message->ParseFromString(frames[i]))
        table()[i].take(node, *message);
    }
  });
  return 0;
}
