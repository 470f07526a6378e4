// The greeting on a new connection between two ranks of a group, apart from its socket: bytes that
// arrive, bytes to send. Both ends prove that they know the key that the accepting rank published:
// - connecting side: magic, its rank, the rank it wants, a nonce
// - accepting side: a nonce, the proof of "accept"
// - connecting side: the proof of "connect"
// - accepting side: one byte, kWelcome
// A proof is HMAC-SHA-256 under the key over the word, the group, both ranks and both nonces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/comm/communicator.h"

namespace lockstep::comm {

// A rank's entry in the store: "host port key".
struct Announcement {
  std::string host;  // a numeric address; parse() takes any text
  std::string key;   // made by newKey()
  int port = 0;

  static std::string newKey();
  std::string text() const;
  std::string place() const;  // "host:port", for messages
  // Returns nullopt for anything but an entry of this version.
  static std::optional<Announcement> parse(std::string_view text);
};

// One end of a greeting.
class Greeting {
 public:
  enum class Outcome : std::uint8_t {
    kContinues,
    kMet,       // the other end is peer(), once `out` is sent
    kImpostor,  // the other end is not a rank of the group that may connect
  };
  // Longest message.
  static constexpr std::size_t kLongest = 48;

  // The end of rank group.rank, which has connected to `peer`, whose key is `key`. `group` must
  // outlive the greeting.
  static Greeting dialled(const GlooOptions& group, int peer, std::string key);
  // The end of the rank that has accepted a connection; `key` is its own.
  static Greeting accepted(const GlooOptions& group, std::string key);

  bool isDialled() const { return dialled_; }
  int peer() const { return peer_; }  // −1: not yet known
  // How many bytes take() accepts at most. What follows a greeting belongs to the group.
  std::size_t expected() const { return expected_ - in_.size(); }
  // Takes at least one byte. Not to be called after another outcome than kContinues.
  Outcome take(std::string_view bytes);

  std::string out;  // to be sent; the caller removes what it has sent

 private:
  enum class Stage : std::uint8_t { kHello, kChallenge, kProof, kWelcome };

  Greeting(const GlooOptions& group, bool dialled, std::string key)
      : group_(&group), key_(std::move(key)), dialled_(dialled) {}
  Outcome answer(std::string_view message);
  Outcome answerHello(std::string_view message);
  Outcome answerChallenge(std::string_view message);
  void await(Stage stage, std::size_t bytes) { stage_ = stage, expected_ = bytes; }
  std::string proof(std::string_view word) const;

  const GlooOptions* group_;
  std::string key_;
  bool dialled_;
  int peer_ = -1;
  Stage stage_ = Stage::kHello;
  std::size_t expected_ = 0;  // size of the message being read
  std::string in_;
  std::string mine_, theirs_;  // nonces
};

}  // namespace lockstep::comm
