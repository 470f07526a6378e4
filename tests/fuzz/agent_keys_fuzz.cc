// What an ssh-agent answers to the question which keys it has, and certificates as it holds them.
#include <sys/socket.h>
#include <unistd.h>

#include "app/ssh/agent_filter.h"
#include "app/ssh/certificate.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  const auto counted = [](const std::string& text) {
    return std::string{'\0', '\0', '\0', static_cast<char>(text.size())} + text;
  };
  const std::string two = counted("blob one") + counted("me@here") + counted("b") + counted("");
  const std::string certificate = counted("ssh-ed25519-cert-v01@openssh.com") + counted("nonce") +
                                  counted("key") + std::string("\0\0\0\0\0\0\0\1\0\0\0\1", 12) +
                                  counted("id") + counted(counted("ann")) + std::string(7, '\0') +
                                  "\x01" + std::string(7, '\0') + "\x02";
  return {counted("\x0c" + std::string("\0\0\0\x02", 4) + two), counted("\x05"), certificate};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  constexpr std::size_t kMost = 60'000;  // of a socket's buffer
  int ends[2];
  LOCKSTEP_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const std::size_t sent = std::min(size, kMost);
  LOCKSTEP_CHECK(send(ends[1], bytes, sent, MSG_NOSIGNAL) == static_cast<ssize_t>(sent));
  shutdown(ends[1], SHUT_WR);
  std::size_t total = 0;
  for (const std::string& key : app::agentKeys(ends[0])) total += key.size();
  LOCKSTEP_CHECK(total <= size);
  if (const auto certificate = app::parseCertificate(fuzz::textOf(bytes, size)))
    LOCKSTEP_CHECK(certificate->key.size() < size, "a key longer than its certificate");
  close(ends[0]);
  close(ends[1]);
  return 0;
}
