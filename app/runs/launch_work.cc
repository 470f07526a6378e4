#include "app/runs/launch_work.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "app/cluster/peer_addresses.h"
#include "app/runs/artifacts.h"
#include "app/runs/for_all.h"
#include "app/runs/launch_calls.h"
#include "app/runs/launch_data.h"
#include "app/runs/measure.h"
#include "app/runs/run_environment.h"
#include "app/runs/tls.h"
#include "app/specs/spec_text.h"
#include "engine/base/clock.h"
#include "engine/base/utf8.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr Nanoseconds kDay = Nanoseconds{86400} * 1'000'000'000;

// Of a run that may be under way where nobody answers now: it stays findable.
Error maybeBegun(Error error, const std::string& run, const std::string& coordinator) {
  error.what = message("it is not known whether run {} has begun", run);
  if (error.code == Code::kCancelled) {
    error.code = Code::kUnavailable;
    error.why = message("the launch was cancelled, but node {} does not answer", coordinator);
  }
  error.next = message("`lockstep kill {}` ends it once node {} answers again", run, coordinator);
  return error;
}

}  // namespace

LaunchWork::LaunchWork(LaunchRequest request, ClusterSession& session, const Home& home)
    : request_(std::move(request)), home_(home) {
  // Where these spares cannot be, preview() fails.
  if (const auto spared = specs::withSpares(request_.spec->recovery(), *request_.cluster);
      spared.ok())
    request_.cluster =
        std::make_shared<const spec::v1::ClusterSpec>(specs::placed(*request_.spec, *spared));
  for (int i = 0; i < session.size(); ++i)
    access_.push_back(&session.access(i));  // on the inbox's thread: nodes don't come and go
}

namespace {

using Variables = SecretVariables;

// The values here of the variables that the program asks for.
Result<Variables> secretsOf(const spec::v1::RunSpec& spec) {
  constexpr std::size_t kMostBytes = 32768;  // the agent hands them on in a pipe
  Variables out;
  std::size_t bytes = 0;
  for (const std::string& name : spec.workload().env_from()) {
    const char* const value = std::getenv(name.c_str());
    const Message wrong = value == nullptr ? message("the environment variable {} is not set", name)
                          : firstNotUtf8(value) != std::string_view::npos
                              ? message("the environment variable {} is not UTF-8", name)
                              : Message();
    if (!wrong.empty()) {
      Error error = makeError(Code::kFailedPrecondition, "{}", wrong);
      error.why = "workload.env_from names it";
      error.next = message("set it where this program is started: export {}=…", name);
      return error;
    }
    out[name] = value;
    bytes += name.size() + std::string_view(value).size();
  }
  if (bytes <= kMostBytes) return out;
  return invalidArgument(
      "the variables of workload.env_from have {} bytes; at most {} are given to a program", bytes,
      kMostBytes);
}

// The cluster as it is kept with the run: with the communicator that was asked for besides, which
// the run has when it is launched again.
std::string clusterText(const LaunchRequest& request) {
  const std::string text =
      request.clusterYaml.empty() ? toYaml(*request.cluster) : request.clusterYaml;
  if (request.comm.empty()) return text;
  const auto edit = SpecText::parse(text, {}, SpecKind::kCluster).edit("comm", request.comm);
  return edit.ok() ? edit->applied(text) : text;
}

}  // namespace

