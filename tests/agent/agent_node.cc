#include "tests/agent/agent_node.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <QDir>
#include <QFile>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTest>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <stdexcept>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/cluster/mesh.h"
#include "engine/models/model.h"
#include "engine/planner/planner.h"
#include "engine/specs/specs.h"

namespace lockstep::agent_test {
namespace {

std::string program() {
  return qEnvironmentVariable("LOCKSTEP_BIN", LOCKSTEP_TEST_BIN).toStdString() + "/lockstep-agent";
}

}  // namespace

bool eventually(const std::function<bool()>& condition, double seconds) {
  return QTest::qWaitFor(condition, static_cast<int>(seconds * 1000));
}

std::vector<int> processesOfRun(const std::string& run) {
  std::vector<int> out;
  const std::string entry = "LOCKSTEP_RUN=" + run;
  std::error_code ignored;
  for (const auto& folder : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = folder.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    auto environment = readFile(folder.path().string() + "/environ", 1 << 20);
    if (!environment.ok()) continue;
    const std::string text = '\0' + *environment;
    if (text.find('\0' + entry + '\0') == std::string::npos) continue;
    const int pid = std::stoi(name);
    if (alive(pid)) out.push_back(pid);
  }
  return out;
}

bool alive(int pid) {
  std::error_code ignored;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks, ignored)) {
    auto stat = readFile(task.path().string() + "/stat", 65536);
    if (!stat.ok()) continue;
    const std::size_t close = stat->rfind(')');
    if (close != std::string::npos && close + 2 < stat->size() && (*stat)[close + 2] != 'Z')
      return true;
  }
  return false;
}

std::shared_ptr<grpc::Channel> channelTo(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(64 << 20);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

std::unique_ptr<grpc::ClientContext> deadline(double seconds) {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::milliseconds(static_cast<int>(seconds * 1000)));
  return context;
}

namespace {

template <typename Request, typename Reply>
grpc::Status lastReply(node::v1::Agent::Stub& agent,
                       std::unique_ptr<grpc::ClientReader<Reply>> (node::v1::Agent::Stub::*method)(
                           grpc::ClientContext*, const Request&),
                       const Request& request, Reply* reply, const ProgressCall& call) {
  const auto context = deadline(call.seconds);
  const auto reader = (agent.*method)(context.get(), request);
  for (Reply next; reader->Read(&next);) {
    if (!next.has_progress())
      *reply = next;
    else if (call.onProgress && !call.onProgress(next.progress()))
      context->TryCancel();
  }
  return reader->Finish();
}

}  // namespace

grpc::Status prepare(node::v1::Agent::Stub& agent, const node::v1::PrepareRequest& request,
                     node::v1::PrepareReply* reply, const ProgressCall& call) {
  return lastReply(agent, &node::v1::Agent::Stub::Prepare, request, reply, call);
}

grpc::Status findFile(node::v1::Agent::Stub& agent, const node::v1::FindFileRequest& request,
                      node::v1::FindFileReply* reply, const ProgressCall& call) {
  return lastReply(agent, &node::v1::Agent::Stub::FindFile, request, reply, call);
}

Output runAgent(const std::vector<std::string>& arguments, const std::string& input) {
  QProcess process;
  QStringList words;
  for (const std::string& word : arguments) words << QString::fromStdString(word);
  process.start(QString::fromStdString(program()), words);
  Output output;
  if (!process.waitForStarted(60000)) return output;
  process.write(input.data(), static_cast<qint64>(input.size()));
  process.closeWriteChannel();
  if (!process.waitForFinished(120000)) {
    process.kill();
    process.waitForFinished(5000);
    return output;
  }
  output.code = process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -2;
  output.out = process.readAllStandardOutput().toStdString();
  output.err = process.readAllStandardError().toStdString();
  return output;
}

Node::Node(std::string name, std::vector<std::string> options)
    : name_(std::move(name)),
      options_(std::move(options)),
      folder_(QDir::tempPath() + "/ls-XXXXXX") {}

