// The certificates and keys of a run's nodes, and who may read the home folder.
#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>

#include "app/core/home.h"
#include "app/runs/tls.h"

using namespace lockstep;
using namespace lockstep::app;

class RunSecretsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void identitiesNameRunNodeAndGeneration() {
    auto identities = makeRunIdentities("20240101-120000-abcd", 3, {"n1", "n2"});
    QVERIFY(identities.ok());
    QCOMPARE(identities->size(), std::size_t{2});
    BIO* bio = BIO_new_mem_buf(identities->at("n2").certificatePem.data(), -1);
    X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    QVERIFY(certificate != nullptr);
    auto* names = static_cast<GENERAL_NAMES*>(
        X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
    QVERIFY(names != nullptr);
    QCOMPARE(sk_GENERAL_NAME_num(names), 1);
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, 0);
    QCOMPARE(name->type, GEN_URI);
    const auto* uri = name->d.uniformResourceIdentifier;
    QCOMPARE(QByteArray(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                        ASN1_STRING_length(uri)),
             QByteArray("lockstep://run/20240101-120000-abcd/node/n2/generation/3"));
    GENERAL_NAMES_free(names);
    X509_free(certificate);
    BIO_free(bio);
    QVERIFY(identities->at("n1").keyPem != identities->at("n2").keyPem);
  }

  // However long the run takes, and whatever a node's clock says.
  void certificatesDoNotExpire() {
    const auto identities = makeRunIdentities("20240101-120000-abcd", 1, {"n1"});
    QVERIFY(identities.ok());
    for (const std::string& pem :
         {identities->at("n1").certificatePem, identities->at("n1").caPem}) {
      BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
      X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
      BIO_free(bio);
      QVERIFY(certificate != nullptr);
      tm from{}, to{};
      QCOMPARE(ASN1_TIME_to_tm(X509_get0_notBefore(certificate), &from), 1);
      QCOMPARE(ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &to), 1);
      X509_free(certificate);
      QCOMPARE(from.tm_year + 1900, 1970);
      QCOMPARE(to.tm_year + 1900, 9999);
    }
  }

  // Each node has a key of its own, and none that issues certificates.
  void theAuthoritysKeyIsNotGivenAway() {
    const auto identities = makeRunIdentities("20240101-120000-abcd", 1, {"n1", "n2"});
    QVERIFY(identities.ok());
    const auto parsed = [](const std::string& pem, auto read) {
      BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
      auto* out = read(bio, nullptr, nullptr, nullptr);
      BIO_free(bio);
      return out;
    };
    for (const auto& [node, identity] : *identities) {
      for (const std::string& pem : {identity.caPem, identity.certificatePem})
        QVERIFY(pem.find("PRIVATE KEY") == std::string::npos);
      EVP_PKEY* key = parsed(identity.keyPem, PEM_read_bio_PrivateKey);
      X509* own = parsed(identity.certificatePem, PEM_read_bio_X509);
      X509* authority = parsed(identity.caPem, PEM_read_bio_X509);
      QVERIFY(key != nullptr && own != nullptr && authority != nullptr);
      QCOMPARE(X509_check_private_key(own, key), 1);
      QCOMPARE(X509_check_private_key(authority, key), 0);
      QCOMPARE(X509_check_ca(own), 0);
      EVP_PKEY_free(key);
      X509_free(own);
      X509_free(authority);
    }
    QVERIFY(identities->at("n1").keyPem != identities->at("n2").keyPem);
  }

  // The history, models and reports are in it.
  void otherAccountsCannotReadTheHome() {
    const auto before = umask(0);
    const auto restore = qScopeGuard([&] { umask(before); });
    const QTemporaryDir folder;
    const std::string path = folder.filePath("new/home").toStdString();
    const auto home = openHome(path);
    QVERIFY2(home.ok(), home.ok() ? "" : home.error().text().c_str());
    QCOMPARE(home->root, path);
    using std::filesystem::perms;
    for (const auto& made : {path, folder.filePath("new").toStdString()})
      QVERIFY(std::filesystem::status(made).permissions() == perms::owner_all);
  }
};

QTEST_GUILESS_MAIN(RunSecretsTest)
#include "run_secrets_test.moc"
