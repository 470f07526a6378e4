// Data files brought to a node: found, taken, refused, given up.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <QScopeGuard>
#include <QTest>
#include <array>
#include <filesystem>
#include <thread>

#include "agent/node/staging.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "tests/agent/agent_node.h"
#include "tests/support/data_server.h"

using namespace lockstep;
using namespace lockstep::agent_test;

namespace {

namespace fs = std::filesystem;

run::v1::ErrorInfo errorOf(const grpc::Status& status) {
  run::v1::ErrorInfo info;
  info.ParseFromString(status.error_details());
  return info;
}

std::vector<fs::path> filesOf(const Node& node) {
  std::vector<fs::path> out;
  std::error_code failed;
  for (const auto& entry : fs::recursive_directory_iterator(node.workdir() + "/data", failed))
    if (entry.is_regular_file()) out.push_back(entry.path());
  return out;
}

// Of `bytes` bytes, another one for every seed.
std::string content(std::size_t bytes, std::uint32_t seed) {
  std::string out(bytes, '\0');
  for (char& c : out) c = static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
  return out;
}

// A file on its way to a node.
class Sending {
 public:
  Sending(Node& node, const std::string& sha256, std::int64_t bytes, const std::string& name)
      : context_(deadline(60)), writer_(node.agent().StageFile(context_.get(), &reply_)) {
    piece_.set_sha256(sha256);
    piece_.set_bytes(bytes);
    piece_.set_name(name);
    writer_->Write(piece_);
  }
  void write(std::string_view text) {
    for (std::size_t at = 0; at < text.size(); at += std::size_t{1} << 18) {
      piece_.Clear();
      piece_.set_data(std::string(text.substr(at, std::size_t{1} << 18)));
      if (!writer_->Write(piece_)) return;
    }
  }
  void cancel() { context_->TryCancel(); }
  grpc::Status end() {
    writer_->WritesDone();
    return writer_->Finish();
  }
  const std::string& path() const { return reply_.path(); }

 private:
  std::unique_ptr<grpc::ClientContext> context_;
  node::v1::StageFileReply reply_;
  node::v1::StageFileRequest piece_;
  std::unique_ptr<grpc::ClientWriter<node::v1::StageFileRequest>> writer_;
};

struct Sent {
  grpc::Status status;
  std::string path;
};
Sent send(Node& node, const std::string& text, const std::string& name = "images.gz") {
  Sending sending(node, sha256Hex(text), static_cast<std::int64_t>(text.size()), name);
  sending.write(text);
  const grpc::Status status = sending.end();
  return {status, sending.path()};
}

std::string find(Node& node, const std::string& text, const std::string& path = {}) {
  node::v1::FindFileRequest request;
  request.set_sha256(sha256Hex(text));
  request.set_bytes(static_cast<std::int64_t>(text.size()));
  request.set_path(path);
  node::v1::FindFileReply reply;
  const grpc::Status status = findFile(node.agent(), request, &reply);
  return status.ok() ? reply.path() : "failed: " + status.error_message();
}

}  // namespace

class AgentStagingTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void whatWasSentIsFound() {
    Node node("n1");
    node.start();
    const std::string text = content(3000000, 1);
    QCOMPARE(find(node, text), std::string());
    const Sent sent = send(node, text);
    QVERIFY2(sent.status.ok(), sent.status.error_message().c_str());
    QCOMPARE(sent.path, node.workdir() + "/data/" + sha256Hex(text) + "/images.gz");
    QCOMPARE(readFile(sent.path).value(), text);
    QCOMPARE(find(node, text), sent.path);
    QCOMPARE(find(node, text, "/no/such/file"), sent.path);
    // Under whatever name it is sent again, it is there.
    struct stat before {
    }, after{};
    QCOMPARE(stat(sent.path.c_str(), &before), 0);
    QCOMPARE(send(node, text, "other.gz").path, sent.path);
    QCOMPARE(stat(sent.path.c_str(), &after), 0);
    QCOMPARE(after.st_ino, before.st_ino);
    QCOMPARE(filesOf(node).size(), std::size_t{1});
    // Where the run expects it, it need not be sent.
    const std::string own = node.workdir() + "/own", other = content(3000000, 2);
    QVERIFY(writeFileAtomically(own, other).ok());
    QCOMPARE(find(node, other, own), own);
    QCOMPARE(find(node, text, own), sent.path);
    QVERIFY(writeFileAtomically(own, text).ok());
    QCOMPARE(find(node, other, own), std::string());
    QCOMPARE(send(node, "").status.ok(), true);
  }

  // Two launches ask for the same file at the same time.
  void aFileIsFetchedOnceForAll() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
    qputenv("no_proxy", "127.0.0.1");  // of the agent
    const std::string text = content(1000000, 3);
    test::DataServer server(text);
    QVERIFY(server.isRunning());
    Node node("n1");
    node.start();
    node::v1::FetchFileRequest request;
    request.set_url(server.url("/slow/images.gz"));
    request.set_max_bytes(std::int64_t{1} << 30);
    std::array<std::string, 2> paths;
    std::array<std::int64_t, 2> told{};
    std::vector<std::jthread> clients;
    for (std::size_t i = 0; i < paths.size(); ++i)
      clients.emplace_back([&, i] {
        const auto context = deadline(60);
        const auto reader = node.agent().FetchFile(context.get(), request);
        for (node::v1::FetchFileReply reply; reader->Read(&reply);) {
          if (reply.has_progress() &&
              reply.progress().activity() == node::v1::DataProgress::FETCHING)
            told[i] = std::max(told[i], reply.progress().bytes_done());
          if (!reply.has_progress()) paths[i] = reply.path();
        }
        (void)reader->Finish();
      });
    clients.clear();
    for (std::size_t i = 0; i < paths.size(); ++i) {
      QCOMPARE(paths[i], node.workdir() + "/data/" + sha256Hex(text) + "/images.gz");
      QVERIFY(told[i] > 0);
    }
    QCOMPARE(server.requests().size(), std::size_t{1});
    QCOMPARE(readFile(paths[0]).value(), text);
    request.set_url("https://me:secret@host/x");
    node::v1::FetchFileReply reply;
    const auto context = deadline(60);
    const auto reader = node.agent().FetchFile(context.get(), request);
    QVERIFY(!reader->Read(&reply));
    const run::v1::ErrorInfo error = errorOf(reader->Finish());
    QVERIFY(error.why().text().find("password") != std::string::npos);
    QVERIFY(error.SerializeAsString().find("secret") == std::string::npos);
  }

  void whatIsAnotherFileIsRefused() {
    Node node("n1");
    node.start();
    const std::string text = content(1000000, 1), another = content(1000000, 2);
    const auto refusal = [&](const std::string& sha256, std::int64_t bytes,
                             const std::string& name) {
      Sending sending(node, sha256, bytes, name);
      sending.write(text);
      return errorOf(sending.end());
    };
    const run::v1::ErrorInfo changed = refusal(sha256Hex(another), 1000000, "images.gz");
    QCOMPARE(changed.what().text(),
             std::string("the data file images.gz arrived with other content"));
    QVERIFY(QString::fromStdString(changed.why().text())
                .contains(QString::fromStdString(sha256Hex(text))));
    QVERIFY(!changed.next().text().empty());
    for (const std::int64_t bytes : {999999, 1000001, 0})
      QCOMPARE(refusal(sha256Hex(text), bytes, "images.gz").what().text(),
               std::string("the data file images.gz did not arrive whole"));
    for (const char* name : {"../images.gz", "a/b", "", ".hidden"})
      QVERIFY(refusal(sha256Hex(text), 1000000, name).what().text().find("is not the name") !=
              std::string::npos);
    for (const char* hash : {"", "../../x", "00"})
      QVERIFY(refusal(hash, 1000000, "x").what().text().find("is not a SHA-256") !=
              std::string::npos);
    QVERIFY(filesOf(node).empty());
    QCOMPARE(find(node, text), std::string());
  }

  // A client that leaves, an agent that is killed: nothing half-written stays, and whoever waits to
  // send the same has its turn.
  void aFileGivenUpMidwayLeavesNothing() {
    Node node("n1");
    node.start();
    const std::string text = content(4000000, 1);
    Sending first(node, sha256Hex(text), 4000000, "images.gz");
    first.write(text.substr(0, 1000000));
    QVERIFY(eventually([&] { return filesOf(node).size() == 1; }));
    QCOMPARE(find(node, text), std::string());
    Sent second;
    {
      std::jthread waiting([&] { second = send(node, text); });
      first.cancel();
      QCOMPARE(first.end().error_code(), grpc::StatusCode::CANCELLED);
    }
    QVERIFY2(second.status.ok(), second.status.error_message().c_str());
    QVERIFY(eventually([&] { return filesOf(node).size() == 1; }));
    QCOMPARE(filesOf(node).front().string(), second.path);

    const std::string another = content(4000000, 2);
    Sending cut(node, sha256Hex(another), 4000000, "images.gz");
    cut.write(another.substr(0, 1000000));
    QVERIFY(eventually([&] { return filesOf(node).size() == 2; }));
    node.killAgent();
    QVERIFY(!cut.end().ok());
    QCOMPARE(filesOf(node).size(), std::size_t{2});
    node.start();
    QCOMPARE(filesOf(node).size(), std::size_t{1});
    QCOMPARE(find(node, text), second.path);
  }

  // An agent of another version starts on the workdir in the middle of it.
  void anotherAgentLeavesWhatIsBeingSent() {
    const QTemporaryDir folder;
    const agent::Workdir workdir{folder.path().toStdString(), folder.path().toStdString()};
    agent::DataCache cache(workdir);
    agent::Staging staging(workdir, cache);
    const std::string text = content(2000, 1),
                      left = workdir.path + "/data/.part-" + agent::hostName();
    int piece = 0;
    const auto sent = staging.receive(
        [&](node::v1::StageFileRequest& next) {
          next.Clear();
          next.set_sha256(sha256Hex(text));
          next.set_bytes(2000);
          next.set_name("images.gz");
          next.set_data(text.substr(static_cast<std::size_t>(piece) * 1000, 1000));
          if (piece == 1 && writeFileAtomically(left + "-1-1", "of a killed agent").ok())
            const agent::Staging other(workdir, cache);
          return piece++ < 2;
        },
        [] { return false; });
    QVERIFY2(sent.ok(), sent.ok() ? "" : sent.error().text().c_str());
    QCOMPARE(readFile(sent->path()).value(), text);
    QVERIFY(!fs::exists(left + "-1-1"));
  }

  void severalThatSendTheSameLeaveOneFile() {
    Node node("n1");
    node.start();
    const std::string text = content(8000000, 1);
    std::vector<Sent> sent(6);
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < sent.size(); ++i)
        threads.emplace_back([&, i] { sent[i] = send(node, text, i % 2 == 0 ? "a" : "b"); });
    }
    for (const Sent& one : sent) {
      QVERIFY2(one.status.ok(), one.status.error_message().c_str());
      QCOMPARE(one.path, sent[0].path);
    }
    QCOMPARE(filesOf(node).size(), std::size_t{1});
    QCOMPARE(readFile(sent[0].path).value(), text);
  }

  // A copy that was written to is replaced; who has it open reads on in the old one.
  void aSpoiltCopyIsReplacedWhole() {
    Node node("n1");
    node.start();
    const std::string text = content(1000000, 1), spoilt = content(1000000, 2);
    const std::string path = send(node, text).path;
    QCOMPARE(chmod(path.c_str(), 0600), 0);
    const int writer = open(path.c_str(), O_WRONLY | O_TRUNC);
    QCOMPARE(write(writer, spoilt.data(), spoilt.size()), ssize_t{1000000});
    close(writer);
    const int reader = open(path.c_str(), O_RDONLY);
    const auto closing = qScopeGuard([reader] { close(reader); });
    QCOMPARE(find(node, text), std::string());
    QCOMPARE(send(node, text).path, path);
    QCOMPARE(readFile(path).value(), text);
    std::string old(1000000, '\0');
    QCOMPARE(read(reader, old.data(), old.size()), ssize_t{1000000});
    QVERIFY(old == spoilt);
  }

  void aFullDiskIsToldFirst() {
    if (geteuid() != 0) QSKIP("mounting a small tmpfs needs root");
    Node node("n1");
    node.start();
    const std::string folder = node.workdir() + "/data";
    QVERIFY(fs::create_directories(folder));
    if (mount("lockstep-test", folder.c_str(), "tmpfs", 0, "size=40m") != 0)
      QSKIP("a tmpfs cannot be mounted here");
    const auto away = qScopeGuard([&] { umount2(folder.c_str(), MNT_DETACH); });
    const std::string text = content(20 << 20, 1);
    const run::v1::ErrorInfo error = errorOf(send(node, text).status);
    QCOMPARE(error.code(), std::string("resource-exhausted"));
    QCOMPARE(error.what().text(), "no space for the data file images.gz in " + folder);
    QCOMPARE(error.why().text(), std::string("40 MiB are free, 52 MiB are needed"));
    QVERIFY(!error.next().text().empty());
    QVERIFY(filesOf(node).empty());
    QVERIFY(send(node, content(1 << 20, 1)).status.ok());
  }
};

QTEST_GUILESS_MAIN(AgentStagingTest)
#include "agent_staging_test.moc"
