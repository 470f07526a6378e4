// What a rank reads of its peers before they are known: their entries in the store, and the
// greeting on a new connection. An input is an entry, a line feed, and what a relay between two
// ranks does: which group the connecting one is of, how many bytes it passes on at once, and what
// it changes (by XOR) in the messages of both. They meet if nothing is changed, and only then.
#include "engine/comm/greeting.h"

#include <tuple>
#include <utility>

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

using comm::Greeting;
using Outcome = Greeting::Outcome;

const std::string kKey(32, 'k');

comm::GlooOptions groupOf(int rank) {
  comm::GlooOptions out;
  out.rank = rank;
  out.size = 5;
  out.prefix = "run/1/data/0";
  return out;
}

class Relay {
 public:
  Relay(std::size_t piece, std::string_view changes) : piece_(piece), changes_(changes) {}
  bool honest() const { return honest_; }

  // Passes a message on.
  Outcome carry(Greeting& from, Greeting& to) {
    std::string message = std::exchange(from.out, {});
    for (char& c : message) {
      if (changes_.empty()) break;
      c = static_cast<char>(c ^ changes_.front());
      honest_ = honest_ && changes_.front() == '\0';
      changes_.remove_prefix(1);
    }
    LOCKSTEP_CHECK(message.size() == to.expected(), "{}", message.size());
    auto out = Outcome::kContinues;
    for (std::string_view rest = message; !rest.empty() && out == Outcome::kContinues;) {
      const std::string_view part = rest.substr(0, piece_);
      out = to.take(part);
      rest.remove_prefix(part.size());
    }
    return out;
  }

 private:
  const std::size_t piece_;
  std::string_view changes_;
  bool honest_ = true;
};

void greet(unsigned char other, Relay relay) {
  comm::GlooOptions connecting = groupOf(1);
  const comm::GlooOptions accepting = groupOf(3);
  std::string key = kKey;
  if (other == 1) connecting.prefix = "run/2/data/0";
  if (other == 2) ++connecting.size;
  if (other == 3) key.back() = 'K';
  const bool same = other == 0 || other > 3;
  Greeting one = Greeting::dialled(connecting, 3, key);
  Greeting two = Greeting::accepted(accepting, kKey);
  // Only the first message has no proof.
  if (relay.carry(one, two) != Outcome::kContinues) {
    LOCKSTEP_CHECK(!relay.honest());
    return;
  }
  LOCKSTEP_CHECK(two.peer() >= 0 && two.peer() < accepting.size && two.peer() != accepting.rank,
                 "{}", two.peer());
  for (const auto& [from, to, good] : {std::tuple(&two, &one, Outcome::kContinues),
                                       {&one, &two, Outcome::kMet},
                                       {&two, &one, Outcome::kMet}}) {
    const Outcome found = relay.carry(*from, *to);
    LOCKSTEP_CHECK(found == (same && relay.honest() ? good : Outcome::kImpostor));
    if (found == Outcome::kImpostor) return;
  }
  LOCKSTEP_CHECK(two.peer() == 1 && one.out.empty() && two.out.empty());
}

// What a stranger says; no bytes make it a rank.
void hear(Greeting greeting, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, greeting.expected());
    bytes.remove_prefix(part.size());
    const Outcome found = greeting.take(part);
    LOCKSTEP_CHECK(found != Outcome::kMet && greeting.out.size() <= Greeting::kLongest);
    if (found == Outcome::kImpostor) return;
    greeting.out.clear();
  }
}

void readEntry(std::string_view text) {
  const auto entry = comm::Announcement::parse(text);
  if (!entry) return;
  LOCKSTEP_CHECK(entry->port >= 1 && entry->port <= 65535 && entry->key.size() == kKey.size());
  const auto again = comm::Announcement::parse(entry->text());
  LOCKSTEP_CHECK(again && again->place() == entry->place() && again->key == entry->key);
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string entry = comm::Announcement{"10.0.0.1", kKey, 4711}.text();
  const std::string six = comm::Announcement{"fd00::1", kKey, 65535}.text();
  const comm::GlooOptions group = groupOf(1);
  std::string damaged(150, '\0');
  damaged[90] = '\1';  // in the second proof
  return {entry + "\n" + std::string("\0\x40", 2),
          six + "\n" + std::string("\0\1", 2) + damaged,
          entry + "\n" + std::string("\1\5", 2),
          entry + "\n" + std::string("\2\x10", 2),
          entry + "\n" + std::string("\3\x20", 2),
          "\n" + Greeting::dialled(group, 3, kKey).out + std::string(32, 'p')};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  std::string_view rest = fuzz::textOf(bytes, size);
  fuzz::readEntry(fuzz::takeUntil(rest, '\n'));
  const comm::GlooOptions low = fuzz::groupOf(1), high = fuzz::groupOf(3);
  fuzz::hear(comm::Greeting::accepted(high, fuzz::kKey), rest);
  fuzz::hear(comm::Greeting::dialled(low, 3, fuzz::kKey), rest);
  if (rest.size() < 2) return 0;
  const auto other = static_cast<unsigned char>(rest[0]);
  const std::size_t piece = 1 + static_cast<unsigned char>(rest[1]) % comm::Greeting::kLongest;
  fuzz::greet(other, fuzz::Relay(piece, rest.substr(2)));
  return 0;
}
