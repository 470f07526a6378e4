// Copies of checkpoints between two supervisors' parts in this process: real connections and files.
#include "agent/supervisor/checkpoint_copies.h"

#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/random.h"
#include "engine/weights/checkpoint_files.h"
#include "tests/agent/agent_node.h"
#include "tests/agent/run_keys.h"

using namespace lockstep;
using namespace lockstep::agent_test;
using agent::CheckpointCopies;

namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr std::size_t kBytes = std::size_t{12} << 20;
constexpr double kSlowLink = 2e7;  // a tenth of it takes 6 s for these

std::string randomText(std::size_t bytes) {
  std::string out(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(randomBits(3, i));
  return out;
}

// n2 keeps copies of the files that n1, with rank 0, has written at step 5.
class TwoSupervisors {
 public:
  explicit TwoSupervisors(double link) {
    const std::string own = from_.path().toStdString();
    const TensorInfo tensor{"params/a", DType::kF32, {kBytes / 4}};
    weights::Manifest manifest;
    manifest.tensors[tensor.name] = tensor;
    manifest.contents[weights::shardFile(0)] = {{tensor, 0, 0, 1, 0, kBytes / 4}};
    ok_ = true;
    for (const QTemporaryDir* folder : {&from_, &to_}) {
      const auto path = fileIn(*folder).parent_path() / weights::kManifestFile;
      std::filesystem::create_directories(path.parent_path());
      ok_ = ok_ && writeFileAtomically(path, weights::textOf(manifest)).ok();
    }
    ok_ = ok_ && writeFileAtomically(fileIn(from_), state_).ok();
    auto server =
        agent::PeerServer::start(loop_, "127.0.0.1", requestOf(0), {own, modelIn(from_)}, {});
    ok_ = ok_ && server.ok();
    if (!ok_) return;
    server_ = std::move(*server);
    CheckpointCopies::Handlers handlers;
    handlers.say = [](const std::string&) {};
    handlers.onCopied = [this](std::int64_t step, const Status& copied) {
      failed_ = copied.ok() ? "" : copied.error().text();
      copied_ = step;
    };
    handlers.onModelCopied = [this](const Status& copied) {
      failed_ = copied.ok() ? "" : copied.error().text();
      modelCopied_ = true;
    };
    copies_ = std::make_unique<CheckpointCopies>(loop_, requestOf(1), 1, to_.path().toStdString(),
                                                 modelIn(to_), 2, std::move(handlers));
    copies_->setSources({{"n1", server_->address(), {0}, link}});
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~TwoSupervisors() {
    loop_.quit();
    if (thread_.joinable()) thread_.join();
  }

  bool ok() const { return ok_; }
  void copy(bool atOnce) {
    loop_.call([&] { copies_->copy(5, atOnce); });
  }
  // Returns what the other node has of the model then, or the error.
  std::string copyModel(const std::string& model) {
    if (!model.empty() && !writeFileAtomically(modelIn(from_), model).ok()) return "not written";
    loop_.call([&] { copies_->copyModel({"n1", server_->address()}); });
    if (!eventually([this] { return modelCopied_.load(); }, 60)) return "no answer";
    const auto there = readFile(modelIn(to_));
    return failed_.empty() && there.ok() ? *there : failed_;
  }
  void end() {
    loop_.call([&] { copies_->end(); });
  }
  bool isOver() const { return copies_->isOver(); }
  bool isCopied(double seconds) {
    if (!eventually([this] { return copied_ == 5; }, seconds) || !failed_.empty()) return false;
    const auto there = readFile(fileIn(to_));
    return there.ok() && *there == state_;
  }

 private:
  node::v1::PrepareRequest requestOf(int node) const {
    auto out = prepareRequest(options_, node);
    *out.mutable_tls() = authority_.identity(agent::peerIdentity(options_.run, out.node(), 1));
    return out;
  }
  static std::filesystem::path fileIn(const QTemporaryDir& folder) {
    return weights::checkpointAt(folder.path().toStdString(), 5) / weights::shardFile(0);
  }

  static std::string modelIn(const QTemporaryDir& folder) {
    return folder.filePath("model.safetensors").toStdString();
  }

  const RunOptions options_{.run = newRunId(), .nodes = {"n1", "n2"}, .ranks = 1, .comm = "gloo"};
  const RunAuthority authority_;
  const std::string state_ = randomText(kBytes);
  QTemporaryDir from_, to_;
  agent::EventLoop loop_;
  std::unique_ptr<agent::PeerServer> server_;
  std::unique_ptr<CheckpointCopies> copies_;
  std::thread thread_;
  std::atomic<std::int64_t> copied_{0};
  std::atomic<bool> modelCopied_{false};
  std::string failed_;  // read once one of them is set
  bool ok_ = false;
};

}  // namespace

class CheckpointCopiesTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void withoutAPaceTheyComeAtOnce_data() {
    QTest::addColumn<double>("link");
    QTest::addColumn<bool>("atOnce");
    QTest::newRow("nothing is known of the link") << 0.0 << false;
    QTest::newRow("something waits") << kSlowLink << true;
  }
  void withoutAPaceTheyComeAtOnce() {
    QFETCH(double, link);
    QFETCH(bool, atOnce);
    TwoSupervisors both(link);
    QVERIFY(both.ok());
    const Nanoseconds begin = monotonicNow();
    both.copy(atOnce);
    QVERIFY(both.isCopied(60));
    QVERIFY(monotonicNow() - begin < 4 * kSecond);
  }

  void theModelIsCopied() {
    TwoSupervisors both(kSlowLink);
    QVERIFY(both.ok());
    const std::string model = randomText(5'000'001);
    QVERIFY(both.copyModel(model) == model);
  }
  void thereIsNoModel() {
    TwoSupervisors both(0);
    QVERIFY(both.ok());
    const QString told = QString::fromStdString(both.copyModel(""));
    QVERIFY2(told.contains("the trained model of node n1 has no copy"), qPrintable(told));
  }

  // Those of the checkpoints' files, but for a path, which keeps no model.
  void theModelHasHolders_data() {
    using Names = std::vector<std::string>;
    QTest::addColumn<bool>("oneHost");
    QTest::addColumn<int>("copies");  // -1: left out
    QTest::addColumn<QString>("path");
    QTest::addColumn<Names>("files");  // that keep the first node's
    QTest::addColumn<Names>("model");
    QTest::newRow("two hosts") << false << -1 << "" << Names{"n2"} << Names{"n2"};
    QTest::newRow("shared storage") << false << -1 << "/shared" << Names{} << Names{"n2"};
    QTest::newRow("no copies") << false << 0 << "/shared" << Names{} << Names{};
    QTest::newRow("copies of both") << false << 1 << "/shared" << Names{"n2"} << Names{"n2"};
    QTest::newRow("one host") << true << -1 << "/shared" << Names{} << Names{};
  }
  void theModelHasHolders() {
    QFETCH(bool, oneHost);
    QFETCH(int, copies);
    QFETCH(QString, path);
    QFETCH(std::vector<std::string>, files);
    QFETCH(std::vector<std::string>, model);
    RunOptions options;
    options.nodes = {"n1", "n2"};
    options.ranks = 1;
    options.comm = "gloo";
    node::v1::PrepareRequest request = prepareRequest(options, 0);
    auto& checkpoint = *request.mutable_spec()->mutable_training()->mutable_checkpoint();
    checkpoint.set_path(path.toStdString());
    if (copies >= 0) checkpoint.set_copies(copies);
    request.clear_hosts();
    for (const char* node : {"n1", "n2"}) {
      auto& host = *request.add_hosts();
      host.set_node(node);
      host.set_host(oneHost ? "h1" : node);
    }
    std::vector<std::string> holders;
    for (const auto& [holder, of] : agent::copiedNodes(request))
      if (std::find(of.begin(), of.end(), "n1") != of.end()) holders.push_back(holder);
    QCOMPARE(holders, files);
    QCOMPARE(agent::modelHolders(request, "n1"), model);
  }

  void theyKeepTheirPace() {
    TwoSupervisors both(kSlowLink);
    QVERIFY(both.ok());
    const Nanoseconds begin = monotonicNow();
    both.copy(false);
    QVERIFY(both.isCopied(60));
    QVERIFY(monotonicNow() - begin > 5 * kSecond);
  }

  void whatIsUnderWayHurries() {
    TwoSupervisors both(kSlowLink);
    QVERIFY(both.ok());
    const Nanoseconds begin = monotonicNow();
    both.copy(false);
    QVERIFY(!both.isCopied(1));
    both.copy(true);
    QVERIFY(both.isCopied(60));
    QVERIFY(monotonicNow() - begin < 5 * kSecond);
  }

  void theyEndInThePause() {
    TwoSupervisors both(kSlowLink);
    QVERIFY(both.ok());
    both.copy(false);
    QVERIFY(!both.isCopied(1));
    const Nanoseconds begin = monotonicNow();
    both.end();
    QVERIFY(eventually([&] { return both.isOver(); }));
    QVERIFY(monotonicNow() - begin < 2 * kSecond);
    QVERIFY(!both.isCopied(0));
  }
};

QTEST_GUILESS_MAIN(CheckpointCopiesTest)
#include "checkpoint_copies_test.moc"
