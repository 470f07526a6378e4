// Data files that a node fetches: from a server that breaks off, lies, never ends, redirects, and
// from an S3 store that checks signatures.
#include <unistd.h>

#include <QTemporaryDir>
#include <QTest>
#include <QUrl>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include "agent/node/s3.h"
#include "agent/node/staging.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "tests/support/data_server.h"

using namespace lockstep;
using namespace lockstep::agent;
using namespace lockstep::test;

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMost = std::int64_t{1} << 30;

std::string content(std::size_t bytes, std::uint32_t seed) {
  std::string out(bytes, '\0');
  for (char& c : out) c = static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
  return out;
}

// The data folder of a node.
struct Store {
  QTemporaryDir folder;
  Workdir workdir{folder.path().toStdString(), folder.path().toStdString()};
  DataCache cache{workdir};
  Staging staging{workdir, cache};

  Result<node::v1::FetchFileReply> fetch(const std::string& url, const std::string& sha256 = {},
                                         std::int64_t most = kMost,
                                         const DataObserver& observer = {}) {
    node::v1::FetchFileRequest request;
    request.set_url(url);
    request.set_sha256(sha256);
    request.set_max_bytes(most);
    return staging.fetch(request, observer);
  }
  // What is wrong with the file that was fetched; "" nothing.
  std::string check(const std::string& url, const std::string& text,
                    const std::string& sha256 = {}) {
    const auto reply = fetch(url, sha256);
    if (!reply.ok()) return reply.error().text();
    const auto read = readFile(reply->path());
    if (!read.ok() || *read != text) return "another content";
    if (reply->sha256() != sha256Hex(text)) return "another hash";
    if (reply->bytes() != std::ssize(text)) return "another size";
    return reply->path().find("/data/" + sha256Hex(text) + "/") == std::string::npos ? reply->path()
                                                                                     : "";
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    std::error_code failed;
    for (const auto& entry : fs::recursive_directory_iterator(workdir.path + "/data", failed))
      if (entry.is_regular_file()) out.push_back(entry.path());
    return out;
  }
};

std::string textOf(const Result<node::v1::FetchFileReply>& reply) {
  return reply.ok() ? "fetched" : reply.error().text();
}

QString header(const QJsonObject& request, const char* name) {
  return request["headers"].toObject()[name].toString();
}

std::string encoded(const std::string& text) {
  return QUrl::toPercentEncoding(QString::fromStdString(text)).toStdString();
}