Result<Preview> LaunchWork::preview(std::stop_token stop, Costs costs) {
  LOCKSTEP_TRY(secretsOf(*request_.spec).status());
  LOCKSTEP_ASSIGN(Preview rough, makePreview(request_, {}, nullptr));
  LOCKSTEP_TRY(findParticipants(rough));
  LOCKSTEP_TRY(connectAll(stop));
  findData(request_, participants_);
  LOCKSTEP_TRY(checkAble(participants_, *request_.spec));
  std::vector<HostFacts> hosts;
  for (const Participant& participant : participants_) {
    hosts.push_back({participant.name, participant.inventory.bootId, participant.inventory.cores,
                     participant.inventory.memoryAvailable, gpuMemory(participant.inventory.gpus)});
  }
  const auto withClocks = [this](Preview of) {
    for (Message& remark : clockRemarks()) of.remarks.push_back(std::move(remark));
    return of;
  };
  LOCKSTEP_ASSIGN(Preview plain, makePreview(request_, hosts, nullptr));
  if (!request_.measure || plain.ofProgram()) return withClocks(std::move(plain));
  auto cost = [&] {
    const StageProgress awaiting(Stage::kMeasuring, {participants_.front().name}, progress);
    return measureCosts(plain, request_, *participants_.front().access,
                        participants_.front().inventory, participants_.front().paths, home_, costs,
                        stop);
  }();
  if (!cost.ok()) {
    if (costs == Costs::kEarlier) return cost.error();
    // A node that does not answer will not prepare either.
    if (cost.error().code == Code::kCancelled || cost.error().code == Code::kUnavailable)
      return cost.error();
    plain.remarks.push_back(message("the costs could not be measured: {}", cost.error().message()));
    plain.unmeasured = cost.error();
    return withClocks(std::move(plain));
  }
  LOCKSTEP_ASSIGN(Preview measured, makePreview(request_, hosts, &*cost));
  return withClocks(std::move(measured));
}

Result<std::string> LaunchWork::launch(const std::string& run, std::stop_token stop) {
  LOCKSTEP_TRY(makeExampleData(request_, home_, progress, stop));
  LOCKSTEP_ASSIGN(const Preview preview, this->preview(stop));
  LOCKSTEP_ASSIGN(const auto history, History::open(home_.historyFolder()));
  RunRow row = newRow(run, preview);
  RunDocuments documents;
  documents.specYaml = request_.specYaml;
  documents.specResolved = toYaml(*request_.spec);
  if (!request_.chosen.empty())
    documents.specResolved =
        fmt::format("# {}\n{}", request_.chosen.text(), documents.specResolved);
  documents.clusterYaml = clusterText(request_);
  documents.plan = preview.planText;
  documents.prediction = predictionJson(preview);
  LOCKSTEP_ASSIGN(const auto held, history->begin(row, documents));

  // Where the run is stands in the history before it can begin, so that whoever comes after this
  // process finds it.
  Status started = findAddresses(stop);
  if (started.ok()) started = prepareAll(run, preview, stop);
  if (started.ok()) {
    documents.nodes = nodesJson();
    documents.codePatch = codePatch_;
    for (const std::string& source : sources_)
      documents.specResolved = fmt::format("# {}\n{}", source, documents.specResolved);
    started = history->setDocuments(run, documents);
    if (started.ok() && !request_.spec->workload().artifacts().collect().empty())
      started = noteArtifactsWanted(*held);
  }
  if (started.ok()) {
    started = commit(run, stop);
    if (!started.ok() && !endCommitted(run).ok())
      return maybeBegun(started.error(), run, participants_.front().name);
  }
  if (!started.ok()) {
    removePrepared(participants_, run);
    RunBatch said;
    said.logs = std::move(setupLog_);
    if (!said.logs.empty()) (void)held->append(said);
    LOCKSTEP_TRY(
        setState(row, started.code() == Code::kCancelled ? RunState::STOPPED : RunState::FAILED));
    row.error = started.error().message();
    row.finishedNs = wallNow();
    (void)history->update(row);
    return started.error();
  }
  LOCKSTEP_TRY(setState(row, RunState::RUNNING));
  (void)history->update(row);  // the run is on its way; its recorder says the same again
  return run;
}

