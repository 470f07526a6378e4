#include "engine/comm/greeting.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <charconv>
#include <cstring>
#include <utility>

#include "engine/base/hex.h"

namespace lockstep::comm {
namespace {

constexpr std::string_view kMagic = "LSGROUP2";
constexpr std::size_t kNonceBytes = 16, kProofBytes = 32, kKeyBytes = 32;
constexpr std::size_t kHelloBytes = 8 + 4 + 4 + kNonceBytes;
constexpr std::size_t kChallengeBytes = kNonceBytes + kProofBytes;
static_assert(kChallengeBytes == Greeting::kLongest && kHelloBytes <= Greeting::kLongest);
constexpr char kWelcome = '+';

std::string randomBytes(std::size_t count) {
  std::string bytes(count, '\0');
  LOCKSTEP_CHECK(
      RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1,
      "no random numbers");
  return bytes;
}

std::string rankBytes(int rank) {
  const std::uint32_t word = htonl(static_cast<std::uint32_t>(rank));
  std::string bytes(sizeof word, '\0');
  std::memcpy(bytes.data(), &word, sizeof word);
  return bytes;
}
int rankAt(std::string_view bytes) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  return static_cast<int>(ntohl(word));
}

bool sameBytes(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::string Announcement::newKey() { return randomBytes(kKeyBytes); }

std::string Announcement::text() const { return fmt::format("{} {} {}", host, port, toHex(key)); }

std::string Announcement::place() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

std::optional<Announcement> Announcement::parse(std::string_view text) {
  constexpr int kMostPort = 65535;
  Announcement out;
  const auto first = text.find(' '), second = text.rfind(' ');
  if (first == std::string_view::npos || second == first) return std::nullopt;
  out.host = text.substr(0, first);
  const std::string_view port = text.substr(first + 1, second - first - 1);
  const auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  out.key = fromHex(text.substr(second + 1)).value_or("");
  if (code != std::errc() || end != port.data() + port.size() || out.port < 1 ||
      out.port > kMostPort || out.key.size() != kKeyBytes)
    return std::nullopt;
  return out;
}

Greeting Greeting::dialled(const GlooOptions& group, int peer, std::string key) {
  Greeting out(group, true, std::move(key));
  out.peer_ = peer;
  out.mine_ = randomBytes(kNonceBytes);
  out.out = std::string(kMagic) + rankBytes(group.rank) + rankBytes(peer) + out.mine_;
  out.await(Stage::kChallenge, kChallengeBytes);
  return out;
}

Greeting Greeting::accepted(const GlooOptions& group, std::string key) {
  Greeting out(group, false, std::move(key));
  out.await(Stage::kHello, kHelloBytes);
  return out;
}

Greeting::Outcome Greeting::take(std::string_view bytes) {
  in_ += bytes;
  if (in_.size() < expected_) return Outcome::kContinues;
  return answer(std::exchange(in_, {}));
}

Greeting::Outcome Greeting::answer(std::string_view message) {
  switch (stage_) {
    case Stage::kHello:
      return answerHello(message);
    case Stage::kChallenge:
      return answerChallenge(message);
    case Stage::kProof:
      if (!sameBytes(message, proof("connect"))) return Outcome::kImpostor;
      out = kWelcome;
      return Outcome::kMet;
    case Stage::kWelcome:
      return message.front() == kWelcome ? Outcome::kMet : Outcome::kImpostor;
  }
  return Outcome::kImpostor;
}

Greeting::Outcome Greeting::answerHello(std::string_view message) {
  const int from = rankAt(message.substr(8)), to = rankAt(message.substr(12));
  if (!message.starts_with(kMagic) || to != group_->rank || from < 0 || from >= group_->size ||
      from == to)
    return Outcome::kImpostor;
  peer_ = from;
  theirs_ = message.substr(16);
  mine_ = randomBytes(kNonceBytes);
  out = mine_ + proof("accept");
  await(Stage::kProof, kProofBytes);
  return Outcome::kContinues;
}

Greeting::Outcome Greeting::answerChallenge(std::string_view message) {
  theirs_ = message.substr(0, kNonceBytes);
  if (!sameBytes(message.substr(kNonceBytes), proof("accept"))) return Outcome::kImpostor;
  out = proof("connect");
  await(Stage::kWelcome, 1);
  return Outcome::kContinues;
}

std::string Greeting::proof(std::string_view word) const {
  const int from = dialled_ ? group_->rank : peer_;
  const int to = dialled_ ? peer_ : group_->rank;
  const std::string text = fmt::format("{} {} of {} ranks\n", word, group_->prefix, group_->size) +
                           rankBytes(from) + rankBytes(to) +
                           (dialled_ ? mine_ + theirs_ : theirs_ + mine_);
  std::string out(kProofBytes, '\0');
  LOCKSTEP_CHECK(HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
                      reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                      reinterpret_cast<unsigned char*>(out.data()), nullptr) != nullptr);
  return out;
}

}  // namespace lockstep::comm
