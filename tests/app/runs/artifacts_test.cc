// Fetching the files of a program from a node that answers as it likes.
#include "app/runs/artifacts.h"

#include <grpcpp/grpcpp.h>

#include <QDir>
#include <QTemporaryDir>
#include <QTest>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "lockstep/node/v1/node.grpc.pb.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

namespace fs = std::filesystem;

// An agent and a supervisor in one.
class Node final : public node::v1::Agent::Service, public node::v1::Supervisor::Service {
 public:
  struct File {
    std::string path, content;
    std::int64_t listedBytes = -2;  // -2: as it has
    bool wrongHash = false;
  };
  std::vector<File> files;
  int failures = 0;  // of the next calls, with UNAVAILABLE
  std::vector<std::int64_t> offsets;

  grpc::Status FindRun(grpc::ServerContext*, const node::v1::FindRunRequest*,
                       node::v1::RunOnNode* reply) override {
    reply->set_socket("supervisor");
    *reply->mutable_speaks() = specs::toProto(specs::ownProtocols());
    return grpc::Status::OK;
  }
  grpc::Status ListArtifacts(grpc::ServerContext*, const node::v1::ListArtifactsRequest*,
                             grpc::ServerWriter<node::v1::ListArtifactsReply>* writer) override {
    node::v1::ListArtifactsReply reply;
    for (const File& file : files) {
      auto& one = *reply.add_files();
      one.set_path(file.path);
      one.set_bytes(file.listedBytes == -2 ? static_cast<std::int64_t>(file.content.size())
                                           : file.listedBytes);
      one.set_modified_ns(1'000'000'007);
    }
    writer->Write(reply);
    return grpc::Status::OK;
  }
  grpc::Status FetchArtifact(grpc::ServerContext*, const node::v1::FetchArtifactRequest* request,
                             grpc::ServerWriter<node::v1::FetchChunk>* writer) override {
    for (const File& file : files) {
      if (file.path != request->path()) continue;
      offsets.push_back(request->offset());
      if (failures > 0 && request->offset() > 0 && failures-- > 0)
        return {grpc::StatusCode::UNAVAILABLE, "gone"};
      const std::string part = file.content.substr(
          static_cast<std::size_t>(request->offset()),
          file.listedBytes == -2 ? static_cast<std::size_t>(request->bytes()) : std::string::npos);
      node::v1::FetchChunk chunk;
      const std::size_t piece = std::max<std::size_t>(1, part.size() / 9);
      for (std::size_t at = 0; at < part.size(); at += piece) {
        chunk.set_data(part.substr(at, piece));
        writer->Write(chunk);
      }
      chunk.clear_data();
      chunk.set_sha256(file.wrongHash ? sha256Hex("other") : sha256Hex(part));
      writer->Write(chunk);
      return grpc::Status::OK;
    }
    return {grpc::StatusCode::NOT_FOUND, "no such file"};
  }
};

class Access final : public NodeAccess {
 public:
  Access(std::string name, const std::string& address)
      : name_(std::move(name)),
        channel_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {}
  const std::string& name() const override { return name_; }
  Result<NodeInventory> waitConnected(std::stop_token) override { return NodeInventory(); }
  Result<std::shared_ptr<grpc::Channel>> agent() override { return channel_; }
  Result<std::shared_ptr<grpc::Channel>> supervisor(const std::string&) override {
    return channel_;
  }
  Result<std::string> forward(const std::string&) override {
    return makeError(Code::kInternal, "not used");
  }
  void unforward(const std::string&) override {}

 private:
  std::string name_;
  std::shared_ptr<grpc::Channel> channel_;
};

constexpr std::int64_t kMost = std::int64_t{1} << 40;

struct World {
  explicit World(std::string name = "n1") {
    const std::string address = "unix:" + folder.path().toStdString() + "/socket";
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(static_cast<node::v1::Agent::Service*>(&node));
    builder.RegisterService(static_cast<node::v1::Supervisor::Service*>(&node));
    server = builder.BuildAndStart();
    access = std::make_unique<Access>(std::move(name), address);
    home.root = folder.path().toStdString() + "/home/deep";
  }
  Result<Artifacts> fetch(std::int64_t most = kMost) {
    return fetchArtifacts("run", {{access->name(), access.get()}}, most, home, {}, {});
  }
  std::vector<std::string> filesHere() const {  // of the whole folder but the socket
    std::vector<std::string> out;
    for (const auto& entry :
         fs::recursive_directory_iterator(folder.path().toStdString() + "/home"))
      if (!entry.is_directory() || entry.is_symlink())
        out.push_back(fs::relative(entry.path(), home.artifactsFolder("run")).string());
    std::sort(out.begin(), out.end());
    return out;
  }
  QTemporaryDir folder;
  Node node;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Access> access;
  Home home;
};

QString textOf(const Artifacts& artifacts) {
  QString out;
  for (const Message& one : artifacts.problems) out += QString::fromStdString(one.text()) + "\n";
  return out;
}

}  // namespace

class ArtifactsTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void nothingIsWrittenOutside_data() {
    QTest::addColumn<QByteArray>("path");
    for (const char* path : {"../x", "../../x", "a/../../x", "/tmp/lockstep-artifact", "", ".",
                             "..", "a//b", "./a", "a/.", "a/", "/"})
      QTest::newRow(path) << QByteArray(path);
    QTest::newRow("zero byte") << QByteArray("a\0b", 3);
    QTest::newRow("long") << QByteArray(5000, 'x');
    QTest::newRow("deep") << QByteArray("x/").repeated(200) + "x";
  }
  void nothingIsWrittenOutside() {
    QFETCH(QByteArray, path);
    World world;
    world.node.files = {{path.toStdString(), "content"}, {"good", "content"}};
    const auto fetched = world.fetch();
    QVERIFY(fetched.ok());
    QCOMPARE(fetched->files, std::int64_t{1});
    QCOMPARE(fetched->problems.size(), std::size_t{1});
    QCOMPARE(world.filesHere(),
             (std::vector<std::string>{"../.fetching", "../SHA256SUMS", "n1/good"}));
    QVERIFY(!QFile::exists("/tmp/lockstep-artifact"));
  }

  // Also where somebody has put links into the folder.
  void nothingIsWrittenThroughLinks() {
    World world;
    const std::string own = world.home.artifactsFolder("run") + "/n1";
    const std::string elsewhere = world.folder.path().toStdString() + "/elsewhere";
    fs::create_directories(own);
    fs::create_directories(elsewhere);
    QVERIFY(writeFileAtomically(elsewhere + "/target", "old").ok());
    fs::create_symlink(elsewhere, own + "/folder");
    fs::create_symlink(elsewhere + "/target", own + "/file");
    world.node.files = {{"folder/x", "new"}, {"file", "new"}};
    const auto fetched = world.fetch();
    QVERIFY(fetched.ok());
    QCOMPARE(fetched->files, std::int64_t{1});  // the link is replaced
    QVERIFY(!fs::exists(elsewhere + "/x"));
    QCOMPARE(*readFile(elsewhere + "/target"), std::string("old"));
    QVERIFY(!fs::is_symlink(own + "/file"));
    QVERIFY2(textOf(*fetched).contains("folder/x"), qPrintable(textOf(*fetched)));
  }

  void whatANodeTellsWrongIsRefused_data() {
    QTest::addColumn<qint64>("listed");
    QTest::addColumn<bool>("wrongHash");
    QTest::newRow("more than listed") << qint64{100} << false;
    QTest::newRow("less than listed") << qint64{3000} << false;
    QTest::newRow("below nothing") << qint64{-1} << false;
    QTest::newRow("another hash") << qint64{1000} << true;
  }
  void whatANodeTellsWrongIsRefused() {
    QFETCH(qint64, listed);
    QFETCH(bool, wrongHash);
    World world;
    world.node.files = {{"x", std::string(1000, 'x'), listed, wrongHash}};
    const auto fetched = world.fetch();
    QVERIFY(fetched.ok());
    QCOMPARE(fetched->files, std::int64_t{0});
    QCOMPARE(fetched->problems.size(), std::size_t{1});
    QCOMPARE(world.filesHere(), (std::vector<std::string>{"../.fetching", "../SHA256SUMS"}));
  }

  void sizesThatOverflowAreTooMuch() {
    World world;
    const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    world.node.files = {{"x", "1", huge}, {"y", "2", huge}};
    QCOMPARE(world.fetch(huge - 1).status().code(), Code::kResourceExhausted);
    QVERIFY(!fs::exists(world.home.artifactsFolder("run")));
  }

  void aFileAndAFolderOfOneName() {
    World world;
    world.node.files = {{"x", "1"}, {"x/y", "2"}, {"x", "1"}};
    const auto fetched = world.fetch();
    QVERIFY(fetched.ok());
    QVERIFY2(textOf(*fetched).contains("x/y"), qPrintable(textOf(*fetched)));
  }

  // Of files that were fetched before and are here, though their node no longer has them.
  void earlierSumsStay() {
    World first("n1"), second("n2");
    first.node.files = {{"a\\b\nc", "1"}, {"removed", "2"}};
    second.node.files = {{"x", "3"}};
    const auto sums = [&] {
      const auto fetched =
          fetchArtifacts("run", {{"n1", first.access.get()}, {"n2", second.access.get()}}, kMost,
                         first.home, {}, {});
      if (!fetched.ok()) qFatal("%s", fetched.error().text().c_str());
      return *readFile(first.home.runFolder("run") + "/SHA256SUMS");
    };
    const std::string odd = "\\" + sha256Hex("1") + "  artifacts/n1/a\\\\b\\nc\n";
    const auto line = [](const char* content, const char* path) {
      return sha256Hex(content) + "  artifacts/" + path + "\n";
    };
    const std::string all = odd + line("2", "n1/removed") + line("3", "n2/x");
    QCOMPARE(sums(), all);
    first.node.files.clear();
    QCOMPARE(sums(), all);
    fs::remove(first.home.artifactsFolder("run") + "/n1/removed");
    second.node.files = {{"x", "33"}};
    QCOMPARE(sums(), odd + line("33", "n2/x"));
  }

  // Only the part that was lost comes again.
  void aLostConnectionIsMadeAgain() {
    World world;
    std::string content(20'000'000, '\0');
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 / 3);
    world.node.files = {{"x", content}};
    world.node.failures = 2;
    const auto fetched = world.fetch();
    QVERIFY(fetched.ok());
    QVERIFY2(fetched->problems.empty(), qPrintable(textOf(*fetched)));
    QVERIFY(*readFile(world.home.artifactsFolder("run") + "/n1/x") == content);
    constexpr std::int64_t kPart = std::int64_t{8} << 20;
    QCOMPARE(world.node.offsets, (std::vector<std::int64_t>{0, kPart, kPart, kPart, 2 * kPart}));
  }
};

QTEST_GUILESS_MAIN(ArtifactsTest)
#include "artifacts_test.moc"