Node::~Node() {
  agent_.reset();
  // The agent and what serves this workdir, each by its own pid.
  if (pid_ > 0) kill(pid_, SIGKILL);
  for (int round = 0; round < 3; ++round) {
    std::error_code ignored;
    for (const auto& folder : std::filesystem::directory_iterator("/proc", ignored)) {
      const std::string id = folder.path().filename().string();
      if (id.find_first_not_of("0123456789") != std::string::npos) continue;
      auto command = readFile(folder.path().string() + "/cmdline", 1 << 16);
      if (command.ok() && command->find(workdir()) != std::string::npos &&
          command->find("lockstep-agent") != std::string::npos)
        kill(std::stoi(id), SIGKILL);
    }
  }
}

void Node::start() {
  std::vector<std::string> arguments = {"serve", "--workdir", workdir(), "--detach",
                                        "--allow-root"};
  arguments.insert(arguments.end(), options_.begin(), options_.end());
  const Output output = runAgent(arguments);
  const QJsonObject line = QJsonDocument::fromJson(QByteArray::fromStdString(output.out)).object();
  if (output.code != 0 || line.isEmpty())
    throw std::runtime_error("serve --detach: " + std::to_string(output.code) + " " + output.out +
                             output.err);
  socket_ = line["socket"].toString().toStdString();
  pid_ = line["pid"].toInt();
  agent_ = node::v1::Agent::NewStub(channelTo(socket_));
}

void Node::killAgent() {
  kill(pid_, SIGKILL);
  const int pid = pid_;
  eventually([pid] { return !alive(pid); });
}

Follower::Follower(const std::string& socket, std::uint64_t after)
    : stub_(node::v1::Supervisor::NewStub(channelTo(socket))) {
  context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(180));
  thread_ = std::thread([this, after] {
    node::v1::RecordsRequest request;
    request.set_after(after);
    request.set_follow(true);
    auto reader = stub_->Records(&context_, request);
    run::v1::Record record;
    while (reader->Read(&record)) {
      std::lock_guard lock(mutex_);
      records_.push_back(record);
    }
    const grpc::Status end = reader->Finish();
    std::lock_guard lock(mutex_);
    ended_ = fmt::format("after {} records: {} {}", records_.size(),
                         static_cast<int>(end.error_code()), end.error_message());
  });
}

Follower::~Follower() {
  context_.TryCancel();
  thread_.join();
}

std::vector<run::v1::Record> Follower::records() const {
  std::lock_guard lock(mutex_);
  return records_;
}

bool Follower::waitFor(const std::function<bool(const run::v1::Record&)>& condition,
                       double seconds) {
  return eventually(
      [&] {
        std::lock_guard lock(mutex_);
        return std::any_of(records_.begin(), records_.end(), condition);
      },
      seconds);
}

bool Follower::waitFinished(double seconds) {
  return waitFor([](const run::v1::Record& record) { return record.has_finished(); }, seconds);
}

std::string Follower::ended() const {
  std::lock_guard lock(mutex_);
  return ended_.empty() ? fmt::format("goes on, with {} records", records_.size()) : ended_;
}

run::v1::RunState Follower::state() const {
  for (const auto& record : records())
    if (record.has_finished()) return record.finished().state();
  return run::v1::RUN_STATE_UNSPECIFIED;
}

std::string Follower::error() const {
  for (const auto& record : records())
    if (record.has_error())
      return record.error().what().text() + ": " + record.error().why().text();
  return {};
}

std::int64_t Follower::lastStep(int rank) const {
  std::int64_t last = 0;
  for (const auto& record : records())
    if (record.has_steps() && record.steps().rank() == rank)
      last = record.steps().first_step() + record.steps().loss_size() - 1;
  return last;
}

int Follower::pidOf(int rank) const {
  for (const auto& record : records())
    if (record.has_rank() && record.rank().rank() == rank && record.rank().pid() > 0)
      return record.rank().pid();
  return -1;
}

