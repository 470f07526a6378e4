#include "engine/metrics/page_request.h"

namespace lockstep::metrics {
namespace {

constexpr std::size_t kMostBytes = 8 << 10;
constexpr std::string_view kText = "text/plain; charset=utf-8";

std::string answerOf(std::string_view status, std::string_view type, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n"
      "X-Content-Type-Options: nosniff\r\n\r\n{}",
      status, type, body.size(), body);
}

}  // namespace

PageRequest::State PageRequest::add(std::string_view bytes) {
  head_ += bytes;
  constexpr std::string_view kEnd = "\r\n\r\n";
  const std::size_t end = head_.find(kEnd);
  const bool isComplete = end != std::string::npos;
  if ((isComplete ? end + kEnd.size() : head_.size()) > kMostBytes) return State::kTooLong;
  return isComplete ? State::kComplete : State::kIncomplete;
}

std::string PageRequest::answer(const Page& page) const {
  const std::string_view head = head_, line = head.substr(0, head.find_first_of("\r\n"));
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == last || !line.substr(last + 1).starts_with("HTTP/1."))
    return answerOf("400 Bad Request", kText, "not a request of HTTP/1\n");
  if (line.substr(0, first) != "GET") return answerOf("405 Method Not Allowed", kText, "GET\n");
  std::string_view target = line.substr(first + 1, last - first - 1);
  target = target.substr(0, target.find('?'));
  if (target != page.path) return answerOf("404 Not Found", kText, "see " + page.path + "\n");
  const Result<std::string> body = page.text();
  return body.ok() ? answerOf("200 OK", page.contentType, *body)
                   : answerOf("500 Internal Server Error", kText, body.error().text() + "\n");
}

}  // namespace lockstep::metrics
