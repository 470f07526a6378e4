#include "app/runs/tls.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <memory>

namespace lockstep::app {
namespace {

// Certificates do not expire. Their keys are dropped when the run ends, a run may take months, and
// a node's clock may be years off. RFC 5280, 4.1.2.5, gives the last date for certificates without
// a well-defined expiration.
constexpr const char* kFirstMoment = "19700101000000Z";
constexpr const char* kLastMoment = "99991231235959Z";

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;

Error opensslError(Message what) {
  Error error = makeError(Code::kInternal, "{}", what);
  char text[256];
  ERR_error_string_n(ERR_get_error(), text, sizeof text);
  error.why = text;
  return error;
}

std::string pemText(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<std::size_t>(size));
}

bool addExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// A signed certificate; issuer null: signed by itself.
Result<Certificate> issue(const std::string& name, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuerKey,
                          const std::string& uri) {
  Certificate out(X509_new());
  unsigned char serial[8];
  if (!out || RAND_bytes(serial, sizeof serial) != 1)
    return opensslError("cannot create a certificate");
  serial[0] &= 0x7f;
  std::unique_ptr<BIGNUM, Freer<BN_free>> number(BN_bin2bn(serial, sizeof serial, nullptr));
  X509* x = out.get();
  bool ok = number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(x)) != nullptr &&
            X509_set_version(x, 2) == 1 &&
            ASN1_TIME_set_string_X509(X509_getm_notBefore(x), kFirstMoment) == 1 &&
            ASN1_TIME_set_string_X509(X509_getm_notAfter(x), kLastMoment) == 1 &&
            X509_set_pubkey(x, key) == 1;
  X509_NAME* subject = X509_get_subject_name(x);
  ok = ok && X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                        reinterpret_cast<const unsigned char*>(name.c_str()), -1,
                                        -1, 0) == 1;
  ok = ok &&
       X509_set_issuer_name(x, issuer != nullptr ? X509_get_subject_name(issuer) : subject) == 1;
  X509* signer = issuer != nullptr ? issuer : x;
  if (issuer == nullptr) {
    ok = ok && addExtension(x, signer, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
         addExtension(x, signer, NID_key_usage, "critical,keyCertSign");
  } else {
    ok = ok && addExtension(x, signer, NID_basic_constraints, "critical,CA:FALSE") &&
         addExtension(x, signer, NID_key_usage, "critical,digitalSignature") &&
         addExtension(x, signer, NID_ext_key_usage, "serverAuth,clientAuth") &&
         addExtension(x, signer, NID_subject_alt_name, "URI:" + uri);
  }
  ok = ok && X509_sign(x, issuerKey, EVP_sha256()) > 0;
  if (!ok) return opensslError("cannot create a certificate");
  return out;
}

Result<std::string> certificatePem(X509* certificate) {
  Bio bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509(bio.get(), certificate) != 1)
    return opensslError("cannot write a certificate");
  return pemText(bio.get());
}

Result<std::string> keyPem(EVP_PKEY* key) {
  Bio bio(BIO_new(BIO_s_secmem()));
  if (!bio || PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return opensslError("cannot write a key");
  return pemText(bio.get());
}

}  // namespace

Result<std::map<std::string, RunIdentity>> makeRunIdentities(
    const std::string& run, int generation, const std::vector<std::string>& nodes) {
  const Key caKey(EVP_EC_gen("P-256"));
  if (!caKey) return opensslError("cannot create a key");
  LOCKSTEP_ASSIGN(const Certificate ca, issue("lockstep run " + run.substr(0, 40), caKey.get(),
                                              nullptr, caKey.get(), {}));
  LOCKSTEP_ASSIGN(const std::string caPem, certificatePem(ca.get()));
  std::map<std::string, RunIdentity> out;
  for (const std::string& node : nodes) {
    const Key key(EVP_EC_gen("P-256"));
    if (!key) return opensslError("cannot create a key");
    const std::string uri =
        fmt::format("lockstep://run/{}/node/{}/generation/{}", run, node, generation);
    LOCKSTEP_ASSIGN(const Certificate certificate,
                    issue("lockstep node", key.get(), ca.get(), caKey.get(), uri));
    RunIdentity& identity = out[node];
    identity.caPem = caPem;
    LOCKSTEP_ASSIGN(identity.certificatePem, certificatePem(certificate.get()));
    LOCKSTEP_ASSIGN(identity.keyPem, keyPem(key.get()));
  }
  return out;
}

}  // namespace lockstep::app
