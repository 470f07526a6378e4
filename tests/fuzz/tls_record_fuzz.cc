// What strangers send to the port at which a run's other nodes reach the coordinator: only a
// connection with the whole first record of a TLS handshake goes on to gRPC, and all of it is left
// unread. The first byte is the length of the pieces in which the rest comes.
#include "agent/supervisor/tls_record.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include "engine/base/unique_fd.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

using agent::FirstRecord;

constexpr std::size_t kHeader = 5, kMostPieces = 100;

std::string record(char type, char version, std::size_t length, std::size_t sent) {
  return std::string{type, version, '\1', static_cast<char>(length >> 8),
                     static_cast<char>(length)} +
         std::string(sent, '\1');
}

// Whether the bytes begin with a whole record of a handshake.
bool isWhole(std::string_view bytes) {
  if (bytes.size() < kHeader || bytes[0] != '\x16' || bytes[1] != '\x03') return false;
  const auto at = [bytes](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const std::size_t length = std::size_t{at(3)} * 256 + at(4);
  return length > 0 && length <= 16384 && bytes.size() >= kHeader + length;
}

void visit(std::string_view bytes, std::size_t piece) {
  int fds[2];
  LOCKSTEP_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  const UniqueFd here(fds[0]), there(fds[1]);
  LOCKSTEP_CHECK(FirstRecord::await(here.get()));
  FirstRecord record;
  auto state = FirstRecord::State::kComing;
  std::size_t sent = 0;
  while (state == FirstRecord::State::kComing && sent < bytes.size()) {
    const std::string_view part = bytes.substr(sent, piece);
    LOCKSTEP_CHECK(send(there.get(), part.data(), part.size(), MSG_DONTWAIT) == std::ssize(part));
    sent += part.size();
    // Once for the header, once for the rest: poll() reports what is there again.
    for (int i = 0; i < 2 && state == FirstRecord::State::kComing; ++i)
      state = record.look(here.get(), false);
    LOCKSTEP_CHECK((state == FirstRecord::State::kCame) == isWhole(bytes.substr(0, sent)));
    int unread = 0;
    LOCKSTEP_CHECK(ioctl(here.get(), FIONREAD, &unread) == 0 &&
                   static_cast<std::size_t>(unread) == sent);
  }
  if (state == FirstRecord::State::kComing)
    LOCKSTEP_CHECK(record.look(here.get(), true) == FirstRecord::State::kNone);
}

}  // namespace

std::vector<std::string> seeds() {
  return {"\x40" + record('\x16', '\x03', 200, 200),
          "\x01" + record('\x16', '\x03', 60, 60),
          "\xff" + record('\x16', '\x03', 1 << 14, 10),
          "\xff" + record('\x16', '\x03', 1 << 14, 1 << 14),
          "\x05" + record('\x16', '\x03', 0, 10),
          "\x05" + record('\x17', '\x03', 100, 100),
          "\x07PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  if (size == 0) return 0;
  const std::string_view text = fuzz::textOf(bytes + 1, size - 1);
  fuzz::visit(text, std::max<std::size_t>(1 + bytes[0], text.size() / fuzz::kMostPieces));
  return 0;
}
