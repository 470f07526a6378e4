#include "tests/agent/run_keys.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <stdexcept>

#include "agent/supervisor/peers.h"

namespace lockstep::agent_test {
namespace {

void require(bool good) {
  if (!good) throw std::runtime_error("OpenSSL");
}

template <typename Write>
std::string pem(Write write) {
  BIO* memory = BIO_new(BIO_s_mem());
  require(write(memory) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  std::string out(data, static_cast<std::size_t>(size));
  BIO_free(memory);
  return out;
}

void extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* made = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  require(made != nullptr);
  X509_add_ext(certificate, made, -1);
  X509_EXTENSION_free(made);
}

X509* certificate(EVP_PKEY* key, const char* name, long serial) {
  X509* out = X509_new();
  X509_set_version(out, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(out), serial);
  X509_gmtime_adj(X509_getm_notBefore(out), -3600);
  X509_gmtime_adj(X509_getm_notAfter(out), 86400);
  X509_set_pubkey(out, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(out), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  return out;
}

}  // namespace

struct RunAuthority::State {
  EVP_PKEY* key = nullptr;
  X509* certificate = nullptr;
  mutable long serial = 2;
};

RunAuthority::RunAuthority() : state_(new State) {
  state_->key = EVP_EC_gen("P-256");
  require(state_->key != nullptr);
  X509* ca = state_->certificate = agent_test::certificate(state_->key, "run authority", 1);
  X509_set_issuer_name(ca, X509_get_subject_name(ca));
  extension(ca, ca, NID_basic_constraints, "critical,CA:TRUE");
  extension(ca, ca, NID_key_usage, "critical,keyCertSign,cRLSign");
  require(X509_sign(ca, state_->key, EVP_sha256()) > 0);
}

RunAuthority::~RunAuthority() {
  X509_free(state_->certificate);
  EVP_PKEY_free(state_->key);
  delete state_;
}

node::v1::TlsIdentity RunAuthority::identity(const std::string& uri) const {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  require(key != nullptr);
  X509* made = certificate(key, "node", state_->serial++);
  X509_set_issuer_name(made, X509_get_subject_name(state_->certificate));
  extension(made, state_->certificate, NID_subject_alt_name, "URI:" + uri);
  extension(made, state_->certificate, NID_ext_key_usage, "serverAuth,clientAuth");
  require(X509_sign(made, state_->key, EVP_sha256()) > 0);
  node::v1::TlsIdentity out;
  out.set_ca_pem(pem([&](BIO* to) { return PEM_write_bio_X509(to, state_->certificate); }));
  out.set_certificate_pem(pem([&](BIO* to) { return PEM_write_bio_X509(to, made); }));
  out.set_key_pem(pem([&](BIO* to) {
    return PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr);
  }));
  X509_free(made);
  EVP_PKEY_free(key);
  return out;
}

node::v1::PrepareRequest keyedRequest(const RunOptions& options, const RunAuthority& authority,
                                      int node) {
  auto out = prepareRequest(options, node);
  const std::string& name = options.nodes[static_cast<std::size_t>(node)];
  *out.mutable_tls() = authority.identity(agent::peerIdentity(options.run, name, 1));
  for (const std::string& one : options.nodes) {
    auto& host = *out.add_hosts();
    host.set_node(one);
    host.set_host(one);
    host.set_cores(2);
  }
  return out;
}

}  // namespace lockstep::agent_test
