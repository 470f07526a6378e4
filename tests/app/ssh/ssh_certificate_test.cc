// Certificates of users and of hosts, against real sshd with authorities made by ssh-keygen.
#include <QTest>

#include <unistd.h>

#include "app/ssh/certificate.h"
#include "app/ssh/ssh_connection.h"
#include "tests/support/ssh_world.h"

using namespace lockstep;
using namespace lockstep::app;
using World = lockstep::test::SshWorld;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string userName() {
  std::string name;
  test::runCommand({"id", "-un"}, &name);
  name.pop_back();
  return name;
}

// Certifies `key`.pub by the authority; the certificate lies beside it.
void certify(const std::string& authority, const std::string& key, const std::string& principals,
             const std::string& validity = "always:forever", bool host = false) {
  std::vector<std::string> argv = {"ssh-keygen", "-q",   "-s", authority,
                                   "-I",         "test", "-V", validity};
  if (!principals.empty()) argv.insert(argv.end(), {"-n", principals});
  if (host) argv.push_back("-h");
  argv.push_back(key + ".pub");
  QCOMPARE(test::runCommand(argv), 0);
}

// A server that takes certificates of folder/ca; with `plain` also the key itself.
bool serve(World& world, bool plain) {
  test::makeKey(world.folder / "ca");
  return world.serve("TrustedUserCAKeys " + (world.folder / "ca.pub") +
                     (plain ? "" : "\nAuthorizedKeysFile none") + "\nMaxAuthTries 20");
}

}  // namespace

class SshCertificateTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void parsesWhatSshKeygenWrites_data() {
    QTest::addColumn<QByteArray>("type");
    for (const char* type : {"ed25519", "rsa", "ecdsa"}) QTest::newRow(type) << QByteArray(type);
  }
  void parsesWhatSshKeygenWrites() {
    QFETCH(QByteArray, type);
    const test::TempFolder folder;
    test::makeKey(folder / "ca");
    test::makeKey(folder / "id", "", type.toStdString());
    certify(folder / "ca", folder / "id", "ann,bob", "20200102030405Z:20200203040506Z");
    const auto certificate = readCertificate(folder / "id-cert.pub");
    VERIFY_OK(certificate);
    QCOMPARE(certificate->principals, (std::vector<std::string>{"ann", "bob"}));
    QCOMPARE(certificate->after, std::uint64_t{1577934245});
    QCOMPARE(certificate->before, std::uint64_t{1580702706});
    std::istringstream plain(test::readText(folder / "id.pub"));
    std::string name, base64;
    plain >> name >> base64;
    QVERIFY(certificate->key == decodeBlob(base64));
    QCOMPARE(certificateNote(*certificate, 1580702706).text(),
             std::string("the certificate expired on 2020-02-03 04:05 UTC"));
    QCOMPARE(certificateNote(*certificate, 1577934244).text(),
             std::string("the certificate is not valid before 2020-01-02 03:04 UTC"));
    QCOMPARE(certificateNote(*certificate, 1577934245).text(),
             std::string("the certificate, for ann, bob, was not accepted"));
    // Nothing that is cut short is taken for whole, and no plain key for a certificate.
    for (std::size_t size = 0; size + 400 < certificate->blob.size(); ++size)
      QVERIFY(!parseCertificate(certificate->blob.substr(0, size)));
    QVERIFY(!parseCertificate(certificate->key));
    QCOMPARE(readCertificate(folder / "id.pub").error().code, Code::kInvalidArgument);
    QCOMPARE(readCertificate(folder / "none").error().code, Code::kNotFound);
  }

  void opensTheHost_data() {
    QTest::addColumn<QByteArray>("type");
    QTest::addColumn<QByteArray>("where");
    QTest::addColumn<bool>("locked");
    for (const char* type : {"ed25519", "rsa", "ecdsa"})
      QTest::addRow("%s beside its key", type) << QByteArray(type) << QByteArray("beside") << false;
    for (const char* where : {"named", "in the agent", "key in the agent", "agent, identities only",
                              "key in the agent, identities only"})
      QTest::newRow(where) << QByteArray("ed25519") << QByteArray(where) << false;
    QTest::newRow("rsa key in the agent")
        << QByteArray("rsa") << QByteArray("key in the agent") << false;
    QTest::newRow("locked key") << QByteArray("ed25519") << QByteArray("beside") << true;
  }
  void opensTheHost() {
    QFETCH(QByteArray, type);
    QFETCH(QByteArray, where);
    QFETCH(bool, locked);
    World world;
    if (!serve(world, false)) QSKIP(world.why.c_str());
    world.trustAll();
    const std::string key = world.folder / "key";
    test::makeKey(key, locked ? "sesame" : "", type.toStdString());
    world.identity = key;
    world.prompter->answers = {"sesame"};
    std::unique_ptr<test::SshAgent> agent;
    const bool byAgent = where.contains("agent");
    if (where.startsWith("key in the agent")) {
      agent = test::SshAgent::start(world.folder.path());
      QVERIFY(agent && agent->add(key));
    }
    // Without it the host stays closed.
    SshConnection closed({.host = "n1"}, world.options());
    QCOMPARE(closed.connect().code(), Code::kPermissionDenied);
    certify(world.folder / "ca", key, userName());
    if (byAgent && !agent) {
      agent = test::SshAgent::start(world.folder.path());
      QVERIFY(agent && agent->add(key));
    }
    if (byAgent) {
      world.extraClientConfig = "IdentityAgent " + agent->socket() + "\n";
      if (where.contains("only")) world.extraClientConfig += "IdentitiesOnly yes\n";
      QCOMPARE(::unlink(key.c_str()), 0);
      if (where == "in the agent") QCOMPARE(::unlink((key + "-cert.pub").c_str()), 0);
    }
    if (where == "named") {
      const std::string elsewhere = world.folder / ("cert-" + userName());
      QCOMPARE(::rename((key + "-cert.pub").c_str(), elsewhere.c_str()), 0);
      world.extraClientConfig = "CertificateFile " + (world.folder / "cert-%r") + "\n";
    }
    SshConnection connection({.host = "n1"}, world.options());
    VERIFY_OK(connection.connect());
    QVERIFY(has(world.servers[0]->log(), "Accepted certificate ID \"test\""));
    QCOMPARE(world.prompter->secrets().size(), std::size_t(locked ? 1 : 0));
    VERIFY_OK(connection.exec("true"));
  }

  // What is wrong with a certificate does not keep the plain key from being tried, and is told
  // where nothing was accepted.
  void fallsBackToThePlainKey_data() {
    QTest::addColumn<QByteArray>("fault");
    QTest::addColumn<QByteArray>("told");
    QTest::newRow("expired") << QByteArray("expired") << QByteArray("the certificate expired on ");
    QTest::newRow("not yet valid")
        << QByteArray("early") << QByteArray("the certificate is not valid before ");
    QTest::newRow("of another account")
        << QByteArray("principal") << QByteArray("the certificate, for nobody-else, was not");
    QTest::newRow("unknown authority") << QByteArray("authority") << QByteArray("was not accepted");
    QTest::newRow("for another key")
        << QByteArray("other") << QByteArray("a certificate for a key that is not here");
    QTest::newRow("damaged") << QByteArray("damaged") << QByteArray("is not a user certificate");
    QTest::newRow("named and absent") << QByteArray("absent") << QByteArray("cert.pub is absent");
    QTest::newRow("expired in the agent")
        << QByteArray("agent")
        << QByteArray("the agent's certificate (the certificate expired on ");
  }
  void fallsBackToThePlainKey() {
    QFETCH(QByteArray, fault);
    QFETCH(QByteArray, told);
    for (const bool plain : {true, false}) {
      World world;
      if (!serve(world, plain)) QSKIP(world.why.c_str());
      world.trustAll();
      const std::string key = world.identity;
      const std::string ca = world.folder / "ca";
      std::unique_ptr<test::SshAgent> agent;
      if (fault == "expired" || fault == "agent") certify(ca, key, userName(), "-2d:-1d");
      if (fault == "early") certify(ca, key, userName(), "+1d:+2d");
      if (fault == "principal") certify(ca, key, "nobody-else");
      if (fault == "authority") {
        test::makeKey(world.folder / "ca2");
        certify(world.folder / "ca2", key, userName());
      }
      if (fault == "other") {
        test::makeKey(world.folder / "other");
        certify(ca, world.folder / "other", userName());
        world.extraClientConfig = "CertificateFile " + (world.folder / "other-cert.pub") + "\n";
      }
      if (fault == "damaged") test::writeText(key + "-cert.pub", "ssh-ed25519-cert AAAA\n");
      if (fault == "absent")
        world.extraClientConfig = "CertificateFile " + (world.folder / "cert.pub") + "\n";
      if (fault == "agent") {
        agent = test::SshAgent::start(world.folder.path());
        QVERIFY(agent && agent->add(key));
        QCOMPARE(::unlink((key + "-cert.pub").c_str()), 0);
        world.extraClientConfig = "IdentityAgent " + agent->socket() + "\n";
      }
      SshConnection connection({.host = "n1"}, world.options());
      const Status status = connection.connect();
      if (plain) {
        VERIFY_OK(status);
        continue;
      }
      QCOMPARE(status.code(), Code::kPermissionDenied);
      QVERIFY2(has(status.error().why, told.toStdString()), status.error().text().c_str());
      QVERIFY2(has(status.error().why, key), status.error().text().c_str());
    }
  }

  // As OpenSSH does: a certificate that is named stands for all.
  void namedCertificatesReplaceThoseBesideKeys() {
    World world;
    if (!serve(world, false)) QSKIP(world.why.c_str());
    world.trustAll();
    certify(world.folder / "ca", world.identity, userName());
    test::makeKey(world.folder / "other");
    certify(world.folder / "ca", world.folder / "other", userName());
    world.extraClientConfig = "CertificateFile " + (world.folder / "other-cert.pub") + "\n";
    SshConnection connection({.host = "n1"}, world.options());
    QCOMPARE(connection.connect().code(), Code::kPermissionDenied);
    QVERIFY(test::runCommand(
                {"ssh", "-F", world.folder / "config", "-o", "BatchMode=yes", "n1", "true"}) != 0);
    world.extraClientConfig.clear();
    SshConnection beside({.host = "n1"}, world.options());
    VERIFY_OK(beside.connect());
  }

  // Both keys are wanted: after the first was accepted, the second is tried.
  void severalKeys() {
    World world;
    test::makeKey(world.folder / "second");
    if (!world.serve("AuthenticationMethods publickey,publickey")) QSKIP(world.why.c_str());
    world.trustAll();
    world.extraClientConfig =
        "IdentityFile " + world.identity + "\nIdentityFile " + (world.folder / "second") + "\n";
    SshConnection one({.host = "n1"}, world.options());
    const Status refused = one.connect();
    QCOMPARE(refused.code(), Code::kPermissionDenied);
    test::writeText(
        world.folder / "sshd0/authorized_keys",
        test::readText(world.folder / "id.pub") + test::readText(world.folder / "second.pub"));
    SshConnection both({.host = "n1"}, world.options());
    VERIFY_OK(both.connect());
  }

  // libssh does not negotiate host certificates: a host that its authority vouches for is asked
  // about, and told apart from a host that nobody vouches for.
  void hostCertificates() {
    World world;
    test::makeKey(world.folder / "ca");
    if (!world.serve()) QSKIP(world.why.c_str());
    const std::string authority =
        "@cert-authority [127.0.0.1]:* " + test::readText(world.folder / "ca.pub");
    test::writeText(world.known(), "# a comment\n" + authority, 0600);
    world.prompter->acceptHostKeys = false;
    SshConnection unknown({.host = "n1"}, world.options());
    const Status status = unknown.connect();
    QCOMPARE(status.code(), Code::kPermissionDenied);
    QVERIFY2(has(status.error().why, world.known() + ":2 does not help") &&
                 has(status.error().why, "host certificates are not supported"),
             status.error().text().c_str());
    QCOMPARE(world.prompter->hostKeys().front().authority, world.known() + ":2");
    // The plain key counts as ever: accepted once, it is known.
    world.prompter->acceptHostKeys = true;
    SshConnection accepted({.host = "n1"}, world.options());
    VERIFY_OK(accepted.connect());
    SshConnection again({.host = "n1"}, world.options());
    VERIFY_OK(again.connect());
    QCOMPARE(world.prompter->hostKeys().size(), std::size_t{2});
    // An authority of other hosts says nothing about this one.
    test::writeText(world.known(), "@cert-authority *.lab" + authority.substr(29), 0600);
    world.prompter->acceptHostKeys = false;
    SshConnection other({.host = "n1"}, world.options());
    QVERIFY(!has(other.connect().error().why, "certificate"));
    QVERIFY(world.prompter->hostKeys().back().authority.empty());
  }
  void hostWithNothingButACertificate() {
    World world;
    test::makeKey(world.folder / "ca");
    if (!world.serve()) QSKIP(world.why.c_str());
    certify(world.folder / "ca", world.servers[0]->hostKeyFile(), "127.0.0.1", "always:forever",
            true);
    const std::string certificate = world.servers[0]->hostKeyFile() + "-cert.pub";
    World only;
    if (!only.serve("HostKey " + world.servers[0]->hostKeyFile() + "\nHostCertificate " +
                    certificate + "\nHostKeyAlgorithms ssh-ed25519-cert-v01@openssh.com"))
      QSKIP(only.why.c_str());
    SshConnection connection({.host = "n1"}, only.options());
    const Status status = connection.connect();
    QCOMPARE(status.code(), Code::kFailedPrecondition);
    QVERIFY2(has(status.error().what, "n1 shows only a host certificate") &&
                 has(status.error().why, "ssh-ed25519-cert-v01@openssh.com"),
             status.error().text().c_str());
    // A configuration that wants nothing else is refused before it connects.
    world.extraClientConfig = "HostKeyAlgorithms ssh-ed25519-cert-v01@openssh.com\n";
    SshConnection wants({.host = "n1"}, world.options());
    const Status refused = wants.connect();
    QCOMPARE(refused.code(), Code::kFailedPrecondition);
    QVERIFY2(has(refused.error().what, "allows no host key that is supported"),
             refused.error().text().c_str());
  }
};

QTEST_GUILESS_MAIN(SshCertificateTest)
#include "ssh_certificate_test.moc"