std::string newRunId() {
  static std::atomic<int> count{0};
  return "t" + std::to_string(getpid()) + "-" + std::to_string(monotonicNow() % 1'000'000'007) +
         "-" + std::to_string(++count);
}

node::v1::PrepareRequest prepareRequest(const RunOptions& options, int node) {
  node::v1::PrepareRequest request;
  request.set_run(options.run);
  request.set_generation(1);
  const bool evaluates = node == static_cast<int>(options.nodes.size());
  request.set_node(evaluates ? options.evaluator : options.nodes[static_cast<std::size_t>(node)]);
  request.set_coordinator(node == 0);
  request.set_comm(options.comm);
  request.set_sample_hertz(5);

  spec::v1::RunSpec& spec = *request.mutable_spec();
  spec.set_version(1);
  spec.mutable_model()->set_version(1);
  spec.mutable_model()->set_name("fashion-mlp");
  for (int extent : {28, 28, 1}) spec.mutable_model()->mutable_input()->add_shape(extent);
  spec.mutable_model()->add_layers()->mutable_flatten();
  auto* hidden = spec.mutable_model()->add_layers()->mutable_dense();
  hidden->set_units(options.hidden);
  hidden->set_activation("relu");
  spec.mutable_model()->add_layers()->mutable_dense()->set_units(10);
  spec.mutable_model()->set_loss("cross-entropy");
  spec.mutable_model()->set_classes(10);
  const std::string data = "/usr/share/datasets/fashion-mnist/";
  spec.mutable_data()->set_format("idx");
  spec.mutable_data()->mutable_train()->set_images(data + "train-images-idx3-ubyte.gz");
  spec.mutable_data()->mutable_train()->set_labels(data + "train-labels-idx1-ubyte.gz");
  spec.mutable_data()->mutable_evaluate()->set_images(data + "t10k-images-idx3-ubyte.gz");
  spec.mutable_data()->mutable_evaluate()->set_labels(data + "t10k-labels-idx1-ubyte.gz");
  spec.mutable_recovery()->set_policy(options.recovery);
  auto* training = spec.mutable_training();
  training->set_batch(options.batch);
  training->set_epochs(1000);
  training->set_max_steps(options.maxSteps);
  training->set_seed(7);
  training->set_backend(options.backend);
  training->mutable_optimizer()->set_kind("sgd");
  training->mutable_optimizer()->set_learning_rate(0.05);
  spec.mutable_strategy()->set_kind(options.strategy);
  if (Status status = specs::checkAndFill(spec); !status.ok())
    throw std::runtime_error(status.error().text());

  spec::v1::ClusterSpec& cluster = *request.mutable_cluster();
  cluster.set_version(1);
  cluster.set_name("test");
  cluster.set_comm(options.comm);
  for (const std::string& name : options.nodes) {
    auto* one = cluster.add_nodes();
    one->set_name(name);
    one->set_address("127.0.0.1");
    auto* device = one->add_devices();
    device->set_kind(options.device);
    device->set_count(options.ranks);
  }

  if (!options.evaluator.empty()) {
    auto* one = cluster.add_nodes();
    one->set_name(options.evaluator);
    one->set_address("127.0.0.1");
    one->add_roles("evaluator");
  }

  const auto model = must(specs::toModel(spec.model()));
  planner::PlanRequest plan;
  plan.step = must(models::build(model, options.batch, DType::kF32, models::Use::kTraining));
  plan.evaluate = must(models::build(model, 1000, DType::kF32, models::Use::kEvaluation));
  plan.training.optimizer.kind = "sgd";
  plan.training.seed = 7;
  plan.strategy = options.strategy;
  const auto all = must(specs::toCluster(cluster, {}, spec.strategy()));
  const auto made = must(planner::makePlan(plan, all, {}));
  request.set_plan(plan::text(made));
  request.set_plan_hash(plan::hash(made));
  if (evaluates) {
    request.set_evaluation_plan(plan::text(
        must(planner::makeEvaluationPlan(plan, {options.evaluator, "host", "cpu", 0, 1}, {}))));
    return request;
  }
  for (int rank = 0; rank < options.ranks; ++rank) request.add_ranks(node * options.ranks + rank);
  return request;
}

}  // namespace lockstep::agent_test
