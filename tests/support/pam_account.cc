#include "tests/support/pam_account.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <unistd.h>

namespace lockstep::test {
namespace {

constexpr const char* kModule = "/lib/x86_64-linux-gnu/security/pam_oath.so";

}  // namespace

std::string oneTimeCode(std::uint64_t counter) {
  unsigned char text[8], hash[EVP_MAX_MD_SIZE];
  for (int i = 7; i >= 0; --i, counter >>= 8) text[i] = static_cast<unsigned char>(counter);
  unsigned int size = 0;
  HMAC(EVP_sha1(), "12345678901234567890", 20, text, sizeof text, hash, &size);
  const unsigned at = hash[size - 1] & 15u;
  const unsigned number = (hash[at] & 127u) << 24 | static_cast<unsigned>(hash[at + 1]) << 16 |
                          static_cast<unsigned>(hash[at + 2]) << 8 | hash[at + 3];
  return fmt::format("{:06}", number % 1000000);
}

std::unique_ptr<PamAccount> PamAccount::make(const std::string& folder, const std::string& auth,
                                             std::string* why) {
  std::unique_ptr<PamAccount> account(new PamAccount());
  account->user_ = TestUser::make(kPassword, why);
  if (!account->user_ || !account->serve(folder, auth, why)) return nullptr;
  return account;
}

std::unique_ptr<PamAccount> PamAccount::withCodes(const std::string& folder,
                                                  const std::string& auth, std::string* why) {
  if (::access(kModule, R_OK) != 0) return *why = "no pam_oath (package libpam-oath)", nullptr;
  std::unique_ptr<PamAccount> account(new PamAccount());
  account->user_ = TestUser::make(kPassword, why);
  if (!account->user_) return nullptr;
  const std::string secrets = folder + "/users.oath";
  writeText(secrets, "HOTP " + account->name() + " - 3132333435363738393031323334353637383930\n",
            0600);
  const std::string codes =
      "auth required pam_oath.so usersfile=" + secrets + " window=100 digits=6\n";
  return account->serve(folder, auth + codes, why) ? std::move(account) : nullptr;
}

bool PamAccount::serve(const std::string& folder, const std::string& auth, std::string* why) {
  service_ = PamService::make(
      folder, auth + "account required pam_permit.so\nsession required pam_permit.so\n", why);
  return service_ != nullptr;
}

SshdOptions PamAccount::sshd(const std::string& methods, const std::string& clientKey) const {
  const std::string keys = user_->home() + "/authorized_keys";
  writeText(keys, readText(clientKey + ".pub"));
  SshdOptions options;
  options.program = service_->sshd();
  options.extraConfig =
      "UsePAM yes\nPasswordAuthentication yes\nKbdInteractiveAuthentication yes\n"
      "AuthenticationMethods " +
      methods + "\nAuthorizedKeysFile " + keys;
  return options;
}

}  // namespace lockstep::test
