#include "app/alerts/webhook.h"

#include "app/alerts/alert_rules.h"
#include "app/core/http_post.h"

namespace lockstep::app {
namespace {

Error webhookError(Code code, const std::string& url, Message why) {
  Error error = makeError(code, "the webhook {} was not called", webhookHost(url));
  error.why = std::move(why);
  error.next = "see actions.webhook of the alert rules";
  return error;
}

}  // namespace

Status postJson(const std::string& url, const std::string& json, std::chrono::milliseconds limit,
                const std::stop_token& stop) {
  const auto answer = httpPost({url, json, {"Content-Type: application/json"}, limit}, stop);
  if (!answer.ok()) return webhookError(answer.error().code, url, answer.error().what);
  if (answer->status >= 300)
    return webhookError(Code::kUnavailable, url,
                        message("the server answered with status {}", answer->status));
  return {};
}

}  // namespace lockstep::app
