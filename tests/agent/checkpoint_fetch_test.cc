// What an evaluator fetches from the supervisors of other nodes: real connections and files.
#include "agent/supervisor/checkpoint_fetch.h"

#include <grpcpp/grpcpp.h>

#include <QTemporaryDir>
#include <QTest>

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/supervisor/evaluator.h"
#include "agent/supervisor/peers.h"
#include "engine/base/file.h"
#include "engine/weights/checkpoint_files.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "tests/agent/agent_node.h"
#include "tests/agent/run_keys.h"

using namespace lockstep;
using namespace lockstep::agent_test;

namespace {

namespace fs = std::filesystem;
constexpr int kStep = 5;

// n1 has rank 0 and n2 has rank 1; n3 evaluates.
struct ThreeNodes {
  const RunOptions options{
      .run = newRunId(), .nodes = {"n1", "n2"}, .ranks = 1, .comm = "gloo", .evaluator = "n3"};
  const RunAuthority authority;
  QTemporaryDir folders[3];
  agent::EventLoop loop;
  std::unique_ptr<agent::PeerServer> servers[2];
  std::string addresses[2];

  ThreeNodes() {
    for (int node = 0; node < 2; ++node) {
      auto server = agent::PeerServer::start(loop, "127.0.0.1", request(node),
                                             {folders[node].path().toStdString(), {}}, {});
      if (!server.ok()) throw std::runtime_error(server.error().text());
      servers[node] = std::move(*server);
      addresses[node] = servers[node]->address();
    }
  }

  node::v1::PrepareRequest request(int node) const {
    auto out = prepareRequest(options, node);
    *out.mutable_tls() = authority.identity(agent::peerIdentity(options.run, out.node(), 1));
    return out;
  }
  fs::path file(int node, const std::string& name) const {
    return weights::checkpointAt(folders[node].path().toStdString(), kStep) / name;
  }
  void write(int node, const std::string& name, const std::string& text) const {
    fs::create_directories(file(node, name).parent_path());
    if (!writeFileAtomically(file(node, name), text).ok()) throw std::runtime_error(name);
  }
  std::string read(const std::string& name) const {
    const auto text = readFile(file(2, name));
    return text.ok() ? *text : "";
  }
  // A checkpoint of which each rank has a part.
  void writeCheckpoint(const std::string& id) const {
    weights::Manifest manifest;
    manifest.id = id;
    for (int rank = 0; rank < 2; ++rank) {
      const TensorInfo tensor{fmt::format("params/{}", rank), DType::kF32, {4}};
      manifest.tensors[tensor.name] = tensor;
      manifest.contents[weights::shardFile(rank)] = {{tensor, 0, 0, 1, 0, 4}};
      write(rank, weights::shardFile(rank), fmt::format("rank {} of {}", rank, id));
    }
    for (int node = 0; node < 2; ++node)
      write(node, std::string(weights::kManifestFile), weights::textOf(manifest));
  }
  // `copies`: n2 has those of n1.
  node::v1::Evaluate checkpoint(bool copies, int step = kStep) const {
    node::v1::Evaluate out;
    out.mutable_epoch()->set_step(step);
    const auto add = [&](int node, int rank) {
      node::v1::FileSource& source = *out.add_sources();
      source.set_node(options.nodes[static_cast<std::size_t>(node)]);
      source.set_address(addresses[node]);
      source.add_ranks(rank);
    };
    add(0, 0);
    add(1, 1);
    if (copies) add(1, 0);
    return out;
  }
  Status fetch(const node::v1::Evaluate& what) const {
    return agent::fetchWeights(request(2), 1, what, file(2, "").parent_path(), {});
  }
};

}  // namespace

class CheckpointFetchTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void fromTheNodesThatWroteIt() {
    ThreeNodes nodes;
    nodes.writeCheckpoint("a");
    const Status fetched = nodes.fetch(nodes.checkpoint(false));
    QVERIFY2(fetched.ok(), fetched.ok() ? "" : fetched.error().text().c_str());
    for (int rank = 0; rank < 2; ++rank)
      QCOMPARE(nodes.read(weights::shardFile(rank)), fmt::format("rank {} of a", rank));
  }

  void aCopyWhereTheNodeIsGone() {
    ThreeNodes nodes;
    nodes.writeCheckpoint("a");
    nodes.servers[0].reset();
    QVERIFY(nodes.fetch(nodes.checkpoint(false)).code() == Code::kUnavailable);
    // The copy is not there yet: the node may come back.
    QVERIFY(nodes.fetch(nodes.checkpoint(true)).code() == Code::kUnavailable);
    nodes.write(1, weights::shardFile(0), "rank 0 of a");
    const Status fetched = nodes.fetch(nodes.checkpoint(true));
    QVERIFY2(fetched.ok(), fetched.ok() ? "" : fetched.error().text().c_str());
    QCOMPARE(nodes.read(weights::shardFile(0)), std::string("rank 0 of a"));
  }

  void aFileThatNobodyHas() {
    ThreeNodes nodes;
    nodes.writeCheckpoint("a");
    fs::remove(nodes.file(0, weights::shardFile(0)));
    const Status fetched = nodes.fetch(nodes.checkpoint(true));
    QVERIFY(fetched.code() == Code::kNotFound);
    QCOMPARE(fetched.error().what.text(),
             "no node of the run has the file " + weights::shardFile(0));
  }

  void anotherGenerationPasses() {
    ThreeNodes nodes;
    nodes.writeCheckpoint("a");
    const std::vector<std::string> all = {"n1", "n2", "n3"};
    for (auto& server : nodes.servers) server->setGeneration(2, all);
    QVERIFY(nodes.fetch(nodes.checkpoint(true)).code() == Code::kUnavailable);
    for (auto& server : nodes.servers) server->setGeneration(1, all);
    QVERIFY(nodes.fetch(nodes.checkpoint(true)).ok());
  }

  // A node that the run goes on without is sent no more.
  void theNextGenerationEndsWhatIsUnderWay() {
    ThreeNodes nodes;
    constexpr std::size_t kBytes = std::size_t{64} << 20;
    nodes.write(0, weights::shardFile(0), std::string(kBytes, 'x'));
    node::v1::FetchShardRequest asked;
    asked.set_run(nodes.options.run);
    asked.set_node("n3");
    asked.set_step(kStep);
    asked.set_file(weights::shardFile(0));
    asked.set_generation(1);
    const auto stub =
        node::v1::Peers::NewStub(agent::peerChannel(nodes.request(2), "n1", nodes.addresses[0]));
    const auto context = deadline();
    const auto reader = stub->FetchShard(context.get(), asked);
    node::v1::FetchChunk chunk;
    QVERIFY(reader->Read(&chunk));
    std::size_t bytes = chunk.data().size();
    nodes.servers[0]->setGeneration(2, {"n1", "n2"});
    while (reader->Read(&chunk)) bytes += chunk.data().size();
    QVERIFY(!reader->Finish().ok());
    QVERIFY(bytes < kBytes);
  }

  void whatIsWholeIsKept() {
    ThreeNodes nodes;
    nodes.writeCheckpoint("a");
    QVERIFY(nodes.fetch(nodes.checkpoint(false)).ok());
    fs::remove(nodes.file(2, weights::shardFile(0)));
    nodes.write(1, weights::shardFile(1), "not fetched");
    QVERIFY(nodes.fetch(nodes.checkpoint(false)).ok());
    QCOMPARE(nodes.read(weights::shardFile(0)), std::string("rank 0 of a"));
    QCOMPARE(nodes.read(weights::shardFile(1)), std::string("rank 1 of a"));
    // The run has restarted and come to this step again.
    nodes.writeCheckpoint("b");
    QVERIFY(nodes.fetch(nodes.checkpoint(false)).ok());
    for (int rank = 0; rank < 2; ++rank)
      QCOMPARE(nodes.read(weights::shardFile(rank)), fmt::format("rank {} of b", rank));
  }

  // It is refused, tries again, passes over to a newer one, and tells that this is gone.
  void anEvaluatorPassesOver() {
    ThreeNodes nodes;
    nodes.writeCheckpoint("a");
    const node::v1::PrepareRequest request = nodes.request(2);
    std::atomic<int> generation{2};
    std::mutex mutex;
    std::vector<std::string> said;
    std::vector<node::v1::Evaluated> told;
    agent::Evaluator::Handlers handlers;
    handlers.generation = [&] { return generation.load(); };
    handlers.say = [&](std::string line) {
      const std::lock_guard lock(mutex);
      said.push_back(std::move(line));
    };
    handlers.tell = [&](const node::v1::Evaluated& evaluated) {
      const std::lock_guard lock(mutex);
      told.push_back(evaluated);
    };
    agent::RunFolder folder;
    folder.path = nodes.folders[2].path().toStdString();
    auto evaluator = std::make_unique<agent::Evaluator>(nodes.loop, folder, request,
                                                        specs::RankDevice{}, std::move(handlers));
    QVERIFY(evaluator->start().ok());
    std::thread thread([&] { nodes.loop.run(); });
    nodes.loop.call([&] { evaluator->onNewest(nodes.checkpoint(true)); });
    nodes.loop.call([&] { evaluator->onNewest(nodes.checkpoint(true, kStep + 2)); });
    const bool passed = eventually([&] {
      const std::lock_guard lock(mutex);
      return !said.empty();
    });
    generation = 1;
    const bool ended = eventually([&] {
      const std::lock_guard lock(mutex);
      return !told.empty();
    });
    nodes.loop.call([&] { evaluator.reset(); });
    nodes.loop.quit();
    thread.join();
    QVERIFY(passed && ended);
    QCOMPARE(said.front(),
             std::string("evaluates the weights after step 7; those after step 5 were passed over: "
                         "it was still at work"));
    QCOMPARE(told.size(), std::size_t{1});
    QCOMPARE(told.front().epoch().step(), std::int64_t{7});
    QCOMPARE(told.front().error().what().text(),
             std::string("the checkpoint of step 7 is not there any more"));
    QVERIFY(!fs::exists(folder.checkpoints() + "/step-000000005"));
  }
};

QTEST_GUILESS_MAIN(CheckpointFetchTest)
#include "checkpoint_fetch_test.moc"
