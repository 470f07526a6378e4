// An account of this machine that sshd lets in as PAM says, and codes that serve once (HOTP, RFC
// 4226) as a second factor of it. Removed at the end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/support/sshd.h"

namespace lockstep::test {

// Code number `counter` of the secret "12345678901234567890" (RFC 4226, appendix D).
std::string oneTimeCode(std::uint64_t counter);

class PamAccount {
 public:
  static constexpr const char* kPassword = "open sesame";
  // `auth`: lines as in /etc/pam.d. Null with the reason where none can be made.
  static std::unique_ptr<PamAccount> make(const std::string& folder, const std::string& auth,
                                          std::string* why);
  // The same; after what `auth` asks for, oneTimeCode(0) and those after it are.
  static std::unique_ptr<PamAccount> withCodes(const std::string& folder, const std::string& auth,
                                               std::string* why);
  const std::string& name() const { return user_->name(); }
  // Of an sshd that lets it in by these AuthenticationMethods, with this key where they name one.
  SshdOptions sshd(const std::string& methods, const std::string& clientKey) const;

 private:
  PamAccount() = default;
  bool serve(const std::string& folder, const std::string& auth, std::string* why);
  std::unique_ptr<TestUser> user_;
  std::unique_ptr<PamService> service_;
};

}  // namespace lockstep::test
