#include "agent/supervisor/tls_version.h"

#include <openssl/conf.h>
#include <openssl/ssl.h>

#include <memory>

#include "engine/base/status.h"

namespace lockstep::agent {
namespace {

// As in openssl.cnf. gRPC sets a minimum version of its own, but leaves these options.
constexpr const char* kConfiguration = R"(
openssl_conf = modules
[modules]
ssl_conf = connections
[connections]
system_default = versions
[versions]
Protocol = -TLSv1, -TLSv1.1, -TLSv1.2
)";

bool configure() {
  OPENSSL_init_ssl(0, nullptr);  // loads the system's openssl.cnf, which would replace this later
  const std::unique_ptr<CONF, decltype(&NCONF_free)> parsed(NCONF_new(nullptr), &NCONF_free);
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new_mem_buf(kConfiguration, -1),
                                                       &BIO_free);
  long line = 0;
  return parsed && text && NCONF_load_bio(parsed.get(), text.get(), &line) == 1 &&
         CONF_modules_load(parsed.get(), nullptr, 0) == 1;
}

}  // namespace

void requireTls13() {
  static const bool isRequired = configure();
  LOCKSTEP_CHECK(isRequired, "OpenSSL takes no configuration");
}

}  // namespace lockstep::agent