// Sets variables of the environment, and takes them back.
class Environment {
 public:
  Environment(std::initializer_list<std::pair<const char*, std::string>> variables) {
    for (const auto& [name, value] : variables) {
      before_.emplace_back(name, qEnvironmentVariableIsSet(name)
                                     ? std::optional<QByteArray>(qgetenv(name))
                                     : std::nullopt);
      setenv(name, value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      if (value)
        qputenv(name, *value);
      else
        qunsetenv(name);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<const char*, std::optional<QByteArray>>> before_;
};

// The command lines of the processes that this one started.
std::string commandLines() {
  std::string out;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto stat = readFile(entry.path() / "stat", 4096);
    const auto command = readFile(entry.path() / "cmdline", 65536);
    if (!stat.ok() || !command.ok()) continue;
    const std::string parent = std::to_string(getpid()) + " ";
    if (stat->substr(stat->rfind(')') + 4).starts_with(parent)) out += *command;
  }
  return out;
}

}  // namespace

class FileFetchTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
    for (const char* name : {"AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN",
                             "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"})
      qunsetenv(name);
    qputenv("no_proxy", "127.0.0.1,localhost");
    qputenv("AWS_CONFIG_FILE", "/nowhere");
    qputenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere");
  }

  void aFileIsFetchedOnce() {
    const std::string text = content(3000000, 1);
    DataServer server(text);
    QVERIFY(server.isRunning());
    Store store;
    const std::string url = server.url("/whole/images.gz?part=1");
    QCOMPARE(store.check(url, text), std::string());
    const auto first = store.fetch(url);
    QVERIFY(first.ok());
    QVERIFY(first->path().ends_with("/images.gz"));
    // The server was asked whether it is still the same.
    const auto requests = server.requests();
    QCOMPARE(requests.size(), std::size_t{2});
    QVERIFY(!header(requests[1], "if-none-match").isEmpty());
    // Of a file whose hash is given it need not be asked.
    QCOMPARE(store.check(url, text, sha256Hex(text)), std::string());
    QCOMPARE(server.requests().size(), std::size_t{2});
    QCOMPARE(store.files().size(), std::size_t{1});
    // What was removed is fetched again.
    fs::remove(first->path());
    QCOMPARE(store.check(url, text), std::string());
    QCOMPARE(store.check(server.url("/chunked/x"), text), std::string());
    QCOMPARE(store.check(server.url("/busy/2/x"), text), std::string());
  }

  void anEmptyFileIsAFile() {
    DataServer server("");
    Store store;
    QCOMPARE(store.check(server.url("/whole/x"), ""), std::string());
  }

  void aBrokenTransferGoesOn() {
    const std::string text = content(1000000, 2);
    DataServer server(text);
    Store store;
    QCOMPARE(store.check(server.url("/cut/400000/x"), text), std::string());
    const auto requests = server.requests();
    QCOMPARE(requests.size(), std::size_t{3});
    QCOMPARE(header(requests[1], "range"), QString("bytes=400000-"));
    QVERIFY(!header(requests[1], "if-range").isEmpty());
    QCOMPARE(header(requests[2], "range"), QString("bytes=800000-"));
  }

  // Without an ETag only the run's hash shows that parts are of one file.
  void partsWithoutAnETagNeedAHash() {
    const std::string text = content(1000000, 3);
    DataServer server(text);
    Store store;
    const auto refused = store.fetch(server.url("/untagged/600000/x"));
    QVERIFY2(textOf(refused).find("600000 of 1000000 bytes") != std::string::npos,
             textOf(refused).c_str());
    for (const auto& request : server.requests()) QCOMPARE(header(request, "range"), QString());
    QCOMPARE(store.check(server.url("/untagged/600001/x"), text, sha256Hex(text)), std::string());
  }

  void whatTheServerDoesWrongIsMended() {
    const std::string text = content(1000000, 4);
    DataServer server(text);
    Store store;
    QCOMPARE(store.check(server.url("/other/x"), text), std::string());
    const std::string changed(text.rbegin(), text.rend());
    QCOMPARE(store.check(server.url("/changed/700000/x"), changed), std::string());
    QCOMPARE(store.check(server.url("/mixed/700000/x"), changed), std::string());
    QCOMPARE(store.files().size(), std::size_t{2});
  }

  void whatCannotBeFetchedIsToldAndLeavesNothing_data() {
    QTest::addColumn<QString>("path");
    QTest::addColumn<QString>("why");
    QTest::addColumn<int>("requests");
    QTest::newRow("missing") << "/status/404/x"
                             << "status 404" << 1;
    QTest::newRow("forbidden") << "/status/403/x"
                               << "status 403" << 1;
    QTest::newRow("broken off") << "/rangeless/1000/x"
                                << "after 1000 of 200000 bytes" << 5;
    QTest::newRow("too short") << "/long/x"
                               << "after 200000 of 200010 bytes" << 5;
    QTest::newRow("too large") << "/whole/x"
                               << "more than 150000 bytes" << 1;
    QTest::newRow("endless") << "/endless/x"
                             << "more than 150000 bytes" << 1;
    QTest::newRow("endless head") << "/heads/x"
                                  << "oo large response headers" << 5;
    QTest::newRow("overloaded") << "/busy/99/x"
                                << "status 503" << 5;
  }
  void whatCannotBeFetchedIsToldAndLeavesNothing() {
    QFETCH(QString, path);
    QFETCH(QString, why);
    QFETCH(int, requests);
    DataServer server(content(200000, 5));
    Store store;
    const bool limited = why.startsWith("more");
    const auto reply = store.fetch(server.url(path.toStdString()), {}, limited ? 150000 : kMost);
    QVERIFY2(QString::fromStdString(textOf(reply)).contains(why), textOf(reply).c_str());
    QVERIFY(!reply.error().next.empty());
    QCOMPARE(server.requests().size(), static_cast<std::size_t>(requests));
    QVERIFY(store.files().empty());
  }

  void anotherFileThanTheRunsIsRefused() {
    DataServer server(content(200000, 6));
    Store store;
    const auto reply = store.fetch(server.url("/whole/x"), std::string(64, 'a'));
    QVERIFY2(textOf(reply).find("the run expects " + std::string(64, 'a')) != std::string::npos,
             textOf(reply).c_str());
    QVERIFY(store.files().empty());
  }

  void aServerThatIsNotThereIsTold() {
    Store store;
    const auto reply = store.fetch("http://127.0.0.1:1/x");
    QVERIFY(!reply.ok());
    QCOMPARE(reply.error().code, Code::kUnavailable);
    QVERIFY(!reply.error().why.empty());
  }

  void redirectsAreFollowedWithoutCredentials() {
    const std::string text = content(200000, 7);
    DataServer other(text);
    DataServer server(text, {QString::fromStdString("MOVED=" + other.url("/whole/x"))});
    Store store;
    QCOMPARE(store.check(server.url("/to/" + encoded(other.url("/whole/x"))), text), std::string());
    QCOMPARE(other.requests().size(), std::size_t{1});
    const std::string named = "http://user:secret@" + other.endpoint().substr(7) + "/whole/y";
    for (const std::string& to : {named, std::string("file:///etc/passwd")}) {
      const auto reply = store.fetch(server.url("/to/" + encoded(to)));
      QVERIFY(!reply.ok());
    }
    // A store that redirects is told as it is: a signature is for one host.
    const Environment variables({{"AWS_ENDPOINT_URL_S3", server.endpoint()},
                                 {"AWS_ACCESS_KEY_ID", "AKID"},
                                 {"AWS_SECRET_ACCESS_KEY", "kept/+secret"}});
    const auto moved = store.fetch("s3://moved/x");
    QVERIFY2(textOf(moved).find("status 307") != std::string::npos, textOf(moved).c_str());
    QCOMPARE(other.requests().size(), std::size_t{1});
  }

  void objectsOfAStoreAreFetchedWithASignature() {
    const std::string text = content(500000, 8);
    DataServer server(text);
    Store store;
    const Environment endpoint({{"AWS_ENDPOINT_URL_S3", server.endpoint() + "/"}});
    QCOMPARE(store.check("s3://open/x", text), std::string());
    const auto unsigned_ = store.fetch("s3://mine/x");
    QVERIFY2(textOf(unsigned_).find("403: AccessDenied") != std::string::npos,
             textOf(unsigned_).c_str());
    {
      const Environment keys(
          {{"AWS_ACCESS_KEY_ID", "AKID"}, {"AWS_SECRET_ACCESS_KEY", "kept/+secret"}});
      for (const char* key : {"x", "folder/a b+c(1)=é~%41.gz", "cut"})
        QCOMPARE(store.check(fmt::format("s3://mine/{}", key), text), std::string());
      const auto none = store.fetch("s3://mine/none");
      QVERIFY2(textOf(none).find("404: NoSuchKey") != std::string::npos, textOf(none).c_str());
      QCOMPARE(none.error().code, Code::kNotFound);
    }
    const Environment wrong(
        {{"AWS_ACCESS_KEY_ID", "AKID"}, {"AWS_SECRET_ACCESS_KEY", "another-secret"}});
    const auto refused = store.fetch("s3://mine/y");
    QCOMPARE(refused.error().code, Code::kPermissionDenied);
    QVERIFY(textOf(refused).find("SignatureDoesNotMatch") != std::string::npos);
    QVERIFY(textOf(refused).find("another-secret") == std::string::npos);
  }

  void credentialsComeFromTheProfile() {
    const std::string text = content(1000, 9);
    DataServer server(text, {"TOKEN=a/token=="});
    Store store;
    const std::string folder = store.folder.path().toStdString();
    QVERIFY(writeFileAtomically(folder + "/credentials",
                                "[default]\naws_access_key_id=no\naws_secret_access_key=no\n"
                                "# a comment\n[mine]\n aws_region = ignored\n"
                                "aws_access_key_id = AKID\r\naws_secret_access_key=kept/+secret\n"
                                "aws_session_token = a/token==\n")
                .ok());
    QVERIFY(writeFileAtomically(folder + "/config",
                                fmt::format("[default]\nregion=eu-west-9\n[profile mine]\n"
                                            "region = eu-test-1\nendpoint_url = {}\n",
                                            server.endpoint()))
                .ok());
    const Environment variables({{"AWS_SHARED_CREDENTIALS_FILE", folder + "/credentials"},
                                 {"AWS_CONFIG_FILE", folder + "/config"},
                                 {"AWS_PROFILE", "mine"}});
    QCOMPARE(store.check("s3://mine/x", text), std::string());
    QVERIFY(header(server.requests().back(), "authorization").contains("/eu-test-1/s3/"));
  }

  // The example of AWS's documentation of Signature Version 4 for S3.
  void theSignatureIsAws() {
    const S3Access access{"https://s3.amazonaws.com", "us-east-1", "AKIAIOSFODNN7EXAMPLE",
                          "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
    const Headers headers =
        signGet(access, "examplebucket.s3.amazonaws.com", "/test.txt",
                Nanoseconds{1369353600} * 1'000'000'000, {{"range", "bytes=0-9"}});
    QCOMPARE(headers.back().second,
             std::string("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
                         "aws4_request, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
                         "Signature="
                         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
  }

  void secretsAreInNoCommandLine() {
    DataServer server(content(100000, 10));
    Store store;
    std::string seen;
    const auto reply =
        store.fetch(server.url("/slow/x?token=hidden"), {}, kMost, [&](const auto& progress) {
          if (progress.bytes_done() == 0) return true;
          seen = commandLines();
          return false;
        });
    QCOMPARE(reply.status().code(), Code::kCancelled);
    QVERIFY2(seen.find("curl") != std::string::npos, seen.c_str());
    QVERIFY(seen.find("hidden") == std::string::npos);
  }

  void aCancelledTransferEndsAndLeavesNothing() {
    DataServer server(content(100000, 11));
    Store store;
    std::atomic<bool> wanted = true;
    std::atomic<std::int64_t> most = 0;
    std::optional<Result<node::v1::FetchFileReply>> reply;
    std::thread fetching([&] {
      reply = store.fetch(server.url("/slow/x"), {}, kMost, [&](const auto& progress) {
        most = std::max(most.load(), progress.bytes_done());
        return wanted && progress.activity() == node::v1::DataProgress::FETCHING &&
               (progress.bytes_done() == 0 || progress.bytes_total() == 100000);
      });
    });
    for (int looks = 0; looks < 200 && most == 0; ++looks) QTest::qWait(50);
    const Nanoseconds asked = monotonicNow();
    wanted = false;
    fetching.join();
    QVERIFY(monotonicNow() - asked < 5'000'000'000);
    QCOMPARE(reply->status().code(), Code::kCancelled);
    QVERIFY(most > 0 && most < 100000);
    QVERIFY(store.files().empty());
    QVERIFY(commandLines().find("curl") == std::string::npos);
  }

  void withoutCurlTheNodeSaysSo() {
    Store store;
    const Environment variables({{"PATH", "/nowhere"}});
    const auto reply = store.fetch("http://127.0.0.1:1/x");
    QVERIFY2(textOf(reply).find("there is no curl on the node") != std::string::npos,
             textOf(reply).c_str());
  }
};

QTEST_GUILESS_MAIN(FileFetchTest)
#include "file_fetch_test.moc"
