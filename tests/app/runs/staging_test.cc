// Launches that bring the data files to the nodes, or have them fetched: local ones, and one behind
// a real sshd.
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <QTest>
#include <filesystem>
#include <fstream>

#include "app/cluster/node_access.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "tests/app/runs/runs_bench.h"
#include "tests/support/data_server.h"
#include "tests/support/paths.h"
#include "tests/support/sshd.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::test;

namespace {

namespace fs = std::filesystem;

const std::string kData = "/usr/share/datasets/fashion-mnist/";

// Files, and when each was written: nothing that is sent leaves this as it was.
std::map<std::string, std::int64_t> filesIn(const std::string& folder) {
  std::map<std::string, std::int64_t> out;
  std::error_code failed;
  for (const auto& entry : fs::recursive_directory_iterator(folder, failed)) {
    struct stat info {};
    if (entry.is_regular_file() && stat(entry.path().c_str(), &info) == 0)
      out[entry.path()] = static_cast<std::int64_t>(info.st_ino);
  }
  return out;
}

// Nodes that have none of the files where the run names them.
ClusterSpecFile without(ClusterSpecFile cluster, const std::vector<std::string>& files) {
  auto spec = std::make_shared<spec::v1::ClusterSpec>(*cluster.spec);
  for (auto& node : *spec->mutable_nodes())
    for (const std::string& file : files) (*node.mutable_data())[file] = "/nowhere/data";
  cluster.yaml = toYaml(*spec);
  cluster.spec = std::move(spec);
  return cluster;
}

std::vector<std::string> fashion() {
  std::vector<std::string> out;
  for (const char* name :
       {"train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"})
    out.push_back(kData + name + "-ubyte.gz");
  return out;
}

// A launch that can be looked at while it lasts.
struct Watched {
  std::vector<std::string> progress;
  std::optional<Result<std::string>> outcome;
  std::unique_ptr<Launch> launch;
  Watched(Bench& bench, const LaunchRequest& request)
      : launch(std::make_unique<Launch>(
            request, *bench.session, bench.home, bench.inbox,
            LaunchObserver{[this](const LaunchProgress& told) { progress.push_back(told.text()); },
                           [this](Result<std::string> done) { outcome = std::move(done); }})) {}
  bool copying() const {
    return std::any_of(progress.begin(), progress.end(), [](const std::string& text) {
      return text.rfind("copying data: ", 0) == 0;
    });
  }
};

// Someone else sends a file to a node, and pauses in the middle.
struct OtherSender {
  grpc::ClientContext context;
  std::shared_ptr<grpc::Channel> channel;
  node::v1::StageFileReply reply;
  std::unique_ptr<grpc::ClientWriter<node::v1::StageFileRequest>> writer;
  OtherSender(Bench& bench, int node, const std::string& text)
      : channel(bench.session->access(node).agent().value()) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    writer = node::v1::Agent::NewStub(channel)->StageFile(&context, &reply);
    node::v1::StageFileRequest piece;
    piece.set_sha256(sha256Hex(text));
    piece.set_bytes(static_cast<std::int64_t>(text.size()));
    piece.set_name("theirs");
    piece.set_data(text.substr(0, 1000));
    writer->Write(piece);
  }
  void giveUp() {
    if (!writer) return;
    context.TryCancel();
    (void)writer->Finish();
    writer.reset();
  }
  ~OtherSender() { giveUp(); }
};

}  // namespace

class StagingTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    struct stat there {};
    const std::string agent =
        qEnvironmentVariable("LOCKSTEP_BIN").toStdString() + "/lockstep-agent";
    if (::stat(agent.c_str(), &there) != 0) QSKIP("there is no lockstep-agent in $LOCKSTEP_BIN");
    if (::stat(fashion()[0].c_str(), &there) != 0) QSKIP("dataset-fashion-mnist is not installed");
  }

  // Nodes without the data train on what the launch brought; the next launch sends nothing.
  void aRunTrainsOnWhatWasCopied() {
    Bench bench(2);
    bench.cluster = without(bench.cluster, fashion());
    const auto refused = bench.launch({"training.max_steps=5", "training.batch=48"});
    QVERIFY(!refused.ok());
    QVERIFY2(refused.error().text().find("set data.copy_to_nodes") != std::string::npos,
             refused.error().text().c_str());
    std::map<std::string, std::int64_t> before;
    for (int times = 0; times < 2; ++times) {
      const auto request =
          bench.request({"training.max_steps=5", "training.batch=48", "data.copy_to_nodes=true"});
      QVERIFY2(request.ok(), request.ok() ? "" : request.error().text().c_str());
      Watched watched(bench, *request);
      QVERIFY(bench.until([&] { return watched.outcome.has_value(); }));
      QVERIFY2(watched.outcome->ok(),
               watched.outcome->ok() ? "" : watched.outcome->error().text().c_str());
      QVERIFY(watched.copying());
      Seen seen;
      Recorder recorder(**watched.outcome, *bench.session, bench.home, bench.inbox,
                        seen.observer());
      QVERIFY(bench.until([&] { return seen.finished; }));
      QVERIFY2(seen.errors.empty(), seen.errors.empty() ? "" : seen.errors[0].text().c_str());
      QCOMPARE(seen.row.phase, RunState::SUCCEEDED);
      std::map<std::string, std::int64_t> files;
      for (int node = 0; node < 2; ++node) {
        const std::string folder = bench.session->status(node).inventory.workdir + "/data/";
        for (const std::string& file : fashion()) {
          const std::string copy =
              folder + sha256File(file).value() + "/" + fs::path(file).filename().string();
          QVERIFY2(readFile(copy).ok(), copy.c_str());
          QVERIFY(readFile(copy).value() == readFile(file).value());
        }
        files.merge(filesIn(folder));
      }
      QCOMPARE(files.size(), std::size_t{8});
      if (times > 0) QVERIFY(files == before);
      before = files;
    }
  }

  // Nodes fetch a file with a URL; the next launch asks whether it is the same. Others are copied.
  void aRunTrainsOnWhatWasFetched() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
    qputenv("no_proxy", "127.0.0.1");  // of the agents
    Bench bench(2);
    bench.cluster = without(bench.cluster, fashion());
    const std::string images = readFile(fashion()[0]).value();
    DataServer server(images);
    const std::string url = server.url("/whole/images.gz");
    for (int times = 0; times < 2; ++times) {
      const auto request = bench.request({"training.max_steps=5", "training.batch=48",
                                          "data.copy_to_nodes=true", "data.train.images=" + url});
      QVERIFY2(request.ok(), request.ok() ? "" : request.error().text().c_str());
      Watched watched(bench, *request);
      QVERIFY(bench.until([&] { return watched.outcome.has_value(); }));
      QVERIFY2(watched.outcome->ok(),
               watched.outcome->ok() ? "" : watched.outcome->error().text().c_str());
      QVERIFY(std::ranges::any_of(watched.progress, [](const std::string& text) {
        return text.starts_with("fetching data: ");
      }));
      Seen seen;
      Recorder recorder(**watched.outcome, *bench.session, bench.home, bench.inbox,
                        seen.observer());
      QVERIFY(bench.until([&] { return seen.finished; }));
      QCOMPARE(seen.row.phase, RunState::SUCCEEDED);
      for (int node = 0; node < 2; ++node) {
        const std::string copy = bench.session->status(node).inventory.workdir + "/data/" +
                                 sha256Hex(images) + "/images.gz";
        QVERIFY2(readFile(copy).ok() && readFile(copy).value() == images, copy.c_str());
      }
      const auto history = History::open(bench.home.historyFolder());
      QVERIFY(history.ok());
      const auto documents = (*history)->documents(**watched.outcome);
      QVERIFY(documents.ok());
      const std::string found = fmt::format("# data.train.images: {} bytes of {}, SHA-256 {}\n",
                                            images.size(), url, sha256Hex(images));
      QVERIFY2(documents->specResolved.find(found) != std::string::npos,
               documents->specResolved.c_str());
      const auto requests = server.requests();
      QCOMPARE(requests.size(), static_cast<std::size_t>(2 * (times + 1)));
      QCOMPARE(requests.back()["headers"].toObject().contains("if-none-match"), times > 0);
    }
    const auto another = bench.launch({"data.copy_to_nodes=true", "data.train.images=" + url,
                                       "data.train.images_sha256=" + std::string(64, 'a')});
    QVERIFY(!another.ok());
    QVERIFY(another.error().text().find("the run expects " + std::string(64, 'a')) !=
            std::string::npos);
    QVERIFY(!another.error().node.empty());
  }

  // A node that has the files where the run names them is sent nothing.
  void whatIsThereIsNotCopied() {
    Bench bench(1);
    const auto run = bench.launch({"training.max_steps=2", "data.copy_to_nodes=true"});
    QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
    QVERIFY(filesIn(bench.session->status(0).inventory.workdir + "/data").empty());
  }

  void aFileThatCannotBeCopiedIsNamed() {
    Bench bench(1);
    const auto missing =
        bench.launch({"data.copy_to_nodes=true", "data.train.images=/nowhere/images.gz"});
    QVERIFY(!missing.ok());
    const std::string text = missing.error().text();
    QVERIFY2(text.find("/nowhere/images.gz on this machine") != std::string::npos, text.c_str());
    QVERIFY(!missing.error().next.empty());
    const auto another = bench.launch(
        {"data.copy_to_nodes=true", "data.train.images_sha256=" + std::string(64, 'a')});
    QVERIFY(!another.ok());
    QVERIFY2(another.error().text().find("is not the run's") != std::string::npos,
             another.error().text().c_str());
    QVERIFY(another.error().why.text().ends_with("the run expects " + std::string(64, 'a')));
    QVERIFY(filesIn(bench.session->status(0).inventory.workdir + "/data").empty());
  }

  // While another brings the same file, a launch waits, and is cancelled at once; nothing stays.
  void aCancelledLaunchLeavesNoFile() {
    Bench bench(2);
    bench.cluster = without(bench.cluster, fashion());
    bench.session->connect();
    QVERIFY(bench.until([&] { return bench.session->allConnected(); }));
    OtherSender other(bench, 1, readFile(fashion()[0]).value());
    const std::string folder = bench.session->status(1).inventory.workdir + "/data";
    QVERIFY(bench.until([&] { return filesIn(folder).size() == 1; }));
    const auto request = bench.request({"data.copy_to_nodes=true"});
    QVERIFY(request.ok());
    Watched watched(bench, *request);
    QVERIFY(bench.until([&] {
      return watched.outcome ||
             (!watched.progress.empty() &&
              watched.progress.back().rfind("copying data: waiting for local2 since", 0) == 0);
    }));
    QVERIFY(!watched.outcome);
    QVERIFY2(watched.progress.back().ends_with(" MB"), watched.progress.back().c_str());
    watched.launch->cancel();
    QVERIFY(bench.until([&] { return watched.outcome.has_value(); }, 8000));
    QVERIFY(!watched.outcome->ok());
    QCOMPARE(watched.outcome->error().code, Code::kCancelled);
    const auto row = (*History::open(bench.home.historyFolder()))->row(watched.launch->run());
    QVERIFY(row.ok());
    QCOMPARE(row->phase, RunState::STOPPED);
    other.giveUp();
    QVERIFY(bench.until([&] { return filesIn(folder).empty(); }, 60000));
  }

  // The file is written to while the launch waits to send it.
  void aFileThatChangesMeanwhileIsRefused() {
    Bench bench(1);
    const std::string own = bench.folder.path().toStdString() + "/images.gz";
    std::string text = readFile(fashion()[0]).value();
    QVERIFY(writeFileAtomically(own, text).ok());
    bench.cluster = without(bench.cluster, {own});
    bench.session->connect();
    QVERIFY(bench.until([&] { return bench.session->allConnected(); }));
    OtherSender other(bench, 0, text);
    const std::string folder = bench.session->status(0).inventory.workdir + "/data";
    QVERIFY(bench.until([&] { return filesIn(folder).size() == 1; }));
    const auto request = bench.request({"data.copy_to_nodes=true", "data.train.images=" + own});
    QVERIFY(request.ok());
    Watched watched(bench, *request);
    QVERIFY(bench.until([&] {
      return watched.outcome || (!watched.progress.empty() &&
                                 watched.progress.back().find("copying data: waiting for") == 0);
    }));
    QVERIFY(!watched.outcome);
    {
      std::fstream file(own, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(text.size() - 1));
      file.put(static_cast<char>(text.back() ^ 1));
    }
    other.giveUp();
    QVERIFY(bench.until([&] { return watched.outcome.has_value(); }));
    QVERIFY(!watched.outcome->ok());
    const Error& error = watched.outcome->error();
    QVERIFY2(error.what.text().find("images.gz") != std::string::npos, error.text().c_str());
    QVERIFY2(error.next.text().starts_with("check whether something writes to it"),
             error.text().c_str());
    QVERIFY(bench.until([&] { return filesIn(folder).empty(); }, 60000));
  }

  // The same road leads through SSH.
  void aNodeBehindSshIsBroughtTheFiles() {
    std::string why, output;
    Bench bench(1);
    const std::string folder = bench.folder.path().toStdString();
    makeKey(folder + "/id");
    const auto server = Sshd::start(folder + "/sshd", folder + "/id", {}, &why);
    if (!server) QSKIP(why.c_str());
    QVERIFY2(runCommand({lockstep::test::sourcePath("packaging/bundle"), ".", folder + "/bundle",
                         qEnvironmentVariable("LOCKSTEP_BIN").toStdString() + "/lockstep-agent"},
                        &output) == 0,
             output.c_str());
    qputenv("LOCKSTEP_BUNDLE", QByteArray::fromStdString(folder + "/bundle"));
    writeText(folder + "/known", server->knownHostsLine() + "\n", 0600);
    writeText(folder + "/config", sshConfigFor({server.get()}, folder + "/known", folder + "/id"));
    bench.cluster = without(bench.cluster, fashion());
    auto spec = std::make_shared<spec::v1::ClusterSpec>(*bench.cluster.spec);
    spec->mutable_nodes(0)->mutable_ssh()->set_host("n1");
    bench.cluster.yaml = toYaml(*spec);
    bench.cluster.spec = spec;
    ClusterSessionOptions options;
    options.home = bench.home;
    options.ask = false;
    options.sshConfig = folder + "/config";
    bench.session = std::make_unique<ClusterSession>(spec, options, bench.inbox);
    const auto run =
        bench.launch({"training.max_steps=5", "training.batch=48", "data.copy_to_nodes=true"});
    QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
    Seen seen;
    Recorder recorder(*run, *bench.session, bench.home, bench.inbox, seen.observer());
    QVERIFY(bench.until([&] { return seen.finished; }));
    QVERIFY2(seen.errors.empty(), seen.errors.empty() ? "" : seen.errors[0].text().c_str());
    QCOMPARE(seen.row.phase, RunState::SUCCEEDED);
    QCOMPARE(filesIn(bench.session->status(0).inventory.workdir + "/data").size(), std::size_t{4});
  }
};

QTEST_GUILESS_MAIN(StagingTest)
#include "staging_test.moc"