Status LaunchWork::findParticipants(const Preview& preview) {
  participants_.clear();
  const auto add = [&](const std::string& node) -> Status {
    const auto found =
        std::ranges::find_if(access_, [&](const auto& access) { return access->name() == node; });
    if (found == access_.end()) {  // the file has changed since its session began
      Error error = makeError(Code::kFailedPrecondition, "node {} is new in the cluster", node);
      error.node = node;
      error.next = "close the cluster and open it again; then launch";
      return error;
    }
    Participant participant;
    participant.name = node;
    participant.access = *found;
    participants_.push_back(std::move(participant));
    return {};
  };
  for (const RankPreview& rank : preview.ranks) {
    if (participants_.empty() || participants_.back().name != rank.node)
      LOCKSTEP_TRY(add(rank.node));
    participants_.back().ranks.push_back(rank.rank);
  }
  for (const std::string& spare : preview.spares) LOCKSTEP_TRY(add(spare));
  if (preview.evaluator) {
    LOCKSTEP_TRY(add(preview.evaluator->node));
    participants_.back().evaluates = true;
  }
  return {};
}

Status LaunchWork::connectAll(std::stop_token stop) {
  StageProgress awaiting(Stage::kConnecting, namesOf(participants_), progress);
  std::stop_source others;  // one that fails ends the wait for all
  const std::stop_callback passOn(stop, [&others] { others.request_stop(); });
  std::vector<Status> came(participants_.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < participants_.size(); ++i)
      threads.emplace_back([&, i] {
        Participant& participant = participants_[i];
        auto inventory = participant.access->waitConnected(others.get_token());
        if (inventory.ok()) {
          participant.inventory = std::move(*inventory);
          awaiting.came(participant.name);
        } else {
          came[i] = inventory.status();
          others.request_stop();
        }
      });
  }
  for (const Status& status : came)
    if (!status.ok() && status.code() != Code::kCancelled) return status;
  for (Status& status : came) LOCKSTEP_TRY(std::move(status));
  return {};
}

std::vector<Message> LaunchWork::clockRemarks() const {
  std::vector<Message> out;
  for (const Participant& participant : participants_) {
    const Nanoseconds offset = participant.inventory.clockOffset;
    if (std::abs(offset) < kDay) continue;
    const long long days = std::llround(static_cast<double>(offset) / static_cast<double>(kDay));
    if (days > 0)
      out.push_back(
          message("the clock of node {} is {} days ahead of this machine's, and so are "
                  "the times of its log",
                  participant.name, days));
    else
      out.push_back(
          message("the clock of node {} is {} days behind this machine's, and so are "
                  "the times of its log",
                  participant.name, -days));
  }
  return out;
}

Status LaunchWork::findAddresses(std::stop_token stop) {
  if (participants_.size() < 2) return {};
  StageProgress awaiting(Stage::kPreparing, namesOf(participants_), progress);
  std::vector<PeerNode> nodes;
  for (const Participant& participant : participants_) {
    const auto& all = request_.cluster->nodes();
    const auto spec = std::find_if(
        all.begin(), all.end(), [&](const auto& node) { return node.name() == participant.name; });
    nodes.push_back({&*spec, participant.access, participant.inventory, participant.evaluates});
  }
  LOCKSTEP_ASSIGN(const auto addresses, provePeerAddresses(nodes, std::move(stop)));
  std::vector<std::string> told;
  for (std::size_t i = 0; i < participants_.size(); ++i) {
    participants_[i].address = addresses[i];
    if (!addresses[i].empty())
      told.push_back(fmt::format("{} at {}", participants_[i].name, addresses[i]));
  }
  tellAddresses(fmt::format("{}", fmt::join(told, ", ")));
  return {};
}

