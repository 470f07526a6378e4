// Requests of HTTP that `lockstep metrics` answers: whatever comes, and in whatever pieces, there
// is one answer with a right length, and the page is given to GET of its path alone. The first byte
// is the length of the pieces.
#include "engine/metrics/page_request.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

using metrics::PageRequest;
using State = PageRequest::State;

constexpr std::size_t kMostBytes = 8192;
constexpr std::string_view kBody = "lockstep_run_step 7\n";

// Returns the answer; "" where there is none.
std::string answerTo(std::string_view text, std::size_t piece) {
  bool read = false;
  const metrics::Page page{"/metrics", "text/plain", [&]() -> Result<std::string> {
                             read = true;
                             return std::string(kBody);
                           }};
  PageRequest request;
  auto state = State::kIncomplete;
  std::size_t added = 0;
  while (!text.empty() && state == State::kIncomplete) {
    const std::string_view part = text.substr(0, piece);
    state = request.add(part);
    text.remove_prefix(part.size());
    added += part.size();
    LOCKSTEP_CHECK(state != State::kIncomplete || added <= kMostBytes, "{}", added);
  }
  if (state != State::kComplete) return {};
  std::string out = request.answer(page);
  LOCKSTEP_CHECK(read == out.starts_with("HTTP/1.1 200 OK\r\n"));
  return out;
}

}  // namespace

std::vector<std::string> seeds() {
  return {"\x7fGET /metrics HTTP/1.1\r\nHost: localhost:9464\r\nAccept: */*\r\n\r\n",
          "\1GET /metrics?run=r1 HTTP/1.0\r\n\r\n",
          "\x20POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
          "\x20GET / HTTP/1.1\r\n\r\n",
          "\x20GET /metrics HTTP/2\r\n\r\n",
          "\xff" + std::string(9000, 'a') + "\r\n\r\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  if (size == 0) return 0;
  const std::string_view text = fuzz::textOf(bytes + 1, size - 1);
  const std::string answer = fuzz::answerTo(text, 1 + bytes[0]);
  LOCKSTEP_CHECK(answer == fuzz::answerTo(text, size));
  if (answer.empty()) return 0;
  const std::size_t end = answer.find("\r\n\r\n");
  LOCKSTEP_CHECK(end != std::string::npos);
  const std::string length = fmt::format("\r\nContent-Length: {}\r\n", answer.size() - end - 4);
  LOCKSTEP_CHECK(answer.substr(0, end).find(length) != std::string::npos, "{}", answer);
  if (answer.starts_with("HTTP/1.1 200"))
    LOCKSTEP_CHECK(text.starts_with("GET /metrics") && answer.ends_with(fuzz::kBody));
  return 0;
}
