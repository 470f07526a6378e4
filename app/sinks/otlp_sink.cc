#include <algorithm>
#include <cstdlib>
#include <deque>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/core/http_post.h"
#include "app/core/shallow_json.h"
#include "app/sinks/curve_sink.h"
#include "app/sinks/otlp.h"
#include "engine/base/utf8.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::seconds kLimit{5};

std::string hostOf(const std::string& url) {
  const std::size_t host = url.find("://") + 3;
  return url.substr(0, url.find_first_of("/?#", host));
}

std::string endpointOf(const std::string& url) {
  const std::string host = hostOf(url);
  return url == host || url == host + "/" ? host + "/v1/metrics" : url;
}

int digitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string percentDecoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool two = text[i] == '%' && i + 2 < text.size();
    const int high = two ? digitOf(text[i + 1]) : -1, low = two ? digitOf(text[i + 2]) : -1;
    const bool coded = high >= 0 && low >= 0;
    out += coded ? static_cast<char>(16 * high + low) : text[i];
    if (coded) i += 2;
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// "api-key=secret,tenant=a%20b" (https://opentelemetry.io/docs/specs/otel/protocol/exporter).
std::vector<std::string> headersFrom(std::string_view list) {
  std::vector<std::string> out{"Content-Type: application/json"};
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string header = std::string(trimmed(one.substr(0, equals))) + ": " +
                               percentDecoded(trimmed(one.substr(equals + 1)));
    const bool plain = std::none_of(header.begin(), header.end(), [](char c) {
      return static_cast<unsigned char>(c) < ' ' || c == 127;
    });
    if (plain && !header.starts_with(':')) out.push_back(header);
  }
  return out;
}

// How many points a collector has not taken of those of a request that it answered.
RefusedPoints rejectedIn(const std::string& body) {
  const auto answer = parseShallow(body);
  if (!answer.is_object() || !answer.contains("partialSuccess")) return {};
  const auto& partial = answer["partialSuccess"];
  if (!partial.is_object() || !partial.contains("rejectedDataPoints")) return {};
  const auto& count = partial["rejectedDataPoints"];
  RefusedPoints out;
  if (count.is_number_integer()) out.count = count.get<std::int64_t>();
  if (count.is_string())
    out.count = std::strtoll(count.get_ref<const std::string&>().c_str(), nullptr, 10);
  constexpr std::size_t kMostSaid = 200;
  const std::string said = textOf(partial, "errorMessage");
  out.why = message("the collector says: {}", validUtf8(said.substr(0, kMostSaid)));
  return out;
}

class OtlpSink : public CurveSink {
 public:
  OtlpSink(const std::string& url, const RunRow& row) : host_(hostOf(url)), requests_(row) {
    const char* const headers = std::getenv("OTEL_EXPORTER_OTLP_HEADERS");
    post_.url = endpointOf(url);
    post_.headers = headersFrom(headers == nullptr ? "" : headers);
    post_.limit = kLimit;
  }

  void add(const SinkPoints& points) override {
    requests_.add(points.series, points.points, points.times);
    pending_ += static_cast<std::int64_t>(points.points.size());
  }
  std::int64_t pending() const override { return pending_; }
  Status flush(const std::stop_token& stop) override {
    for (OtlpRequests::Request& request : requests_.take()) unsent_.push_back(std::move(request));
    for (; !unsent_.empty(); unsent_.pop_front()) {
      post_.body = unsent_.front().json;
      LOCKSTEP_ASSIGN(const HttpAnswer answer, httpPost(post_, stop));
      const auto points = static_cast<std::int64_t>(unsent_.front().points);
      LOCKSTEP_TRY(take(answer, points));
      pending_ -= points;
    }
    pending_ = 0;  // points without a time are in no request
    return {};
  }
  std::int64_t size() const override { return 0; }
  RefusedPoints refused() const override { return refused_; }
  std::string name() const override { return host_; }

 private:
  // The error is one after which the request is sent again.
  Status take(const HttpAnswer& answer, std::int64_t points) {
    constexpr int kTimeout = 408, kTooMany = 429;
    const Message why = message("the server answered with status {}", answer.status);
    if (answer.status < 300) {
      RefusedPoints rejected = rejectedIn(answer.body);
      rejected.count = std::clamp<std::int64_t>(rejected.count, 0, points);
      if (rejected.count > 0) refuse(std::move(rejected));
      return {};
    }
    if (answer.status >= 400 && answer.status < 500 && answer.status != kTimeout &&
        answer.status != kTooMany) {
      refuse({points, why});
      return {};
    }
    Error error;
    error.code = Code::kUnavailable;
    error.what = why;
    return error;
  }
  void refuse(RefusedPoints points) {
    refused_.count += points.count;
    refused_.why = std::move(points.why);
  }

  const std::string host_;
  HttpPost post_;
  OtlpRequests requests_;
  std::int64_t pending_ = 0;
  std::deque<OtlpRequests::Request> unsent_;
  RefusedPoints refused_;
};

}  // namespace

std::unique_ptr<CurveSink> otlpSink(const std::string& url, const RunRow& row) {
  return std::make_unique<OtlpSink>(url, row);
}

}  // namespace lockstep::app