Status LaunchWork::prepareAll(const std::string& run, const Preview& preview,
                              std::stop_token stop) {
  LOCKSTEP_ASSIGN(const DataHashes copied, copyData(request_, participants_, progress, stop));
  LOCKSTEP_ASSIGN(sources_, fetchData(request_, participants_, progress, stop));
  LOCKSTEP_ASSIGN(CopiedCode code, copyCode(request_, home_, participants_, progress, stop));
  if (!code.words.empty()) sources_.push_back("code: " + code.words);
  codePatch_ = std::move(code.patch);
  LOCKSTEP_ASSIGN(const Variables secrets, secretsOf(*request_.spec));
  LOCKSTEP_TRY(setUpAll(run, secrets, stop));
  std::vector<node::v1::PrepareRequest> requests;
  for (const Participant& participant : participants_) {
    requests.push_back(requestFor(participant, run, preview));
    *requests.back().mutable_secret_env() = secrets;
  }
  if (participants_.size() > 1) {
    LOCKSTEP_ASSIGN(const auto identities, makeRunIdentities(run, 1, namesOf(participants_)));
    for (std::size_t i = 0; i < participants_.size(); ++i) {
      const RunIdentity& identity = identities.at(participants_[i].name);
      auto* tls = requests[i].mutable_tls();
      tls->set_ca_pem(identity.caPem);
      tls->set_certificate_pem(identity.certificatePem);
      tls->set_key_pem(identity.keyPem);
    }
  }
  LOCKSTEP_TRY(checkAll(requests, copied, stop));
  // The coordinator first: the others are told where they join it.
  StageProgress awaiting(Stage::kPreparing, namesOf(participants_), progress);
  const auto tell = [&](const DataActivity& activity) { awaiting.reads(activity); };
  LOCKSTEP_ASSIGN(const std::string address,
                  prepareRun(participants_.front(), requests.front(), tell, stop));
  awaiting.came(participants_.front().name);
  const auto prepare = [&](std::size_t other, const std::stop_token& others) -> Status {
    Participant& participant = participants_[other + 1];
    requests[other + 1].set_coordinator_address(address);
    LOCKSTEP_TRY(prepareRun(participant, requests[other + 1], tell, others).status());
    awaiting.came(participant.name);
    return {};
  };
  LOCKSTEP_TRY(forAll(participants_.size() - 1, stop, prepare));
  if (!request_.spec->workload().python().mixed()) LOCKSTEP_TRY(checkSameVersions(participants_));
  return checkSameData(participants_, copied);
}

Status LaunchWork::setUpAll(const std::string& run, const SecretVariables& secrets,
                            const std::stop_token& stop) {
  if (request_.spec->workload().setup().empty()) return {};
  StageProgress awaiting(Stage::kSettingUp, namesOf(participants_), progress);
  const auto tell = [&](SetupOutput output) {
    awaiting.runs(output.node, output.command);
    if (output.dropped > 0)
      output.lines.insert(output.lines.begin(), fmt::format("… {} lines dropped", output.dropped));
    if (output.lines.empty()) return;
    noteSetup(output);
    tellSetup(output);
  };
  return forAll(participants_.size(), stop, [&](std::size_t at, const std::stop_token& others) {
    const Participant& participant = participants_[at];
    node::v1::SetUpRequest request;
    request.set_run(run);
    request.set_node(participant.name);
    *request.mutable_spec() = *request_.spec;
    request.set_code(participant.paths.at(std::string(specs::kCodeFile)));
    *request.mutable_secret_env() = secrets;
    const Status done = setProgramUp(participant, request, tell, others);
    if (done.ok()) awaiting.came(participant.name);
    return done;
  });
}

void LaunchWork::noteSetup(const SetupOutput& output) {
  constexpr std::size_t kMost = 20000;  // lines of all nodes
  const std::lock_guard lock(setupMutex_);
  for (const std::string& line : output.lines)
    if (setupLog_.size() < kMost)
      setupLog_.push_back({0, wallNow(), output.node, -1, "setup: " + line});
}

