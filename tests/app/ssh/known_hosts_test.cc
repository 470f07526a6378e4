#include "app/ssh/known_hosts.h"

#include <QTest>

#include <sys/stat.h>

#include "tests/support/sshd.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {
HostKey key(const std::string& base64, const std::string& type = "ssh-ed25519") {
  return {type, base64, "SHA256:x"};
}
}  // namespace

class KnownHostsTest : public QObject {
  Q_OBJECT
  HostKeyVerdict verdict(const std::string& text, const std::string& name, const HostKey& shown,
                         int* line = nullptr) {
    const test::TempFolder folder;
    test::writeText(folder / "known", text);
    auto answer = lookUpHostKey({folder / "absent", folder / "known"}, name, shown);
    if (!answer.ok()) qFatal("%s", answer.error().text().c_str());
    if (line) *line = answer->line;
    return answer->verdict;
  }
 private Q_SLOTS:
  void findsPatternsAndPorts() {
    const std::string text =
        "# a comment\n\nn1,10.0.0.1 ssh-ed25519 AAAA one\n[n2]:2222 ssh-ed25519 BBBB\n"
        "*.lab,!bad.lab ssh-ed25519 CCCC\n";
    QCOMPARE(verdict(text, "n1", key("AAAA")), HostKeyVerdict::kKnown);
    QCOMPARE(verdict(text, "[n2]:2222", key("BBBB")), HostKeyVerdict::kKnown);
    QCOMPARE(verdict(text, "n2", key("BBBB")), HostKeyVerdict::kUnknown);
    QCOMPARE(verdict(text, "x.lab", key("CCCC")), HostKeyVerdict::kKnown);
    QCOMPARE(verdict(text, "bad.lab", key("CCCC")), HostKeyVerdict::kUnknown);
  }
  void namesTheOffendingLine() {
    int line = 0;
    QCOMPARE(verdict("x ssh-rsa A\nn1 ssh-ed25519 AAAA\n", "n1", key("BBBB"), &line),
             HostKeyVerdict::kChanged);
    QCOMPARE(line, 2);
    QCOMPARE(verdict("n1 ssh-rsa AAAA\n", "n1", key("BBBB"), &line), HostKeyVerdict::kChanged);
    // Any of several entries may match.
    QCOMPARE(verdict("n1 ssh-ed25519 AAAA\nn1 ssh-ed25519 BBBB\n", "n1", key("BBBB")),
             HostKeyVerdict::kKnown);
  }
  void revokedWinsOverKnown() {
    int line = 0;
    QCOMPARE(
        verdict("n1 ssh-ed25519 AAAA\n@revoked * ssh-ed25519 AAAA\n", "n1", key("AAAA"), &line),
        HostKeyVerdict::kRevoked);
    QCOMPARE(line, 2);
    QCOMPARE(verdict("@cert-authority * ssh-ed25519 AAAA\n", "n1", key("BBBB")),
             HostKeyVerdict::kUnknown);
  }
  void writesWhatOpenSshReads_data() {
    QTest::addColumn<bool>("hashed");
    QTest::newRow("plain") << false;
    QTest::newRow("hashed") << true;
  }
  void writesWhatOpenSshReads() {
    QFETCH(bool, hashed);
    const test::TempFolder folder;
    test::makeKey(folder / "key");
    const std::string text = test::readText((folder / "key") + ".pub");
    const auto first = text.find(' '), second = text.find(' ', first + 1);
    const HostKey shown = key(text.substr(first + 1, second - first - 1));
    const std::string file = folder / "ssh/known_hosts";
    QVERIFY(addHostKey(file, "[n1]:2222", shown, hashed).ok());
    struct stat info {};
    QCOMPARE(::stat(file.c_str(), &info), 0);
    QCOMPARE(info.st_mode & 0777, 0600u);
    QCOMPARE(::stat((folder / "ssh").c_str(), &info), 0);
    QCOMPARE(info.st_mode & 0777, 0700u);
    auto answer = lookUpHostKey({file}, "[n1]:2222", shown);
    QVERIFY(answer.ok());
    QCOMPARE(answer->verdict, HostKeyVerdict::kKnown);
    QCOMPARE(test::readText(file).find("[n1]") == std::string::npos, hashed);
    std::string found;
    QCOMPARE(test::runCommand({"ssh-keygen", "-F", "[n1]:2222", "-f", file}, &found), 0);
    // A file that another program left without a last newline stays whole.
    test::writeText(file, "n0 ssh-ed25519 AAAA", 0600);
    QVERIFY(addHostKey(file, "n9", shown, false).ok());
    QVERIFY(test::readText(file).starts_with("n0 ssh-ed25519 AAAA\nn9 "));
  }
};

QTEST_GUILESS_MAIN(KnownHostsTest)
#include "known_hosts_test.moc"
