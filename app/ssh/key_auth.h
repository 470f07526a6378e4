// Public keys, and the certificates for them: those of the agent, then those of files.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "app/ssh/auth_attempt.h"
#include "app/ssh/certificate.h"

namespace lockstep::app {

class KeyAuth {
 public:
  explicit KeyAuth(AuthAttempt& attempt);
  // Tries all that is configured, until the server accepts one. Where that was a partial success,
  // the next call tries the others.
  void run();

 private:
  void readCertificates();
  void noteCertificate(const Certificate& certificate);
  void tryAgent();
  void tryFile(const std::string& file);
  void tryCertificate(const std::string& file, const KeyPtr& publicKey,
                      const Certificate& certificate);
  void noteUnused();

  AuthAttempt& attempt_;
  const SshConfig& config_;
  const ssh_session session_;
  std::vector<Certificate> certificates_;  // of files
  std::set<std::string> offered_;          // blobs of certificates
  std::set<std::string> accepted_;         // files, by a partial success
  std::set<std::string> refused_;          // files that could not be unlocked
  bool read_ = false;
};

}  // namespace lockstep::app