Status LaunchWork::checkAll(const std::vector<node::v1::PrepareRequest>& requests,
                            const DataHashes& copied, const std::stop_token& stop) {
  const bool able = std::ranges::all_of(participants_, [](const Participant& participant) {
    return participant.inventory.agentSpeaks.has(specs::kCheckData);
  });
  if (participants_.size() < 2 || !able) return {};
  StageProgress awaiting(Stage::kCheckingData, namesOf(participants_), progress);
  const auto tell = [&](const DataActivity& activity) { awaiting.reads(activity); };
  const auto check = [&](std::size_t at, const std::stop_token& others) -> Status {
    LOCKSTEP_TRY(checkRun(participants_[at], requests[at], tell, others));
    awaiting.came(participants_[at].name);
    return {};
  };
  LOCKSTEP_TRY(forAll(participants_.size(), stop, check));
  return checkSameData(participants_, copied);
}

node::v1::PrepareRequest LaunchWork::requestFor(const Participant& participant,
                                                const std::string& run,
                                                const Preview& preview) const {
  node::v1::PrepareRequest out;
  out.set_run(run);
  out.set_generation(1);
  out.set_node(participant.name);
  out.set_coordinator(&participant == &participants_.front());
  *out.mutable_spec() = *request_.spec;
  *out.mutable_cluster() = *request_.cluster;
  for (auto& node : *out.mutable_cluster()->mutable_nodes())
    for (const Participant& other : participants_)
      if (other.name == node.name() && !other.address.empty()) {
        node.set_address(other.address);
        node.clear_interface();  // it was found by that
      }
  out.set_plan(preview.planText);
  out.set_plan_hash(preview.planHash);
  for (int rank : participant.ranks) out.add_ranks(rank);
  if (participant.evaluates) out.set_evaluation_plan(preview.evaluator->planText);
  for (const Participant& other : participants_) {
    node::v1::HostOfNode* const host = out.add_hosts();
    host->set_node(other.name);
    host->set_host(other.inventory.bootId);
    host->set_cores(other.inventory.cores);
  }
  out.set_comm(preview.comm);
  out.set_resume_from(request_.resumeFrom.on(participant.name));
  out.set_sample_hertz(4);
  out.set_events_every(request_.eventsEvery);
  for (const auto& [name, path] : participant.paths) (*out.mutable_data_paths())[name] = path;
  return out;
}

Status LaunchWork::commit(const std::string& run, std::stop_token stop) {
  const StageProgress awaiting(Stage::kStarting, {participants_.front().name}, progress);
  return commitRun(participants_.front(), run, std::move(stop));
}

Status LaunchWork::endCommitted(const std::string& run) {
  const StageProgress awaiting(Stage::kEnding, {participants_.front().name}, progress);
  return endCommittedRun(participants_.front(), run);
}

RunRow LaunchWork::newRow(const std::string& run, const Preview& preview) const {
  RunRow row;
  row.run = run;
  row.name = specs::nameOf(*request_.spec);
  row.phase = RunState::LAUNCHING;
  row.createdNs = wallNow();
  row.world = preview.plan.mesh.size();
  row.strategy = preview.plan.strategy;
  row.figures.metric = preview.plan.metric();
  row.comm = preview.comm;
  row.planHash = preview.planHash;
  row.version = participants_.front().inventory.agentVersion;
  row.predictedStepSeconds = preview.stepSeconds;
  row.clusterName = request_.cluster->name();
  row.resumedFrom = request_.resumedRun;
  return row;
}

std::string LaunchWork::nodesJson() const {
  nlohmann::json nodes = nlohmann::json::array();
  for (const Participant& participant : participants_) {
    nlohmann::json one = {{"node", participant.name},
                          {"ranks", participant.ranks},
                          {"host", participant.inventory.hostname}};
    if (!participant.socket.empty()) one["socket"] = participant.socket;
    if (!participant.folder.empty()) one["folder"] = participant.folder;
    if (!participant.address.empty()) one["address"] = participant.address;
    one["environment"] = environmentJson(participant);
    nodes.push_back(std::move(one));
  }
  return nodes.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace lockstep::app
